"""Kinds of files that publishers write, read as the code that runs them has it."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from published_unseen import CONFIGS as UNSEEN_CONFIGS
from published_unseen import GGUF as UNSEEN_GGUF
from published_variety import CONFIGS, GGUF

from locant.errors import ConfigError
from locant.extension.inspect.model_class.ask import AskedClass, as_the_class, ask_class
from locant.parsing import parse_json
from locant.positions import RotaryConfig
from locant.rotary_configs import read_gguf, read_huggingface
from locant.rotary_configs.base import ParsedConfig
from locant.rotary_configs.classes.hunyuan import PUBLISHED_ALPHA

_FILES: dict[str, Any] = parse_json(
    (Path(__file__).parents[1] / "support" / "published_files.json").read_text(encoding="utf-8")
)
"""Entries about positions of whole files as they were found, with what each means; docs/results/unseen.md."""

_ASKED = (
    *("Moonlight-16B", "Step-3.5-Flash", "MiMo-V2-Flash", "Phi-3.5-MoE", "GLM-4.1V-9B", "Command A", "MiniMax-M2"),
    *(
        "Granite-4.0-Micro",
        "Qwen3-Next-80B",
        "LFM2-1.2B",
        "RecurrentGemma-2B",
        "CSM-1B",
        "Hunyuan-A13B",
        "Trinity-Mini",
    ),
)


_HEADS = {"hidden_size": 512, "num_attention_heads": 8}


def _meaning(read: Callable[[Mapping[str, Any]], ParsedConfig], content: Mapping[str, Any]) -> str:
    try:
        parsed = read(content)
    except ConfigError as error:
        return f"refused: {error}"
    several = len(parsed.configs) > 1
    said = "; ".join(f"{name} " * several + _rotation(config) for name, config in parsed.configs.items())
    still = [index for kind in parsed.layers if kind.attends and kind.config is None for index in kind.layers]
    none = [index for kind in parsed.layers if not kind.attends for index in kind.layers]
    for about, indices in (("still", still), ("no attention", none)):
        if indices:
            said += f", {about} {' '.join(map(str, sorted(indices)))}"
    unknown = any("is not known here" in each.message for each in parsed.findings if each.severity == "warning")
    return "? " * unknown + said


def _rotation(config: RotaryConfig) -> str:
    scaling = config.scaling
    said = f"{config.rotary_dim}/{config.head_dim} {config.layout} {config.base:g}"
    if scaling.name == "none":
        return said
    factor, original = getattr(scaling, "factor", None), getattr(scaling, "original_length", None)
    said += f" {scaling.name} x{factor:g}"
    return said if original is None or scaling.name == "dynamic" else f"{said} of {original}"


def _is_what_is_meant(said: str, meant: str) -> bool:
    if meant.startswith("refused "):
        return said.startswith("refused:") and meant.removeprefix("refused ").lower() in said.lower()
    return sorted(said.split("; ")) == sorted(meant.split("; "))  # types of layers in any order


@pytest.mark.parametrize("model", CONFIGS)
def test_config_json(model: str) -> None:
    content, meant = CONFIGS[model]
    said = _meaning(read_huggingface, content)
    assert _is_what_is_meant(said, "refused rotary positions" if meant == "refused" else meant), said


def test_the_alpha_of_most_published_files() -> None:
    """It is told where a file has lost its own; Hunyuan-MT-7B has another one."""
    contents = [*(content for content, _ in CONFIGS.values()), *(each["config"] for each in _FILES.values())]
    groups = [each["rope_scaling"] for each in contents if isinstance(each.get("rope_scaling"), dict)]
    alphas = Counter(group["alpha"] for group in groups if "alpha" in group)
    assert len(alphas) > 1
    assert alphas.most_common(1)[0][0] == PUBLISHED_ALPHA


@pytest.mark.parametrize("model", GGUF)
def test_metadata(model: str) -> None:
    metadata, meant = GGUF[model]
    said = _meaning(read_gguf, metadata)
    assert _is_what_is_meant(said, meant), said


@pytest.mark.parametrize("model", UNSEEN_CONFIGS)
def test_config_json_of_the_unseen(model: str) -> None:
    content, meant = UNSEEN_CONFIGS[model]
    said = _meaning(read_huggingface, content)
    assert _is_what_is_meant(said, meant), said


@pytest.mark.parametrize("model", UNSEEN_GGUF)
def test_metadata_of_the_unseen(model: str) -> None:
    metadata, meant = UNSEEN_GGUF[model]
    said = _meaning(read_gguf, metadata)
    assert _is_what_is_meant(said, meant), said


@pytest.mark.parametrize("model", _FILES)
def test_whole_files(model: str) -> None:
    said = _meaning(read_huggingface, _FILES[model]["config"])
    assert _is_what_is_meant(said, _FILES[model]["meant"]), said


def test_use_mrope_without_sections_is_a_warning() -> None:
    content, _ = UNSEEN_CONFIGS["DeepSeek-R1-Distill-Qwen-7B"]
    said = [each.message for each in read_huggingface(content | {"use_mrope": True}).findings]
    assert any("use_mrope true" in each for each in said)
    assert not any("use_mrope" in each.message for each in read_huggingface(content).findings)


@pytest.mark.parametrize(
    ("architecture", "layers"),
    [
        ("gemma2", [1, 3, 5]),
        ("gemma3", [5]),
        ("gemma3n", [4]),
        ("gpt-oss", [1, 3, 5]),
        ("modern-bert", [0, 3, 6]),
    ],
)
def test_which_layers_look_back_over_the_whole_text(architecture: str, layers: list[int]) -> None:
    """hparams.set_swa_pattern in llama.cpp's models."""
    sizes = {"block_count": 7, "attention.key_length": 64, "attention.sliding_window": 512}
    metadata = {"general.architecture": architecture} | {f"{architecture}.{key}": each for key, each in sizes.items()}
    parsed = read_gguf(metadata)
    whole = sorted(index for kind in parsed.layers if kind.window is None for index in kind.layers)
    assert whole == layers
    reach = 257 if architecture == "modern-bert" else 512  # half of it behind, half ahead, and the token itself
    assert {kind.window for kind in parsed.layers} == {None, reach}
    assert all(parsed.of_layer(index) is not None for index in range(7))


