"""What produced a table of positions or a vector of frequencies found in a checkpoint or a text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.rotary_configs.progressions import (
    COMMON_BASES,
    FLOAT32_FREQUENCY,
    Candidate,
    candidates,
    geometric,
    rounding,
)

_FEWEST_PAIRS = 4  # fewer frequencies fit some progression by chance
_SMALLEST_BASE = 300.0  # of a vector; slopes of ALiBi are a progression of base 256


@dataclass(frozen=True, kw_only=True)
class Identification:
    """The explanation of a tensor, and how well it fits. Its ``str()`` is a sentence or a few.

    Attributes:
        kind: What the tensor, of this ``shape``, holds.
        dialect: Where a sinusoid table is one of the known.
        layout: Order of the features, in words; ``None`` for frequencies.
        exponent: What the base is raised to, negated: ``i`` counts the pairs, ``j`` the ``d`` features, from 0.
        base: Base of the frequencies; a round number where one explains the tensor, otherwise an estimate.
        scaling: ``none`` or ``linear``, with its ``factor``; NTK-aware scaling is another base.
        first_row: Position of the first row.
        start: Position of a text's first token: ``first_row``, or the row after the padding row.
        padding_row: Row of zeros, if there is one.
        amplitude: Largest value of the sines and cosines, 1 but for an attention scale.
        stored_as: Coarsest dtype that holds every value.
        mistakes: Known mistakes found.
        notes: What else the same numbers may mean.
        max_error: Largest difference from the exact candidate; for frequencies relative to the candidate.
        reason: Why it is unknown.
    """

    kind: Literal["sinusoid table", "inverse frequencies", "rotary cos/sin cache", "unknown"]
    shape: tuple[int, ...]
    dialect: Literal["paper", "concatenated", "tensor2tensor"] | None = None
    layout: str | None = None
    exponent: Literal["2i/d", "i/(d/2-1)", "4i/d", "j/d", "2j/d"] | None = None
    base: float | None = None
    scaling: str = "none"
    factor: float | None = None
    first_row: int | None = None
    start: int | None = None
    padding_row: int | None = None
    amplitude: float = 1.0
    stored_as: str = "float32"
    mistakes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    max_error: float | None = None
    reason: str = ""

    def __str__(self) -> str:
        """Return sentences."""
        size = " x ".join(map(str, self.shape)) or "1"
        if self.kind == "unknown":
            return f"Unknown ({size}): {self.reason}."
        what = [f"{self.kind[0].upper()}{self.kind[1:]} ({size})", f"dialect {self.dialect}" * bool(self.dialect)]
        what += [self.layout or "", f"exponent {self.exponent}", f"base {self.base:.10g}"]
        factor = "" if self.factor is None else f" with factor {self.factor:.6g}"
        what += ["no scaling" if self.scaling == "none" else f"scaling {self.scaling}{factor}"]
        what += [f"the first row is position {self.first_row}" * bool(self.first_row)]
        if self.padding_row is not None:
            what += [f"row {self.padding_row} is zero for padding, so a text starts at row {self.padding_row + 1}"]
        what += [f"cosines and sines multiplied by {self.amplitude:.6g}" * (self.amplitude != 1.0)]
        relative = "relative " * (self.kind == "inverse frequencies")
        what += [f"largest {relative}difference from the exact values {self.max_error:.1e}"]
        sentences = ["; ".join(filter(None, [*what, f"stored as {self.stored_as}"]))]
        sentences += [f"Mistake: {each}" for each in self.mistakes] + [f"Note: {each}" for each in self.notes]
        return ". ".join(sentences) + "."


def identify(tensor: Tensor, *, decimals: int | None = None) -> Identification:
    """Return which dialect, layout, base and scaling produced a table or a vector of frequencies, or which mistake did.

    What is found is checked against exact values in float64 before it is said; anything else is ``unknown``.

    Args:
        tensor: A table of positions ``[L, E]``, a cache of rotary cosines and sines (``[L, D]``, ``[L, n, 2]`` or
            complex ``[L, n]``) or a vector of frequencies ``[n]`` in radians a token; any floating dtype. Dimensions
            of size one are ignored.
        decimals: Digits after the point to which the values were rounded when they were printed, if they were; each
            value must then be right in all of them.

    Raises:
        ConfigError: It is not a tensor of floating or complex numbers.

    Example:
        >>> import torch
        >>> finding = identify(10000.0 ** -(torch.arange(0, 64, 2) / 64))
        >>> finding.kind, finding.base, finding.scaling
        ('inverse frequencies', 10000.0, 'none')
    """
    if not isinstance(tensor, Tensor) or not (tensor.is_floating_point() or tensor.is_complex()):
        what = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise ConfigError(f"Only a tensor of floating or complex numbers can be identified; got {what}.")
    shape, values = tuple(tensor.shape), tensor.detach().cpu()
    unknown = Identification(kind="unknown", shape=shape)
    if values.numel() < 2 or not bool(torch.isfinite(values).all()):
        return replace(unknown, reason="it holds fewer than two numbers, or some that are not finite")
    printed = 0.0 if decimals is None else 0.5 * 10.0**-decimals
    is_cache = values.is_complex()
    values = (torch.view_as_real(values) if is_cache else values).squeeze()
    if values.dim() == 3 and values.shape[-1] == 2:
        is_cache, values = True, values.flatten(1)
    if values.dim() == 1:
        return _of_vector(values, unknown, printed)
    if values.dim() == 2:
        return _of_table(values, unknown, printed, is_cache=is_cache)
    return replace(unknown, reason="a table has two dimensions and a vector of frequencies one")


def _stored_as(values: Tensor) -> torch.dtype:
    """Return the coarsest dtype that holds every value; one number throughout, which all hold, tells nothing."""
    varies = bool((values != values.flatten()[0]).any())
    for dtype in (torch.bfloat16, torch.float16):
        if values.dtype == dtype or (varies and torch.equal(values.to(dtype).to(values.dtype), values)):
            return dtype
    return torch.float64 if values.dtype == torch.float64 else torch.float32


def _of_vector(values: Tensor, unknown: Identification, printed: float) -> Identification:
    dtype, measured = _stored_as(values), values.double()
    reason = "these numbers are not the frequencies of any known formula"
    for found in candidates(measured, FLOAT32_FREQUENCY * measured + printed, table=False):
        base = found.said["base"]
        if base < _SMALLEST_BASE and len(values) >= _FEWEST_PAIRS:
            reason = (
                f"these numbers are a progression of base {base:.6g}; bases of models are {_SMALLEST_BASE:g} at least"
            )
        elif len(values) >= _FEWEST_PAIRS or base in COMMON_BASES:
            error = float(((measured - found.exact).abs() / found.exact).max())
            said = {"exponent": "2i/d", **found.said, "stored_as": str(dtype).removeprefix("torch.")}
            return replace(unknown, kind="inverse frequencies", max_error=error, **said)
    return replace(unknown, reason=reason)


class _Explanation(NamedTuple):
    """What a table may be: which columns hold sines and which cosines of what, from which position on."""

    order: str
    sine: Tensor
    cosine: Tensor
    first_row: int
    amplitude: float
    found: Candidate

    def exact(self, positions: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sines and cosines of frequencies at ``positions [R, 1]``, and the sizes of their angles."""
        own = len(frequencies) > len(self.sine)  # every feature has a frequency of its own
        angles = positions.repeat(1, 2 * len(self.sine))
        angles[:, self.sine] *= frequencies[0::2] if own else frequencies
        angles[:, self.cosine] *= frequencies[1::2] if own else frequencies
        values = angles.cos()
        values[:, self.sine] = angles[:, self.sine].sin()
        return self.amplitude * values, angles.abs()


