"""What the configurations of transformers make of a file that says a part of how it rotates, without asking them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from zoo.architectures import architecture
from zoo.entries import types_taken_for_others

import locant
from locant.errors import ConfigError
from locant.extension.inspect.inspection import inspect_model
from locant.rotary_configs import read_huggingface, read_vllm
from locant.rotary_configs.base import ParsedConfig
from locant.rotary_configs.classes.entries import type_taken_for

_SIZES: dict[str, Any] = {
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "num_hidden_layers": 4,
}
_TYPES = ["sliding_attention", "full_attention"] * 2
_PLAIN = {"rope_type": "default"}


def _file(name: str, **entries: Any) -> dict[str, Any]:
    return {"model_type": name, **_SIZES, **entries}


def _bases(parsed: ParsedConfig) -> list[float | None]:
    return [None if (config := parsed.of_layer(index)) is None else config.base for index in range(4)]


def _said(parsed: ParsedConfig) -> str:
    return " ".join(each.message for each in parsed.findings if each.severity != "note")


def _rope_of_class(file: dict[str, Any]) -> dict[str, Any]:
    known = pytest.importorskip("transformers").CONFIG_MAPPING
    if file["model_type"] not in known:
        pytest.skip(f"this release of transformers has no '{file['model_type']}'")
    rope: dict[str, Any] = known[file["model_type"]].from_dict(dict(file)).rope_parameters
    return rope


@pytest.mark.parametrize(
    "file",
    [
        _file("neomme", layer_types=_TYPES, rope_theta=77777.0),
        _file("neomme", layer_types=_TYPES, rope_theta=77777.0, rope_parameters={"full_attention": _PLAIN}),
        _file("dots3_note_text", layer_types=_TYPES, swa_rope_theta=12345.0),
        _file("dots3_note_text", layer_types=_TYPES, rope_theta=12345.0, use_dsa=False),
        _file("dots3_note_text", layer_types=_TYPES, rope_parameters={"rope_type": "linear", "factor": 2.0}),
        _file("gemma3_text", layer_types=_TYPES, rope_parameters={"sliding_attention": {**_PLAIN, "rope_theta": 2e4}}),
        _file("olmo3", layer_types=_TYPES, rope_parameters={"full_attention": {**_PLAIN, "rope_theta": 7e5}}),
        _file(
            "modernbert",
            layer_types=_TYPES,
            rope_parameters={"sliding_attention": {**_PLAIN, "rope_theta": 2e4}},
            global_rope_theta=55555.0,
        ),
    ],
)
def test_bases_of_layer_types(file: dict[str, Any]) -> None:
    """convert_rope_params_to_dict of each class fills in what the groups lack."""
    parsed = read_huggingface(file)
    rope = _rope_of_class(file)
    other = next(name for name in rope if name != _TYPES[0])  # dots3 has a name of its own for it
    assert _bases(parsed) == [rope[name]["rope_theta"] for name in (_TYPES[0], other) * 2]
    read = {name: config.rotary_dim for name, config in parsed.configs.items()}
    shares = {name: group.get("partial_rotary_factor", 1) for name, group in rope.items()}
    if file["model_type"] == "neomme":
        assert read == {name: shares[name] * 64 for name in read}
    assert "nothing known here reads it" not in _said(parsed)
    assert "fails there" not in _said(parsed) or "takes its own there" in _said(parsed)


def test_sliding_windows_that_are_switched_off() -> None:
    """Dots3NoteTextConfig gives all layers sparse attention where use_sliding_window is false."""
    file = _file("dots3_note_text", use_sliding_window=False, rope_theta=1e6)
    parsed = read_huggingface(file)
    assert {(kind.name, kind.window) for kind in parsed.layers} == {("indexed_attention", None)}
    assert _bases(parsed) == [1e6] * 4
    assert set(_rope_of_class(file)) == {"indexed_attention"}


@pytest.mark.parametrize("name", ["muse_spark_text", "higgs_audio_v2", "ministral3"])
def test_a_scaling_takes_the_place_of_the_groups_own_base(name: str) -> None:
    """Their own group has another base than default_theta, which fills in what rope_scaling lacks."""
    file = _file(name, rope_scaling={"type": "dynamic", "factor": 2.0})
    bases = {config.base for config in read_huggingface(file).configs.values()}
    assert bases == {_rope_of_class(file)["rope_theta"]} == {1e4}
    assert {config.base for config in read_huggingface(_file(name)).configs.values()} != {1e4}


def test_a_share_that_is_null() -> None:
    """Glm4Config sets its share where the entry is left out; null stays, and a whole head is rotated."""
    file = _file("glm4", head_dim=64, partial_rotary_factor=None)
    assert read_huggingface(file).config.rotary_dim == 64
    assert _rope_of_class(file).get("partial_rotary_factor", 1) == 1
    assert read_huggingface(_file("glm4", head_dim=64)).config.rotary_dim == 32
    assert "rotates a share of 1 of each head then" in _said(read_huggingface(file))


@pytest.mark.parametrize("name", ["phi3", "phi4_multimodal"])
def test_yarn_with_the_lists_of_longrope(name: str) -> None:
    """Phi3Config writes 'longrope' for 'su' and 'yarn', for files of an early revision; its check takes no other."""
    lists = {"short_factor": [1.0] * 32, "long_factor": [2.0] * 32}
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4, "partial_rotary_factor": 1.0}
    sizes |= {"max_position_embeddings": 131072, "original_max_position_embeddings": 4096}
    group = {"type": "yarn", "original_max_position_embeddings": 4096, **lists}
    file = _file(name, **sizes, rope_scaling=group)
    assert _rope_of_class({**file, "rope_scaling": dict(group)})["rope_type"] == "longrope"
    parsed = read_huggingface(file)
    assert parsed.config.scaling.name == "longrope"
    assert f"the class of '{name}' in transformers takes it for 'longrope', and computes no YaRN" in _said(parsed)
    assert "fails with that scaling" not in _said(parsed)
    plain = _said(read_huggingface(_file(name, **sizes, rope_scaling={**group, "type": "longrope"})))
    assert "computes no YaRN" not in plain


@pytest.mark.parametrize(
    ("name", "stated", "taken"),
    [
        ("phi3", "yarn", "longrope"),
        ("hunyuan_vl_text", "xdrope", "dynamic"),
        ("qwen2_vl_text", "mrope", "default"),
        ("sarvam_mla", "deepseek_yarn", "yarn"),
        ("cohere2_moe", "linear", "linear"),  # whose class passes over the group
    ],
)
def test_types_that_a_class_takes_for_others(name: str, stated: str, taken: str) -> None:
    assert type_taken_for(name, stated) == taken
    assert types_taken_for_others(architecture(name)).get(stated, stated) == taken


@pytest.mark.parametrize("name", ["deepseek_ocr2_text", "unlimited_ocr_text"])
def test_heads_that_a_class_computes(name: str) -> None:
    parsed = read_huggingface(_file(name, head_dim=32))
    assert parsed.config.head_dim == 64
    assert "head_dim is 32 in config.json, which the class of" in _said(parsed)
    assert "head_dim" not in _said(read_huggingface(_file(name, head_dim=64)))


def test_heads_that_a_class_fills_in_for_null() -> None:
    """SeedOssConfig has 128 features in a head, and divides its width by its heads where the file has null."""
    file = _file("seed_oss", head_dim=None)
    parsed = read_huggingface(file)
    assert parsed.config.head_dim == 64
    assert "head_dim" not in _said(parsed)
    assert pytest.importorskip("transformers").CONFIG_MAPPING["seed_oss"].from_dict(file).head_dim == 64


def test_the_text_part_of_a_part() -> None:
    """ColQwen2Config holds a whole of Qwen2-VL, whose text part has 80 layers and the base 1000000."""
    sizes = {"hidden_size": 1024, "num_attention_heads": 8}
    for part in ({"text_config": sizes}, sizes):
        parsed = read_huggingface({"model_type": "colqwen2", "vlm_config": part})
        assert (parsed.config.base, parsed.config.head_dim) == (1e6, 128)
        assert sum(len(kind.layers) for kind in parsed.layers) == 80


@pytest.mark.parametrize(
    ("file", "said", "raised"),
    [
        (_file("hunyuan_vl_text"), "has no mrope_section", None),
        (_file("cosmos3_edge_text", head_dim=64, rope_parameters=_PLAIN), "has no mrope_section", "mrope_section"),
        (_file("olmo_hybrid", layer_types=["full_attention"] * 4), "'linear_attention'", "linear_attention"),
        (_file("iquestcoder", use_sliding_window=True), "use_sliding_window is true in config.json, with", "sliding"),
        (_file("gemma4_unified_text", attention_chunk_size=32), "attention_chunk_size is 32", "mutually exclusive"),
        (
            _file(
                "phi", rope_parameters={"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1e4}
            ),
            "fails with that scaling",
            None,
        ),
    ],
)
def test_what_a_class_refuses_or_fails_with(file: dict[str, Any], said: str, raised: str | None) -> None:
    assert said in _said(read_huggingface(file))
    if raised is not None:
        with pytest.raises(Exception, match=raised):
            _rope_of_class(file)
        _rope_of_class({"model_type": file["model_type"], "num_hidden_layers": 4})


def test_a_whole_head_of_a_class_that_fails_with_a_part() -> None:
    whole = {"rope_type": "proportional", "partial_rotary_factor": 1.0, "rope_theta": 1e4}
    assert "fails with that scaling" not in _said(read_huggingface(_file("phi", rope_parameters=whole)))


def test_a_null_factor_beside_lengths() -> None:
    """_compute_yarn_parameters takes the ratio of the lengths."""
    scaling = {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 4096}
    parsed = read_huggingface(_file("llama", max_position_embeddings=16384, rope_scaling=scaling))
    assert parsed.config.scaling.stretch == 4
    assert "factor is null" not in _said(parsed)
    linear = {"rope_type": "linear", "factor": None}
    with pytest.raises(ConfigError, match="factor"):
        read_huggingface(_file("llama", max_position_embeddings=16384, rope_scaling=linear))


def test_a_type_that_is_null() -> None:
    with pytest.raises(ConfigError, match="has factor 2 but rope_type null, which names no scaling"):
        read_huggingface(_file("llama", rope_scaling={"rope_type": None, "factor": 2.0}))


def test_the_width_of_progen() -> None:
    """modeling_progen.py: embed_dim, rotary_dim, and pairs of neighbours."""
    file = {"model_type": "progen", "embed_dim": 1536, "n_head": 16, "n_layer": 27, "rotary_dim": 48}
    config = read_huggingface(file).config
    assert (config.head_dim, config.rotary_dim, config.layout) == (96, 48, "interleaved")


@pytest.mark.parametrize(
    "file",
    [
        _file(
            "llama",
            max_position_embeddings=65536,
            original_max_position_embeddings=8192,
            rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        ),
        _file("glm4", head_dim=64, partial_rotary_factor=None, rope_theta=1e4),
    ],
)
def test_a_class_is_asked_as_it_is_loaded(file: dict[str, Any], tmp_path: Path) -> None:
    """An entry beside the group counts when from_pretrained makes the model, and null is not filled in again."""
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text(json.dumps(file), encoding="utf-8")
    found = inspect_model(tmp_path)
    assert found.checked_against is not None
    assert not [each for each in found.findings if "something else than the file" in each.message]


def test_one_axis_is_no_note_on_several(tmp_path: Path) -> None:
    """Qwen2Model never looks for mrope_section."""
    scaling = {"rope_type": "default", "mrope_section": [8, 12, 12]}
    (tmp_path / "config.json").write_text(json.dumps(_file("qwen2", rope_scaling=scaling)), encoding="utf-8")
    found = locant.inspect(tmp_path, ask_class=False)
    assert not [each for each in found.findings if "axes" in each.message]
    assert any("passes over: its positions have one axis" in each.message for each in found.findings)


def test_an_odd_share_of_a_head(tmp_path: Path) -> None:
    """Glm4RotaryEmbedding makes angles of 11 pairs by frequencies for 21 features, and its attention rotates 22."""
    file = _file("glm4", head_dim=64, partial_rotary_factor=0.33, rope_theta=1e4)
    config = read_huggingface(file).config
    assert config.rotary_dim == 22
    assert [float(each) for each in config.frequencies(1)] == pytest.approx([1e4 ** (-2 * i / 21) for i in range(11)])
    for other in ({"model_type": "phi"}, {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}):
        with pytest.raises(ConfigError, match="is 21 of them"):
            read_huggingface(file | {"max_position_embeddings": 4096} | other)
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text(json.dumps(file), encoding="utf-8")
    found = inspect_model(tmp_path)
    assert found.checked_against is not None
    assert not [each for each in found.findings if "something else than the file" in each.message]


@pytest.mark.parametrize("original", [1, 6])
def test_a_ramp_that_runs_backwards(original: int) -> None:
    """linear_ramp_factor of modeling_rope_utils.py, whose upper corner may be below 0."""
    scaling = {"rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": original}
    file = _file("llama", max_position_embeddings=4096, rope_theta=1e4, rope_scaling=scaling)
    parsed = read_huggingface(file)
    found = [float(each) for each in parsed.config.frequencies(1)]
    utils = pytest.importorskip("transformers").modeling_rope_utils
    theirs, scale = utils.ROPE_INIT_FUNCTIONS["yarn"](pytest.importorskip("transformers").LlamaConfig.from_dict(file))
    assert found == pytest.approx(theirs.tolist(), rel=1e-6)
    assert parsed.config.attention_scale() == pytest.approx(scale)
    assert ("runs backwards" in _said(parsed)) is (original == 1)


def test_neighbours_of_a_class_that_reads_sound() -> None:
    """rotate_half of modeling_moonshine_streaming.py takes x[..., 0::2] and x[..., 1::2]."""
    parsed = read_huggingface({"model_type": "moonshine_streaming"})
    config = parsed.config
    assert (config.layout, config.head_dim, config.rotary_dim, config.base) == ("interleaved", 40, 32, 1e4)
    assert not _said(parsed)


def test_hidden_states_that_are_turned_before_projections() -> None:
    """_apply_rotary_embedding of modeling_wav2vec2_conformer.py turns halves of each part as wide as a head."""
    file = {"model_type": "wav2vec2-conformer", **_SIZES, "position_embeddings_type": "rotary"}
    parsed = read_huggingface(file | {"rotary_embedding_base": 5000})
    assert (parsed.config.layout, parsed.config.head_dim, parsed.config.base) == ("half", 64, 5000)
    assert "before queries and keys are projected" in _said(parsed)


def test_one_group_in_overrides_of_a_class_that_takes_out_a_base() -> None:
    """vLLM's class takes config.rope_parameters[layer_type]."""
    flat = {"rope_type": "default", "rope_theta": 5e5}
    with pytest.raises(ConfigError, match="has no groups for layer types: vLLM looks for"):
        read_vllm({"rope_parameters": flat}, _file("gemma3_text", rope_theta=1e6))
    groups = {"full_attention": flat, "sliding_attention": {**flat, "rope_theta": 1e4}}
    served = read_vllm({"rope_parameters": groups}, _file("gemma3_text", rope_theta=1e6))
    assert {config.base for config in served.configs.values()} == {5e5, 1e4}
