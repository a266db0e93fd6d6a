"""A rotation measured on queries and keys: which features it turns, how they are paired, and by how much a token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from locant.positions.rotary.config import RotaryLayout

_MOVES = 2e-6  # of the vector's length; rounding in float32 is a tenth of it
_FITS = 3e-4  # angles of some thousand radians are rounded to this


@dataclass(frozen=True)
class MeasuredRotation:
    """What a layer does to its queries and keys.

    Attributes:
        head_dim: Features of a query.
        first: The first rotated feature.
        rotary_dim: Number of rotated features from there on; those of pairs that stand still may be missing.
        layout: How these are paired; ``None`` where they are moved, but not by a rotation of halves or of neighbours.
        frequencies: Radians a token of each pair, negative where it turns backwards; precise to about 1e-6 where a pair
            has turned by a radian within the positions, otherwise to the rounding of float32.
        precisions: Largest error of each of them in radians a token.
    """

    head_dim: int
    first: int
    rotary_dim: int
    layout: RotaryLayout | None
    frequencies: tuple[float, ...] = ()
    precisions: tuple[float, ...] = ()


def measure_rotation(vectors: Tensor, positions: Sequence[int]) -> MeasuredRotation | None:
    """Find the rotation that makes queries or keys of one content differ by position.

    Args:
        vectors: The same queries (or keys) at several positions, floating point, ``[H, L, D]``.
        positions: Their positions in tokens, ``L`` rising numbers from 0, 1 on.

    Returns:
        The rotation, or ``None`` where all vectors are the same.

    Example:
        >>> angles = 0.25 * torch.tensor([0.0, 1.0, 7.0])
        >>> turned = torch.stack([angles.cos(), angles.sin()], -1)[None]
        >>> found = measure_rotation(turned, [0, 1, 7])
        >>> found.layout, [round(f, 6) for f in found.frequencies]
        ('half', [0.25])
    """
    vectors = vectors.double()
    sizes = vectors.norm(dim=-1, keepdim=True).clamp_min(1e-30)
    moved = ((vectors - vectors[:, :1]).abs() / sizes).amax((0, 1)) > _MOVES
    if not moved.any():
        return None
    width = vectors.shape[-1]
    features = moved.nonzero().flatten().tolist()
    first, stop = features[0], features[-1] + 1
    for layout, start, count in _candidates(first, stop, width):
        block = vectors[..., start : start + count]
        parts = block.chunk(2, -1) if layout == "half" else (block[..., 0::2], block[..., 1::2])
        fitted = _fit(torch.complex(parts[0].contiguous(), parts[1].contiguous()), positions)
        if fitted is not None:
            return MeasuredRotation(width, start, count, layout, *fitted)
    return MeasuredRotation(width, first, stop - first, None)


def _candidates(first: int, stop: int, width: int) -> Iterator[tuple[RotaryLayout, int, int]]:
    if (stop - first) % 2 == 0:
        yield "half", first, stop - first
    if width % 2 == 0:
        yield "half", 0, width
    start = first - first % 2
    yield "interleaved", start, stop + (stop - start) % 2 - start
    # The last pairs of a part of the head may stand still.
    for count in range(stop - first, width - first + 1):
        if count % 2 == 0:
            yield "half", first, count


def _fit(pairs: Tensor, positions: Sequence[int]) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return frequencies and their precisions, ``None`` where the pairs do not turn evenly with the position.

    Args:
        pairs: Complex numbers, ``[H, L, P]``.
        positions: Positions in tokens.
    """
    phases = (pairs * pairs[:, :1].conj()).sum(0).angle()
    frequencies = torch.zeros(pairs.shape[-1], dtype=torch.float64)
    # Each longer distance refines what the shorter ones allow.
    for index, position in list(enumerate(positions))[1:]:
        expected = frequencies * position
        turns = ((expected - phases[index]) / (2 * torch.pi)).round()
        frequencies = (phases[index] + 2 * torch.pi * turns) / position
    at = torch.tensor(positions, dtype=torch.float64)[:, None]
    turned = pairs[:, :1] * torch.polar(torch.ones_like(at * frequencies), at * frequencies)
    sizes = pairs.abs().square().sum(-1, keepdim=True).sqrt().clamp_min(1e-30)
    if ((turned - pairs).abs() / sizes).max() > _FITS:
        return None
    weight = pairs[:, 0].abs().square().sum(0).sqrt() / pairs[:, 0].abs().square().sum().sqrt()
    noise = 4e-7 / weight.clamp_min(1e-6) / positions[-1]
    precisions = noise + 1e-6 * frequencies.abs()
    return tuple(frequencies.tolist()), tuple(precisions.tolist())