def test_layers_of_a_hybrid_of_flash_linear_attention() -> None:
    """fla/layers/attn.py: the group attn has sizes, base and window of its own."""
    parsed = read_huggingface(_FILES["Samba-1B"]["config"])
    attending = next(kind for kind in parsed.layers if kind.attends)
    assert (attending.layers, attending.window) == (tuple(range(1, 18, 2)), 2048)
    linear = {"model_type": "gla", "hidden_size": 512, "num_hidden_layers": 4, "num_heads": 2, "rope_theta": 1.0}
    group = {"layers": [3], "num_heads": 8, "rope_theta": 500000.0}
    hybrid = read_huggingface(linear | {"attn": group})
    assert (hybrid.config.head_dim, hybrid.config.base, hybrid.config.layout) == (64, 500000.0, "half")
    assert [kind.layers for kind in hybrid.layers if kind.attends] == [(3,)]
    for group in ({}, {"layers": []}, {"layers": "all"}):
        with pytest.raises(ConfigError, match="in a group attn: none rotates"):
            read_huggingface(linear | {"attn": group})


def test_text_parts_by_any_name_where_the_file_has_code_of_its_own() -> None:
    content = _FILES["GLM-ASR-Nano"]["config"]
    parsed = read_huggingface(content)
    assert sum(len(kind.layers) for kind in parsed.layers) == content["lm_config"]["num_hidden_layers"] == 28
    assert ask_class(content) is None  # the class of transformers looks for text_config
    # Without such code it is the class that passes over the group, and takes its own sizes: 28 layers as well.
    without = read_huggingface({**content, "auto_map": None})
    assert len(without.layers[0].layers) == 28
    assert any("it passes over 'lm_config'" in each.message for each in without.findings)
    unknown = {"model_type": "mine", "lm": {"model_type": "llama", **_HEADS}, "ear": {"model_type": "whisper"}}
    assert read_huggingface(unknown).config.head_dim == 64
    with pytest.raises(ConfigError, match="stacks of layers"):
        read_huggingface(unknown | {"ear": {"model_type": "qwen2", **_HEADS}})


@pytest.mark.parametrize("group", ["rope_scaling", "rope_parameters"])
def test_unknown_switches_of_a_group_are_a_warning(group: str) -> None:
    llama = {"model_type": "llama", **_HEADS}
    said = read_huggingface(llama | {group: {"rope_type": "default", "interleaved": True}}).findings
    assert [each.severity for each in said if f"'interleaved' in {group}" in each.message] == ["warning"]
    with pytest.raises(ConfigError, match="'interleaved' in"):
        read_huggingface(llama | {"model_type": "novel", group: {"rope_type": "default", "interleaved": 1}})


