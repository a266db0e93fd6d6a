"""Heads: where each head of a trained model looks on average, and how many keys it spreads its weight over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from locant.analysis.introspection import introspect
from locant.figures.drawing import MINUS, Figure, colour_scale, colours, draw_cells, label, new_figure
from locant.figures.palette import BLUE, FAINT, GREEN, ON_LIGHT, VERMILION
from locant.figures.registry import register_figure
from locant.figures.trained import held_out_pairs, load_trained, read_record
from locant.models.transformer import Transformer

_SENTENCES, _MOST_TOKENS = 60, 64
_REACH = 8  # tokens to both sides of the query
_KINDS = {
    "encoder": ("Encoder", BLUE, "o"),
    "decoder": ("Decoder", VERMILION, "s"),
    "cross": ("Cross-attention", GREEN, "^"),
}


def head_profiles(model: Transformer, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> dict[str, Any]:
    """Return what every head looks at, as means over all queries of sentence pairs.

    Returns:
        By kind of attention (``encoder``, ``decoder``, ``cross``) ``offsets`` of the key in tokens ``[O]``, the mean
        ``weights`` ``[N, H, O]`` over the queries that have a key there, the ``entropy`` of a query's weights in nats
        ``[N, H]``, and ``even``, what it would be with the same weight for all keys that a query sees.
    """
    sentences: dict[str, list[Tensor]] = {kind: [] for kind in _KINDS}
    for source, target in pairs:
        seen = introspect(model, source, target)
        layers = (seen.encoder_attention, seen.decoder_attention, seen.cross_attention)
        for kind, weights in zip(_KINDS, layers, strict=True):
            sentences[kind].append(torch.stack(weights).double())
    found = {}
    for kind, of in sentences.items():
        causal = kind == "decoder"
        means = {}
        for offset in range(-_REACH, 1 if causal else _REACH + 1):
            there = torch.cat([weights.diagonal(offset, dim1=2, dim2=3) for weights in of], dim=-1)
            if there.shape[-1]:
                means[offset] = there.mean(-1)
        entropies = torch.cat([torch.special.entr(weights).sum(3) for weights in of], dim=-1)
        visible = [w.new_ones(w.shape[2:]).tril() if causal else w.new_ones(w.shape[2:]) for w in of]
        found[kind] = {
            "offsets": list(means),
            "weights": torch.stack(list(means.values()), dim=-1).tolist(),
            "entropy": entropies.mean(-1).tolist(),
            "even": float(torch.cat([keys.sum(1) for keys in visible]).log().mean()),
        }
    return found


def profiles_of(run: Path) -> dict[str, Any]:
    """Return :func:`head_profiles` of a run's model, in held-out sentences and their reference translations."""
    translator, model = load_trained(run, "heads")
    return head_profiles(model, held_out_pairs(run, translator, model, count=_SENTENCES, most=_MOST_TOKENS))


def numbers(*, run: Path | None = None) -> dict[str, Any]:
    """Return mean weights by offset ``[N, H, O]``, and the number of keys that the entropy of a head amounts to.

    The sentences are held-out ones of a run with their reference translations; without ``run``, there is a record.
    """
    found: dict[str, Any] = {}
    for kind, profile in (read_record("trained")["heads"] if run is None else profiles_of(run)).items():
        found |= {f"keys {kind}": np.exp(profile["entropy"]), f"even {kind}": np.exp(profile["even"])}
        if kind != "cross":
            found |= {f"{what} {kind}": np.array(profile[what]) for what in ("weights", "offsets")}
    return found


def draw(**data: Any) -> Figure:
    """Draw the mean weight by offset of every head, and the number of keys that its entropy amounts to."""
    shown = {kind: data[f"weights {kind}"] for kind in ("encoder", "decoder")}
    rows = max(of.shape[0] * of.shape[1] for of in shown.values())
    figure = new_figure(11, max(4.6, 1.9 + 0.2 * rows))
    scale = colours(np.concatenate([of.ravel() for of in shown.values()]))
    *images, spread = figure.subplots(1, 3, width_ratios=[*(of.shape[2] for of in shown.values()), 12])
    for axes, (kind, weights) in zip(images, shown.items(), strict=True):
        layers, heads, width = weights.shape
        names = [f"{layer}.{head}" for layer in range(1, layers + 1) for head in range(1, heads + 1)]
        draw_cells(axes, weights.reshape(-1, width), scale, rows=names, letters=8, aspect="auto")
        for layer in range(1, layers):
            axes.axhline(layer * heads - 0.5, color=ON_LIGHT, linewidth=0.9)
        marked = {place: offset for place, offset in enumerate(data[f"offsets {kind}"].tolist()) if offset % 2 == 0}
        said = [f"{offset:+d}".replace("-", MINUS) if offset else "0" for offset in marked.values()]
        axes.set_xticks(list(marked), said)
        label(axes, _KINDS[kind][0], "offset of the key, tokens")
        axes.set_ylabel("layer.head", color=FAINT)
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


register_figure("heads", numbers, draw, recorded=True)
