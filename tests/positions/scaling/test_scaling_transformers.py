"""Frequencies and attention scales against Hugging Face's transformers, run live; it computes in float32."""

from __future__ import annotations

import math
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
    Unscaled,
    YaRN,
)

pytest.importorskip("transformers")
from transformers import Gemma3TextConfig, LlamaConfig
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


class TestWhereTransformersDeviatesInYaRN:
    """Each fails when transformers is repaired; docs/results/positions.md and the class's text describe them."""

    def test_a_missing_original_length_is_silently_the_declared_one(self) -> None:
        peer = theirs("yarn", 128, 1e4, 16384, {"factor": 4.0})
        assert_agree(YaRN(original_length=16384, factor=4.0), peer, 128, 1e4, blending=4)
        meant = YaRN(original_length=4096, factor=4.0).frequencies(128, 1e4)
        assert float((peer[0] / torch.tensor([float(f) for f in meant])).max()) > 1.5

    @pytest.mark.parametrize("lone", ["mscale", "mscale_all_dim"])
    def test_a_lone_mscale_is_ignored(self, lone: str) -> None:
        options = {"factor": 40.0, "original_max_position_embeddings": 4096, lone: 0.5}
        _, scale = theirs("yarn", 64, 1e4, 163840, options)
        assert scale == pytest.approx(0.1 * math.log(40) + 1, rel=1e-12)
        # modeling_deepseek.py of DeepSeek-V2: yarn_get_mscale(factor, mscale) over that of mscale_all_dim, each
        # 0.1 * m * ln(factor) + 1, where mscale is 1 and mscale_all_dim 0 unless they are given
        numerator, denominator = (0.5, 0.0) if lone == "mscale" else (1.0, 0.5)
        deepseek = (0.1 * numerator * math.log(40) + 1) / (0.1 * denominator * math.log(40) + 1)
        assert abs(scale - deepseek) > 0.15

    def test_the_ramp_runs_backwards_for_a_very_short_original_length(self) -> None:
        # 4 tokens are less than a turn of the fastest pair, 2 pi
        kept, _ = theirs("yarn", 128, 1e4, 16, {"factor": 4.0, "original_max_position_embeddings": 4})
        unscaled = torch.tensor([float(f) for f in Unscaled().frequencies(128, 1e4)])
        torch.testing.assert_close(kept, unscaled, rtol=1e-6, atol=0)
        # equation 13 of the paper: at most beta_slow = 1 turn, so interpolated; the first pair stands at the corner
        ours = torch.tensor([float(f) for f in YaRN(original_length=4, factor=4.0).frequencies(128, 1e4)])
        torch.testing.assert_close(ours[1:], unscaled[1:] / 4, rtol=1e-6, atol=0)

    def test_truncate_is_not_seen_in_parameters_by_layer_type(self) -> None:
        yarn = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 32.0, "original_max_position_embeddings": 4096}
        found = []
        for truncate in (True, False):
            layers = {"full_attention": yarn | {"truncate": truncate}, "sliding_attention": {"rope_type": "default"}}
            layers["sliding_attention"]["rope_theta"] = 1e4
            config = Gemma3TextConfig(head_dim=64, max_position_embeddings=131072, rope_parameters=layers)
            found.append(ROPE_INIT_FUNCTIONS["yarn"](config, torch.device("cpu"), layer_type="full_attention")[0])
        assert torch.equal(*found)
        exact = YaRN(original_length=4096, factor=32.0, truncate=False).frequencies(64, 1e6)
        assert float((found[1] / torch.tensor([float(f) for f in exact]) - 1).abs().max()) > 0.05
