"""Turning pairs: how far each pair of the sinusoids turns over a text, and so how much position it carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from locant.figures.drawing import BLUE, FAINT, INK, VERMILION, count, label, new_figure
from locant.figures.numbers import hands
from locant.figures.registry import Caption, register_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_THRESHOLDS = ((0.1, BLUE, "-"), (1.0, VERMILION, "--"))  # radians


def numbers(*, d_model: int = 512, length: int = 50, base: float = 10000.0) -> dict[str, Any]:
    """Return how far every pair turns from the first token to the last, and the spread of its features.

    Raises:
        ConfigError: The width is odd.
    """
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
        _mark(turn, angles, threshold, color)
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


def _mark(axes: Axes, angles: Any, threshold: float, color: str) -> None:
    """Say how many pairs turn farther than a threshold, where the falling line leaves room."""
    beyond = int((angles > threshold).sum())
    axes.axhline(threshold, color=color, linewidth=1, linestyle="--")
    if angles[-1] < threshold:
        axes.plot([beyond] * 2, [angles[-1], threshold], color=color, linewidth=1, linestyle="--")
    left = beyond > len(angles) / 2
    side: dict[str, Any] = {"xytext": (3, 3), "ha": "left"} if left else {"xytext": (-3, 3), "ha": "right"}
    place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", **side}
    axes.annotate(f"{beyond} of {len(angles)} pairs", (0 if left else 1, threshold), fontsize=9, color=color, **place)


register_figure(
    "turning-pairs",
    numbers=numbers,
    draw=draw,
    caption=Caption(
        "How much position each feature carries",
        "Only the first features carry the position, it is often said, so that words may use the rest. But over a "
        "short text already most pairs turn by more than a tenth of a radian, and many by more than a whole one; the "
        "longer the text, the more. What is true: the last pairs hardly move, and in a short text they say little.",
        "angle of pair i&nbsp;= (L &minus; 1)&thinsp;ω<sub>i</sub>, &nbsp; ω<sub>i</sub>&nbsp;= "
        "10000<sup>&minus;2i/d</sup>",
    ),
    limits={"d_model": (4, 4096), "length": (2, 4096)},
)
