"""Layer norm beside batch norm: the same tensor, other axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from locant.figures.drawing import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    PURPLE,
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
from locant.models.layer_norm import layer_norm as model_layer_norm

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LENGTHS, _WIDTH, _SEED = (6, 4, 3), 8, 4
_PADDED = 12  # tokens of a longer neighbour
_MARKS = ((INK, "o", "-"), (BLUE, "s", "--"), (VERMILION, "^", "-."), (GREEN, "D", ":"), (PURPLE, "v", "--"))


@dataclass(frozen=True)
class NormedBatch:
    """A batch before or after a norm.

    Attributes:
        title: What was done.
        values: ``[B, L, E]``.
        group: Which values share one mean and one variance, as ``(row, token, feature)``, ``-1`` for all of an axis.
    """

    title: str
    values: Numbers
    group: tuple[int, int, int] | None = None


def batch_norm(x: Tensor, eps: float = 1e-5) -> Tensor:
    """Return a batch ``[B, L, E]`` with every feature standardised over all tokens of all rows.

    Source: Ioffe and Szegedy 2015, "Batch Normalization", algorithm 1, with gain 1 and bias 0. Padding counts as any
    other token. :class:`torch.nn.BatchNorm1d` does the same in training, but refuses a single token.
    """
    mean = x.mean((0, 1), keepdim=True)
    return (x - mean) / (x.var((0, 1), unbiased=False, keepdim=True) + eps).sqrt()


def _layer(x: Tensor) -> Tensor:
    return model_layer_norm(x, nn.LayerNorm(x.shape[-1], dtype=x.dtype))


def _padded(x: Tensor, length: int) -> Tensor:
    return nn.functional.pad(x, (0, 0, 0, length - x.shape[1]))


def layer_norm_numbers() -> dict[str, Any]:
    """Return a padded batch under both norms, and one token of it among other neighbours."""
    generator = torch.Generator().manual_seed(_SEED)
    scale, middle = (torch.rand(2, _WIDTH, generator=generator, dtype=torch.float64) * 2).unbind()
    x = torch.randn(len(_LENGTHS), max(_LENGTHS), _WIDTH, generator=generator, dtype=torch.float64)
    real = torch.arange(max(_LENGTHS)) < torch.tensor(_LENGTHS)[:, None]
    x = (x * (0.3 + scale) + middle - 1) * real[..., None]
    last, length = x[2:], _LENGTHS[2]
    settings = {
        "in this batch": x[[2, 0, 1]],
        f"beside a text of {_PADDED} tokens": _padded(x[[2, 0, 1]], _PADDED),
        "alone, padded to 6": last,
        "alone": last[:, :length],
        "its first token alone": last[:, :1],
    }
    with torch.no_grad():
        seen = {
            norm: {name: function(given)[0, 0].numpy() for name, given in settings.items()}
            for norm, function in (("Layer norm", _layer), ("Batch norm", batch_norm))
        }
        batches = [
            NormedBatch("The batch", x.numpy()),
            NormedBatch("Layer norm: one token, all features", _layer(x).numpy(), (0, 1, -1)),
            NormedBatch("Batch norm: one feature, all tokens", batch_norm(x).numpy(), (-1, -1, 2)),
        ]
    return {"batches": batches, "lengths": _LENGTHS, "seen": seen}


def layer_norm(
    batches: Sequence[NormedBatch], *, lengths: Sequence[int], seen: Mapping[str, Mapping[str, Numbers]]
) -> FigureData:
    """Draw a batch before and after two norms, and what each makes of one token among other neighbours.

    Args:
        batches: The batch as it is and after each norm, ``[B, L, E]``.
        lengths: Real tokens of each row, ``B``; the others are padding.
        seen: By norm and by batch the first token of the last row, ``[E]``.

    Returns:
        The figure and the arrays.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with drawing():
        figure = new_figure(13, 8.2)
        parts: Any = figure.subfigures(2, 1, height_ratios=[1.5, 1])
        above, below = parts
        panels = list(above.subplots(1, len(batches)))
        for axes, batch in zip(panels, batches, strict=True):
            _draw_batch(axes, batch, lengths)
        for axes, (norm, tokens) in zip(below.subplots(1, len(seen), sharey=True), seen.items(), strict=True):
            for (name, values), (colour, marker, style) in zip(tokens.items(), _MARKS, strict=False):
                axes.plot(values, style, marker=marker, markersize=5, linewidth=1.3, color=colour, label=name)
            axes.set_title(f"{norm}: the first token of sentence {len(lengths)}", pad=8, fontsize=11)
            axes.set_xlabel("feature")
            axes.set_xticks(range(len(next(iter(tokens.values())))))
        below.axes[0].set_ylabel("value after the norm")
        below.axes[-1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9, title="with the sentence")
        settle(figure)
    data = {batch.title: batch.values for batch in batches}
    for norm, tokens in seen.items():
        data |= {f"{norm}: {name}": values for name, values in tokens.items()}
    return FigureData(figure, data)


