"""Decay with distance: of sinusoidal codes around a position, and of a rotary score at most."""

from __future__ import annotations

from typing import Any

import torch

from locant.figures.drawing import MINUS, Figure, label, new_figure
from locant.figures.palette import BLUE, FAINT, VERMILION
from locant.figures.registry import register_figure
from locant.positions import sinusoid_frequencies, sinusoid_table

# The lines lie on each other, so that the second is thinner.
_CENTRES: dict[int, dict[str, Any]] = {500: {"lw": 5.0, "color": BLUE}, 1_000_000: {"ls": "--", "color": VERMILION}}


def numbers(*, d_model: int = 128, length: int = 250, base: float = 10000.0) -> dict[str, Any]:
    """Return the products of codes around two positions, and the bound of a rotary score up to ``length`` tokens.

    Source of the bound: Su et al. 2021, "RoFormer", section 3.4.3, which bounds a score by summation by parts::

        |score(m, n)| <= max_i |h_(i+1) - h_i| * sum_(j=1)^(d/2) |S_j|        S_j = sum_(i=0)^(j-1) e^(i (m-n) theta_i)

    and plots the mean of ``|S_j|``, which is returned.
    """
    reach = length // 2
    offsets, distances = torch.arange(-reach, reach + 1), torch.arange(length + 1)
    angles = sinusoid_frequencies(d_model, base=base).angles(distances)
    tables = {centre: sinusoid_table(centre + offsets, d_model, base=base).double() for centre in _CENTRES}
    return {
        "width": d_model,
        "offsets": offsets.double().numpy(),
        "distances": distances.double().numpy(),
        "bound": torch.hypot(angles.cos().cumsum(-1), angles.sin().cumsum(-1)).mean(-1).numpy(),
        **{f"products {centre}": (rows @ rows[reach] / (d_model / 2)).numpy() for centre, rows in tables.items()},
    }


def draw(offsets: Any, *, width: int, distances: Any, bound: Any, **products: Any) -> Figure:
    """Draw how nearness decays: of sinusoidal codes around a position, and of rotary scores at most."""
    figure = new_figure(11, 4.4)
    near, far = figure.subplots(1, 2)
    for centre, style in _CENTRES.items():
        near.plot(offsets, products[f"products {centre}"], label=f"around position p = {centre:,}", **style)
    near.axhline(0, color=FAINT, linewidth=0.8)
    label(near, f"Sinusoidal codes, d = {width}: the same on both sides", "offset k in tokens")
    low = min(0.0, *(1.1 * row.min() for row in products.values()))
    near.set(ylabel="PE(p) · PE(p + k) / (d/2)", ylim=(low, 1.05), xlim=(offsets[0], offsets[-1]))
    near.legend(loc="lower left")
    far.plot(distances, bound, color=BLUE)
    label(far, f"RoPE, d = {width}: upper bound of a score", f"distance |m {MINUS} n| in tokens")
    far.set(ylabel="mean of |Sⱼ|, j = 1 … d/2", xlim=(distances[0], distances[-1]))
    far.set_ylim(bottom=0)
    return figure


register_figure("distance", numbers, draw, limits={"length": (2, 10000), "d_model": (2, 1024)})
