"""The spectrum of a rotary model: how long each pair takes for a turn, before and after a scaling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

FATE_MARKS = {
    "kept": (BLUE, "o"),
    "blended": (ORANGE, "D"),
    "interpolated": (GREEN, "s"),
    "extrapolated": (VERMILION, "X"),
    "still": (PURPLE, "_"),
}
FATE_MEANING = {
    "kept": "kept: all its angles are known",
    "blended": "blended: slowed by less",
    "interpolated": "interpolated: no angle will be new",
    "extrapolated": "extrapolated: angles will be new",
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
    rows = -(-(len(scalings) + 1) // _COLUMNS)
    data: dict[str, Numbers] = {"wavelengths": scalings[0].wavelengths}
    with drawing():
        from matplotlib.lines import Line2D

        figure = new_figure(12, 3.3 * rows + 0.4)
        figure.suptitle(title, x=0.02, ha="left", fontweight="bold")
        panels = list(figure.subplots(rows, _COLUMNS, sharex=True, sharey=True, squeeze=False).flat)
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
            handles=handles, loc="upper left", bbox_to_anchor=(-0.1, 1.1), fontsize=8.5, borderaxespad=0,
            title=f"{complete} of {len(scalings[0].wavelengths)} pairs make a turn in training",
            title_fontproperties={"size": 9, "weight": "bold"}, alignment="left", labelspacing=0.7,
        )  # fmt: skip
        # Wider than its panel, it would make the panels of its column narrower.
        legend.get_legend().set_in_layout(False)
        for number, axes in enumerate(panels[: len(scalings)]):
            if number % _COLUMNS == 0:
                axes.set_ylabel("tokens of a full turn")
            if number + _COLUMNS >= len(scalings):
                axes.set_xlabel("pair, the fastest first")
                axes.tick_params(labelbottom=True)
        settle(figure)
    return FigureData(figure, data)
