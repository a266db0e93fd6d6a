"""Waves: sine and cosine of every pair of features over the position."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from locant.errors import UsageError
from locant.figures.drawing import Figure, count, panels, shared_legend, signed
from locant.figures.numbers import wavelengths_of
from locant.figures.palette import BLUE, INK, PAPER, VERMILION
from locant.figures.registry import register_figure
from locant.positions import sinusoid_table

_MOST_PAIRS = 8
_LINES = (("sine", BLUE, "-", "o", 0.74), ("cosine", VERMILION, "--", "s", 0.26))


def numbers(*, d_model: int = 16, length: int = 60, base: float = 10000.0, token: int | None = None) -> dict[str, Any]:
    """Return the waves of a sinusoidal code between positions 0 and ``length - 1``.

    Of a code with more pairs than 8 that many are taken, evenly spaced. The values at ``token``, by default a third of
    the way, are marked.

    Raises:
        UsageError: ``token`` is beyond the text.
    """
    token = length // 3 if token is None else token
    if token >= length:
        raise UsageError(f"--token {token} is not among the {length} positions of the figure (0 to {length - 1}).")
    wavelengths = wavelengths_of(d_model, base=base)
    pairs = np.linspace(0, len(wavelengths) - 1, min(_MOST_PAIRS, len(wavelengths))).round().astype(int)
    places = np.linspace(0, length - 1, max(600, 8 * length))
    angles = 2 * math.pi / wavelengths[pairs, None] * places
    received = sinusoid_table(torch.tensor(token), d_model, base=base).double().numpy()
    return {
        "places": places,
        "sine": np.sin(angles),
        "cosine": np.cos(angles),
        "wavelengths": wavelengths[pairs],
        "pairs": pairs.astype(float),
        "token": token,
        "token_sine": received[0::2][pairs],
        "token_cosine": received[1::2][pairs],
        "title": f"Sinusoidal code of {d_model} features",
    }


def draw(places: Any, *, wavelengths: Any, pairs: Any, token: int, title: str, **data: Any) -> Figure:
    """Draw each pair's sine and cosine in a strip of its own, and mark what one token receives."""
    figure, strips = panels(len(pairs), 1, width=10, height=0.82 + 1.5 / len(pairs), sharex=True)
    for row, axes in enumerate(strips):
        axes.axvline(token, color=INK, linewidth=0.9)
        for name, color, stroke, mark, height in _LINES:
            value = data[f"token_{name}"][row]
            axes.plot(places, data[name][row], stroke, color=color, label=name)
            axes.plot(token, value, mark, color=color, markersize=6, markeredgecolor=PAPER, clip_on=False)
            said = f"{name[:3]} {signed(value)}"
            axes.annotate(said, (1.015, height), xycoords="axes fraction", va="center", color=color, fontsize=9.5)
        axes.set(ylim=(-1.25, 1.25), yticks=[-1, 0, 1])
        axes.tick_params(labelsize=8.5)
        name = f"pair {int(pairs[row])}\n{count(wavelengths[row])} tokens"
        axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9, linespacing=1.4)
    strips[0].set_title(title, pad=12)
    strips[0].annotate(f"token {token} receives", (1.015, 1.12), xycoords="axes fraction", fontsize=9.5)
    strips[-1].set(xlabel="position in tokens", xlim=(places[0], places[-1]))
    shared_legend(figure, strips, 2)
    return figure


_LIMITS = {"length": (2, 1000), "d_model": (2, 4096), "token": (0, 999)}
register_figure("waves", numbers, draw, limits=_LIMITS, slides={"d_model": 6})
