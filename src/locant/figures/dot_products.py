"""Dot products of sinusoidal codes: of all pairs of positions, and against the distance."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from locant.analysis.geometry import measure_geometry
from locant.figures.drawing import Figure, colour_scale, colours, draw_image, label, new_figure
from locant.figures.palette import FAINT, LINES, PAPER
from locant.figures.registry import register_figure
from locant.positions import sinusoid_table

_WIDTHS = (20, 64, 512)


def numbers(*, length: int = 100, base: float = 10000.0) -> dict[str, Any]:
    """Return the dot products of codes of three widths, as a share of a code's product with itself.

    ``rises`` are the first offsets at which they are larger than at the offset before.
    """
    found: dict[str, Any] = {"base": base, "rises": []}
    for width in _WIDTHS:
        table = sinusoid_table(torch.arange(length), width, base=base).double()
        matrix = (table @ table.T / (width / 2)).numpy()
        found |= {f"matrix {width}": matrix, f"first row {width}": matrix[0]}
        found["rises"].append(measure_geometry(table).first_rise)
    return found


def draw(base: float, rises: list[int | None], **data: Any) -> Figure:
    """Draw the dot products of all pairs of positions, and their first row against the distance."""
    figure = new_figure(11, 7.6)
    figure.suptitle(f"Dot products of sinusoidal codes, base {base:,g}", x=0.02, ha="left", fontweight="bold")
    found = figure.subplot_mosaic([[str(width) for width in _WIDTHS], ["curve"] * 3], height_ratios=[1.15, 1])
    scale = colours(np.stack([data[f"matrix {width}"] for width in _WIDTHS]))
    curve = found["curve"]
    for width, rise, (color, stroke, _) in zip(_WIDTHS, rises, LINES, strict=False):
        image = draw_image(found[str(width)], data[f"matrix {width}"], scale)
        label(found[str(width)], f"d = {width}", "position q", "position p")
        row, name = data[f"first row {width}"], f"d = {width}"
        if rise is not None:
            name += f", first rise at distance {rise}"
            curve.plot(rise, row[rise], "o", color=color, markersize=9, markeredgecolor=PAPER, zorder=4)
        curve.plot(row, stroke, color=color, label=name)
    colour_scale(found[str(_WIDTHS[-1])], image, "PE(p) · PE(q) / (d/2)")
    curve.axhline(0, color=FAINT, linewidth=0.8)
    label(curve, "From position 0: close in the text is close in the code, up to a point", "distance in tokens")
    curve.set(ylabel="PE(0) · PE(k) / (d/2)", xlim=(0, len(row) - 1))
    curve.legend(loc="upper right")
    return figure


register_figure("dot-products", numbers, draw, limits={"length": (2, 1024)})
