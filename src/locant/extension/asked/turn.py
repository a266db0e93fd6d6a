"""A rotation measured on queries and keys: which features it turns, how they are paired, and by how much a token."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from locant.extension.asked.weightless import Labelled
from locant.positions.rotary.config import RotaryLayout
from locant.positions.rotary.rotation import layout_order

_MOVES = 2e-6  # of the vector's length; rounding in float32 is a tenth of it
_FITS = 3e-4  # angles of some thousand radians are rounded to this


@dataclass(frozen=True)
class Turn:
    """What a layer does to its queries and keys.

    Attributes:
        head_dim: Features of a query.
        first: The first rotated feature.
        rotary_dim: Number of rotated features from there on; those of pairs that do not turn may be missing.
        layout: How these are paired; ``None`` where they are moved, but not by a rotation of halves or of neighbours.
        frequencies: Radians a token of each pair, between -pi and pi.
        precisions: Largest error of each of them in radians a token.
    """

    head_dim: int
    first: int
    rotary_dim: int
    layout: RotaryLayout | None
    frequencies: tuple[float, ...] = ()
    precisions: tuple[float, ...] = ()

    def backwards(self) -> Turn:
        """Return the turn by minus the angles."""
        return replace(self, frequencies=tuple(-each for each in self.frequencies))


def measure_turn(vectors: Tensor) -> Turn | None:
    """Find the rotation that makes queries or keys of one content differ by position.

    Args:
        vectors: The same queries (or keys) at positions 0, 1, 2 ..., floating point, ``[H, L, D]``.

    Returns:
        The rotation, or ``None`` where all vectors are the same.

    Example:
        >>> angles = 0.25 * torch.arange(8.0)
        >>> found = measure_turn(torch.stack([angles.cos(), angles.sin()], -1)[None])
        >>> found.layout, [round(f, 6) for f in found.frequencies]
        ('half', [0.25])
    """
    vectors = vectors.double()
    sizes = vectors.norm(dim=-1, keepdim=True).clamp_min(1e-30)
    features = (((vectors - vectors[:, :1]).abs() / sizes).amax((0, 1)) > _MOVES).nonzero().flatten().tolist()
    if not features:
        return None
    width, first, stop = vectors.shape[-1], features[0], features[-1] + 1
    even = first - first % 2
    tried: list[tuple[RotaryLayout, int, int]] = [("half", first, stop - first), ("half", 0, width)]
    tried.append(("interleaved", even, stop + (stop - even) % 2 - even))
    # The last pairs may not turn.
    tried += [("half", first, count) for count in range(stop - first, width - first + 1)]
    for layout, start, count in tried:
        block = vectors[..., start : start + count]
        if count % 2 == 0 and (fitted := _fit(*_pairs(block, layout))) is not None:
            return Turn(width, start, count, layout, *fitted)
    return Turn(width, first, stop - first, None)


def _pairs(block: Tensor, layout: RotaryLayout) -> tuple[Tensor, Tensor]:
    return (block[..., 0::2], block[..., 1::2]) if layout == "interleaved" else block.tensor_split(2, -1)  # type: ignore[return-value]


def _fit(real: Tensor, imaginary: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return frequencies and their precisions, ``None`` where the pairs do not turn evenly with the position."""
    pairs = torch.complex(real.contiguous(), imaginary.contiguous())
    phases, length = (pairs * pairs[:, :1].conj()).sum(0).angle(), pairs.shape[1]
    frequencies = phases[1]
    for position in range(2, length):  # each longer distance refines what the shorter ones allow
        turns = ((frequencies * position - phases[position]) / (2 * torch.pi)).round()
        frequencies = (phases[position] + 2 * torch.pi * turns) / position
    angles = torch.arange(length, dtype=torch.float64)[:, None] * frequencies
    turned = pairs[:, :1] * torch.polar(torch.ones_like(angles), angles)
    if ((turned - pairs).abs() / pairs.norm(dim=-1, keepdim=True).clamp_min(1e-30)).max() > _FITS:
        return None
    weight = pairs[:, 0].norm(dim=0) / pairs[:, 0].norm()
    noise = 4e-7 / weight.clamp_min(1e-6) / (length - 1)
    return tuple(frequencies.tolist()), tuple((noise + 1e-6 * frequencies.abs()).tolist())


def origins(
    block: Tensor, layout: RotaryLayout, labels: Iterable[Labelled]
) -> Iterator[tuple[Labelled, int, RotaryLayout]]:
    """Yield where the rotated features of a head come from, the last operation first, down to a matrix.

    Args:
        block: The features at position 0, where nothing is turned, ``[rotary_dim]``.
        layout: How the class pairs them there.
        labels: Numbers in the attention of the layer, in the order of the operations.

    Yields:
        Numbers that they are, but for a factor and a mean; the place of the first of them; how they are paired there,
        before the class reorders them.
    """
    wanted, count = block.double() - block[0], len(block)
    features = sorted({1, *range(2, count - 1, max(1, count // 8)), count - 1})
    for labelled in reversed(list(labels)):
        numbers = labelled.numbers.double()
        for before in dict.fromkeys((layout, "half", "interleaved")) if len(numbers) >= count else ():
            order = layout_order(count, source=before, target=layout)
            starts = torch.arange(len(numbers) - count + 1)
            for feature in features:  # differences of all features are in proportion
                span, part = (numbers[starts + order[k]] - numbers[starts + order[0]] for k in (count - 1, feature))
                part, whole = part * wanted[-1], span * wanted[feature]
                starts = starts[(part - whole).abs() <= 1e-4 * (part.abs() + span.abs())]
            for start in starts.tolist():
                found = numbers[start + order] - numbers[start + order[0]]
                if (found * wanted[-1] / found[-1] - wanted).abs().amax() <= 2e-4 * block.abs().amax():
                    yield labelled, start, before
                    if labelled.is_product:
                        return
