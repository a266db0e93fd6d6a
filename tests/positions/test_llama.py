"""Rotary positions in a real architecture: equal to Hugging Face where it is right, and cache-safe where not."""

from typing import Any

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
LONGROPE = {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG, "factor": 4.0}
PEERS: list[tuple[str, dict[str, Any], FrequencyScaling]] = [
    ("default", {"rope_type": "default"}, Unscaled()),
    ("linear", {"rope_type": "linear", "factor": 4.0}, Linear(factor=4.0)),
    (
        "yarn",
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL},
        YaRN(factor=4.0, original_length=ORIGINAL),
    ),
    (
        "llama3",
        {
            "rope_type": "llama3",
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": ORIGINAL,
        },
        Llama3(factor=4.0, original_length=ORIGINAL),
    ),
    (
        "dynamic",
        {"rope_type": "dynamic", "factor": 2.0},
        DynamicNTK(original_length=ORIGINAL, factor=2.0, target_length=LENGTH),
    ),
    (
        "longrope",
        {**LONGROPE, "original_max_position_embeddings": ORIGINAL},
        LongRoPE(
            short_factors=tuple(SHORT),
            long_factors=tuple(LONG),
            original_length=ORIGINAL,
            factor=4.0,
            final_length=LENGTH,
        ),
    ),
]
SCALINGS: list[FrequencyScaling] = [
    *(scaling for _, _, scaling in PEERS),
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


@pytest.mark.parametrize(("parameters", "scaling"), [peer[1:] for peer in PEERS], ids=[peer[0] for peer in PEERS])
def test_one_pass_equals_hugging_face(parameters: dict[str, Any], scaling: FrequencyScaling, ids: torch.Tensor) -> None:
    extended = parameters["rope_type"] in ("yarn", "llama3", "longrope")
    model = small_llama(parameters, max_length=4 * ORIGINAL if extended else ORIGINAL)
    with torch.no_grad():
        theirs = model(ids, use_cache=False).logits
    torch.testing.assert_close(logits(model, Rotary(16, scaling=scaling), ids), theirs, atol=1e-4, rtol=0)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda scaling: repr(scaling)[:60])
@pytest.mark.parametrize("prompt", [3, ORIGINAL - 1, ORIGINAL, ORIGINAL + 5])
def test_decoding_with_a_cache_equals_one_pass(scaling: FrequencyScaling, prompt: int, ids: torch.Tensor) -> None:
    """Across the original length, from prompts that end before, at and after it."""
    model, rope = small_llama({"rope_type": "default"}, max_length=ORIGINAL), Rotary(16, scaling=scaling)
    full = logits(model, rope, ids)
    torch.testing.assert_close(one_by_one(model, rope, ids, prompt), full, atol=1e-4, rtol=0)
    torch.testing.assert_close(logits(model, rope, ids[:, :prompt]), full[:, :prompt], atol=1e-4, rtol=0)


@pytest.mark.parametrize("parameters", [peer[1] for peer in PEERS if peer[0] in ("dynamic", "longrope")])
def test_hugging_face_answers_differently_with_a_cache(parameters: dict[str, Any], ids: torch.Tensor) -> None:
    """The known mistake that the tests above are for; when this fails, the peer has been repaired."""
    model = small_llama(parameters, max_length=4 * ORIGINAL if parameters["rope_type"] == "longrope" else ORIGINAL)
    with torch.no_grad():
        full = model(ids, use_cache=False).logits
        state = model(ids[:, : ORIGINAL - 1], use_cache=True).past_key_values
        for i in range(ORIGINAL - 1, LENGTH):
            step = model(ids[:, i : i + 1], past_key_values=state, use_cache=True)
            state = step.past_key_values
    assert (step.logits[:, -1] - full[:, -1]).abs().max() > 0.1
