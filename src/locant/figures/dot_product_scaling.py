"""Dot product scaling: scores, softmax and its gradient against the width of a head, divided by sqrt(d_k) or not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from locant.figures.drawing import BLUE, FAINT, VERMILION, label, new_figure
from locant.figures.numbers import SEED
from locant.figures.registry import Caption, register_figure
from locant.positions import Mask, attend

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTHS = tuple(2**power for power in range(11))
_SHOWN = 64  # d_k of the base model
_QUERIES = 256
_LEAST = 1e-4  # of the gradients that are drawn
_KINDS = {"q · k": (VERMILION, "--", "s"), "q · k / √d_k": (BLUE, "-", "o")}


def score_statistics(width: int, *, keys: int, divided: bool) -> dict[str, Any]:
    """Return what the softmax makes of the scores of features drawn from N(0, 1).

    Args:
        width: Features of a head, ``d_k``.
        keys: Number of keys.
        divided: Whether the products are divided by ``sqrt(d_k)``, as the attention of the models does.

    Returns:
        ``variance`` of the scores, mean ``entropy`` of a query's weights in nats, quartiles ``[3]`` of the Frobenius
        norm of the softmax's Jacobian as ``gradient``, and the ``weights`` ``[keys]`` of one query, the largest first.
    """
    source = torch.Generator().manual_seed(SEED + width)
    q = torch.randn(1, 1, _QUERIES, width, generator=source, dtype=torch.float64)
    k = torch.randn(1, 1, keys, width, generator=source, dtype=torch.float64)
    if not divided:
        q = q * math.sqrt(width)  # takes back the division inside
    weights = attend(q, k, torch.eye(keys, dtype=torch.float64)[None, None], Mask())[0, 0]
    # The Jacobian diag(p) - p p^T has the squares p_i^2 (1 - p_i)^2 on its diagonal and p_i^2 p_j^2 beside it.
    squares = weights.square().sum(-1)
    norms = (squares - 2 * weights.pow(3).sum(-1) + squares.square()).clamp_min(0).sqrt()
    return {
        "variance": float(((q @ k.mT)[0, 0] / math.sqrt(width)).var()),
        "entropy": float(torch.special.entr(weights).sum(-1).mean()),
        "gradient": np.quantile(norms.numpy(), [0.25, 0.5, 0.75]),
        "weights": weights[0].sort(descending=True).values.numpy(),
    }


def numbers(*, length: int = 64) -> dict[str, Any]:
    """Return the statistics of the scores by width with and without the division, for ``length`` keys."""
    found: dict[str, Any] = {"widths": np.array(_WIDTHS, dtype=float)}
    for kind in _KINDS:
        rows = [score_statistics(width, keys=length, divided="/" in kind) for width in _WIDTHS]
        found |= {f"{what}: {kind}": np.array([row[what] for row in rows]) for what in rows[0] if what != "weights"}
        found[f"weights: {kind}"] = rows[_WIDTHS.index(_SHOWN)]["weights"]
    return found


def draw(widths: Any, **data: Any) -> Figure:
    """Draw variance, entropy and gradient against the width of a head, and the weights of one query."""
    figure = new_figure(11, 7.8)
    ((above, entropy), (gradient, weights)) = figure.subplots(2, 2)
    for kind, (color, stroke, mark) in _KINDS.items():
        line: dict[str, Any] = {"color": color, "linestyle": stroke}
        dotted = {**line, "marker": mark, "markersize": 4.5}
        above.plot(widths, data[f"variance: {kind}"], label=kind.replace("d_k", "$d_k$"), **dotted)
        entropy.plot(widths, data[f"entropy: {kind}"], **dotted)
        low, median, high = data[f"gradient: {kind}"].T
        gradient.plot(widths, median, **dotted)
        gradient.fill_between(widths, np.maximum(low, _LEAST), high, color=color, alpha=0.15, linewidth=0)
        shown = data[f"weights: {kind}"]
        weights.plot(np.arange(1, len(shown) + 1), shown, **line)
    keys, features = len(shown), "features of a head, $d_k$"
    label(above, "Variance of the scores", features, "variance")
    above.set_yscale("log", base=4)
    above.yaxis.set_major_formatter("{x:g}")
    above.legend(loc="upper left")
    label(entropy, "Entropy of the attention weights", features, "nats")
    entropy.axhline(math.log(keys), color=FAINT, linewidth=1, linestyle=":")
    place: dict[str, Any] = {"xytext": (0, 4), "textcoords": "offset points", "fontsize": 9}
    entropy.annotate(f"all {keys} keys alike: log {keys}", (widths[1], math.log(keys)), **place)
    entropy.set_ylim(0, 1.15 * math.log(keys))
    label(gradient, "Size of the softmax's gradient", features, "norm of ∂p / ∂score: median, quartiles", log="y")
    gradient.set_ylim(_LEAST, 1)
    for axes in (above, entropy, gradient):
        axes.set_xscale("log", base=2)
        axes.set_xticks(widths[::2], [f"{width:g}" for width in widths[::2]])
        axes.minorticks_off()
    label(weights, f"Weights of one query at $d_k$ = {_SHOWN}", "keys, the likeliest first", "weight")
    weights.set_ylim(0, 1.03)
    return figure


register_figure(
    "dot-product-scaling",
    numbers=numbers,
    draw=draw,
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
    limits={"length": (2, 1024)},
)
