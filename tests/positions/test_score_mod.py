"""Biases and masks as FlexAttention takes them, against the biases and masks written out."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from locant.errors import DataError
from locant.positions import SCHEMES, AttentionShape, Mask, PositionScheme, ScoreMod, attend, build_scheme, score_mod

OPTIONS: dict[str, dict[str, Any]] = {
    "self-extend": {"group": 2, "window": 4},
    "rerope": {"window": 4},
    "shaw": {"max_distance": 3},
    "t5": {"num_buckets": 8, "max_distance": 9},
    "randomised": {"scheme": "kerple"},
}
QUERIES, KEYS = torch.arange(5, 12), torch.arange(12)
PACKED = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4], [0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8]])


def lively(name: str, **options: Any) -> PositionScheme:
    torch.manual_seed(0)
    scheme = build_scheme(name, AttentionShape(32, 4, causal=True), OPTIONS.get(name, {}) | options)
    for parameter in scheme.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return scheme.eval().requires_grad_(False)


def heads(length: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(2, 4, length, 8, generator=torch.Generator().manual_seed(seed)).to(dtype)


def added(function: ScoreMod | None, queries: int, keys: int) -> Tensor:
    """What a function for FlexAttention adds to scores of zero, of every pair ``[2, 4, Q, K]``."""
    scores = torch.zeros(2, 4, queries, keys)
    if function is None:
        return scores
    sizes = torch.meshgrid(*(torch.arange(size) for size in scores.shape), indexing="ij")
    return function(scores, *sizes)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equal_to_the_bias(name: str, dtype: torch.dtype) -> None:
    scheme = lively(name)
    q, k = heads(7, 1, dtype), heads(12, 2, dtype)
    for q_positions, k_positions in (
        (QUERIES, KEYS),
        (PACKED[:, 5:], PACKED),
        (QUERIES, PACKED),
        (KEYS[5:] * 9, KEYS * 9),
    ):
        state = scheme.prepare(torch.randn(2, 12, 32), KEYS)
        state = None if state is None else state.part(slice(5, 12), slice(None))
        read = scheme.state_for("score_bias", state)
        bias = scheme.score_bias(q, k, q_positions, k_positions, *read)
        expected = torch.zeros(2, 4, 7, 12) if bias is None else bias.float().expand(2, 4, 7, 12)
        found = added(score_mod(scheme, q, k, q_positions, k_positions, state=state), 7, 12).float()
        torch.testing.assert_close(found, expected, rtol=1e-5 if dtype == torch.float32 else 8e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["alibi", "t5", "kerple", "sandwich", "fire", "shaw"])
def test_a_known_length_changes_no_pair_that_is_seen(name: str) -> None:
    scheme, q = lively(name), heads(12, 1)
    packed = PACKED[:1].expand(2, -1)
    together = Mask.packed(packed).keys
    assert together is not None
    found = added(score_mod(scheme, q, q, packed, max_length=7), 12, 12)
    expected = scheme.score_bias(q, q, packed, packed)
    assert expected is not None
    seen = together.expand(2, 4, 12, 12)
    torch.testing.assert_close(found[seen], expected.expand(2, 4, 12, 12)[seen], rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("name", ["alibi", "fire", "shaw", "deberta", "transformer-xl"])
@pytest.mark.parametrize(
    "mask", [Mask(causal=True), Mask(), Mask.packed(PACKED), Mask(True, PACKED[:, None, None] < 6)]
)
def test_flex_attention(name: str, mask: Mask) -> None:
    torch.compiler.reset()  # what other tests have traced
    scheme = lively(name)
    q, k, v = (heads(12, seed) for seed in range(3))
    turned = scheme.rotate(q, k, PACKED, PACKED)
    expected = attend(*turned, v, mask, scheme.score_bias(q, k, PACKED, PACKED))
    blocks = create_block_mask(mask.mask_mod(12, 12), 2, None, 12, 12, device="cpu")
    found = flex_attention(*turned, v, score_mod=score_mod(scheme, q, k, PACKED), block_mask=blocks)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_packed_texts_see_themselves() -> None:
    by_position = Mask.packed(torch.tensor([[0, 1, 0], [0, 0, 1]]))
    by_text = Mask.packed(texts=torch.tensor([[7, 7, 3], [0, 5, 5]]))
    for mask in (by_position, by_text):
        assert mask.causal
        assert mask.keys is not None
        assert mask.keys[:, 0].int().tolist() == [[[1, 1, 0], [1, 1, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 1], [0, 1, 1]]]
    positions = torch.arange(3)
    for wrong in ({"positions": torch.zeros(2, 3, 3).long()}, {}, {"positions": positions, "texts": positions}):
        with pytest.raises(DataError):
            Mask.packed(**wrong)
