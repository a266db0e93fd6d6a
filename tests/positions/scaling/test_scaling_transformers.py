"""Frequencies and attention scales against Hugging Face's transformers, run live; it computes in float32."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from locant.positions.scaling import (
    DynamicNTK,
    FrequencyScaling,
    Linear,
    Llama3,
    LongRoPE,
    Proportional,
    YaRN,
)

pytest.importorskip("transformers")
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

MODELS = [(128, 10000.0), (64, 150000.0), (80, 500000.0), (256, 1000000.0)]
LENGTHS = [(2048, 4), (4096, 32), (8192, 2.5)]


def theirs(
    kind: str, dim: int, base: float, max_length: int, options: dict[str, Any], length: int | None = None
) -> tuple[torch.Tensor, float]:
    config = LlamaConfig(
        hidden_size=2 * dim,
        num_attention_heads=2,
        head_dim=dim,
        max_position_embeddings=max_length,
        rope_parameters={"rope_type": kind, "rope_theta": base, **options},
    )
    frequencies, scale = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=length)
    return frequencies, float(scale)


def assert_agree(
    ours: FrequencyScaling,
    peer: tuple[torch.Tensor, float],
    dim: int,
    base: float,
    length: int | None = None,
    blending: float = 0.0,
) -> None:
    # Float32 rounds an exponent by up to 3e-8 ln(base) of the frequency, and a weight of a blend by up to 6e-8.
    rounding = 5e-7 + 6e-8 * blending
    frequencies = torch.tensor([float(f) for f in ours.frequencies(dim, base, length)], dtype=torch.float64)
    torch.testing.assert_close(peer[0].double(), frequencies, rtol=rounding, atol=0)
    assert ours.attention_scale(length) == pytest.approx(peer[1], rel=1e-12)


@pytest.mark.parametrize(("dim", "base"), MODELS)
@pytest.mark.parametrize(("original", "factor"), LENGTHS)
class TestAgainstTransformers:
    def test_linear(self, dim: int, base: float, original: int, factor: float) -> None:
        peer = theirs("linear", dim, base, original, {"factor": factor})
        assert_agree(Linear(factor=factor, original_length=original), peer, dim, base)

    @pytest.mark.parametrize("length", [None, 100, 8193, 30000])
    def test_dynamic(self, dim: int, base: float, original: int, factor: float, length: int | None) -> None:
        peer = theirs("dynamic", dim, base, original, {"factor": factor}, length)
        by_token = DynamicNTK(original_length=original, factor=factor, length_step=1)
        assert_agree(by_token, peer, dim, base, length)
        final = DynamicNTK(original_length=original, factor=factor, target_length=max(original, length or 0))
        assert_agree(final, peer, dim, base)

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"truncate": False},
            {"beta_fast": 16.0, "beta_slow": 2.0},
            {"attention_factor": 1.25},
            {"mscale": 0.707, "mscale_all_dim": 0.707},
            {"mscale": 0.5, "mscale_all_dim": 1.5},
        ],
    )
    def test_yarn(self, dim: int, base: float, original: int, factor: float, options: dict[str, Any]) -> None:
        given = {"factor": float(factor), "original_max_position_embeddings": original, **options}
        peer = theirs("yarn", dim, base, int(original * factor), given)
        assert_agree(YaRN(original_length=original, factor=factor, **options), peer, dim, base, blending=factor)

    @pytest.mark.parametrize("length", [None, 1, 2048, 2049, 8193])
    @pytest.mark.parametrize("options", [{}, {"attention_factor": 1.5}])
    def test_longrope(
        self, dim: int, base: float, original: int, factor: float, length: int | None, options: dict[str, Any]
    ) -> None:
        short = [1 + i / dim for i in range(dim // 2)]
        long = [1.5 + i**2 / dim for i in range(dim // 2)]
        given = {"short_factor": short, "long_factor": long, "original_max_position_embeddings": original, **options}
        peer = theirs("longrope", dim, base, int(original * factor), given, length)
        ours = LongRoPE(short_factors=short, long_factors=long, original_length=original, factor=factor, **options)
        assert_agree(ours, peer, dim, base, length)

    @pytest.mark.parametrize(("low", "high"), [(1.0, 4.0), (2.0, 16.0)])
    def test_llama3(self, dim: int, base: float, original: int, factor: float, low: float, high: float) -> None:
        given = {"factor": float(factor), "low_freq_factor": low, "high_freq_factor": high}
        given["original_max_position_embeddings"] = original
        peer = theirs("llama3", dim, base, int(original * factor), given)
        ours = Llama3(original_length=original, factor=factor, low_frequency_factor=low, high_frequency_factor=high)
        assert_agree(ours, peer, dim, base, blending=factor)


@pytest.mark.parametrize(("dim", "base"), MODELS)
@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.29, 0.3, 0.58, 0.7, 1.0])
def test_proportional(dim: int, base: float, fraction: float) -> None:
    peer = theirs("proportional", dim, base, 4096, {"partial_rotary_factor": fraction, "factor": 8.0})
    assert_agree(Proportional(rotary_fraction=fraction, factor=8), peer, dim, base)
