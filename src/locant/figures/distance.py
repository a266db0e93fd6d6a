"""Decay with distance: of sinusoidal codes around a position, and of a rotary score at most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from locant.figures.drawing import BLUE, FAINT, MINUS, VERMILION, FigureData, Numbers, drawing, new_figure, settle
from locant.figures.registry import Caption, register_figure
from locant.positions import sinusoid_frequencies, sinusoid_table

_LINES = ((BLUE, "-"), (VERMILION, "--"))


_CENTRES = (500, 1_000_000)


def products_around(centre: int, *, d_model: int, reach: int, base: float) -> tuple[Numbers, Numbers]:
    """Return offsets ``-reach .. reach`` and the dot products of a position's code with those at the offsets.

    Returns:
        Both ``[2 reach + 1]``; the products are divided by ``d_model / 2``.

    Raises:
        ConfigError: A value is out of range.
    """
    offsets = torch.arange(-reach, reach + 1)
    rows = sinusoid_table(centre + offsets, d_model, base=base).double()
    return offsets.double().numpy(), (rows @ rows[reach] / (d_model / 2)).numpy()


def rotary_bound(*, head_dim: int, reach: int, base: float) -> tuple[Numbers, Numbers]:
    """Return the upper bound of a rotary score at distances 0 to ``reach``, up to a factor of the contents.

    Source: Su et al. 2021, "RoFormer", section 3.4.3, which bounds a score by summation by parts::

        |score(m, n)| <= max_i |h_(i+1) - h_i| * sum_(j=1)^(d/2) |S_j|        S_j = sum_(i=0)^(j-1) e^(i (m-n) theta_i)

    and plots the mean of ``|S_j|``, which is returned.

    Args:
        head_dim: Even number of rotated features, ``d``.
        reach: Largest distance in tokens.
        base: Base of the frequencies.

    Returns:
        Distances and bounds, ``[reach + 1]`` each.

    Raises:
        ConfigError: ``head_dim`` or ``base`` is out of range.
    """
    distances = torch.arange(reach + 1)
    angles = sinusoid_frequencies(head_dim, base=base).angles(distances)
    sums = torch.hypot(angles.cos().cumsum(-1), angles.sin().cumsum(-1))
    return distances.double().numpy(), sums.mean(-1).numpy()


def distance_numbers(*, d_model: int = 128, length: int = 250, base: float = 10000.0) -> dict[str, Any]:
    """Return the products of codes around two positions, and the bound of a rotary score up to ``length`` tokens."""
    around = [products_around(centre, d_model=d_model, reach=length // 2, base=base) for centre in _CENTRES]
    distances, bound = rotary_bound(head_dim=d_model, reach=length, base=base)
    return {
        "offsets": around[0][0],
        "products": [products for _, products in around],
        "centres": _CENTRES,
        "width": d_model,
        "distances": distances,
        "bound": bound,
        "head_dim": d_model,
    }


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


register_figure(
    "distance",
    numbers=distance_numbers,
    draw=distance,
    caption=Caption(
        "Before and after look alike",
        "Around any position the products fall to the left as to the right, so that on their own they cannot tell "
        "before from after. Rotary positions put the same cosines between queries and keys; the right panel is the "
        "bound that their authors prove for a score, which sinks as the tokens move apart.",
        "|score|&nbsp;≤ max<sub>i</sub> |h<sub>i+1</sub> &minus; h<sub>i</sub>| · Σ<sub>j</sub> |S<sub>j</sub>|, "
        "&nbsp; S<sub>j</sub>&nbsp;= Σ<sub>t&lt;j</sub> e<sup>i(m&minus;n)ω<sub>t</sub></sup> &nbsp;&nbsp; "
        "(Su et al. 2021, section 3.4.3)",
    ),
    limits={"length": (2, 10000), "d_model": (2, 1024)},
)