def _draw_batch(axes: Axes, batch: NormedBatch, lengths: Sequence[int]) -> None:
    from matplotlib.patches import Rectangle

    rows, length, width = batch.values.shape
    stride = length + 1  # an empty line between two sentences
    shades, limits = colours(np.concatenate((batch.values.ravel(), -batch.values.ravel())))
    grid = np.full((rows * stride - 1, width), np.nan)
    for row in range(rows):
        grid[row * stride : row * stride + length] = batch.values[row]
    image = axes.imshow(grid, cmap=shades, norm=limits, aspect="auto")
    for row, real in enumerate(lengths):
        if real < length:
            size = (width, length - real)
            corner = (-0.5, row * stride + real - 0.5)
            axes.add_patch(Rectangle(corner, *size, fill=False, hatch="////", edgecolor=FAINT, linewidth=0))
            if batch.group is None:
                axes.text(
                    width / 2 - 0.5,
                    corner[1] + size[1] / 2,
                    "padding",
                    ha="center",
                    va="center",
                    fontsize=9,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
                )
    if batch.group:
        row, token, feature = batch.group
        for each in range(rows) if row < 0 else (row,):
            top = each * stride + (0 if token < 0 else token)
            high, wide = (length if token < 0 else 1), (width if feature < 0 else 1)
            corner = (max(feature, 0) - 0.5, top - 0.5)
            axes.add_patch(Rectangle(corner, wide, high, fill=False, edgecolor=INK, linewidth=2.4, clip_on=False))
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.set_xticks(range(width))
    axes.set_yticks([row * stride + (length - 1) / 2 for row in range(rows)])
    axes.set_yticklabels([f"sentence {row + 1}" for row in range(rows)], rotation=90, va="center")
    axes.tick_params(length=0)
    axes.set_xlabel("feature")
    axes.set_title(batch.title, fontsize=11, pad=8)
    colour_scale(axes, image)


register_figure(
    "layer-norm",
    numbers=layer_norm_numbers,
    draw=layer_norm,
    caption=Caption(
        "Layer norm and batch norm: the same tensor, other axes",
        "Layer norm takes mean and variance over the features of one token, batch norm over all tokens of the batch "
        "for one feature (framed). So a token comes out of layer norm the same whatever stands beside it; out of batch "
        "norm it changes with its neighbours and with the padding, and of a token that is alone nothing is left: every "
        "feature is its own mean.",
        "layer norm: y<sub>bte</sub>&nbsp;= (x<sub>bte</sub> &minus; mean<sub>e</sub> x) / √(var<sub>e</sub> x + ε) "
        "&nbsp;&nbsp; batch norm: y<sub>bte</sub>&nbsp;= (x<sub>bte</sub> &minus; mean<sub>b,t</sub> x) / "
        "√(var<sub>b,t</sub> x + ε)",
        (
            "Neither makes the values normal: they get mean 0 and variance 1, and keep the shape they had.",
            "Padding is 0 before layer norm and stays 0, and moves no word; batch norm counts it as tokens, turns it "
            "into other numbers, and lets it move the mean of every word.",
            "Gain and bias are 1 and 0 here, as they begin. In evaluation batch norm takes averages kept from training "
            "instead: a token is then independent of its neighbours, but training and test are no longer the same.",
        ),
    ),
)
