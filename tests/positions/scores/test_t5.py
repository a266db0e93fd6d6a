from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from locant.positions import T5

FAR = torch.arange(-3000, 3001)
# (causal, num_buckets, max_distance): distances that float32 logarithms put into the bucket beside the right one on one
# processor or another, which round their last bit differently.
HUGGING_FACE_IS_OFF = {
    (True, 17, 27): {12, 18},
    (True, 36, 50): {30},
    (True, 48, 81): {36, 54},
    (True, 83, 1000): {796},
    (False, 34, 343): {28, 98},
}


def theirs(causal: bool, buckets: int, distance: int) -> torch.Tensor:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    return t5.T5Attention._relative_position_bucket(
        FAR, bidirectional=not causal, num_buckets=buckets, max_distance=distance
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("buckets", [4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("distance", [100, 128, 256, 512, 1024, 2048])
def test_buckets_equal_to_hugging_face(causal: bool, buckets: int, distance: int) -> None:
    """Also at every border; 32 and 128 are those of the released models."""
    ours = T5(8, 2, causal, num_buckets=buckets, max_distance=distance).buckets(FAR)
    assert torch.equal(ours, theirs(causal, buckets, distance))


@pytest.mark.parametrize(("case", "distances"), HUGGING_FACE_IS_OFF.items())
def test_where_hugging_face_is_off(case: tuple[bool, int, int], distances: set[int]) -> None:
    """Float32 logarithms may miss a border that a distance meets exactly, or nearly; whole numbers decide it."""
    causal, buckets, limit = case
    ours = T5(8, 2, causal, num_buckets=buckets, max_distance=limit).buckets(FAR)
    wrong = set(FAR[ours != theirs(*case)].abs().tolist())
    one_way = buckets if causal else buckets // 2
    exact, steps = one_way // 2, one_way - one_way // 2
    for distance in distances | wrong:
        reached = max(t for t in range(steps) if Fraction(distance, exact) ** steps >= Fraction(limit, exact) ** t)
        assert ours[-distance == FAR].item() == exact + reached


@pytest.mark.parametrize("causal", [False, True])
def test_bias_equal_to_hugging_face(causal: bool) -> None:
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    config = t5.T5Config(d_model=32, num_heads=4, d_kv=8, is_decoder=causal)
    attention = t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    scheme = T5(32, 4, causal)
    scheme.load_state_dict(attention.relative_attention_bias.state_dict())
    q, k = torch.zeros(1, 4, 150, 8), torch.zeros(1, 4, 300, 8)
    # Generation: 150 new queries after 150 tokens in the cache.
    ours = scheme.score_bias(q, k, torch.arange(150, 300), torch.arange(300))
    assert torch.equal(ours, attention.compute_bias(150, 300, past_seen_tokens=150))
