"""Layer patterns: which layers of today's models rotate, which look at a window, and what their caches keep."""

from __future__ import annotations

from typing import Any

import numpy as np

from locant.figures.drawing import Figure, count, label, new_figure, shared_legend
from locant.figures.palette import BLUE, FAINT, ORANGE, PAPER, SKY
from locant.figures.registry import register_figure

MODELS: dict[str, tuple[int, str, int]] = {
    "Llama 4": (48, "LLLN", 8192),
    "SmolLM3": (36, "GGGN", 0),
    "Cohere 2": (40, "LLLN", 4096),
    "EXAONE 4": (32, "LLLN", 4096),
    "Gemma 3": (26, "LLLLLG", 4096),
    "OLMo 3": (32, "LLLG", 4096),
    "gpt-oss": (36, "LG", 128),
}
"""Layers, the pattern that they repeat, and the window of local layers in tokens: the defaults of each model's
configuration in transformers 5.24. ``L`` is a local layer with RoPE, ``G`` sees the whole text with RoPE, ``N`` the
whole text without. Llama 4's local layers see the chunk of 8,192 tokens that they are in, not the last 8,192."""

_KINDS = {"L": (SKY, "window, RoPE"), "G": (BLUE, "whole text, RoPE"), "N": (ORANGE, "whole text, no RoPE")}


def numbers(*, length: int = 131_072) -> dict[str, Any]:
    """Return the kind of every layer, and the share of the tokens of a text that the caches of all layers keep."""
    kinds = {name: (pattern * layers)[:layers] for name, (layers, pattern, _) in MODELS.items()}
    local = np.array([each.count("L") / len(each) for each in kinds.values()])
    windows = np.array([min(window, length) for _, _, window in MODELS.values()])
    return {"kinds": kinds, "length": length, "kept": 1 - local + local * windows / length}


def draw(kinds: dict[str, str], *, length: int, kept: Any) -> Figure:
    """Draw a strip of layers for each model, and beside it the share that its caches keep."""
    figure = new_figure(12, 4.4)
    strips, caches = figure.subplots(1, 2, width_ratios=(3, 1), sharey=True)
    for row, layers in enumerate(kinds.values()):
        for kind, (colour, _) in _KINDS.items():
            places = [place for place, of in enumerate(layers) if of == kind]
            strips.barh([row] * len(places), 1, left=places, height=0.66, color=colour, edgecolor=PAPER, linewidth=0.8)
        caches.text(kept[row] + 0.03, row, f"{kept[row]:.0%}", va="center", fontsize=9.5)
    strips.set_yticks(range(len(kinds)), list(kinds))
    strips.set_ylim(len(kinds) - 0.5, -0.6)
    for colour, meaning in _KINDS.values():
        strips.barh(0, 0, color=colour, label=meaning)
    shared_legend(figure, [strips], 3)
    label(strips, "What each layer sees, and whether it rotates", "layer, the first on the left")
    caches.barh(range(len(kinds)), kept, height=0.66, color=FAINT)
    caches.set_xlim(0, 1.28)
    caches.set_xticks((0, 0.5, 1), ("0%", "50%", "100%"))
    label(caches, f"Cached, {count(length)} tokens", "share of all keys of all layers")
    for axes in (strips, caches):
        axes.grid(visible=False)
    return figure


register_figure("layer-patterns", numbers, draw, limits={"length": (1024, 10_000_000)})
