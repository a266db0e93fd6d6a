"""Explanation of a scaling: its effect on each pair of features, in numbers and in words."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from locant.positions.scaling.frequency import FrequencyScaling
from locant.positions.scaling.linear import Unscaled

Fate = Literal["kept", "blended", "interpolated", "extrapolated", "faster", "backwards", "still"]

_WIDTH = 100
_ROUNDING = 1e-12


@dataclass(frozen=True)
class PairExplanation:
    """One pair of rotated features.

    Attributes:
        index: Its number, from 0 for the fastest.
        frequency_before: Unscaled frequency in radians a token.
        frequency_after: Scaled frequency in radians a token.
        turns: Full turns that it makes within the trained length at its unscaled frequency, where that is known.
        fate: ``kept`` at its frequency; ``interpolated``: slowed at least as much as the context is extended, so that
            no angle is new to the model; ``blended``: slowed by less, after it made a full turn in training;
            ``extrapolated``: slowed by less and without a full turn in training, so that longer texts turn it to
            angles that training never showed; ``faster``: sped up, and ``backwards``: turned the other way round, where
            frequencies were given as numbers; ``still``: never turned.
    """

    index: int
    frequency_before: float
    frequency_after: float
    turns: float | None
    fate: Fate

    @property
    def ratio(self) -> float:
        """Scaled frequency by unscaled one."""
        return self.frequency_after / self.frequency_before

    @property
    def wavelength(self) -> float:
        """Tokens of a full turn at the unscaled frequency."""
        return 2 * math.pi / self.frequency_before

    @property
    def scaled_wavelength(self) -> float:
        """Tokens of a full turn at the scaled frequency; infinite where the pair does not turn."""
        return 2 * math.pi / self.frequency_after if self.frequency_after else math.inf


@dataclass(frozen=True)
class Explanation:
    """The effect of a scaling; ``str()`` gives a table of at most 100 columns.

    Attributes:
        scaling: Name of the scaling.
        base: Base of the unscaled frequencies.
        trained_length: Length trained before the extension, where it is known.
        effective_length: Length that the scaled frequencies are made for, where it is known.
        attention_scale: What multiplies cosine and sine of queries and of keys.
        pairs: Every pair, the fastest first.
        notes: Further remarks.
    """

    scaling: str
    base: float
    trained_length: int | None
    effective_length: int | None
    attention_scale: float
    pairs: tuple[PairExplanation, ...]
    notes: tuple[str, ...] = ()

    @property
    def attention_temperature(self) -> float:
        """What scores are divided by, ``attention_scale^-2``."""
        square = self.attention_scale * self.attention_scale
        return 1 / square if square else math.inf

    @property
    def bands(self) -> tuple[tuple[PairExplanation, ...], ...]:
        """Runs of neighbouring pairs with the same fate."""
        return tuple(tuple(run) for _, run in groupby(self.pairs, key=lambda pair: pair.fate))

    @property
    def counts(self) -> dict[Fate, int]:
        """Number of pairs of every fate that occurs."""
        return {fate: sum(pair.fate == fate for pair in self.pairs) for fate in {p.fate: None for p in self.pairs}}

    @property
    def incomplete_pairs(self) -> tuple[int, ...]:
        """Indices of the pairs that make no full turn within the trained length."""
        return tuple(pair.index for pair in self.pairs if pair.turns is not None and pair.turns < 1)

    def __str__(self) -> str:
        square = self.attention_scale * self.attention_scale
        scores = "scores stay as they are" if square == 1 else f"so scores are multiplied by {square:.6g}"
        said = ", ".join(f"{count} {fate}" for fate, count in self.counts.items())
        head = [
            f"scaling {self.scaling}, base {self.base:.10g}, {len(self.pairs)} pairs: {said}",
            f"trained length {_tokens(self.trained_length)}, effective length {_tokens(self.effective_length)}",
            f"attention scale {self.attention_scale:.6g}, {scores}",
        ]
        rows = [("pairs", "fate", "wavelength", "scaled to", "slowed by", "turns in training")]
        for band in self.bands:
            first, still = band[0], band[0].fate == "still"
            rows.append(
                (
                    _span(band, lambda pair: f"{pair.index}", "-"),
                    first.fate,
                    _span(band, lambda pair: _number(pair.wavelength)),
                    "no turn" if still else _span(band, lambda pair: _number(pair.scaled_wavelength)),
                    "-" if still else _span(band, lambda pair: _number(1 / pair.ratio)),
                    "unknown" if first.turns is None else _span(band, lambda pair: _number(pair.turns or 0.0)),
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        notes = [textwrap.fill(note, _WIDTH, initial_indent="- ", subsequent_indent="  ") for note in self.notes]
        return "\n".join([*head, "", *table, *([""] if notes else []), *notes])


def _span(band: tuple[PairExplanation, ...], said: Callable[[PairExplanation], str], dash: str = " - ") -> str:
    return dash.join(dict.fromkeys((said(band[0]), said(band[-1]))))


def _tokens(length: int | None) -> str:
    return "unknown" if length is None else f"{length} tokens"


def _number(value: float) -> str:
    """Return a number in at most 7 characters for the magnitudes that occur; a few more for any others."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if size <= value < 1e15:
            return f"{value / size:.1f}{unit}"
    return f"{value:,.0f}" if 1000 <= value < 1e6 else f"{value:.3g}"


