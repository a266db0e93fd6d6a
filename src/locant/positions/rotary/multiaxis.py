"""Rotary embeddings of several coordinates: axial (grids of two or three dimensions) and M-RoPE."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Self, cast

import torch
from torch import Tensor

from locant.errors import ConfigError, DataError
from locant.positions.angles import Frequencies
from locant.positions.exact import geometric_frequencies
from locant.positions.registry import register_scheme
from locant.positions.rotary.config import RotaryLayout
from locant.positions.rotary.rotation import RotaryAngles, apply_rotation
from locant.positions.scheme import AttentionShape, PositionScheme, Rotation, describes, require_choice


class MultiAxisRotary(PositionScheme):
    """RoPE of tokens with several coordinates.

    Args:
        head_dim: Features of one head.
        axes: Number of coordinates.
        layout: Which features form a pair.
    """

    traceable = True

    def __init__(self, head_dim: int, axes: int, layout: RotaryLayout) -> None:
        super().__init__()
        require_choice("layout", layout, ("half", "interleaved"))
        self.head_dim, self.axes = head_dim, axes
        self.layout: RotaryLayout = layout

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the heads of a model."""
        return cls(shape.head_dim, **options)

    def coordinates(self, positions: Tensor) -> Tensor:
        """Return the coordinates ``[..., A]`` of integer positions ``[...]`` in running text."""
        raise NotImplementedError

    def sine_cosine(self, coordinates: Tensor) -> tuple[Tensor, Tensor]:
        """Return sines and cosines of coordinates ``[L, A]`` or ``[B, L, A]``, to broadcast with ``[B, H, L, n]``."""
        raise NotImplementedError

    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys.

        Args:
            q: Queries ``[B, H, Q, D]``.
            k: Keys ``[B, H, K, D]``.
            q_positions: Integer positions ``[Q]`` or ``[B, Q]``, or coordinates ``[B, Q, A]``.
            k_positions: Integer positions ``[K]`` or ``[B, K]``, or coordinates ``[B, K, A]``.

        Returns:
            Queries and keys of the same shapes and dtypes.
        """
        # Not by `rotation`: in a class that overrides this method, that one calls it.
        return self._turn(q_positions, None if k_positions is q_positions else k_positions)(q, k)

    @describes("rotate")
    def rotation(self, q_positions: Tensor, k_positions: Tensor | None = None) -> Rotation:
        """Return the rotation by the angles of these positions; as :meth:`PositionScheme.rotation`."""
        return self._turn(q_positions, k_positions)

    def _turn(self, q_positions: Tensor, k_positions: Tensor | None) -> Rotation:
        angles = self._angles(q_positions)
        if k_positions is None:
            return lambda q, k: cast(tuple[Tensor, Tensor], apply_rotation((q, k), angles))
        of_keys = self._angles(k_positions)
        return lambda q, k: (apply_rotation((q,), angles)[0], apply_rotation((k,), of_keys)[0])

    def _angles(self, positions: Tensor) -> RotaryAngles:
        coordinates = positions if positions.dim() == 3 else self.coordinates(positions)
        if coordinates.shape[-1] != self.axes:
            raise DataError(
                f"Coordinates need {self.axes} numbers a token, for the shape [B, L, {self.axes}]; "
                f"got {list(positions.shape)}."
            )
        sine, cosine = self.sine_cosine(coordinates)
        return RotaryAngles(cosine, sine, self.layout)


class _OneAxisForEachPair(MultiAxisRotary):
    """RoPE in which every pair turns by one of several coordinates.

    Args:
        head_dim: Features of one head.
        frequencies: Radians per unit of the pairs' coordinates.
        axis_of_pair: Which coordinate each pair turns by.
        layout: Which features form a pair.
    """

    def __init__(
        self, head_dim: int, frequencies: Sequence[Decimal], axis_of_pair: Sequence[int], layout: RotaryLayout
    ) -> None:
        super().__init__(head_dim, max(axis_of_pair) + 1, layout)
        self.frequencies = Frequencies(frequencies)
        self.axis_of_pair = tuple(axis_of_pair)

    def sine_cosine(self, coordinates: Tensor) -> tuple[Tensor, Tensor]:
        """Return sines and cosines as :meth:`MultiAxisRotary.sine_cosine`, those of a pair by its own coordinate."""
        axis = torch.tensor(self.axis_of_pair, device=coordinates.device)
        sine, cosine = self.frequencies.sine_cosine(coordinates.index_select(-1, axis), each=True)
        return (sine.unsqueeze(1), cosine.unsqueeze(1)) if sine.dim() == 3 else (sine, cosine)


def grid_coordinates(positions: Tensor, grid: Sequence[int]) -> Tensor:
    """Return the coordinates ``[..., A]`` of flat positions ``[...]`` in a grid of ``A`` axes, the last the fastest.

    The first axis may be exceeded.
    """
    steps = [torch.div(positions, math.prod(grid[axis + 1 :]), rounding_mode="floor") for axis in range(len(grid))]
    return torch.stack([steps[0], *(s % size for s, size in zip(steps[1:], grid[1:], strict=True))], dim=-1)


@register_scheme("axial-rotary")
class AxialRotary(_OneAxisForEachPair):
    """RoPE on a grid: the pairs are shared out between the axes, each with frequencies of its own.

    Source: Heo et al. 2024, "Rotary Position Embedding for Vision Transformer", section 3.2 (RoPE-Axial); the first
    pairs of a head turn by the first coordinate, and so on::

        pair j of axis a turns by  c_a * base^(-2j / D_a)        j = 0 .. D_a / 2 - 1

    with ``D_a`` features of axis ``a``: ``D / A`` of each in the paper, other shares in models of video.
    Coordinates may be fractions, such as -1 to 1.

    A flat position counts through the grid row by row, the last axis fastest; tokens in another order give their
    coordinates instead.

    Where it acts: on queries and keys of self-attention over images, volumes or tables. On text it sees lines of
    ``grid[-1]`` tokens. Cross-attention is left alone.

    Args:
        head_dim: Features of one head, ``D``; a multiple of twice the number of axes unless ``sections`` says more.
        base: Base of the wavelengths; vision models often use 100.
        grid: Sizes of the axes, the slowest first; the first may be exceeded.
        sections: Pairs of each axis, together ``D / 2``, such as 8, 28 and 28; even shares when ``None``.
        layout: ``half`` or ``interleaved``.

    Raises:
        ConfigError: The axes do not share the pairs evenly, ``sections`` are not those of the axes, or the grid is not
            two or three positive sizes.

    Example:
        >>> import torch
        >>> AxialRotary(8, grid=[4, 16]).coordinates(torch.tensor([0, 17, 33])).tolist()
        [[0, 0], [1, 1], [2, 1]]
    """

    title = "Axial RoPE"
    paper = "Heo et al. 2024"

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10000.0,
        grid: Sequence[int] = (32, 32),
        sections: Sequence[int] | None = None,
        layout: RotaryLayout = "half",
    ) -> None:
        sizes = tuple(grid)
        if len(sizes) not in (2, 3) or min(sizes) < 1:
            raise ConfigError(f"A grid has two or three axes of at least one position; got {list(sizes)}.")
        share, rest = divmod(head_dim, 2 * len(sizes))
        if sections is None and (rest or not share):
            raise ConfigError(
                f"{len(sizes)} axes cannot share {head_dim} features evenly in pairs. Use heads of a multiple of "
                f"{2 * len(sizes)} features, or say in sections how many pairs each axis has."
            )
        pairs = [share] * len(sizes) if sections is None else list(sections)
        if len(pairs) != len(sizes) or 2 * sum(pairs) != head_dim or min(pairs) < 1:
            raise ConfigError(
                f"The sections of {len(sizes)} axes must add up to the {head_dim / 2:g} pairs of a head of {head_dim} "
                f"features; got {pairs}."
            )
        frequencies = [radians for count in pairs for radians in geometric_frequencies(count, base)]
        super().__init__(head_dim, frequencies, [axis for axis, n in enumerate(pairs) for _ in range(n)], layout)
        self.base = base
        self.grid = sizes

    def coordinates(self, positions: Tensor) -> Tensor:
        """Return the coordinates ``[..., A]`` of flat positions ``[...]``."""
        return grid_coordinates(positions, self.grid)


@register_scheme("multimodal-rotary")
class MultimodalRotary(_OneAxisForEachPair):
    """M-RoPE: the pairs of one head are shared between time, height and width.

    Source: Wang et al. 2024, "Qwen2-VL", section 2.1. The frequencies are those of plain RoPE; ``sections`` says how
    many pairs turn by each coordinate. A text token has the same number in all three, which makes it plain RoPE::

        pair i turns by  c_axis(i) * base^(-2i/D)

    Where it acts: on queries and keys of a decoder's self-attention over text, images and video. Flat positions are
    text; tokens of an image give coordinates ``[B, L, 3]``, see :func:`multimodal_coordinates`.

    Args:
        head_dim: Features of one head, ``D``.
        base: Base of the wavelengths.
        sections: Pairs of time, height and width, together ``D / 2``; 1/4, 3/8 and 3/8 of them when ``None``, which
            is Qwen2-VL's 16, 24 and 24 at ``D = 128``.
        layout: ``half`` or ``interleaved``: which features form a pair.
        interleave_axes: Whether the coordinates alternate from pair to pair (as in Qwen3-VL) instead of standing in
            sections one after the other.

    Raises:
        ConfigError: The sections do not add up to ``D / 2``.

    Example:
        >>> import torch
        >>> MultimodalRotary(16).axis_of_pair
        (0, 0, 1, 1, 1, 2, 2, 2)
    """

    title = "M-RoPE"
    paper = "Wang et al. 2024"

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10000.0,
        sections: Sequence[int] | None = None,
        layout: RotaryLayout = "half",
        interleave_axes: bool = False,
    ) -> None:
        pairs = head_dim // 2
        if sections is None:
            rest = pairs - pairs // 4
            sections = (pairs // 4, rest // 2, rest - rest // 2)
        if head_dim % 2 or sum(sections) != pairs or min(sections) < 0 or len(sections) != 3:
            raise ConfigError(
                f"The three sections must add up to the {head_dim / 2:g} pairs of a head of {head_dim} features; "
                f"got {list(sections)}."
            )
        axes = (
            _alternating(sections) if interleave_axes else [a for a, count in enumerate(sections) for _ in range(count)]
        )
        super().__init__(head_dim, geometric_frequencies(pairs, base), axes, layout)
        self.axes = 3
        self.base = base
        self.sections = tuple(sections)

    def coordinates(self, positions: Tensor) -> Tensor:
        """Return the coordinates ``[..., 3]`` of text: the position, three times."""
        return positions.unsqueeze(-1).expand(*positions.shape, 3)


def multimodal_coordinates(is_image: Tensor, grids: Sequence[Sequence[int]], *, texts: Tensor | None = None) -> Tensor:
    """Return the coordinates of M-RoPE in rows of text with images, each of which may pack several texts.

    Tokens of text have one number in all three coordinates; an image begins at the number that text would go on with,
    and counts time, rows and columns from there. What follows goes on after its largest coordinate (Wang et al. 2024,
    section 2.1). Every text of a row begins at 0, as it would alone.

    Args:
        is_image: True where a token is of an image, ``[L]`` or ``[B, L]``; an image's tokens are in row order.
        grids: Time, rows and columns of every image in tokens, in the order of the tokens; time is 1 but for videos.
        texts: A number for each token, the same for those of one text, as :meth:`locant.positions.Mask.packed` takes
            them; without them a row is one text.

    Returns:
        Int64 ``[B, L, 3]``, one row for ``[L]``.

    Raises:
        DataError: Images and their tokens do not fit, or there is no number for each token.

    Example:
        >>> import torch
        >>> is_image = torch.tensor([False, True, True, True, True, False, False])
        >>> multimodal_coordinates(is_image, [(1, 2, 2)], texts=torch.tensor([0, 0, 0, 0, 0, 0, 1]))[0].T
        tensor([[0, 1, 1, 1, 1, 3, 0],
                [0, 1, 1, 2, 2, 3, 0],
                [0, 1, 2, 1, 2, 3, 0]])
    """
    rows = is_image if is_image.dim() == 2 else is_image.unsqueeze(0)
    numbers = torch.zeros_like(rows, dtype=torch.long) if texts is None else texts.expand(rows.shape)
    waiting, found = list(grids), list[Tensor]()
    for row, of_text in zip(rows.cpu(), numbers.cpu(), strict=True):
        both = torch.stack((of_text, row.long()), dim=-1)
        runs, counts = torch.unique_consecutive(both, dim=0, return_counts=True)
        start, text = 0, None
        for (number, image), count in zip(runs.tolist(), counts.tolist(), strict=True):
            start, text = (start if number == text else 0), number
            while count > 0:
                if image and not waiting:
                    raise DataError(f"{count} tokens of images are left after the last of the grids.")
                grid = waiting.pop(0) if image else (count,) * 3
                axes = [torch.arange(size) for size in grid]
                placed = torch.cartesian_prod(*axes) if image else torch.stack(axes, dim=-1)
                found.append(placed + start)
                start, count = start + max(grid), count - len(placed)
            if count < 0:
                raise DataError(f"An image of the grid {list(grid)} has more tokens than are adjacent in its text.")
    if waiting:
        raise DataError(f"There are no tokens for the last {len(waiting)} of {len(grids)} images.")
    return torch.cat(found).view(*rows.shape, 3).to(rows.device) if found else torch.zeros(*rows.shape, 3).long()


def _alternating(sections: Sequence[int]) -> list[int]:
    """Return axes that alternate time, height, width; the pairs that height and width leave over turn by time."""
    axes = [0] * sum(sections)
    for axis in (1, 2):
        for pair in range(axis, min(3 * sections[axis], len(axes)), 3):
            axes[pair] = axis
    return axes