@pytest.mark.parametrize("value", [True, False])
def test_unknown_switches_beside_the_groups_are_a_warning(value: bool) -> None:
    llama = {"model_type": "llama", **_HEADS}
    for name in ("flash_rotary", "position_embedding_xdrope", "rope_full_precision"):
        said = read_huggingface(llama | {name: value}).findings
        assert [
            each.severity for each in said if f"'{name}' in config.json is {str(value).lower()}" in each.message
        ] == ["warning"]
        found = read_huggingface(llama | {name: 2}).findings
        passed = (
            "which the class of 'llama'" if name in ("flash_rotary", "rope_full_precision") else "and nothing known"
        )
        assert any(f"'{name}' in config.json is 2, {passed}" in each.message for each in found)
    phi = {"model_type": "mixformer-sequential", "n_embd": 2560, "n_head": 32, "flash_rotary": value}
    assert not any("flash_rotary" in each.message for each in read_huggingface(phi).findings)


@pytest.mark.parametrize("name", ["use_rope", "use_rotary_pos_emb", "apply_rotary", "enable_rope_embedding"])
def test_switches_by_which_a_model_rotates_at_all(name: str) -> None:
    llama = {"model_type": "llama", **_HEADS}
    with pytest.raises(ConfigError, match=f"{name} false: the model is said to have no rotary positions"):
        read_huggingface(llama | {"model_type": "novel", name: False})
    assert read_huggingface(llama | {name: True}).config.rotary_dim == 64
    passed_over = read_huggingface(llama | {name: False})
    assert passed_over.config.rotary_dim == 64
    assert f"{name} is false in config.json, which the class of 'llama' in transformers passes over" in " ".join(
        each.message for each in passed_over.findings if each.severity == "warning"
    )


def test_entries_beside_a_text_part_that_has_none() -> None:
    """FuyuConfig takes text_config for the whole of it where the file has one."""
    fuyu = {"model_type": "fuyu", "rope_theta": 25000.0, "text_config": {"model_type": "persimmon"}}
    parsed = read_huggingface(fuyu)
    assert (parsed.config.base, parsed.config.rotary_dim) == (10000.0, 32)
    said = [each for each in parsed.findings if "'rope_theta' stands in config.json beside" in each.message]
    assert [each.severity for each in said] == ["error"]
    fuyu |= {"rope_theta": 10000.0, "partial_rotary_factor": 0.5}  # as the class has it in any case
    assert not any("beside 'text_config'" in each.message for each in read_huggingface(fuyu).findings)
    for own in ({"auto_map": {"AutoModel": "mine.Mine"}}, {"model_type": "mine"}, {"model_type": None}):
        parsed = read_huggingface({**fuyu, "rope_theta": 25000.0, **own})  # what its class makes of them is not known
        assert (parsed.config.base, parsed.config.rotary_dim) == (25000.0, 32)
        said = [each for each in parsed.findings if "'rope_theta' stands in config.json beside" in each.message]
        assert [
            "the class of the whole is not known, and it is taken for that part" in each.message for each in said
        ] == [True]
        text = {"model_type": "persimmon", "rope_theta": 5e5}
        assert read_huggingface({**fuyu, **own, "rope_theta": 25000.0, "text_config": text}).config.base == 5e5


def test_entries_that_differ_beside_a_text_part() -> None:
    text = {"model_type": "llama", **_HEADS, "rope_theta": 5e5}
    for whole, whose in (("llava", "transformers reads"), ("mine", "what is shown is")):
        parsed = read_huggingface({"model_type": whole, "rope_theta": 1e4, "text_config": text})
        assert parsed.config.base == 5e5
        said = f"beside 'text_config', where it is 500000.0: {whose} the one in 'text_config'"
        assert [each.severity for each in parsed.findings if said in each.message] == ["warning"]


def test_deepseek_without_latent_attention_where_the_text_part_has_no_type() -> None:
    sizes = {**_HEADS, "use_mla": False, "qk_rope_head_dim": 0, "qk_nope_head_dim": 0}
    config = read_huggingface({"model_type": "deepseek_vl_v2", "language_config": sizes, **sizes}).config
    assert (config.rotary_dim, config.layout) == (64, "half")


def test_a_text_part_that_the_whole_repeats() -> None:
    """DeepSeek-OCR: its own class is that of the text part, with the entries of the whole."""
    part = {**_HEADS, "num_hidden_layers": 3, "use_mla": False, "qk_rope_head_dim": 0}
    whole = {"model_type": "mine", "auto_map": {}, **part, "rope_theta": 5e5}
    assert read_huggingface({**whole, "language_config": part}).config.base == 5e5
    other = read_huggingface({**whole, "rope_theta": 7e5, "language_config": {**part, "num_hidden_layers": 4}})
    assert (other.config.base, len(other.layers[0].layers)) == (7e5, 4)


