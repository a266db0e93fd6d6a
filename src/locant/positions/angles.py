"""Exact angles: sine and cosine of ``position * frequency`` for every integer position up to 2^31.

A product of floats loses what it needs most: at position ``p`` a float32 angle is wrong by ``p * 2^-24`` radians and a
float64 one by ``p * 2^-53``, which at 2^31 is ten times what float32 tables can show. Only the fraction of a turn
matters, so a frequency is kept as a 64-bit fraction of a turn per token; the product with a position, in integers that
wrap around at a full turn, is then exact, and the angle is right to ``2^31 * 2^-65`` turns, 4e-10 radians.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext
from typing import Any

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.positions.exact import EXACT, TWO_PI

_TURN = 1 << 64
_RADIANS_PER_STEP = float(TWO_PI / _TURN)

# Rows kept in a table; positions beyond it are computed when they occur, so one far position costs one row.
_MAX_TABLE_ROWS = 1 << 16
_BLOCK = 512


def require_integer(positions: Tensor) -> None:
    """Raise ConfigError unless ``positions`` is an integer tensor."""
    if positions.is_floating_point() or positions.is_complex() or positions.dtype == torch.bool:
        raise ConfigError(
            f"These positions count whole tokens, so that they must be integers; their dtype is {positions.dtype}. "
            "Fractions are taken by rotary and sinusoidal positions, whose formulas have a value there."
        )


def extent(positions: Tensor) -> tuple[int, int]:
    """Return the smallest and the largest of at least one integer position, read together from a device."""
    low, high = torch.stack(positions.aminmax()).tolist()
    return low, high


def is_run(positions: Tensor) -> bool:
    """Whether positions are ``n, n + 1, n + 2, ...`` for all rows of a batch."""
    return positions.dim() == 1 and positions.numel() > 0 and bool((positions.long().diff() == 1).all())


class Frequencies:
    """Angular frequencies of some pairs of features, each exact to 2^-65 of a turn.

    Args:
        radians: The frequencies in radians per token; :class:`decimal.Decimal` for exactness.

    Example:
        >>> import torch
        >>> from locant.positions import geometric_frequencies
        >>> sine, cosine = Frequencies(geometric_frequencies(2, 10000.0)).sine_cosine(torch.tensor([2_000_000_000]))
        >>> sine.tolist()  # doctest: +ELLIPSIS
        [[0.914710..., -0.763101...]]
    """

    def __init__(self, radians: Sequence[Decimal]) -> None:
        self.radians = tuple(radians)
        with localcontext(EXACT):
            self._steps = [_signed(int((f / TWO_PI * _TURN).to_integral_value())) for f in self.radians]
        self._on_device: dict[torch.device, Tensor] = {}

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.radians)

    def angles(self, positions: Tensor, *, each: bool = False) -> Tensor:
        """Return the angles in radians, reduced to -pi .. pi.

        Args:
            positions: Positions ``[...]``, at most 2^31 in size: integers, or fractions (seconds, steps of diffusion,
                coordinates from -1 to 1) in a float format that holds them.
            each: Whether ``positions`` has the shape ``[..., n]`` already, with one position for every pair.

        Returns:
            Float64 ``[..., n]``.
        """
        if not each:
            positions = positions.unsqueeze(-1)
        if positions.is_floating_point():
            whole = positions.to(torch.float64).floor()
            steps = self._steps_on(positions.device).to(torch.float64)  # of half a turn at most
            return self.angles(whole.to(torch.int64), each=True) + (positions - whole) * steps * _RADIANS_PER_STEP
        require_integer(positions)
        # The product wraps around at a full turn, which is what makes it exact.
        return (positions.to(torch.int64) * self._steps_on(positions.device)).to(torch.float64) * _RADIANS_PER_STEP

    def _steps_on(self, device: torch.device) -> Tensor:
        """Return the fractions of a turn on a device; copied there once, except under ``torch.compile``."""
        if torch.compiler.is_compiling():
            return torch.tensor(self._steps, dtype=torch.int64, device=device)
        if device not in self._on_device:
            with torch.inference_mode(mode=False):
                self._on_device[device] = torch.tensor(self._steps, dtype=torch.int64, device=device)
        return self._on_device[device]

    def sine_cosine(self, positions: Tensor, *, each: bool = False) -> tuple[Tensor, Tensor]:
        """Return sine and cosine of the angles, float32 ``[..., n]``, each within 3.1e-8 of the exact value.

        Args:
            positions: As for :meth:`angles`.
            each: As for :meth:`angles`.
        """
        if not each and _is_long_run(positions):
            parts = list(self._of_run(int(positions[0]), len(positions)))
            return torch.cat([sine for sine, _ in parts]), torch.cat([cosine for _, cosine in parts])
        angles = self.angles(positions, each=each)
        return angles.sin().to(torch.float32), angles.cos().to(torch.float32)

    def _of_run(self, start: int, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield sine and cosine of consecutive positions: those of a block, turned by the angle of its first."""
        within = self.angles(torch.arange(min(_BLOCK, count), device="cpu"))
        block = torch.polar(torch.ones_like(within), within)
        first = self.angles(torch.arange(start, start + count, _BLOCK, device="cpu"))
        for row, turn in enumerate(torch.polar(torch.ones_like(first), first)):
            turned = block[: count - row * _BLOCK] * turn
            yield turned.imag.to(torch.float32), turned.real.to(torch.float32)


class PositionTable:
    """Rows of a float32 function of integer positions, kept once computed; it grows automatically.

    It is not a module, a parameter or a buffer: casting a model cannot degrade it and checkpoints do not hold it. On
    other devices than the CPU, where reading the largest position would wait for the device, and under
    ``torch.compile``, rows are computed on the spot.

    Args:
        compute: Maps integer positions ``[...]`` to float32 ``[..., W]``.
    """

    def __init__(self, compute: Callable[[Tensor], Tensor]) -> None:
        self.compute = compute
        self._rows: Tensor | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_rows": None}  # copies and pickles compute their own

    def __call__(self, positions: Tensor) -> Tensor:
        """Return the rows ``[..., W]`` of integer positions ``[...]``."""
        if positions.is_floating_point():  # whose rows are between those of a table
            return self.compute(positions)
        require_integer(positions)
        if positions.device.type != "cpu" or torch.compiler.is_compiling() or not positions.numel():
            return self.compute(positions)
        low, high = extent(positions)
        if low < 0 or high >= _MAX_TABLE_ROWS:
            return self.compute(positions)
        rows = self._rows  # of which another thread may make a longer or a shorter one meanwhile
        if rows is None or high >= rows.shape[0]:
            with torch.inference_mode(mode=False), torch.no_grad():
                self._rows = rows = self.compute(torch.arange(_table_size(high), device=positions.device))
        # Indexing with uint8 would be taken for a mask, and the other small integers are refused.
        return rows[positions.long()]


def _table_size(high: int) -> int:
    """Return how many rows to compute when row ``high`` is asked for: powers of two, so that growth is rare."""
    return min(_MAX_TABLE_ROWS, max(256, 1 << (high + 1).bit_length()))


def _signed(steps: int) -> int:
    """Return an integer modulo 2^64 as the signed 64-bit integer of the same bits."""
    return (steps + _TURN // 2) % _TURN - _TURN // 2


def _is_long_run(positions: Tensor) -> bool:
    """Whether positions on the CPU are consecutive, and enough of them that rotating blocks is faster."""
    if torch.compiler.is_compiling() or positions.device.type != "cpu" or positions.dim() != 1:
        return False
    return not positions.is_floating_point() and len(positions) > 4 * _BLOCK and is_run(positions)
