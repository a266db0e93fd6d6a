"""Decay with distance: of sinusoidal codes around a position, and of a rotary score at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from locant.figures.drawing import BLUE, FAINT, MINUS, VERMILION, Numbers, label, new_figure
from locant.figures.registry import Caption, register_figure
from locant.positions import sinusoid_frequencies, sinusoid_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CENTRES = (500, 1_000_000)


def rotary_bound(*, head_dim: int, reach: int, base: float) -> Numbers:
    """Return the upper bound of a rotary score at distances 0 to ``reach``, up to a factor of the contents.

    Source: Su et al. 2021, "RoFormer", section 3.4.3, which bounds a score by summation by parts::

        |score(m, n)| <= max_i |h_(i+1) - h_i| * sum_(j=1)^(d/2) |S_j|        S_j = sum_(i=0)^(j-1) e^(i (m-n) theta_i)

    and plots the mean of ``|S_j|``, which is returned.

    Args:
        head_dim: Even number of rotated features, ``d``.
        reach: Largest distance in tokens.
        base: Base of the frequencies.

    Returns:
        ``[reach + 1]``.

    Raises:
        ConfigError: ``head_dim`` or ``base`` is out of range.
    """
    angles = sinusoid_frequencies(head_dim, base=base).angles(torch.arange(reach + 1))
    return torch.hypot(angles.cos().cumsum(-1), angles.sin().cumsum(-1)).mean(-1).numpy()


def numbers(*, d_model: int = 128, length: int = 250, base: float = 10000.0) -> dict[str, Any]:
    """Return the products of codes around two positions, and the bound of a rotary score up to ``length`` tokens."""
    reach = length // 2
    offsets = torch.arange(-reach, reach + 1)
    tables = {centre: sinusoid_table(centre + offsets, d_model, base=base).double() for centre in _CENTRES}
    return {
        "width": d_model,
        "offsets": offsets.double().numpy(),
        "distances": torch.arange(length + 1).double().numpy(),
        "bound": rotary_bound(head_dim=d_model, reach=length, base=base),
        **{f"products {centre}": (rows @ rows[reach] / (d_model / 2)).numpy() for centre, rows in tables.items()},
    }


def draw(offsets: Any, *, width: int, distances: Any, bound: Any, **products: Any) -> Figure:
    """Draw how nearness decays: of sinusoidal codes around a position, and of rotary scores at most."""
    figure = new_figure(11, 4.4)
    near, far = figure.subplots(1, 2)
    # The lines lie on each other, so that the second is thinner.
    styles: list[dict[str, Any]] = [{"lw": 5.0, "color": BLUE}, {"ls": "--", "color": VERMILION}]
    for centre, style in zip(_CENTRES, styles, strict=True):
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


register_figure(
    "distance",
    numbers=numbers,
    draw=draw,
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
