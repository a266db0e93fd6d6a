"""RoPE-Mixed: every pair turns by both coordinates, with learned frequencies (Heo et al. 2024)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.positions.registry import register_scheme
from locant.positions.rotary.config import RotaryLayout
from locant.positions.rotary.multiaxis import MultiAxisRotary, grid_coordinates
from locant.positions.scaling.checks import check_base
from locant.positions.scheme import AttentionShape, Rotation


@register_scheme("mixed-rotary")
class MixedRotary(MultiAxisRotary):
    """RoPE of two coordinates with learned frequencies, which see diagonals as well as rows and columns.

    Source: Heo et al. 2024, "Rotary Position Embedding for Vision Transformer", section 3.2, equation 14 (RoPE-Mixed);
    in head ``h`` of a layer::

        pair j turns by  y F[0, h, j] + x F[1, h, j]                     at row y and column x

    At first, as in the authors' code, the pairs of a head turn along two axes at right angles, drawn for each head::

        F[:, h, j] = base^(-4j/D) (sin a_h, cos a_h)                     j = 0 .. D/4 - 1
        F[:, h, j + D/4] = base^(-4j/D) (cos a_h, -sin a_h)              a_h uniform from 0 to 2 pi

    A flat position counts through the grid row by row; tokens in another order give their coordinates instead, which
    may be fractions.

    Parameters, of every layer: ``frequencies`` ``F [2, H, D/2]``, in radians per unit of the coordinates.

    Where it acts: on queries and keys of self-attention over images. On text it sees lines of ``grid[1]`` tokens.
    Cross-attention is left alone.

    Precision: angles in float64, whatever the dtype of the frequencies; sines and cosines in float32.

    Args:
        head_dim: Features of one head, ``D``, a multiple of 4.
        num_heads: Number of heads, ``H``.
        base: Base of the first wavelengths.
        grid: Rows and columns; the rows may be exceeded.
        layout: ``half``, or ``interleaved`` as in the authors' code.

    Raises:
        ConfigError: The head cannot be shared, the grid is not two positive sizes, or keys have fewer heads.

    Example:
        >>> MixedRotary(8, 2).frequencies.shape
        torch.Size([2, 2, 4])
    """

    title = "RoPE-Mixed"
    paper = "Heo et al. 2024"
    per_layer: ClassVar[bool] = True

    def __init__(
        self,
        head_dim: int,
        num_heads: int,
        *,
        base: float = 10.0,
        grid: Sequence[int] = (32, 32),
        layout: RotaryLayout = "half",
    ) -> None:
        super().__init__(head_dim, 2, layout)
        if head_dim % 4:
            raise ConfigError(f"RoPE-Mixed needs heads of a multiple of 4 features; got {head_dim}.")
        if len(grid) != 2 or min(grid) < 1:
            raise ConfigError(f"The grid of RoPE-Mixed has two axes of at least one position; got {list(grid)}.")
        check_base(base)
        self.num_heads, self.base, self.grid = num_heads, base, tuple(grid)
        self.frequencies = nn.Parameter(torch.empty(2, num_heads, head_dim // 2))
        self.reset_parameters()

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: object) -> Self:
        """Build the scheme for the heads of a model."""
        _require_heads(shape.num_heads, shape.key_heads or shape.num_heads)
        return cls(shape.head_dim, shape.num_heads, **options)  # type: ignore[arg-type]

    def reset_parameters(self) -> None:
        """Draw the direction of every head again."""
        quarter = self.frequencies.shape[-1] // 2
        turn = 2 * math.pi * torch.rand(self.frequencies.shape[1], 1, device=self.frequencies.device)
        size = self.base ** -(torch.arange(quarter, device=turn.device) / quarter)
        rows = torch.cat((size * turn.sin(), size * turn.cos()), dim=-1)
        columns = torch.cat((size * turn.cos(), size * -turn.sin()), dim=-1)
        with torch.no_grad():
            self.frequencies.copy_(torch.stack((rows, columns)))

    def coordinates(self, positions: Tensor) -> Tensor:
        """Return row and column ``[..., 2]`` of flat positions ``[...]``."""
        return grid_coordinates(positions, self.grid)

    def sine_cosine(self, coordinates: Tensor) -> tuple[Tensor, Tensor]:
        """Return sines and cosines, float32 ``[H, L, n]`` or ``[B, H, L, n]``, of ``[L, 2]`` or ``[B, L, 2]``."""
        row, column = (part[..., None, :, None] for part in coordinates.double().unbind(-1))
        of_rows, of_columns = self.frequencies.double().unsqueeze(-2)
        angles = row * of_rows + column * of_columns
        return angles.sin().float(), angles.cos().float()

    def _turn(self, q_positions: Tensor, k_positions: Tensor | None) -> Rotation:
        turn = super()._turn(q_positions, k_positions)

        def rotation(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
            _require_heads(self.frequencies.shape[1], k.shape[1])
            return turn(q, k)

        return rotation


def _require_heads(queries: int, keys: int) -> None:
    if keys != queries:
        raise ConfigError(
            f"RoPE-Mixed has frequencies of its own for each of {queries} heads of queries, which {keys} heads of keys "
            "cannot share. Give the model as many heads of keys."
        )
