"""Identification of tables of positions and vectors of frequencies: from a tensor to an :class:`Identification`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.rotary_configs.identify.blends import fast_pairs_of_another_base, recognise_blend, recognise_longrope
from locant.rotary_configs.identify.frequencies import (
    FLOAT32_FREQUENCY,
    Candidate,
    effective_dtype,
    recognise_progression,
    rounding,
    smallest_step,
)
from locant.rotary_configs.identify.result import Identification
from locant.rotary_configs.identify.tables import ColumnLayout, Verdict, column_layouts, recognise_unequal_pairs, verify

# Fewer frequencies fit some progression by chance.
_FEWEST_PAIRS = 4
_COMMON_BASES = (10000.0, 500000.0, 1000000.0)
_SMALLEST_BASE = 100.0
# Share of the pairs whose rounded frequency must agree before rounding is blamed; a tie may fall to either side.
_AGREEING = 0.9
_MEASURED_ROWS = 4096
_COARSE = (torch.bfloat16, torch.float16)


def identify(tensor: Tensor) -> Identification:
    """Return which dialect, layout, base and scaling produced a table or a vector of frequencies, or which mistake did.

    What is found is checked against exact values in float64 before it is said; anything else is ``unknown``.

    Args:
        tensor: A table of positions ``[L, E]``, a cache of rotary cosines and sines (``[L, D]``, ``[L, n, 2]`` or
            complex ``[L, n]``) or a vector of frequencies ``[n]`` in radians per token; any floating dtype. Dimensions
            of size one are ignored.

    Returns:
        The finding; ``str()`` of it is a sentence.

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
    if not values.numel() or not bool(torch.isfinite(values).all()):
        return _unknown(shape, "it is empty" if not values.numel() else "it holds numbers that are not finite")
    if values.numel() == 1:
        return _unknown(shape, "it holds one number, which many formulas give")
    cache = values.is_complex()
    values = torch.view_as_real(values) if cache else values
    values = values.squeeze()
    if values.dim() == 3 and values.shape[-1] == 2:
        cache, values = True, values.flatten(1)
    if values.dim() == 1:
        return _identify_vector(values, shape)
    if values.dim() == 2:
        return _identify_table(values, shape, cache=cache)
    return _unknown(shape, "a table has two dimensions and a vector of frequencies one")


def _unknown(shape: tuple[int, ...], reason: str) -> Identification:
    return Identification(kind="unknown", shape=shape, reason=reason)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _identify_vector(values: Tensor, shape: tuple[int, ...]) -> Identification:
    dtype, measured = effective_dtype(values), values.double()
    step = smallest_step(dtype)
    coarse = (dtype,) if dtype in _COARSE else ()
    reason = "these numbers are not the frequencies of any known formula"
    for candidate in _candidates(measured, FLOAT32_FREQUENCY * measured, coarse, table=False):
        if candidate.base == 256.0 and abs((candidate.factor or 0) - 2 ** (8 / len(values))) < 1e-3:
            return _unknown(shape, f"these are the slopes of ALiBi for {len(values)} heads, not frequencies")
        if _by_chance(candidate, len(values), smallest=_SMALLEST_BASE):
            reason = _small_base(candidate, len(values)) or reason
            continue
        turning = candidate.exact > 0
        error = ((measured - candidate.exact).abs()[turning] - step).clamp(min=0) / candidate.exact[turning]
        return _finding(candidate, shape, _name(dtype), float(error.max()), kind="inverse frequencies")
    fast = fast_pairs_of_another_base(measured, FLOAT32_FREQUENCY * measured)
    if fast is not None and fast[0] >= _SMALLEST_BASE:
        return _unknown(
            shape,
            f"the first {fast[1]} of {len(values)} numbers are the frequencies of base {fast[0]:.10g}, and the others "
            "are slowed by no known formula",
        )
    return _unknown(shape, reason)


def _small_base(candidate: Candidate, pairs: int) -> str | None:
    """Return what is said of a progression of a base that no model has, ``None`` of anything else."""
    if candidate.base is None or pairs < _FEWEST_PAIRS or candidate.scaling not in ("none", "linear"):
        return None
    scaled = "" if candidate.factor is None else f" divided by {candidate.factor:.6g}"
    return (
        f"these numbers are a progression of base {candidate.base:.6g}{scaled}; bases of models are "
        f"{_SMALLEST_BASE:g} at least"
    )


def _by_chance(candidate: Candidate, pairs: int, *, smallest: float) -> bool:
    """Whether other numbers than frequencies would fit a candidate as well.

    Args:
        candidate: What fits.
        pairs: How many frequencies were measured.
        smallest: Base below which a progression of numbers tells nothing; sines and cosines tell more than numbers.
    """
    if candidate.exponent == "integer":
        return False
    few = pairs < _FEWEST_PAIRS and candidate.base not in _COMMON_BASES
    return few or candidate.base is None or candidate.base < smallest


