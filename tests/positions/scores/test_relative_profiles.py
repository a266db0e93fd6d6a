"""Relative profiles against the modules of transformers with the same weights."""

from typing import Any

import pytest
import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.positions import RelativeProfiles

WIDTH, HEADS, PROFILES, LENGTH = 24, 3, 5, 17


def bias_of(scheme: RelativeProfiles, x: Tensor, first: int = 0, last: int = LENGTH) -> Tensor:
    """The bias of the queries from the first to the last, for the keys up to there."""
    q_positions, k_positions = torch.arange(first, last), torch.arange(last)
    q, k = torch.zeros(len(x), HEADS, last - first, 4), torch.zeros(len(x), HEADS, last, 4)
    state = scheme.prepare(x[:, first:last], q_positions)
    found: Any = scheme(q, k, q_positions, k_positions, state=state)
    return found


def require_equal(scheme: RelativeProfiles, x: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(bias_of(scheme, x), expected, rtol=1e-5, atol=1e-5)
    for token in range(LENGTH):
        row = expected[:, :, token : token + 1, : token + 1]
        torch.testing.assert_close(bias_of(scheme, x, token, token + 1), row, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reach", [6, 40])
@pytest.mark.parametrize("grows", [True, False])
def test_against_inkling_2(reach: int, grows: bool) -> None:
    inkling = pytest.importorskip("transformers.models.inkling2.modeling_inkling2")
    # Far positions begin at the third token; half of the vectors are clipped.
    config = inkling.Inkling2TextConfig(
        hidden_size=WIDTH, d_rel=PROFILES, rel_l2_clip_threshold=2.0, log_scaling_n_floor=3, log_scaling_alpha=0.3
    )
    theirs = inkling.Inkling2RelativePositionBias(config, HEADS, reach, log_scaling=grows)
    grown = {"grows_from": 3, "growth": 0.3} if grows else {}
    scheme, x = (
        RelativeProfiles(WIDTH, HEADS, profiles=PROFILES, reach=reach, clip=2.0, **grown),
        torch.randn(2, LENGTH, WIDTH, generator=torch.Generator().manual_seed(0)),
    )
    with torch.no_grad():
        for ours, own in (
            (scheme.weight, theirs.linear.weight),
            (scheme.profiles, theirs.proj),
            (scheme.scale, theirs.norm.scale),
        ):
            assert ours is not None
            own.copy_(ours.copy_(torch.randn(ours.shape) * (1.0 if own is theirs.proj else 0.3)))
        positions = torch.arange(LENGTH)
        expected = theirs(x, positions[:, None] - positions, positions[None])
        assert expected.any()
        require_equal(scheme, x, expected)


@pytest.mark.parametrize("reach", [6, 40])
@pytest.mark.parametrize("floor", [None, 3])
def test_against_inkling(reach: int, floor: int | None) -> None:
    """The bias that a layer of Inkling hands to attention."""
    inkling = pytest.importorskip("transformers.models.inkling.modeling_inkling")
    sizes = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": 4}
    sizes |= {"num_hidden_layers": 1, "d_rel": PROFILES, "rel_extent": reach}
    config = inkling.InklingTextConfig(**sizes, layer_types=["hybrid"], log_scaling_n_floor=floor)
    config._attn_implementation = "watched"
    seen: list[Tensor] = []

    def watched(module: Any, query: Tensor, *_: Any, position_bias: Tensor, **__: Any) -> tuple[Tensor, None]:
        seen.append(position_bias)
        return query.transpose(1, 2), None

    layer = inkling.InklingAttention(config, 0)
    inkling.ALL_ATTENTION_FUNCTIONS.register("watched", watched)
    scheme = RelativeProfiles(WIDTH, HEADS, profiles=PROFILES, reach=reach, grows_from=floor)
    x = torch.randn(2, LENGTH, WIDTH)
    with torch.no_grad():
        layer.r_proj.weight.copy_(torch.nn.init.normal_(scheme.weight))
        layer.rel_logits_proj.proj.copy_(torch.nn.init.normal_(scheme.profiles))
        layer(x, None)
        require_equal(scheme, x, seen[0])


def test_mistakes() -> None:
    for wrong in ({"profiles": 0}, {"reach": 0}, {"clip": -1.0}, {"grows_from": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            RelativeProfiles(WIDTH, HEADS, **wrong)  # type: ignore[arg-type]
