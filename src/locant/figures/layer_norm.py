"""Layer norm beside batch norm: the same tensor, other axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from locant.figures.drawing import Axes, Figure, colour_scale, colours, draw_image, label, new_figure, write
from locant.figures.palette import FAINT, LINES, ON_LIGHT
from locant.figures.registry import register_figure
from locant.models.layer_norm import layer_norm

_LENGTHS, _WIDTH, _SEED = (6, 4, 3), 8, 4
_PADDED = 12  # tokens of a longer neighbour
_GROUPS = {  # which values share one mean and one variance: row, token, feature; None for all of an axis
    "The batch": None,
    "Layer norm: one token, all features": (0, 1, None),
    "Batch norm: one feature, all tokens": (None, None, 2),
}


def batch_norm(x: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """Return a batch ``[B, L, E]`` with every feature standardised over all tokens of all rows.

    Source: Ioffe and Szegedy 2015, "Batch Normalization", algorithm 1, with gain 1 and bias 0. Padding counts as any
    other token. :class:`torch.nn.BatchNorm1d` does the same in training, but refuses a single token.
    """
    mean = x.mean((0, 1), keepdim=True)
    return (x - mean) / (x.var((0, 1), unbiased=False, keepdim=True) + eps).sqrt()


@torch.no_grad()
def numbers() -> dict[str, Any]:
    """Return a padded batch under both norms, and one token of it among other neighbours."""
    generator = torch.Generator().manual_seed(_SEED)
    scale, middle = (torch.rand(2, _WIDTH, generator=generator, dtype=torch.float64) * 2).unbind()
    x = torch.randn(len(_LENGTHS), max(_LENGTHS), _WIDTH, generator=generator, dtype=torch.float64)
    real = torch.arange(max(_LENGTHS)) < torch.tensor(_LENGTHS)[:, None]
    x = (x * (0.3 + scale) + middle - 1) * real[..., None]
    last, length = x[2:], _LENGTHS[2]
    settings = {
        "in this batch": x[[2, 0, 1]],
        f"beside a text of {_PADDED} tokens": nn.functional.pad(x[[2, 0, 1]], (0, 0, 0, _PADDED - x.shape[1])),
        "alone, padded to 6": last,
        "alone": last[:, :length],
        "its first token alone": last[:, :1],
    }
    own = nn.LayerNorm(_WIDTH, dtype=x.dtype)
    norms: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (lambda x: x, lambda x: layer_norm(x, own), batch_norm)
    found = {}
    for title, norm in zip(_GROUPS, norms, strict=True):
        found[title] = norm(x).numpy()
        if _GROUPS[title]:
            found |= {f"{title.split(':')[0]}: {name}": norm(of)[0, 0].numpy() for name, of in settings.items()}
    return found


def draw(**data: Any) -> Figure:
    """Draw a batch before and after two norms, and what each makes of one token among other neighbours."""
    figure = new_figure(13, 8.2)
    found = figure.subplot_mosaic("AABBCC;LLLRRR", height_ratios=[1.5, 1])
    for panel, (title, group) in zip("ABC", _GROUPS.items(), strict=True):
        _draw_batch(found[panel], title, data[title], group)
    lines = (found["L"], found["R"])
    lines[1].sharey(lines[0])
    for axes, norm in zip(lines, ("Layer norm", "Batch norm"), strict=True):
        own = {name: values for name, values in data.items() if name.startswith(norm) and values.ndim == 1}
        for (name, values), (color, stroke, mark) in zip(own.items(), LINES, strict=False):
            name = name.removeprefix(f"{norm}: ")
            axes.plot(values, stroke, marker=mark, markersize=5, linewidth=1.3, color=color, label=name)
        label(axes, f"{norm}: the first token of sentence {len(_LENGTHS)}", "feature")
        axes.set_xticks(range(_WIDTH))
    lines[0].set_ylabel("value after the norm")
    lines[1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=9, title="with the sentence")
    return figure


def _draw_batch(axes: Axes, title: str, values: Any, group: Any) -> None:
    from matplotlib.patches import Rectangle

    rows, length, width = values.shape
    stride = length + 1  # an empty line between two sentences
    grid = np.full((rows * stride - 1, width), np.nan)
    for row in range(rows):
        grid[row * stride : row * stride + length] = values[row]
    image = draw_image(axes, grid, colours(np.array([-1.0, 1.0]) * np.abs(values).max()), aspect="auto")
    for row, real in enumerate(_LENGTHS):
        if real < length:
            corner = (-0.5, row * stride + real - 0.5)
            hatch: dict[str, Any] = {"fill": False, "hatch": "////", "edgecolor": FAINT, "linewidth": 0}
            axes.add_patch(Rectangle(corner, width, length - real, **hatch))
            if group is None:
                sheet = {"facecolor": "#fefefe", "edgecolor": "none", "pad": 1.5}
                middle = corner[1] + (length - real) / 2
                write(axes, width / 2 - 0.5, middle, "padding", color=ON_LIGHT, bbox=sheet)
    if group:
        row, token, feature = group
        for each in range(rows) if row is None else (row,):
            corner = ((feature or 0) - 0.5, each * stride + (token or 0) - 0.5)
            size = (width if feature is None else 1, length if token is None else 1)
            axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor=ON_LIGHT, linewidth=2.4, clip_on=False))
    axes.set_xticks(range(width))
    middles = [row * stride + (length - 1) / 2 for row in range(rows)]
    axes.set_yticks(middles, [f"{row + 1}" for row in range(rows)])
    label(axes, title, "feature", "sentence")
    colour_scale(axes, image)


register_figure("layer-norm", numbers, draw)