def _candidates(
    values: Tensor, tolerance: Tensor, coarse: tuple[torch.dtype, ...], *, table: bool
) -> Iterator[Candidate]:
    """Yield explanations of frequencies: as they are, then as rounded to one of the ``coarse`` dtypes."""
    for dtype in (None, *coarse):
        loose = tolerance if dtype is None else tolerance + rounding(dtype) * values + smallest_step(dtype)
        candidate = recognise_progression(values, loose, table=table)
        if candidate is None and not table:
            candidate = recognise_blend(values, loose)
        if candidate is None:
            continue
        if dtype is not None:
            agree = (candidate.exact.to(dtype).double() - values).abs() <= tolerance
            if float(agree.double().mean()) < _AGREEING:
                continue
            mistake = f"the frequencies are rounded to {_name(dtype)}, which turns far positions by wrong angles"
            candidate = replace(candidate, mistakes=(*candidate.mistakes, mistake), rounded_to=dtype)
        yield candidate
    longrope = None if table else recognise_longrope(values, tolerance)
    if longrope is not None:
        yield longrope


def _identify_table(values: Tensor, shape: tuple[int, ...], *, cache: bool) -> Identification:
    dtype, table = effective_dtype(values), values.double()
    if table.shape[1] % 2 and not bool(table[:, -1].any()):
        table = table[:, :-1]
    if len(table) < 4 or table.shape[1] < 2 or table.shape[1] % 2:
        return _unknown(shape, "a table needs four rows or more and an even number of features")
    empty = torch.nonzero(~table.any(1)).flatten().tolist()
    if len(empty) > 1:
        return _unknown(shape, f"{len(empty)} of its rows are zero")
    # A first row of zeros begins a cache of sines; any other is there for padding.
    for padding in [None, *empty] if empty in ([], [0]) else empty:
        kept = torch.tensor([row for row in range(len(table)) if row != padding])
        found = _explain_table(table[kept], kept.double(), dtype, cache=cache)
        if found is not None:
            return _table_finding(*found, shape, dtype, padding, cache)
    return _unknown(
        shape, "its columns are not the sines and cosines of any known formula; it may be trained or random"
    )


def _explain_table(
    table: Tensor, rows: Tensor, dtype: torch.dtype, *, cache: bool
) -> tuple[ColumnLayout, Candidate, Verdict] | None:
    precision = rounding(dtype)
    head, head_rows = table[:_MEASURED_ROWS], rows[:_MEASURED_ROWS]
    for layout in column_layouts(head, head_rows, precision):
        plain = not (cache or layout.cache)
        for candidate in _candidates(layout.frequencies, layout.tolerance, _COARSE, table=plain):
            verdict = verify(table, rows + layout.first_row, layout, candidate.exact, candidate.rounded_to, precision)
            if verdict.accepted and not _by_chance(candidate, len(candidate.exact), smallest=1.0):
                return layout, candidate, verdict
    return None if cache else recognise_unequal_pairs(table, rows, precision)


def _table_finding(
    layout: ColumnLayout,
    candidate: Candidate,
    verdict: Verdict,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    padding: int | None,
    cache: bool,
) -> Identification:
    plain = not (cache or layout.cache)
    mistakes, notes = list(candidate.mistakes), list(candidate.notes)
    if plain and layout.swapped:
        mistakes.append("sine and cosine are swapped")
    if verdict.grows and not candidate.estimated and candidate.rounded_to is None:
        mistakes.append(
            f"the angles were computed in float32: wrong by {verdict.error:.1e} at position {verdict.worst}, "
            "and more at later ones"
        )
    if plain and layout.name == "concatenated, sine first" and candidate.exponent == "2i/d":
        notes.append("GPT-J in Hugging Face keeps its rotary cache in the same form")
    dialect: Literal["paper", "concatenated", "tensor2tensor"] | None = None
    if plain and not layout.swapped and candidate.scaling == "none":
        known = {("interleaved", "2i/d"): "paper", ("concatenated", "2i/d"): "concatenated"}
        known["concatenated", "i/(d/2-1)"] = "tensor2tensor"
        dialect = known.get((layout.name.partition(",")[0], candidate.exponent))  # type: ignore[assignment]
    finding = _finding(
        replace(candidate, mistakes=tuple(mistakes), notes=tuple(notes)),
        shape,
        _name(dtype),
        verdict.error,
        kind="sinusoid table" if plain else "rotary cos/sin cache",
    )
    start = layout.first_row if padding is None else layout.first_row + padding + 1
    return replace(
        finding,
        dialect=dialect,
        layout=layout.name,
        amplitude=layout.amplitude,
        first_row=layout.first_row,
        start=start,
        padding_row=padding,
    )


def _finding(
    candidate: Candidate,
    shape: tuple[int, ...],
    stored_as: str,
    error: float,
    *,
    kind: Literal["sinusoid table", "inverse frequencies", "rotary cos/sin cache"],
) -> Identification:
    return Identification(
        kind=kind,
        shape=shape,
        exponent=candidate.exponent,
        base=candidate.base,
        scaling=candidate.scaling,
        factor=candidate.factor,
        original_lengths=candidate.original_lengths,
        stored_as=stored_as,
        mistakes=candidate.mistakes,
        notes=candidate.notes,
        max_error=error,
    )
