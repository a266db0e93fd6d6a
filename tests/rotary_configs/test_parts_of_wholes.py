"""What classes of several parts do with a text part that states less than they give it, compared with transformers."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from locant.rotary_configs import ParsedConfig, read_huggingface

_SIZES = {"hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": 6}
_LINEAR = {"rope_scaling": {"type": "linear", "factor": 2.0}}


def _warnings(parsed: ParsedConfig) -> str:
    return " ".join(finding.message for finding in parsed.findings if finding.severity != "note")


def _base_of_class(file: dict[str, Any]) -> float:
    mapping = pytest.importorskip("transformers").CONFIG_MAPPING
    text = mapping[file["model_type"]].from_dict(copy.deepcopy(file)).get_text_config(decoder=True)
    return float(text.rope_parameters["rope_theta"])


@pytest.mark.parametrize(
    ("name", "part", "base"),
    [
        ("voxtral", _LINEAR, 1e8),
        ("voxtral", {"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, 1e8),
        ("voxtral", {**_LINEAR, "rope_theta": 5e5}, 5e5),
        ("voxtral_realtime", _LINEAR, 1e6),
        ("glmasr", {"rope_theta": 77777.0}, 1e4),
        ("glmasr", {"rope_theta": 77777.0, **_LINEAR}, 77777.0),
        ("glmasr", {"rope_parameters": {"rope_type": "default", "rope_theta": 77777.0}}, 77777.0),
    ],
)
def test_bases_that_the_whole_gives_or_keeps(name: str, part: dict[str, Any], base: float) -> None:
    """__post_init__ of the whole: its own entries, and those of the part over them."""
    file = {"model_type": name, "text_config": {**_SIZES, **part}}
    parsed = read_huggingface(file)
    assert parsed.config.base == base == _base_of_class(file)
    said = "rope_theta is 77777 in 'text_config': the class of 'glmasr' in transformers passes over it"
    assert (said in _warnings(parsed)) is ("rope_theta" in part and base != part["rope_theta"])


@pytest.mark.parametrize("file", [{}, {"vlm_config": {}}, {"vlm_config": {"model_type": "paligemma"}}])
def test_a_whole_in_a_whole_without_its_text_part(file: dict[str, Any]) -> None:
    file = {"model_type": "colpali", **file}
    text = pytest.importorskip("transformers").CONFIG_MAPPING["colpali"].from_dict(file).get_text_config()
    parsed = read_huggingface(file)
    assert sum(len(kind.layers) for kind in parsed.layers) == text.num_hidden_layers == 18
    assert parsed.config.head_dim == text.head_dim
    assert "', the text part of the class of" in _warnings(parsed)


def test_a_text_part_that_must_state_its_type() -> None:
    file = {"model_type": "exaone4_5", "text_config": dict(_SIZES)}
    said = "'text_config' states no model_type: the class of 'exaone4_5' in transformers fails without"
    assert said in _warnings(read_huggingface(file))
    with pytest.raises(KeyError, match="model_type"):
        _base_of_class(file)
    typed = {"model_type": "exaone4_5", "text_config": {"model_type": "exaone4_5_text", **_SIZES}}
    assert said not in _warnings(read_huggingface(typed))
