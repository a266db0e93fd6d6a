"""Heads: where each head of a trained model looks on average, and how many keys it spreads its weight over."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from locant.analysis.head_profiles import HeadProfiles, head_profiles
from locant.figures.drawing import (
    BLUE,
    FAINT,
    GREEN,
    ON_LIGHT,
    VERMILION,
    colour_scale,
    colours,
    draw_cells,
    label,
    new_figure,
)
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import RECORDED, held_out_pairs, load_trained, read_record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SENTENCES, _MOST_TOKENS = 60, 64
_KINDS = {
    "encoder": ("Encoder", BLUE, "o"),
    "decoder": ("Decoder", VERMILION, "s"),
    "cross": ("Cross-attention", GREEN, "^"),
}


def profiles(run: Path | None) -> dict[str, HeadProfiles]:
    """Return what the heads of a model look at, in held-out sentences of its run and their reference translations."""
    if run is not None:
        translator, model = load_trained(run, "heads")
        return head_profiles(model, held_out_pairs(run, translator, model, count=_SENTENCES, most=_MOST_TOKENS))
    return {
        kind: HeadProfiles(
            torch.tensor(found["offsets"]),
            torch.tensor(found["weights"]),
            torch.tensor(found["entropy"]),
            found["even"],
        )
        for kind, found in read_record("trained")["heads"].items()
    }


def numbers(*, run: Path | None = None) -> dict[str, Any]:
    """Return mean weights by offset ``[N, H, O]``, and the number of keys that the entropy of a head amounts to.

    Args:
        run: The run folder; ``None`` for the record that comes with Locant.

    Raises:
        CheckpointError: The folder holds no trained model, or the run has not been evaluated.
        DataError: No sentence is short enough.
        ConfigError: The model is no Transformer.
    """
    found: dict[str, Any] = {}
    for kind, profile in profiles(run).items():
        found[f"keys {kind}"] = np.exp(profile.entropy.numpy())
        found[f"even {kind}"] = np.exp(profile.even)
        if kind != "cross":
            found |= {f"weights {kind}": profile.weights.numpy(), f"offsets {kind}": profile.offsets.numpy()}
    return found


def draw(**data: Any) -> Figure:
    """Draw the mean weight by offset of every head, and the number of keys that its entropy amounts to."""
    weights = {kind: data[f"weights {kind}"] for kind in ("encoder", "decoder")}
    rows = max(of.shape[0] * of.shape[1] for of in weights.values())
    figure = new_figure(11, max(4.6, 1.9 + 0.2 * rows))
    scale = colours(np.concatenate([of.ravel() for of in weights.values()]))
    *images, spread = figure.subplots(1, 3, width_ratios=[*(of.shape[2] for of in weights.values()), 12])
    for axes, (kind, of) in zip(images, weights.items(), strict=True):
        _draw_profile(axes, _KINDS[kind][0], of, data[f"offsets {kind}"].tolist(), scale)
    colour_scale(images[1], images[1].images[0], "mean weight")
    for shift, (kind, (name, color, mark)) in zip((-0.16, 0, 0.16), _KINDS.items(), strict=True):
        keys = data[f"keys {kind}"]
        layers = np.repeat(np.arange(1, len(keys) + 1), keys.shape[1]) + shift
        spread.plot(keys.ravel(), layers, mark, color=color, markersize=6, alpha=0.8, label=name)
        spread.axvline(float(data[f"even {kind}"]), color=color, linewidth=1.1, linestyle=":")
    label(spread, "Keys that a head uses", "exp(entropy); dotted: all keys alike", "layer")
    spread.set_xscale("log", base=2)
    spread.xaxis.set_major_formatter("{x:g}")
    deepest = max(len(data[f"keys {kind}"]) for kind in _KINDS)
    spread.set(yticks=range(1, deepest + 1), ylim=(deepest + 0.5, 0.5))
    figure.legend(*spread.get_legend_handles_labels(), loc="outside lower right", ncols=3)
    return figure


def _draw_profile(axes: Axes, title: str, weights: Any, offsets: list[int], scale: Any) -> None:
    layers, heads, width = weights.shape
    names = [f"{layer}.{head}" for layer in range(1, layers + 1) for head in range(1, heads + 1)]
    draw_cells(axes, weights.reshape(-1, width), scale, rows=names, letters=8, aspect="auto")
    for layer in range(1, layers):
        axes.axhline(layer * heads - 0.5, color=ON_LIGHT, linewidth=0.9)
    marked = [place for place, offset in enumerate(offsets) if offset % 2 == 0]
    axes.set_xticks(marked, [f"{offsets[place]:+d}".replace("+0", "0") for place in marked])
    label(axes, title, "offset of the key, tokens")
    axes.set_ylabel("layer.head", color=FAINT)


register_figure(
    "heads",
    numbers=numbers,
    draw=draw,
    caption=Caption(
        "Why several heads: each looks elsewhere",
        "Mean attention weight by the offset of the key, over held-out sentences; a row is a head. A dark column at "
        "-1 is a head that reads the token before, and an even row one that goes by content or gathers from "
        "everywhere. One head could give each query only one such pattern at a time.",
        "profile<sub>h</sub>(k)&nbsp;= mean over i of A<sub>h</sub>[i, i + k], &nbsp; "
        "keys<sub>h</sub>&nbsp;= exp( mean over i of &minus;Σ<sub>j</sub> A<sub>h</sub>[i, j] "
        "log A<sub>h</sub>[i, j] )",
        (RECORDED,),
    ),
    recorded=True,
)
