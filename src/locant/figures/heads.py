"""Heads: where each head of a trained model looks on average, and how many keys it spreads its weight over."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from locant.analysis.head_profiles import HeadProfiles, head_profiles
from locant.analysis.introspection import token_pair
from locant.errors import DataError
from locant.figures.cells import draw_cells
from locant.figures.drawing import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    VERMILION,
    FigureData,
    Numbers,
    colour_scale,
    colours,
    drawing,
    new_figure,
    settle,
)
from locant.figures.record import read_record
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import RECORDED, load_trained
from locant.training import load_run_evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SENTENCES, _MOST_TOKENS = 60, 64
_KINDS = {
    "encoder": ("Encoder", BLUE, "o"),
    "decoder": ("Decoder", VERMILION, "s"),
    "cross": ("Cross-attention", GREEN, "^"),
}


def heads_numbers(*, run: Path | None = None) -> dict[str, Any]:
    """Return what the heads of a model look at in held-out sentences of its run and their reference translations.

    Args:
        run: The run folder; ``None`` for the record that comes with Locant.

    Raises:
        CheckpointError: The folder holds no trained model, or the run has not been evaluated.
        DataError: No sentence is short enough.
        ConfigError: The model is no Transformer.
    """
    if run is None:
        record = read_record("trained")["heads"]
        return {"kinds": {kind: HeadProfiles(**_tensors(profile)) for kind, profile in record.items()}}
    translator, model = load_trained(run, "The figure 'heads'")
    evaluation = load_run_evaluation(run)
    longest = min(_MOST_TOKENS, model.max_positions or _MOST_TOKENS)
    tokens = (
        token_pair(translator.tokenizers, source, reference, translator.prefixes)
        for source, reference in zip(evaluation.sources, evaluation.references, strict=True)
    )
    usable = [(one.source, one.target) for one in tokens if max(len(one.source), len(one.target)) <= longest]
    if not usable:
        raise DataError(f"No held-out sentence of {run} has at most {longest} tokens.")
    pairs = usable[:: max(1, len(usable) // _SENTENCES)][:_SENTENCES]
    return {"kinds": head_profiles(model, pairs)}


def _tensors(profile: Mapping[str, Any]) -> dict[str, Any]:
    return {name: torch.tensor(value) if isinstance(value, list) else value for name, value in profile.items()}


def heads(kinds: Mapping[str, HeadProfiles]) -> FigureData:
    """Draw the mean weight by offset of every head, and the number of keys that its entropy amounts to.

    Args:
        kinds: ``encoder``, ``decoder`` and ``cross``.

    Returns:
        The figure, 11 inches wide, and ``weights KIND`` (of encoder and decoder) and ``keys KIND`` of all.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    data: dict[str, Numbers] = {}
    shown = {kind: kinds[kind] for kind in ("encoder", "decoder")}
    rows = max(profile.weights.shape[0] * profile.weights.shape[1] for profile in shown.values())
    widths = [len(profile.offsets) for profile in shown.values()]
    with drawing():
        figure = new_figure(11, max(4.6, 1.9 + 0.2 * rows))
        scale = colours(np.concatenate([profile.weights.numpy().ravel() for profile in shown.values()]))
        panels = list(figure.subplots(1, 3, width_ratios=[*widths, 12]))
        for axes, (kind, profile) in zip(panels, shown.items(), strict=False):
            data[f"weights {kind}"] = profile.weights.numpy()
            _draw_profile(axes, profile, _KINDS[kind][0], scale)
        spread = panels[-1]
        for index, (kind, profile) in enumerate(kinds.items()):
            name, colour, marker = _KINDS[kind]
            keys = np.exp(profile.entropy.numpy())
            data[f"keys {kind}"] = keys
            layers = np.repeat(np.arange(1, len(keys) + 1), keys.shape[1]) + 0.16 * (index - 1)
            spread.plot(keys.ravel(), layers, marker, color=colour, markersize=6, alpha=0.8, label=name)
            spread.axvline(np.exp(profile.even), color=colour, linewidth=1.1, linestyle=":")
        spread.set_title("Keys that a head spreads over", fontsize=11, pad=9)
        spread.set_xlabel("exp(entropy); dotted: all keys alike")
        spread.set_ylabel("layer")
        spread.set_xscale("log", base=2)
        spread.xaxis.set_major_formatter("{x:g}")
        deepest = max(len(profile.entropy) for profile in kinds.values())
        spread.set_yticks(range(1, deepest + 1))
        spread.set_ylim(deepest + 0.5, 0.5)
        figure.legend(*spread.get_legend_handles_labels(), loc="outside lower right", ncols=3, fontsize=9.5)
        colour_scale(panels[1], panels[1].images[0], "mean weight")
        settle(figure)
    return FigureData(figure, data)


def _draw_profile(axes: Axes, profile: HeadProfiles, title: str, scale: Any) -> None:
    layers, heads_, width = profile.weights.shape
    table = profile.weights.reshape(-1, width).numpy()
    names = [f"{layer}.{head}" for layer in range(1, layers + 1) for head in range(1, heads_ + 1)]
    draw_cells(axes, table, scale, rows=names, letters=8, aspect="auto")
    for layer in range(1, layers):
        axes.axhline(layer * heads_ - 0.5, color=INK, linewidth=0.9)
    offsets = profile.offsets.tolist()
    marked = [place for place, offset in enumerate(offsets) if offset % 2 == 0]
    axes.set_xticks(marked, [f"{offsets[place]:+d}".replace("+0", "0") for place in marked])
    axes.set_title(title, fontsize=11, pad=9)
    axes.set_xlabel("offset of the key, tokens")
    axes.set_ylabel("layer.head", color=FAINT)


register_figure(
    "heads",
    numbers=heads_numbers,
    draw=heads,
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
