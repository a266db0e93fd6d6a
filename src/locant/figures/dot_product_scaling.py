"""Dot product scaling: scores, softmax and its gradient against the width of a head, divided by sqrt(d_k) or not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from locant.figures.drawing import BLUE, FAINT, INK, VERMILION, FigureData, Numbers, drawing, new_figure, settle
from locant.figures.numbers import SEED
from locant.figures.registry import Caption, register_figure
from locant.positions import Mask, attend

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class ScoreStatistics:
    """Scores of random queries and keys, and what the softmax makes of them, for every width of a head.

    Attributes:
        variance: Of the scores, ``[N]``.
        entropy: Of the attention weights of a query, mean over queries, in nats, ``[N]``.
        gradient: Frobenius norm of the softmax's Jacobian: lower quartile, median and upper quartile of the queries,
            ``[N, 3]``.
        weights: Weights of one query at the width that is shown, the largest first, ``[K]``.
    """

    variance: Numbers
    entropy: Numbers
    gradient: Numbers
    weights: Numbers


_WIDTHS = tuple(2**power for power in range(11))
_SHOWN = 64  # d_k of the base model
_QUERIES, _MOST_KEYS = 256, 1024
_LEAST = 1e-4  # of the gradients that are drawn
_STYLES = ((VERMILION, "--", "s"), (BLUE, "-", "o"))


def score_statistics(width: int, *, keys: int, divided: bool) -> tuple[float, float, Numbers, Numbers]:
    """Return variance, entropy, norms of the Jacobian and one query's weights for features drawn from N(0, 1).

    Args:
        width: Features of a head, ``d_k``.
        keys: Number of keys.
        divided: Whether the products are divided by ``sqrt(d_k)``, as the attention of the models does.
    """
    source = torch.Generator().manual_seed(SEED + width)
    q = torch.randn(1, 1, _QUERIES, width, generator=source, dtype=torch.float64)
    k = torch.randn(1, 1, keys, width, generator=source, dtype=torch.float64)
    if not divided:
        q = q * math.sqrt(width)  # takes back the division inside
    identity = torch.eye(keys, dtype=torch.float64)[None, None]
    weights = attend(q, k, identity, Mask())[0, 0]
    scores = (q @ k.mT)[0, 0] / math.sqrt(width)
    entropy = torch.special.entr(weights).sum(-1).mean()
    # The Jacobian diag(p) - p p^T has the squares p_i^2 (1 - p_i)^2 on its diagonal and p_i^2 p_j^2 beside it.
    squares = weights.square().sum(-1)
    norms = (squares - 2 * weights.pow(3).sum(-1) + squares.square()).clamp_min(0).sqrt()
    quartiles = np.quantile(norms.numpy(), [0.25, 0.5, 0.75])
    return float(scores.var()), float(entropy), quartiles, weights[0].sort(descending=True).values.numpy()


def dot_product_scaling_numbers(*, length: int = 64) -> dict[str, Any]:
    """Return the statistics of the scores with and without the division, for ``length`` keys."""
    found = {}
    for label, divided in (("q · k", False), ("q · k / √d_k", True)):
        rows = [score_statistics(width, keys=length, divided=divided) for width in _WIDTHS]
        variance, entropy, gradient, _ = zip(*rows, strict=True)
        found[label] = ScoreStatistics(
            np.array(variance), np.array(entropy), np.stack(gradient), rows[_WIDTHS.index(_SHOWN)][3]
        )
    return {"widths": np.array(_WIDTHS, dtype=float), "kinds": found, "shown": _SHOWN}


def dot_product_scaling(widths: Numbers, kinds: Mapping[str, ScoreStatistics], *, shown: int) -> FigureData:
    """Draw variance, entropy and gradient against the width of a head, and the weights of one query.

    Args:
        widths: Features of a head, ``[N]``.
        kinds: Up to two kinds of scores by name, the undivided ones first.
        shown: The width whose weights are drawn.

    Returns:
        The figure, 11 inches wide, the widths, and ``variance``, ``entropy``, ``gradient`` and ``weights`` of every
        kind as ``WHAT: KIND``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    keys = len(next(iter(kinds.values())).weights)
    data: dict[str, Numbers] = {"widths": widths}
    with drawing():
        figure = new_figure(11, 7.8)
        ((above, entropy), (gradient, weights)) = figure.subplots(2, 2)
        for (label, kind), (colour, style, marker) in zip(kinds.items(), _STYLES, strict=False):
            name = label.replace("d_k", "$d_k$")
            line: dict[str, Any] = {"color": colour, "linestyle": style, "marker": marker, "markersize": 4.5}
            above.plot(widths, kind.variance, label=name, **line)
            entropy.plot(widths, kind.entropy, **line)
            low, median, high = kind.gradient.T
            gradient.plot(widths, median, **line)
            gradient.fill_between(widths, np.maximum(low, _LEAST), high, color=colour, alpha=0.15, linewidth=0)
            weights.plot(np.arange(1, keys + 1), kind.weights, **{**line, "marker": None})
            for what in ("variance", "entropy", "gradient", "weights"):
                data[f"{what}: {label}"] = getattr(kind, what)
        _finish(above, "Variance of the scores", "variance", widths)
        above.set_yscale("log", base=4)
        above.yaxis.set_major_formatter("{x:g}")
        _finish(entropy, "Entropy of the attention weights", "nats", widths)
        entropy.axhline(math.log(keys), color=FAINT, linewidth=1, linestyle=":")
        _note(entropy, f"all {keys} keys alike: log {keys}", widths[1], math.log(keys))
        entropy.set_ylim(0, 1.15 * math.log(keys))
        _finish(gradient, "Size of the softmax's gradient", "norm of ∂p / ∂score: median, quartiles", widths)
        gradient.set_yscale("log")
        gradient.set_ylim(_LEAST, 1)
        weights.set_title(f"Weights of one query at $d_k$ = {shown}", fontsize=11.5, pad=9)
        weights.set_xlabel("keys, the likeliest first")
        weights.set_ylabel("weight")
        weights.set_ylim(0, 1.03)
        above.legend(loc="upper left", fontsize=10)
        settle(figure)
    return FigureData(figure, data)


