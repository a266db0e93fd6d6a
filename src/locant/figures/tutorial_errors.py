"""Common statements, each held against the numbers that refute it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from locant.figures.drawing import BLUE, FAINT, GREEN, INK, VERMILION, FigureData, Numbers, drawing, new_figure, settle

_LINES = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."))


@dataclass(frozen=True)
class Curve:
    """One line.

    Attributes:
        label: What it is.
        x: Places ``[N]``.
        y: Values ``[N]``.
        marked: Index of a point that is marked.
        dotted: Draw the points, where there are few.
    """

    label: str
    x: Numbers
    y: Numbers
    marked: int | None = None
    dotted: bool = False


@dataclass(frozen=True)
class Refutation:
    """A statement and what is computed instead.

    Attributes:
        claim: The statement.
        finding: What the numbers say, in a line or two.
        curves: The numbers, up to three.
        axes: What the two axes are.
        logarithmic: Which axes are, of ``x`` and ``y``.
    """

    claim: str
    finding: str
    curves: Sequence[Curve]
    axes: tuple[str, str]
    logarithmic: str = ""


def tutorial_errors(refutations: Sequence[Refutation]) -> FigureData:
    """Draw statements and what refutes them, two panels in a row.

    Args:
        refutations: One panel each.

    Returns:
        The figure, 11 inches wide, and ``CLAIM: LABEL`` of every curve, ``[2, N]``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    data: dict[str, Numbers] = {}
    with drawing():
        import numpy as np

        rows = -(-len(refutations) // 2)
        figure = new_figure(11, 4.1 * rows)
        panels = list(figure.subplots(rows, 2, squeeze=False).flat)
        for axes, refutation in zip(panels, refutations, strict=False):
            for curve, (colour, style) in zip(refutation.curves, _LINES, strict=False):
                marker = "o" if curve.dotted else None
                axes.plot(curve.x, curve.y, style, marker=marker, markersize=4, color=colour, label=curve.label)
                if curve.marked is not None:
                    axes.plot(
                        curve.x[curve.marked], curve.y[curve.marked], "o",
                        color=INK, markersize=8, markeredgecolor="white", zorder=4,
                    )  # fmt: skip
                data[f"{refutation.claim}: {curve.label}"] = np.stack((curve.x, curve.y))
            axes.set_title(f"“{refutation.claim}”", fontsize=11.5, pad=36)
            axes.annotate(
                refutation.finding, (0, 1), (0, 6), xycoords="axes fraction", textcoords="offset points",
                fontsize=9.5, color=FAINT, linespacing=1.3,
            )  # fmt: skip
            axes.set_xlabel(refutation.axes[0])
            axes.set_ylabel(refutation.axes[1])
            if "x" in refutation.logarithmic:
                axes.set_xscale("log", base=2)
                axes.set_xticks(refutation.curves[0].x, [f"{x:g}" for x in refutation.curves[0].x])
                axes.minorticks_off()
            if "y" in refutation.logarithmic:
                axes.set_yscale("log")
            if len(refutation.curves) > 1:
                low, high = axes.get_ylim()
                axes.set_ylim(low, 15 * high if "y" in refutation.logarithmic else high + 0.3 * (high - low))
                axes.legend(loc="upper left", fontsize=9)
        for axes in panels[len(refutations) :]:
            axes.set_axis_off()
        settle(figure)
    return FigureData(figure, data)