def _of_table(values: Tensor, unknown: Identification, printed: float, *, is_cache: bool) -> Identification:
    dtype, table = _stored_as(values), values.double()
    empty = (~table.any(1)).nonzero().flatten().tolist()
    if len(table) < 4 or table.shape[1] < 2 or table.shape[1] % 2 or len(empty) > 1:
        why = "a table needs four rows or more, an even number of features, and one row of zeros at most"
        return replace(unknown, reason=why)
    rows = torch.tensor([row for row in range(len(table)) if row not in empty])
    table, where, precision = table[rows], rows.double().unsqueeze(1), max(rounding(dtype), printed)
    for each in _explanations(table, where, precision, is_cache=is_cache):
        found, positions = each.found, where + each.first_row
        used = found.exact if found.rounded_to is None else found.exact.to(found.rounded_to).double()
        exact, angles = each.exact(positions, used)
        limit = each.amplitude * (2 * rounding(dtype) + printed + FLOAT32_FREQUENCY * angles)
        few = len(found.exact) < _FEWEST_PAIRS and found.said["base"] not in COMMON_BASES
        if few or bool(((table - exact).abs() > limit).any()):
            continue
        error, row = (table - each.exact(positions, found.exact)[0]).abs().amax(1).max(0)
        said = {"exponent": "2i/d", **found.said}
        is_swapped, mistakes = each.order.endswith("cosine first"), list(found.said.get("mistakes", ()))
        plain = not (is_cache or each.order == "concatenated, cosine first")  # as no table of embeddings begins
        if plain and is_swapped:
            mistakes.append("sine and cosine are swapped")
        if float(error) > 2 * precision * each.amplitude + 1e-7 and found.rounded_to is None:
            at = int(positions[row])
            mistakes.append(f"the angles were computed in float32: wrong by {float(error):.1e} at position {at}")
        dialect = _DIALECTS.get((each.order, said["exponent"])) if plain and "scaling" not in said else None
        return replace(
            unknown,
            **said | {"mistakes": tuple(mistakes), "stored_as": str(dtype).removeprefix("torch.")},
            kind="sinusoid table" if plain else "rotary cos/sin cache",
            dialect=dialect,
            layout=each.order,
            amplitude=each.amplitude,
            first_row=each.first_row,
            padding_row=empty[0] if empty else None,
            start=each.first_row + (empty[0] + 1 if empty else 0),
            max_error=float(error),
        )
    reason = "its columns are not the sines and cosines of any known formula; it may be trained or random"
    return replace(unknown, reason=reason)


