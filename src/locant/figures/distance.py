"""Decay with distance: of sinusoidal codes, of a rotary score at most, and of one where only a part turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from locant.figures.drawing import MINUS, Figure, count, label, new_figure
from locant.figures.palette import BLUE, FAINT, GREEN, VERMILION
from locant.figures.registry import register_figure
from locant.positions import Rotary, sinusoid_frequencies, sinusoid_table

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


_HEAD = 128
_FACTORS = ((1.0, BLUE, "-"), (0.5, VERMILION, "--"), (0.25, GREEN, "-."))


def partial_numbers(*, length: int = 32_768, base: float = 10000.0) -> dict[str, Any]:
    """Return the score of equal features by distance for each factor, as a share of that at distance 0."""
    distances = np.unique(np.geomspace(1, length, 400).astype(int))
    positions = torch.from_numpy(distances)
    scores = []
    for factor, _, _ in _FACTORS:
        rope = Rotary(_HEAD, base=base, rotary_dim=int(_HEAD * factor))
        ones = torch.ones(1, 1, len(distances), _HEAD, dtype=torch.float64)
        q, k = rope(ones[:, :, :1], ones, torch.zeros(1, dtype=torch.long), positions)
        scores.append((q @ k.mT)[0, 0, 0].numpy() / _HEAD)
    return {"distances": distances, "scores": np.stack(scores)}


def draw_partial(distances: Any, *, scores: Any) -> Figure:
    """Draw the scores against the distance."""
    figure = new_figure(9, 4.2)
    axes = figure.subplots()
    for (factor, colour, stroke), score in zip(_FACTORS, scores, strict=True):
        name = "all features turn" if factor == 1 else f"partial rotary factor {factor:g}"
        axes.plot(distances, score, stroke, color=colour, label=name)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, place: count(int(value)))
    label(axes, "A query and a key with equal features", "distance in tokens", "score, at distance 0 it is 1")
    axes.legend(loc="lower left")
    return figure


register_figure("distance", numbers, draw, limits={"length": (2, 10000), "d_model": (2, 1024)})
register_figure("partial-rotary", partial_numbers, draw_partial, limits={"length": (64, 1_000_000)})
