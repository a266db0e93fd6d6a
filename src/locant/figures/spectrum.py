"""Spectrum: how long each pair of a rotary model takes for a turn, before and after every scaling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from locant.figures.drawing import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    VERMILION,
    FigureData,
    Numbers,
    drawing,
    new_figure,
    settle,
)
from locant.figures.registry import Caption, register_figure
from locant.positions import RotaryConfig
from locant.positions.scaling import SCALINGS, Explanation, scaling_from_options

FATE_MARKS = {
    "kept": (BLUE, "o"),
    "blended": (ORANGE, "D"),
    "interpolated": (GREEN, "s"),
    "extrapolated": (VERMILION, "X"),
    "faster": (VERMILION, "^"),
    "backwards": (VERMILION, "v"),
    "still": (PURPLE, "_"),
}
FATE_MEANING = {
    "kept": "kept: all its angles are known",
    "blended": "blended: slowed by less",
    "interpolated": "interpolated: no angle will be new",
    "extrapolated": "extrapolated: angles will be new",
    "faster": "faster: sped up",
    "backwards": "backwards: turned the other way",
    "still": "still: never turned",
}
_COLUMNS = 4


@dataclass(frozen=True)
class Spectrum:
    """What one scaling does.

    Attributes:
        name: Of the scaling.
        wavelengths: Tokens of a full turn before it, ``[P]``.
        scaled: Tokens of a full turn after it, ``[P]``.
        fates: What becomes of each pair, a key of what the legend explains.
        first_unseen: First position at which a pair is turned to an angle that training never showed, in tokens;
            ``None`` where there is none up to the target length.
        attention_scale: What multiplies cosine and sine of queries and of keys.
    """

    name: str
    wavelengths: Numbers
    scaled: Numbers
    fates: Sequence[str]
    first_unseen: int | None
    attention_scale: float


# Phi-3-mini (Abdin et al. 2024), the model whose factors for LongRoPE are the best known. Trained for 4,096 tokens,
# extended to 131,072.
HEAD_DIM, BASE, TRAINED, TARGET = 96, 10000.0, 4096, 131072


@dataclass(frozen=True)
class Scaled:
    """What one scaling makes of a model.

    Attributes:
        name: What the field calls it.
        explanation: What becomes of every pair, with the trained and the effective length.
        first_unseen: First position that turns a pair to an angle that training never showed, in tokens; ``None``
            where there is none up to the length to be read.
    """

    name: str
    explanation: Explanation
    first_unseen: int | None


def compare_scalings(head_dim: int, base: float, trained: int, target: int) -> list[Scaled]:
    """Return what every registered scaling makes of a rotary model.

    A scaling that does not follow from lengths is left out. LongRoPE's factors are searched for each model; those of
    Phi-3-mini stand for them, spread over the pairs that there are.

    Args:
        head_dim: Features of a head, all rotated.
        base: Base of the frequencies.
        trained: Length trained, in tokens.
        target: Length to be read, in tokens.

    Raises:
        ConfigError: A value is out of range, or they contradict each other.
    """
    models = []
    for name, registered in SCALINGS.items():
        options = registered.options_for_lengths(rotary_dim=head_dim, trained=trained, longest=target)
        if options is None:
            continue
        scaling = scaling_from_options(name, options)
        # The length that an unscaled model is declared for is the one that it was trained for.
        declared = trained if scaling.trained is None else None
        config = RotaryConfig(head_dim=head_dim, base=base, scaling=scaling, max_length=declared)
        explanation = config.explain(length=target)
        models.append(Scaled(scaling.title, explanation, first_unseen_position(explanation, trained, target)))
    return models


def first_unseen_position(explanation: Explanation, trained: int, target: int) -> int | None:
    """Return the first position at which a pair is turned farther than in training.

    Training on ``L`` tokens showed a pair the angles below ``L`` times its frequency; all where that is a full turn.

    Args:
        explanation: Of a scaling.
        trained: Length trained, in tokens.
        target: Length to be read, in tokens.

    Returns:
        A position in tokens below ``target``, or ``None`` where no angle is new.
    """
    incomplete = [pair for pair in explanation.pairs if pair.wavelength > trained]
    # What rounding leaves of a ratio is no new angle.
    first = min((math.ceil(trained / pair.ratio - 1e-6) for pair in incomplete if pair.ratio), default=target)
    return first if first < target else None


def spectrum_numbers() -> dict[str, Any]:
    """Return what each scaling makes of the wavelengths of Phi-3-mini, extended from 4,096 to 131,072 tokens."""
    scalings = [
        Spectrum(
            name=model.name,
            wavelengths=np.array([pair.wavelength for pair in model.explanation.pairs]),
            scaled=np.array([pair.scaled_wavelength for pair in model.explanation.pairs]),
            fates=[pair.fate for pair in model.explanation.pairs],
            first_unseen=model.first_unseen,
            attention_scale=model.explanation.attention_scale,
        )
        for model in compare_scalings(HEAD_DIM, BASE, TRAINED, TARGET)
    ]
    pairs = f"{HEAD_DIM // 2} pairs, base {BASE:,.0f}"
    return {
        "scalings": scalings,
        "trained": TRAINED,
        "target": TARGET,
        "title": f"Phi-3-mini: {pairs}, from {TRAINED:,} to {TARGET:,} tokens",
    }


def spectrum(scalings: Sequence[Spectrum], *, trained: int, target: int, title: str) -> FigureData:
    """Draw the wavelength of every pair under several scalings side by side.

    Args:
        scalings: One panel each.
        trained: Length trained, in tokens.
        target: Length to be read, in tokens.
        title: Which model.

    Returns:
        The figure, 12 inches wide, and ``wavelengths`` ``[P]``, ``scaled NAME`` ``[P]`` and ``fates NAME`` ``[P]``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    columns = _COLUMNS if len(scalings) % _COLUMNS else _COLUMNS - 1  # the legend has no row to itself
    rows = -(-(len(scalings) + 1) // columns)
    data: dict[str, Numbers] = {"wavelengths": scalings[0].wavelengths}
    with drawing():
        from matplotlib.lines import Line2D

        figure = new_figure(12, 3.3 * rows + 0.4)
        figure.suptitle(title, x=0.02, ha="left", fontweight="bold")
        panels = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
        for axes, scaling in zip(panels, scalings, strict=False):
            fates = np.array(scaling.fates)
            data |= {f"scaled {scaling.name}": scaling.scaled, f"fates {scaling.name}": fates}
            axes.plot(scaling.wavelengths, color=FAINT, linewidth=1)
            axes.axhline(trained, color=INK, linewidth=1, linestyle="--")
            axes.axhline(target, color=INK, linewidth=1, linestyle=":")
            for fate, (colour, marker) in FATE_MARKS.items():
                pairs = np.flatnonzero(fates == fate)
                axes.plot(pairs, scaling.scaled[pairs], marker, color=colour, markersize=4.5)
            note = f"new angles from token {scaling.first_unseen:,}" if scaling.first_unseen else "no angle is new"
            if scaling.attention_scale != 1:
                note += f"; attention scale {scaling.attention_scale:.3f}"
            axes.set_title(scaling.name, pad=20)
            axes.annotate(note, (0, 1.03), xycoords="axes fraction", fontsize=9, color=FAINT)
            axes.set_yscale("log")
        complete = int((scalings[0].wavelengths <= trained).sum())
        handles = [
            Line2D([], [], color=colour, marker=marker, linestyle="", markersize=6, label=FATE_MEANING[fate])
            for fate, (colour, marker) in FATE_MARKS.items()
            if any(fate in scaling.fates for scaling in scalings)
        ]
        handles += [
            Line2D([], [], color=FAINT, linewidth=1, label="wavelength before scaling"),
            Line2D([], [], color=INK, linewidth=1, linestyle="--", label=f"trained: {trained:,} tokens"),
            Line2D([], [], color=INK, linewidth=1, linestyle=":", label=f"to be read: {target:,} tokens"),
        ]
        legend = panels[len(scalings)]
        for axes in panels[len(scalings) :]:
            axes.set_axis_off()
        legend.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(-0.1 if columns == _COLUMNS else 0.0, 1.1),
            fontsize=8.5,
            borderaxespad=0,
            title=f"{complete} of {len(scalings[0].wavelengths)} pairs make a turn in training",
            title_fontproperties={"size": 9, "weight": "bold"},
            alignment="left",
            labelspacing=0.7,
        )
        # Wider than its panel, it would make the panels of its column narrower.
        legend.get_legend().set_in_layout(False)
        for number, axes in enumerate(panels[: len(scalings)]):
            if number % columns == 0:
                axes.set_ylabel("tokens of a full turn")
            if number + columns >= len(scalings):
                axes.set_xlabel("pair, the fastest first")
                axes.tick_params(labelbottom=True)
        settle(figure)
    return FigureData(figure, data)


register_figure(
    "spectrum",
    numbers=spectrum_numbers,
    draw=spectrum,
    caption=Caption(
        "Longer texts than the model was trained for",
        "A pair that made a full turn in training has seen every angle; the slower ones, above the dashed line, have "
        "not, and a longer text would turn them to angles the model never met. Each scaling slows pairs down in its "
        "own way: all alike (PI, position interpolation), more towards the slow end (NTK), or only those that need it.",
        "λ<sub>i</sub>&nbsp;= 2π&thinsp;/&thinsp;ω<sub>i</sub> tokens per turn; &nbsp; "
        "turns in training&nbsp;= L&thinsp;/&thinsp;λ<sub>i</sub>",
    ),
)