_DIALECTS: dict[tuple[str, str], Literal["paper", "concatenated", "tensor2tensor"]] = {
    ("interleaved, sine first", "2i/d"): "paper",
    ("concatenated, sine first", "2i/d"): "concatenated",
    ("concatenated, sine first", "i/(d/2-1)"): "tensor2tensor",
}


def _explanations(table: Tensor, rows: Tensor, precision: float, *, is_cache: bool) -> Iterator[_Explanation]:
    """Yield explanations of a table by pairs that turn, then by the mistake of a frequency for every feature."""
    width = table.shape[1]
    every = torch.arange(width)
    orders = {
        "interleaved, sine first": (every[0::2], every[1::2]),
        "interleaved, cosine first": (every[1::2], every[0::2]),
        "concatenated, sine first": (every[: width // 2], every[width // 2 :]),
        "concatenated, cosine first": (every[width // 2 :], every[: width // 2]),
    }
    for order, (sine, cosine) in orders.items():
        turning = _turning(table[:4096, sine], table[:4096, cosine], rows[:4096], precision)
        if turning is not None:
            frequencies, tolerance, first_row, amplitude = turning
            plain = not (is_cache or order == "concatenated, cosine first")
            for found in candidates(frequencies, tolerance, table=plain):
                yield _Explanation(order, sine, cosine, first_row, amplitude, found)
    for exponent, times in (("j/d", 1), ("2j/d", 2)):
        mistake = f"each feature j has a frequency of its own: the exponent is {exponent} of it, not 2i/d of its pair"
        for base in (10000.0, 1000.0):
            said = {"base": base, "exponent": exponent, "mistakes": (mistake,)}
            found = Candidate(geometric(width, base, width / times), said)
            for order in ("interleaved, sine first", "concatenated, sine first"):
                yield from (_Explanation(order, *orders[order], start, 1.0, found) for start in (0, 1))


def _turning(s: Tensor, c: Tensor, rows: Tensor, precision: float) -> tuple[Tensor, Tensor, int, float] | None:
    """Read pairs of sine and cosine: frequencies, their uncertainty, the first position and the amplitude.

    They lie on circles of one radius and turn forwards, by 1 radian a token at most.
    """
    radius = torch.hypot(s, c)
    amplitude = float(radius.mean())
    if amplitude == 0 or float((radius - amplitude).abs().max()) > 4 * precision * amplitude:
        return None
    angle = torch.atan2(s, c)
    turned = torch.remainder(angle[1:] - angle[:-1] + math.pi, 2 * math.pi) - math.pi
    if not bool((turned.sum(0) / (rows[-1] - rows[0]) > -precision).all()):
        return None
    unwrapped = torch.cat((angle[:1], angle[:1] + turned.cumsum(0)))
    centred = rows - rows.mean()
    measured = (centred * unwrapped).sum(0) / (centred**2).sum()
    absolute = 8 * precision / (float(centred.abs().mean()) * math.sqrt(len(rows)))
    tolerance = (FLOAT32_FREQUENCY + precision / math.sqrt(len(rows))) * measured.abs() + absolute
    at_zero, start = unwrapped.mean(0) - measured * rows.mean(), 0.0
    # From the slowest pair, whose turns cannot be miscounted, to faster ones, which say it more exactly.
    for index in sorted((measured > 4 * tolerance).nonzero().flatten().tolist(), key=lambda i: float(measured[i])):
        frequency, offset = float(measured[index]), float(at_zero[index])
        start = (offset + 2 * math.pi * round((start * frequency - offset) / (2 * math.pi))) / frequency
    return measured.clamp(min=1e-12), tolerance, round(start), 1.0 if abs(amplitude - 1) < 2 * precision else amplitude
