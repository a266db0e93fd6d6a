"""Dot product scaling: scores, softmax and its gradient against the width of a head, divided by sqrt(d_k) or not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from locant.figures.drawing import Figure, label, new_figure
from locant.figures.numbers import SEED
from locant.figures.palette import BLUE, FAINT, VERMILION
from locant.figures.registry import register_figure
from locant.positions import Mask, attend

_WIDTHS = tuple(2**power for power in range(11))
_SHOWN = 64  # d_k of the base model
_QUERIES = 256
_LEAST = 1e-4  # of the gradients that are drawn
_KINDS = {"q · k": (VERMILION, "--", "s"), "q · k / √d_k": (BLUE, "-", "o")}


def numbers(*, length: int = 64) -> dict[str, Any]:
    """Return what the softmax makes of the scores of features drawn from N(0, 1), by width, for ``length`` keys.

    With and without the division: ``variance`` of the scores, mean ``entropy`` of a query's weights in nats, quartiles
    of the Frobenius norm of the softmax's Jacobian as ``gradient``, and the ``weights`` of one query.
    """
    found: dict[str, Any] = {"widths": np.array(_WIDTHS, dtype=float)}
    for kind in _KINDS:
        rows: dict[str, list[Any]] = {"variance": [], "entropy": [], "gradient": []}
        for width in _WIDTHS:
            source = torch.Generator().manual_seed(SEED + width)
            q = torch.randn(1, 1, _QUERIES, width, generator=source, dtype=torch.float64)
            k = torch.randn(1, 1, length, width, generator=source, dtype=torch.float64)
            if "/" not in kind:
                q = q * math.sqrt(width)  # takes back the division inside
            weights = attend(q, k, torch.eye(length, dtype=torch.float64)[None, None], Mask())[0, 0]
            # The Jacobian diag(p) - p p^T has the squares p_i^2 (1 - p_i)^2 on its diagonal and p_i^2 p_j^2 beside it.
            squares = weights.square().sum(-1)
            norms = (squares - 2 * weights.pow(3).sum(-1) + squares.square()).clamp_min(0).sqrt()
            rows["variance"].append(float(((q @ k.mT)[0, 0] / math.sqrt(width)).var()))
            rows["entropy"].append(float(torch.special.entr(weights).sum(-1).mean()))
            rows["gradient"].append(np.quantile(norms.numpy(), [0.25, 0.5, 0.75]))
            if width == _SHOWN:
                found[f"weights: {kind}"] = weights[0].sort(descending=True).values.numpy()
        found |= {f"{what}: {kind}": np.array(values) for what, values in rows.items()}
    return found


def draw(widths: Any, **data: Any) -> Figure:
    """Draw variance, entropy and gradient against the width of a head, and the weights of one query."""
    figure = new_figure(11, 7.8)
    ((above, entropy), (gradient, weights)) = figure.subplots(2, 2)
    for kind, (color, stroke, mark) in _KINDS.items():
        line: dict[str, Any] = {"color": color, "linestyle": stroke, "label": kind.replace("d_k", "$d_k$")}
        dotted = {**line, "marker": mark, "markersize": 4.5}
        above.plot(widths, data[f"variance: {kind}"], **dotted)
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


register_figure("dot-product-scaling", numbers, draw, limits={"length": (2, 1024)})
