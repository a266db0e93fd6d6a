"""Rotary positions in a real architecture: decoding with a cache equals one pass."""

import pytest
import torch
from small_llama import logits, one_by_one, small_llama

from locant.positions import Rotary
from locant.positions.scaling import (
    DynamicNTK,
    FrequencyScaling,
    Linear,
    Llama3,
    LongRoPE,
    NTKAware,
    NTKByParts,
    Proportional,
    Unscaled,
    YaRN,
)

pytest.importorskip("transformers")

ORIGINAL = 16
LENGTH = 40
SHORT, LONG = [1.0 + i / 16 for i in range(8)], [1.5 + i / 2 for i in range(8)]
SCALINGS: list[FrequencyScaling] = [
    Unscaled(),
    Linear(factor=4.0),
    YaRN(factor=4.0, original_length=ORIGINAL),
    Llama3(factor=4.0, original_length=ORIGINAL),
    DynamicNTK(original_length=ORIGINAL, factor=2.0, target_length=LENGTH),
    NTKAware(factor=4.0),
    NTKByParts(factor=4.0, original_length=ORIGINAL),
    Proportional(rotary_fraction=0.5),
    DynamicNTK(original_length=ORIGINAL, factor=2.0, length_step=4),
    DynamicNTK(original_length=ORIGINAL),
    LongRoPE(short_factors=tuple(SHORT), long_factors=tuple(LONG), original_length=ORIGINAL, factor=4.0),
]


@pytest.fixture(scope="module")
def ids() -> torch.Tensor:
    return torch.randint(50, (2, LENGTH), generator=torch.Generator().manual_seed(1))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda scaling: repr(scaling)[:60])
@pytest.mark.parametrize("prompt", [3, ORIGINAL - 1, ORIGINAL, ORIGINAL + 5])
def test_decoding_with_a_cache_equals_one_pass(scaling: FrequencyScaling, prompt: int, ids: torch.Tensor) -> None:
    """Across the original length, from prompts that end before, at and after it."""
    model, rope = small_llama({"rope_type": "default"}, max_length=ORIGINAL), Rotary(16, scaling=scaling)
    full = logits(model, rope, ids)
    torch.testing.assert_close(one_by_one(model, rope, ids, prompt), full, atol=1e-4, rtol=0)
    torch.testing.assert_close(logits(model, rope, ids[:, :prompt]), full[:, :prompt], atol=1e-4, rtol=0)
