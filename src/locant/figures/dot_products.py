"""Dot products of sinusoidal codes: of all pairs of positions, and against the distance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from locant.analysis.geometry import measure_geometry
from locant.figures.drawing import (
    BLUE,
    FAINT,
    GREEN,
    VERMILION,
    FigureData,
    Numbers,
    colour_scale,
    colours,
    drawing,
    new_figure,
    settle,
)
from locant.figures.registry import Caption, register_figure
from locant.positions import sinusoid_table

_LINES = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."))


@dataclass(frozen=True)
class Products:
    """Dot products of the codes of one width.

    Attributes:
        matrix: Of every pair of positions ``[L, L]``, as a share of a code's product with itself.
        first_rise: First offset at which they are larger than at the offset before, ``None`` where there is none.
    """

    matrix: Numbers
    first_rise: int | None


_WIDTHS = (20, 64, 512)


def product_matrix(*, d_model: int, length: int, base: float) -> Products:
    """Return the dot products of all pairs of ``length`` sinusoidal codes, divided by ``d_model / 2``.

    Raises:
        ConfigError: A value is out of range.
    """
    table = sinusoid_table(torch.arange(length), d_model, base=base).double()
    return Products((table @ table.T / (d_model / 2)).numpy(), measure_geometry(table).first_rise)


def dot_products_numbers(*, length: int = 100, base: float = 10000.0) -> dict[str, Any]:
    """Return the dot products of codes of three widths."""
    return {
        "widths": {width: product_matrix(d_model=width, length=length, base=base) for width in _WIDTHS},
        "base": base,
    }


def dot_products(widths: Mapping[int, Products], *, base: float) -> FigureData:
    """Draw the dot products of all pairs of positions, and their first row against the distance.

    Args:
        widths: Dot products by the width of the code; up to three.
        base: Base of the wavelengths, for the title.

    Returns:
        The figure, 11 inches wide, and each ``matrix d`` and ``first row d``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    data: dict[str, Numbers] = {}
    with drawing():
        figure = new_figure(11, 7.6)
        figure.suptitle(f"Dot products of sinusoidal codes, base {base:,g}", x=0.02, ha="left", fontweight="bold")
        panels = figure.subplot_mosaic(
            [[str(width) for width in widths], ["curve"] * len(widths)], height_ratios=[1.15, 1]
        )
        scale, limits = colours(np.stack([products.matrix for products in widths.values()]))
        curve = panels["curve"]
        for (width, products), (colour, style) in zip(widths.items(), _LINES, strict=False):
            axes = panels[str(width)]
            image = axes.imshow(products.matrix, cmap=scale, norm=limits, interpolation="none")
            axes.set_title(f"d = {width}", pad=8)
            axes.set_xlabel("position q")
            axes.set_ylabel("position p")
            axes.grid(visible=False)
            row = products.matrix[0]
            data |= {f"matrix {width}": products.matrix, f"first row {width}": row}
            label = f"d = {width}"
            if products.first_rise is not None:
                label += f", first rise at distance {products.first_rise}"
                curve.plot(
                    products.first_rise,
                    row[products.first_rise],
                    "o",
                    color=colour,
                    markersize=9,
                    markeredgecolor="white",
                    zorder=4,
                )
            curve.plot(row, style, color=colour, label=label)
            last = (axes, image)
        colour_scale(*last, "PE(p) · PE(q) / (d/2)")
        curve.axhline(0, color=FAINT, linewidth=0.8)
        curve.set_title("From position 0: close in the text is close in the code, up to a point", pad=8)
        curve.set_xlabel("distance in tokens")
        curve.set_ylabel("PE(0) · PE(k) / (d/2)")
        curve.set_xlim(0, len(row) - 1)
        curve.legend(loc="upper right")
        settle(figure)
    return FigureData(figure, data)


register_figure(
    "dot-products",
    numbers=dot_products_numbers,
    draw=dot_products,
    caption=Caption(
        "Near in the text, near in the code",
        "The product of two codes depends on their distance alone, which is why the matrices have equal diagonals. It "
        "falls at first and then ripples: the wider the code, the farther nearness can be trusted. A dot marks "
        "the first distance that looks nearer than the one before.",
        "PE(p) · PE(p + k)&nbsp;= Σ<sub>i</sub> cos(k&thinsp;ω<sub>i</sub>)",
    ),
    limits={"length": (2, 1024)},
)
