"""Options and inputs that schemes refuse, each by an error of Locant's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from locant.errors import ConfigError, DataError
from locant.positions import (
    AttentionShape,
    PositionedAttention,
    Randomised,
    Rotary,
    Sinusoidal,
    add_positions,
    build_scheme,
    convert_projection,
)

WRONG: list[tuple[str, dict[str, Any]]] = [
    ("sinusoidal", {"base": 1}),
    ("sinusoidal", {"base": "1e4"}),
    ("sinusoidal", {"base": True}),
    ("sinusoidal", {"dialect": "papers"}),
    ("sinusoidal", {"features": 7}),
    ("learned", {"max_positions": 0}),
    ("learned", {"max_positions": 10.5}),
    ("none", {"base": 3}),
    ("rotary", {"layout": "neox"}),
    ("rotary", {"rotary_dim": 3}),
    ("rotary", {"scaling": {"kind": "yarm"}}),
    ("xpos", {"gamma": 0}),
    ("axial-rotary", {"grid": [3]}),
    ("axial-rotary", {"grid": [3, 4, 5]}),
    ("mixed-rotary", {"grid": [3, 4, 5]}),
    ("mixed-rotary", {"base": 1}),
    ("multimodal-rotary", {"sections": [2, 2, 2]}),
    ("key-offset", {"rotary_dim": 4}),
    ("self-extend", {"group": 0}),
    ("rerope", {"window": 0}),
    ("shaw", {"max_distance": 0}),
    ("t5", {"num_buckets": 1}),
    ("t5", {"max_distance": 16}),
    ("kerple", {"kind": "log"}),
    ("fire", {"hidden": 0}),
    ("fire", {"threshold": float("nan")}),
    ("sandwich", {"sinusoid_dim": 3}),
    ("cope", {"positions": 1}),
    ("deberta", {"max_distance": 0}),
    ("deberta", {"buckets": 7}),
    ("randomised", {"evaluation_length": 0}),
    ("randomised", {"max_positions": 10, "evaluation_length": 11}),
    ("temperature", {"form": "log"}),
    ("temperature", {"factor": -1.0}),
    ("temperature", {"scheme": "yarm"}),
    ("sinusoidl", {}),
]


@pytest.mark.parametrize(("name", "options"), WRONG)
def test_wrong_options(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        build_scheme(name, AttentionShape(16, 4, causal=True), options)


def test_the_nearest_name_is_named() -> None:
    shape = AttentionShape(16, 4, causal=True)
    with pytest.raises(ConfigError, match="'sinusoidal'"):
        build_scheme("sinusoidl", shape)
    with pytest.raises(ConfigError, match="'max_positions'"):
        build_scheme("learned", shape, {"max_position": 3})


def test_texts_that_are_too_long() -> None:
    scheme = Randomised(Rotary(4), max_positions=20, evaluation_length=5)
    with pytest.raises(DataError):
        scheme.eval().drawn(torch.arange(6))
    with pytest.raises(DataError):
        scheme.train().drawn(torch.arange(21))


def test_layers_of_torch() -> None:
    x, other = torch.randn(2, 7, 16), torch.randn(2, 7, 16)
    ours = PositionedAttention(16, 4, Rotary(4), batch_first=True)
    nested = torch.nested.nested_tensor([x[0], x[1, :4]])
    for arguments, options in (((x, other, other), {}), ((x, x, x), {"is_causal": True}), ((nested,) * 3, {})):
        with pytest.raises(ConfigError):
            ours(*arguments, **options)
    with pytest.raises(ConfigError):
        add_positions(nn.TransformerEncoderLayer(16, 4), Sinusoidal(16))
    with pytest.raises(ConfigError):
        add_positions(nn.Linear(2, 2), Rotary(4))
    with pytest.raises(ConfigError):
        PositionedAttention.from_attention(nn.MultiheadAttention(16, 4, add_zero_attn=True), Rotary(4))
    with pytest.raises(ConfigError):
        convert_projection(torch.zeros(10, 3), 4, source="half", target="interleaved")
