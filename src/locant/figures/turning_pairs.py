"""Turning pairs: how far each pair of the sinusoids turns over a text, and so how much position it carries."""

from __future__ import annotations

from typing import Any

import numpy as np

from locant.figures.drawing import BLUE, FAINT, INK, VERMILION, FigureData, Numbers, count, drawing, new_figure, settle
from locant.figures.numbers import hands
from locant.figures.registry import Caption, register_figure

_THRESHOLDS = (0.1, 1.0)  # radians
_COLOURS = (BLUE, VERMILION)


def turning_pairs_numbers(*, d_model: int = 512, length: int = 50, base: float = 10000.0) -> dict[str, Any]:
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
        "thresholds": np.array(_THRESHOLDS),
        "lengths": lengths,
        "shares": np.stack([(turned > threshold).mean(1) for threshold in _THRESHOLDS]),
    }


def turning_pairs(
    length: int, *, angles: Numbers, spreads: Numbers, thresholds: Numbers, lengths: Numbers, shares: Numbers
) -> FigureData:
    """Draw how far pairs turn over a text, how their features vary, and the share that turns by length.

    Args:
        length: Tokens of the text.
        angles: Radians from the first token to the last, ``[P]``.
        spreads: Standard deviation over the text of sine and cosine, ``[2, P]``.
        thresholds: Angles in radians above which pairs are counted, ``[2]``.
        lengths: Lengths of texts in tokens, ``[N]``.
        shares: Share of the pairs that turn by more than each threshold, ``[2, N]``.

    Returns:
        The figure and the arrays.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    pairs = np.arange(len(angles))
    with drawing():
        figure = new_figure(13, 4.4)
        turn, vary, share = figure.subplots(1, 3)
        turn.plot(pairs, angles, color=INK)
        turn.set_yscale("log")
        for threshold, colour in zip(thresholds, _COLOURS, strict=True):
            beyond = int((angles > threshold).sum())
            turn.axhline(threshold, color=colour, linewidth=1, linestyle="--")
            if angles[-1] < threshold:
                turn.plot([beyond] * 2, [angles[-1], threshold], color=colour, linewidth=1, linestyle="--")
            left = beyond > len(angles) / 2  # where the falling line leaves room
            turn.annotate(
                f"{beyond} of {len(angles)} pairs",
                (0 if left else 1, threshold),
                (3 if left else -3, 3),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                ha="left" if left else "right",
                fontsize=9,
                color=colour,
            )
        turn.set_xlabel("pair i")
        turn.set_ylabel("radians from the first token to the last")
        turn.set_title(f"Turned over {count(length)} tokens", pad=10)
        for values, name, colour, style in zip(
            spreads, ("sine", "cosine"), (BLUE, VERMILION), ("-", "--"), strict=True
        ):
            vary.plot(pairs, values, style, color=colour, label=name, linewidth=1.5)
        vary.axhline(np.sqrt(0.5), color=FAINT, linewidth=0.9)
        vary.text(pairs[-1], np.sqrt(0.5), "full turns: √½", ha="right", va="bottom", fontsize=9, color=FAINT)
        vary.set_ylim(0, 0.85)
        vary.set_xlabel("pair i")
        vary.set_ylabel("standard deviation over the text")
        vary.set_title(f"Spread over {count(length)} tokens", pad=10)
        vary.legend(loc="lower left", fontsize=9)
        for values, threshold, colour, style in zip(shares, thresholds, _COLOURS, ("-", "--"), strict=True):
            share.plot(lengths, values, style, color=colour, label=f"more than {threshold:g} rad")
        share.axvline(length, color=FAINT, linewidth=0.9)
        share.set_xscale("log")
        share.set_ylim(0, 1.02)
        share.yaxis.set_major_formatter(lambda value, place: f"{100 * value:.0f} %")
        share.set_xlabel("tokens of the text")
        share.set_ylabel("pairs that turn")
        share.set_title("Share of the pairs by length", pad=10)
        share.legend(loc="lower right", fontsize=9)
        settle(figure)
    arrays = {"angles": angles, "spreads": spreads, "thresholds": thresholds, "lengths": lengths, "shares": shares}
    return FigureData(figure, arrays)


register_figure(
    "turning-pairs",
    numbers=turning_pairs_numbers,
    draw=turning_pairs,
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