def explain_frequencies(
    scaling: FrequencyScaling, dim: int, base: float, *, max_length: int | None = None, length: int | None = None
) -> Explanation:
    """Explain what a scaling does to every pair.

    Args:
        scaling: The scaling.
        dim: Even number of rotated features.
        base: Base of the unscaled frequencies.
        max_length: Length in tokens that the model is declared for, where it is known.
        length: Length of the text to explain; the longest that the scaling or the model declares where it is ``None``.

    Raises:
        ConfigError: ``dim`` or ``base`` is out of range, or contradicts the scaling.

    Example:
        >>> from locant.positions import Llama3
        >>> print(explain_frequencies(Llama3(original_length=8192, factor=8), 128, 500000.0))
        scaling llama3, base 500000, 64 pairs: 29 kept, 6 blended, 29 interpolated
        trained length 8192 tokens, effective length 65536 tokens
        attention scale 1, scores stay as they are
        <BLANKLINE>
        pairs  fate          wavelength     scaled to       slowed by    turns in training
        0-28   kept          6.28 - 1,956   6.28 - 1,956    1            1,304 - 4.19
        29-34  blended       2,402 - 6,695  2,900 - 35,198  1.21 - 5.26  3.41 - 1.22
        35-63  interpolated  8,219 - 2.6M   65,750 - 20.5M  8            0.997 - 0.0032
    """
    trained = scaling.trained_by(max_length)
    reach = length or scaling.explained_length or max_length
    stretch = scaling.stretch or 1.0
    if trained is not None and reach is not None:
        stretch = max(1.0, reach / trained)
    before = map(float, Unscaled().frequencies(dim, base))
    after = map(float, scaling.frequencies(dim, base, reach))
    pairs = []
    for index, (plain, scaled) in enumerate(zip(before, after, strict=True)):
        turns = None if trained is None else plain * trained / (2 * math.pi)
        pairs.append(PairExplanation(index, plain, scaled, turns, _fate(scaled / plain, stretch, turns)))
    bare = Explanation(scaling.name, base, trained, reach, scaling.attention_scale(reach), tuple(pairs))
    return replace(bare, notes=tuple(_notes(bare, scaling, max_length)))


def _fate(ratio: float, stretch: float, turns: float | None) -> Fate:
    if ratio <= 0:
        return "backwards" if ratio else "still"
    if ratio > 1 + _ROUNDING:
        return "faster"
    if ratio * stretch > 1 + _ROUNDING and turns is not None and turns < 1:
        return "extrapolated"
    if ratio >= 1 - _ROUNDING:
        return "kept"
    return "interpolated" if ratio * stretch <= 1 + _ROUNDING else "blended"


def _notes(explanation: Explanation, scaling: FrequencyScaling, max_length: int | None) -> Iterator[str]:
    trained, reach = explanation.trained_length, explanation.effective_length
    target = scaling.reach
    if trained is None:
        names = "original_length or max_length" if max_length is None else "original_length"
        yield f"The trained length is unknown, so turns within it are not counted; state {names}."
    if max_length is not None and target is not None and max_length < target:
        same = ", which is original_length" if max_length == trained else ""
        yield (
            f"max_length is {max_length}{same}, although the scaling reaches {target} tokens: what takes its limit "
            "from max_length stops there."
        )
    if max_length is not None and target is not None and max_length > target:
        yield (
            f"The model is declared for {max_length} tokens, more than the factor makes of the original length: its "
            "publisher trained it on for them."
        )
    declared = target or max_length
    if declared is not None and reach is not None and reach > declared:
        yield f"{reach} tokens are beyond {declared}, the longest text that is declared."
    yield from scaling.explain_notes(reach, max_length)
    for band in explanation.bands:
        if band[0].fate == "extrapolated":
            yield (
                f"Pairs {band[0].index} to {band[-1].index} made no full turn in training and are slowed by less than "
                f"the extension: {_tokens(reach)} turn them to angles that training never showed."
            )
