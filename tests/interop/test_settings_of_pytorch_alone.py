"""Settings of blocks: PyTorch and ONNX compute them, every other engine and export refuses them, whichever they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_models import build

from locant.app.explore import page_model
from locant.app.web_page import export_web
from locant.errors import ConfigError
from locant.interop import export_argos, export_ctranslate2, export_huggingface
from locant.interop.refusals import export_refusals
from locant.models import DecodingSettings, TransformerConfig, load_model_folder, save_model_folder
from locant.models.config import BlockOptions, LayerPattern
from locant.text import TokenizerPair
from locant.training.evaluation import fastest_engine
from locant.translation import load_translator

CHANGES: dict[str, Any] = {
    "kv_heads": {"kv_heads": 1},
    "head_size": {"head_size": 6},
    "qk_norm": {"qk_norm": "head"},
    "norm_kind": {"norm_kind": "rms"},
    "norm_epsilon": {"norm_epsilon": 1e-3},
    "bias": {"bias": False},
    "pattern": {"pattern": "N", "kinds": {"N": {"position": "sinusoidal"}}},
    "norm both": {"norm": "both"},
    "norm output": {"norm": "output"},
    "gelu_tanh": {"feed_forward": "gelu_tanh"},
}
FOLDERS: list[Callable[..., Any]] = [export_ctranslate2, export_argos, export_huggingface, export_web]


def test_every_setting_is_tried() -> None:
    options = BlockOptions.model_fields.keys() | LayerPattern.model_fields.keys() - {"kinds"}
    assert options <= CHANGES.keys()


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_a_setting_is_refused_by_name(changes: dict[str, Any], joint: TokenizerPair, tmp_path: Path) -> None:
    model = build(joint, **changes)
    folder, named = tmp_path / "model", f"{next(iter(changes))}"
    save_model_folder(folder, model, joint, DecodingSettings(), source_language="en", target_language="de")
    found = load_model_folder(folder)
    assert found.model.config == model.config
    for number, export in enumerate(FOLDERS):
        with pytest.raises(ConfigError, match=named):
            export(folder, tmp_path / f"exported-{number}.argosmodel")
    for engine in ("compiled", "ctranslate2"):
        with pytest.raises(ConfigError, match=named):
            load_translator(folder, engine=engine)
    assert named in load_translator(folder, engine="auto")[1]
    assert "PyTorch" in fastest_engine(model).name
    with pytest.raises(ConfigError, match=named):
        page_model(found)
    refused = export_refusals(model.config)
    assert "onnx" not in refused
    assert refused
    assert all(named in reason for reason in refused.values())


def test_the_paper_s_model_is_refused_by_none(joint: TokenizerPair) -> None:
    config = build(joint).config
    assert export_refusals(config) == {}
    assert TransformerConfig.parse(config.to_dict()) == config


@pytest.mark.parametrize(
    "changes",
    [{}, {"norm": "pre"}, {"position": "rotary"}, {"position": "alibi"}, {"position": "cope", "feed_forward": "glu"}],
)
def test_what_is_refused_is_known_before(changes: dict[str, Any], joint: TokenizerPair, tmp_path: Path) -> None:
    model = build(joint, **changes)
    save_model_folder(tmp_path / "model", model, joint, DecodingSettings())
    refused = export_refusals(model.config)
    for name, export in {"ctranslate2 and argos": export_ctranslate2, "huggingface": export_huggingface}.items():
        if name in refused:
            with pytest.raises(ConfigError) as caught:
                export(tmp_path / "model", tmp_path / name)
            assert str(caught.value) == refused[name]
        else:
            export(tmp_path / "model", tmp_path / name)