def test_numbers_that_change_nothing_and_bases_by_other_names() -> None:
    own = {"model_type": "mine", **_HEADS}
    assert read_huggingface(own | {"rope_base": 5e5, "rope_scale": 1.0}).config.base == 5e5
    assert read_huggingface(own | {"rope_theta": 1e4, "rotary_scaling_factor": 1}).config.base == 1e4
    for name, value in (("rope_scale", 2.0), ("rotary_scaling_factor", 1.5)):
        with pytest.raises(ConfigError, match=f"'{name}' in config.json is not known"):
            read_huggingface(own | {name: value})
    assert read_huggingface({"model_type": "llama", **_HEADS, "rope_base": 5e5}).config.base == 1e4  # passed over
    xpos = {"rotary_theta": 5e5, "rotary_use_xpos": False, "rotary_xpos_scale_base": 512}
    assert read_huggingface(own | xpos).config.base == 5e5
    assert read_huggingface({"model_type": "mine", "dim": 512, "n_heads": 8, "n_layers": 2}).config.head_dim == 64


def test_the_only_group_with_sizes() -> None:
    """mlc-chat-config.json has those of config.json in a group of its own."""
    group = {**_HEADS, "rope_theta": 5e6, "num_hidden_layers": 3}
    assert read_huggingface({"model_type": "qwen2", "model_config": group, "vocab_size": 9}).config.base == 5e6
    assert read_huggingface({"model_type": "qwen2", **_HEADS, "draft": group}).config.base == 1e4
    dbrx = {"model_type": "dbrx", "d_model": 512, "n_heads": 4, "ffn_config": {"hidden_size": 64}, "rope_theta": 1e4}
    assert read_huggingface(dbrx).config.head_dim == 128
    unknown = read_huggingface({"model_config": group, "steps": 3, "metadata": {"kind": "bpe"}})
    assert (unknown.config.base, len(unknown.layers[0].layers)) == (5e6, 3)
    whole = read_huggingface({"model_type": "qwen2", "one": group, "other": group})
    assert len(whole.layers[0].layers) == 32  # which of them is meant cannot be told; the class has its own sizes


def test_entries_that_repeat_the_rotated_features() -> None:
    llama = {"model_type": "llama", **_HEADS}
    assert read_huggingface(llama | {"rope_dim": 64}).config.rotary_dim == 64
    said = read_huggingface(llama | {"rope_dim": 32}).findings
    assert any("'rope_dim' in config.json is 32, and nothing known here reads it" in each.message for each in said)
    assert read_huggingface({"model_type": "mine", **_HEADS, "rotary_percent": 0.5}).config.rotary_dim == 32
    chatglm = {"model_type": "chatglm", "kv_channels": 128}
    assert read_huggingface(chatglm | {"rotary_percent": 0.5}).config.rotary_dim == 64
    said = read_huggingface(chatglm | {"rotary_percent": 1.0}).findings
    assert any("'rotary_percent' in config.json is 1.0, and nothing known" in each.message for each in said)
    other = read_huggingface({"model_type": "nemotron", **_HEADS, "rotary_percent": 1.0}).findings  # of no such code
    assert any("'rotary_percent' in config.json is 1.0, and nothing known" in each.message for each in other)


@pytest.mark.sampled(3)
@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="without transformers")
@pytest.mark.parametrize("model", _ASKED)
def test_the_class_does_the_same(model: str) -> None:
    content, _ = CONFIGS[model]
    asked = ask_class(content)
    assert isinstance(asked, AskedClass)
    assert not as_the_class(asked, read_huggingface(content), content)[1]


@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="without transformers")
def test_the_class_of_a_head_size_without_an_entry() -> None:
    """modeling_qwen3_omni_moe.py: getattr(config, "head_dim", ...), where the text part has 128 for heads of 64."""
    content = _FILES["Qwen3-Omni, small"]["config"]
    asked = ask_class(content)
    assert isinstance(asked, AskedClass)
    assert not as_the_class(asked, read_huggingface(content), content)[1]


def test_another_sentence_than_the_meaning_is_told() -> None:
    assert not _is_what_is_meant("refused: no number", "refused ALiBi")
    assert not _is_what_is_meant("? 64/64 half 10000", "64/64 half 10000")
    assert re.match(r"\? 64/64 half 10000$", _meaning(read_huggingface, {"model_type": "mine", "head_dim": 64}))
