"""Dot products of position codes, and how attention to far positions decays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from locant.figures.drawing import (
    BLUE,
    FAINT,
    GREEN,
    MINUS,
    VERMILION,
    FigureData,
    Numbers,
    colour_scale,
    colours,
    drawing,
    new_figure,
    settle,
)

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
                    products.first_rise, row[products.first_rise], "o",
                    color=colour, markersize=9, markeredgecolor="white", zorder=4,
                )  # fmt: skip
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


def distance(
    offsets: Numbers,
    products: Sequence[Numbers],
    *,
    centres: Sequence[int],
    width: int,
    distances: Numbers,
    bound: Numbers,
    head_dim: int,
) -> FigureData:
    """Draw how nearness decays: of sinusoidal codes around a position, and of rotary scores at most.

    Args:
        offsets: Offsets ``[N]`` around a position, of both signs, in tokens.
        products: For each centre the dot products ``[N]`` of its code with those at the offsets, as a share of its
            product with itself.
        centres: The positions.
        width: Width of the codes.
        distances: Distances ``[M]`` between query and key, in tokens.
        bound: Upper bound ``[M]`` of a rotary score, up to a factor that depends on the contents.
        head_dim: Rotated features.

    Returns:
        The figure, 11 inches wide, and the arrays; the products are ``products p`` for each centre ``p``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with drawing():
        figure = new_figure(11, 4.4)
        near, far = figure.subplots(1, 2)
        for centre, row, (colour, style) in zip(centres, products, _LINES, strict=False):
            # The lines lie on each other, so that later ones are thinner.
            thickness = 5.0 if centre == centres[0] else 1.6
            near.plot(offsets, row, style, color=colour, linewidth=thickness, label=f"around position p = {centre:,}")
        near.axhline(0, color=FAINT, linewidth=0.8)
        near.set_title(f"Sinusoidal codes, d = {width}: the same on both sides", fontsize=11, pad=10)
        near.set_xlabel("offset k in tokens")
        near.set_ylabel("PE(p) · PE(p + k) / (d/2)")
        near.set_ylim(min(0.0, *(1.1 * row.min() for row in products)), 1.05)
        near.set_xlim(offsets[0], offsets[-1])
        near.legend(loc="lower left", fontsize=9.5)
        far.plot(distances, bound, color=BLUE)
        far.set_title(f"RoPE, d = {head_dim}: upper bound of a score", fontsize=11, pad=10)
        far.set_xlabel(f"distance |m {MINUS} n| in tokens")
        far.set_ylabel("mean of |Sⱼ|, j = 1 … d/2")
        far.set_xlim(distances[0], distances[-1])
        far.set_ylim(bottom=0)
        settle(figure)
    data = {"offsets": offsets, "distances": distances, "bound": bound}
    return FigureData(figure, data | {f"products {centre}": row for centre, row in zip(centres, products, strict=True)})