def _finish(axes: Axes, title: str, unit: str, widths: Numbers) -> None:
    axes.set_title(title, fontsize=11.5, pad=9)
    axes.set_xscale("log", base=2)
    ticks: Sequence[float] = [width for width in widths.tolist() if math.log2(width) % 2 == 0]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel("features of a head, $d_k$")
    axes.set_ylabel(unit)
    axes.minorticks_off()


def _note(axes: Axes, text: str, x: float, y: float) -> None:
    axes.annotate(text, (x, y), (0, 4), textcoords="offset points", fontsize=9, color=INK)


register_figure(
    "dot-product-scaling",
    numbers=dot_product_scaling_numbers,
    draw=dot_product_scaling,
    caption=Caption(
        "Why scores are divided by √d",
        "A product of two vectors is a sum of d terms; where these are independent with mean 0 and variance 1, the "
        "variance of the sum is d. Undivided scores therefore grow with the width of a head, the softmax gives nearly "
        "all weight to one key, and its gradient vanishes for ever more queries. Divided by √d the scores keep "
        "variance 1, and the softmax its shape, at every width.",
        "Var(q · k)&nbsp;= Σ<sub>i</sub> Var(q<sub>i</sub>&thinsp;k<sub>i</sub>)&nbsp;= d<sub>k</sub>, &nbsp; "
        "Var(q · k&thinsp;/&thinsp;√d<sub>k</sub>)&nbsp;= 1, &nbsp; "
        "∂p<sub>i</sub>&thinsp;/&thinsp;∂s<sub>j</sub>&nbsp;= p<sub>i</sub> (δ<sub>ij</sub> &minus; p<sub>j</sub>)",
        (
            "A few features do no harm yet: moderately larger scores even make the gradient larger. At hundreds of "
            "features that of the typical query is gone.",
            "Vaswani et al. 2017, section 3.2.1, footnote 4. Queries and keys are drawn at random here; those of a "
            "trained model need not have variance 1.",
        ),
    ),
    limits={"length": (2, _MOST_KEYS)},
)
