"""Turning pairs: how far each pair of the sinusoids turns over a text, and so how much position it carries."""

from __future__ import annotations

from typing import Any

import numpy as np

from locant.figures.drawing import Figure, count, label, new_figure
from locant.figures.numbers import hands
from locant.figures.palette import BLUE, FAINT, GREEN, INK, PURPLE, VERMILION
from locant.figures.registry import register_figure

_THRESHOLDS = ((0.1, GREEN, "-"), (1.0, PURPLE, "--"))  # radians


def numbers(*, d_model: int = 512, length: int = 50, base: float = 10000.0) -> dict[str, Any]:
    """Return how far every pair turns from the first token to the last, and the spread of its features."""
    sine, cosine, wavelengths = hands(length, d_model=d_model, base=base)
    frequencies = 2 * np.pi / wavelengths
    lengths = np.geomspace(2, 1e5, 200)
    turned = frequencies * (lengths[:, None] - 1)
    return {
        "length": length,
        "angles": frequencies * (length - 1),
        "spreads": np.stack((sine.std(0), cosine.std(0))),
        "lengths": lengths,
        "shares": np.stack([(turned > threshold).mean(1) for threshold, _, _ in _THRESHOLDS]),
    }


def draw(length: int, *, angles: Any, spreads: Any, lengths: Any, shares: Any) -> Figure:
    """Draw how far pairs turn over a text, how their features vary, and the share that turns by length."""
    pairs = np.arange(len(angles))
    figure = new_figure(13, 4.4)
    turn, vary, share = figure.subplots(1, 3)
    turn.plot(pairs, angles, color=INK)
    for threshold, color, _ in _THRESHOLDS:
        beyond = int((angles > threshold).sum())
        turn.axhline(threshold, color=color, linewidth=1, linestyle="--")
        if angles[-1] < threshold:
            turn.plot([beyond] * 2, [angles[-1], threshold], color=color, linewidth=1, linestyle="--")
        left = beyond > len(angles) / 2  # where the falling line leaves room
        place: dict[str, Any] = {"xytext": (3 if left else -3, 3), "ha": "left" if left else "right"}
        place |= {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        said = f"{beyond} of {len(angles)} pairs"
        turn.annotate(said, (0 if left else 1, threshold), fontsize=9, color=color, **place)
    unit = "radians from the first token to the last"
    label(turn, f"Turned over {count(length)} tokens", "pair i", unit, log="y")
    for values, name, color, stroke in zip(spreads, ("sine", "cosine"), (BLUE, VERMILION), ("-", "--"), strict=True):
        vary.plot(pairs, values, stroke, color=color, label=name, linewidth=1.5)
    vary.axhline(np.sqrt(0.5), color=FAINT, linewidth=0.9)
    vary.text(pairs[-1], np.sqrt(0.5), "full turns: √½", ha="right", va="bottom", fontsize=9, color=FAINT)
    vary.set_ylim(0, 0.85)
    label(vary, f"Spread over {count(length)} tokens", "pair i", "standard deviation over the text")
    vary.legend(loc="lower left")
    for values, (threshold, color, stroke) in zip(shares, _THRESHOLDS, strict=True):
        share.plot(lengths, values, stroke, color=color, label=f"more than {threshold:g} rad")
    share.axvline(length, color=FAINT, linewidth=0.9)
    share.set_ylim(0, 1.02)
    share.yaxis.set_major_formatter(lambda value, place: f"{100 * value:.0f} %")
    label(share, "Share of the pairs by length", "tokens of the text", "pairs that turn", log="x")
    share.legend(loc="lower right")
    return figure


register_figure("turning-pairs", numbers, draw, limits={"d_model": (4, 4096), "length": (2, 4096)})
