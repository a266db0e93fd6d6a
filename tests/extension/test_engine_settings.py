"""What is said for an engine means the same to that engine."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from published import CONFIGS

from locant.errors import LocantError, UsageError
from locant.extension.asked.ask import ask_class
from locant.extension.asked.build import completed_config
from locant.extension.inspect.settings import ENGINES, to_engine_config
from locant.positions import RotaryConfig
from locant.positions.scaling.measured import Measured
from locant.rotary_configs.config_json import text_config, text_config_path
from locant.rotary_configs.reading import ParsedConfig
from locant.rotary_configs.vllm import merge_hf_overrides

pytest.importorskip("transformers")

_AXES = {"type": "mrope", "mrope_section": [16, 24, 24]}
_QWEN_VL = {"model_type": "qwen2_vl", "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4}
_QWEN_VL |= {"rope_theta": 1e6, "max_position_embeddings": 32768, "rope_scaling": _AXES}
_FOUR_TIMES = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
_LONGER_VL = {**_QWEN_VL, "max_position_embeddings": 131072, "rope_scaling": {**_AXES, **_FOUR_TIMES}}
_NAMES = ("Llama 2 7B", "Llama 3.1 8B", "LLaMA-2-7B-32K", "Mistral 7B", "Qwen2.5 7B with YaRN", "Phi-3 mini 128k")
_NAMES += ("DeepSeek-V2-Lite", "DeepSeek-V3", "GPT-NeoX 20B", "gpt-oss 20B", "Gemma 3 4B")
MODELS: dict[str, dict[str, Any]] = {name: CONFIGS[name]["config"] for name in _NAMES}
_FILES: dict[str, dict[str, Any]] = {**MODELS, "Qwen2-VL": _QWEN_VL, "Qwen2-VL, YaRN": _LONGER_VL}


def _inspection(content: dict[str, Any], parsed: ParsedConfig | None = None) -> Any:
    """What :func:`to_engine_config` reads of an inspection."""
    part = text_config(content)
    return SimpleNamespace(
        path=Path("config.json"),
        kind="huggingface",
        model_type=part.get("model_type"),
        content=part,
        text_part=text_config_path(content),
        parsed=parsed or ask_class(content).reading,
        findings=(),
        has_errors=False,
    )


def _same(read: ParsedConfig, meant: ParsedConfig) -> None:
    assert read.configs.keys() == meant.configs.keys()
    for layer, config in meant.configs.items():
        found = read.configs[layer]
        for length in (None, config.max_length, 1 << 20):
            assert math.isclose(found.attention_scale(length), config.attention_scale(length), rel_tol=1e-6)
            ours, theirs = found.frequencies(length), config.frequencies(length)
            assert [float(each) for each in ours] == pytest.approx([float(each) for each in theirs], rel=1e-6)
    assert {layer: list(axes["sections"]) for layer, axes in read.multimodal.items()} == {
        layer: list(axes["sections"]) for layer, axes in meant.multimodal.items()
    }


@pytest.mark.sampled(4)
@pytest.mark.parametrize("engine", ["hf5", "hf4"])
@pytest.mark.parametrize("name", _FILES)
def test_entries_of_config_json_mean_the_same_to_the_class(name: str, engine: str) -> None:
    inspection = _inspection(_FILES[name])
    said = to_engine_config(inspection, engine)
    assert isinstance(said, dict)
    bare = {key: value for key, value in inspection.content.items() if not key.startswith("rope")}
    _same(
        ask_class({key: value for key, value in {**bare, **said}.items() if value is not None}).reading,
        inspection.parsed,
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("name", _FILES)
def test_overrides_mean_the_same_to_the_class(name: str, engine: str) -> None:
    content = _FILES[name]
    inspection = _inspection(content)
    if (name, engine) == ("Gemma 3 4B", "sglang"):
        with pytest.raises(LocantError):
            to_engine_config(inspection, engine)
        return
    said = to_engine_config(inspection, engine)
    assert isinstance(said, str)
    merged, _ = merge_hf_overrides(completed_config(content).to_dict(), said)
    _same(ask_class(merged).reading, inspection.parsed)


def test_what_cannot_be_said_is_one_error() -> None:
    llama = MODELS["Llama 2 7B"]
    measured = RotaryConfig(head_dim=4, scaling=Measured(given=(1.0, 0.3)))
    partly = RotaryConfig(head_dim=128, rotary_dim=64)  # which the class of Llama ignores
    axes = _inspection(_QWEN_VL)
    refused: list[tuple[Any, str]] = [
        *((_inspection(llama, ParsedConfig({"all": measured})), engine) for engine in ENGINES),
        (_inspection(llama, ParsedConfig({"all": partly})), "hf5"),
        *((axes, engine) for engine in ("llamacpp", "ctranslate2")),
        (_inspection(MODELS["Llama 3.1 8B"]), "llamacpp"),
        (_inspection(MODELS["DeepSeek-V2-Lite"]), "ctranslate2"),
        (_inspection({**llama, "rope_scaling": {"type": "dynamic", "factor": 2.0}}), "vllm"),
    ]
    for inspection, engine in refused:
        with pytest.raises(LocantError) as caught:
            to_engine_config(inspection, engine)
        assert caught.value.exit_code == 1
    with pytest.raises(UsageError):
        to_engine_config(_inspection(llama), "vlm")
