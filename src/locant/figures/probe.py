"""How well the position can be read from each layer of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from locant.figures.drawing import BLUE, FAINT, INK, VERMILION, FigureData, Numbers, drawing, new_figure, settle

_LINES = ((BLUE, "-", "o"), (VERMILION, "--", "s"))


@dataclass(frozen=True)
class ProbeCurve:
    """Readings of the position along the layers of one stack.

    Attributes:
        label: In which condition.
        r2: Share of the variance that is explained, ``[N]``.
        error: Mean absolute error in tokens, ``[N]``.
    """

    label: str
    r2: Numbers
    error: Numbers


def probe(
    stacks: Mapping[str, Sequence[ProbeCurve]], *, stages: Mapping[str, Sequence[str]], guesses: Mapping[str, float]
) -> FigureData:
    """Draw how well the position is read, stack by stack: explained variance above, error in tokens below.

    Args:
        stacks: Up to two curves by the name of the stack.
        stages: Where along the stack the readings were taken, ``N`` names each.
        guesses: Error in tokens of naming always the mean position.

    Returns:
        The figure, and ``r2 STACK, LABEL`` and ``error STACK, LABEL`` of every curve.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    data: dict[str, Numbers] = {}
    with drawing():
        figure = new_figure(5.4 * len(stacks), 6.6)
        panels = figure.subplots(2, len(stacks), sharex="col", sharey="row", squeeze=False)
        for (name, curves), (above, below) in zip(stacks.items(), panels.T, strict=True):
            for curve, (colour, style, marker) in zip(curves, _LINES, strict=False):
                # Worse than a guess is as good as nothing; how much worse would only stretch the axis.
                above.plot(np.maximum(curve.r2, 0), style, marker=marker, color=colour, label=curve.label)
                below.plot(curve.error, style, marker=marker, color=colour)
                data |= {f"r2 {name}, {curve.label}": curve.r2, f"error {name}, {curve.label}": curve.error}
            below.axhline(guesses[name], color=INK, linewidth=1, linestyle=":")
            below.annotate(
                "always the mean position", (0, guesses[name]), (2, 4), textcoords="offset points",
                fontsize=9, color=FAINT,
            )  # fmt: skip
            above.set_title(name, pad=9)
            above.set_ylim(-0.03, 1.03)
            below.set_xticks(range(len(stages[name])), stages[name], rotation=30, ha="right")
        worst = max(float(curve.error.max()) for curves in stacks.values() for curve in curves)
        panels[1, 0].set_ylim(0, 1.2 * max(worst, *guesses.values()))
        panels[0, 0].set_ylabel("explained variance, R²")
        panels[1, 0].set_ylabel("mean error in tokens")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=10)
        settle(figure)
    return FigureData(figure, data)
