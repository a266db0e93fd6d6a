"""Architectures and keys of GGUF files: those of the package gguf, and what llama.cpp does with them."""

from __future__ import annotations

from typing import Any

import pytest

from locant.errors import ConfigError
from locant.positions.scaling.ntk import NTKAware
from locant.rotary_configs import read_gguf, read_huggingface
from locant.rotary_configs.base import NoRotaryPositionsError
from locant.rotary_configs.classes.families import layout_of as layout_of_class
from locant.rotary_configs.gguf.architectures import (
    CONVERTED_FROM_HALVES,
    HALF,
    INTERLEAVED,
    KNOWN,
    SEVERAL_AXES,
    WITHOUT_GRAPH,
    WITHOUT_ROTATION,
    layout_of,
    model_type_of,
)

gguf = pytest.importorskip("gguf")


def _metadata(architecture: str, **keys: Any) -> dict[str, Any]:
    plain = {"attention.key_length": 64, "rope.dimension_count": 64, "context_length": 4096, **keys}
    return {"general.architecture": architecture} | {f"{architecture}.{key}": value for key, value in plain.items()}


def test_every_architecture_of_gguf_is_read_or_known_not_to_rotate() -> None:
    """llama_model_rope_type in llama-model.cpp; the graphs of bert and starcoder only add positions."""
    names = set(gguf.MODEL_ARCH_NAMES.values())
    assert names <= {*INTERLEAVED, *HALF, *SEVERAL_AXES, *WITHOUT_ROTATION, *WITHOUT_GRAPH}
    assert not {*INTERLEAVED} & {*HALF}
    assert not {*INTERLEAVED, *HALF, *SEVERAL_AXES} & {*WITHOUT_ROTATION}
    for name in sorted(names - WITHOUT_GRAPH):
        if name in WITHOUT_ROTATION:
            with pytest.raises(ConfigError, match=f"does not rotate in the architecture '{name}': no rotary positions"):
                read_gguf(_metadata(name))
        else:
            config = next(iter(read_gguf(_metadata(name)).configs.values()))
            assert config.layout == ("interleaved" if name in INTERLEAVED else "half"), name


def test_classes_pair_as_the_architecture_does_but_where_the_converter_permutes() -> None:
    """``permute`` in convert_hf_to_gguf.py turns halves into neighbours, of which classes are facts by themselves."""
    types = {name: model_type_of(name) for name in KNOWN}
    assert {name for name in INTERLEAVED if types[name]} >= CONVERTED_FROM_HALVES
    for name, model_type in types.items():
        if model_type is not None:
            expected = "half" if name in CONVERTED_FROM_HALVES else layout_of(name)
            assert layout_of_class(model_type, None) == expected, name


def test_the_graph_of_deepseek_ocr_pairs_halves_whatever_its_type() -> None:
    """src/models/deepseek2.cpp: ocr_rope_type is GGML_ROPE_TYPE_NEOX."""
    assert layout_of("deepseek2-ocr") == "half"


def test_the_graph_of_cogvlm_has_one_base() -> None:
    """src/models/cogvlm.cpp calls ggml_rope, whose base is 10000."""
    read = read_gguf({**_metadata("cogvlm"), "cogvlm.rope.freq_base": 500000.0})
    assert read.config.base == 10000.0
    assert any("passes over rope.freq_base 500000" in each.message for each in read.findings)
    assert not any("freq_base" in each.message for each in read_gguf(_metadata("cogvlm")).findings)


@pytest.mark.parametrize("name", sorted(WITHOUT_GRAPH))
def test_an_architecture_without_a_graph_is_refused(name: str) -> None:
    """llama_model_create throws for what llama_model_mapping has no model of: unsupported model architecture."""
    with pytest.raises(ConfigError, match=f"refuses the file: it has no graph for the architecture '{name}'") as caught:
        read_gguf(_metadata(name))
    assert not isinstance(caught.value, NoRotaryPositionsError)


def test_an_architecture_that_is_not_known_is_refused() -> None:
    with pytest.raises(ConfigError, match="Unknown architecture 'deepseek9'"):
        read_gguf(_metadata("deepseek9"))


def test_every_rotary_key_of_gguf_is_known() -> None:
    """No key that converters write is called unknown."""
    values = {"type": "yarn", "sections": [11, 11, 10], "finetuned": True, "factor": 4.0, "context_length": 1024}
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 1024}
    for key in vars(gguf.Keys.Rope).values():
        if isinstance(key, str) and key.startswith("{arch}."):
            name = key.removeprefix("{arch}.")
            value = next((value for part, value in values.items() if name.endswith(part)), 64)
            said = ""
            try:
                read_gguf(_metadata("deepseek2", **(yarn | {name: value})))
            except ConfigError as error:
                said = str(error)
            assert "is not known here" not in said


@pytest.mark.parametrize(("sections", "layout"), [(None, "interleaved"), ([8, 12, 12, 0], "half")])
def test_glm4_pairs_halves_with_positions_of_several_axes(sections: list[int] | None, layout: str) -> None:
    """llama-model.cpp: LLAMA_ROPE_TYPE_MROPE, which pairs halves, where glm4 has sections."""
    keys = {} if sections is None else {"rope.dimension_sections": sections}
    assert read_gguf(_metadata("glm4", **keys)).config.layout == layout


@pytest.mark.parametrize("architecture", ["hunyuan-dense", "hunyuan_vl"])
def test_hunyuans_alpha_raises_the_base(architecture: str) -> None:
    """hunyuan-vl.cpp: rope_theta * alpha^(dim / (dim - 2)), which is NTK-aware interpolation."""
    config = read_gguf(_metadata(architecture, **{"rope.freq_base": 10000.0, "rope.scaling.alpha": 1000.0})).config
    ntk = NTKAware(factor=1000.0)
    assert config.base == pytest.approx(ntk.equivalent_base(64, 10000.0))
    assert read_gguf(_metadata("qwen2", **{"rope.scaling.alpha": 1000.0})).config.base == 10000.0


def test_hy_v4_is_paired_otherwise_than_by_its_class() -> None:
    """LLAMA_ROPE_TYPE_NORM, rows that conversion/hy_v4.py maps straight through, and rotate_half of its class."""
    keys = {"attention.key_length": 576, "attention.key_length_mla": 192, "rope.dimension_count": 64, "block_count": 2}
    metadata = {"general.architecture": "hy_v4"} | {f"hy_v4.{key}": value for key, value in keys.items()}
    parsed = read_gguf(metadata)
    sizes = {"hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 2, "max_position_embeddings": 4096}
    of_class = read_huggingface({"model_type": "hy_v4", "qk_rope_head_dim": 64, **sizes})
    assert (parsed.config.layout, of_class.config.layout) == ("interleaved", "half")
    assert any("llama.cpp pairs neighbours in the architecture 'hy_v4'" in each.message for each in parsed.findings)
