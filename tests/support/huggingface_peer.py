"""Comparison with the frequencies of the transformers that is installed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from locant.positions import RotaryConfig


def assert_same_frequencies(
    theirs: Any, ours: RotaryConfig, layer: str | None = None, length: int | None = None
) -> None:
    """Compare with the frequencies and the attention scale that transformers makes of its configuration object."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    theirs.standardize_rope_params()
    rope = theirs.rope_parameters[layer] if layer else theirs.rope_parameters
    assert rope["rope_theta"] == pytest.approx(ours.base)
    options = {"layer_type": layer} if layer else {}
    if rope["rope_type"] == "default":
        head_dim = getattr(theirs, "head_dim", None) or theirs.hidden_size // theirs.num_attention_heads
        dim = int(head_dim * rope.get("partial_rotary_factor", 1.0))
        frequencies, scale = 1 / rope["rope_theta"] ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim), 1.0
    else:
        frequencies, scale = ROPE_INIT_FUNCTIONS[rope["rope_type"]](theirs, "cpu", seq_len=length, **options)
    expected = torch.tensor([float(frequency) for frequency in ours.frequencies(length)], dtype=torch.float64)
    torch.testing.assert_close(frequencies.double(), expected, rtol=1e-6, atol=0)
    assert scale == pytest.approx(ours.attention_scale(length), rel=1e-6)
