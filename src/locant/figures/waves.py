"""Waves: sine and cosine of every pair of features over the position."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from locant.errors import UsageError
from locant.figures.drawing import (
    BLUE,
    FAINT,
    INK,
    VERMILION,
    FigureData,
    Numbers,
    count,
    drawing,
    new_figure,
    settle,
    signed,
)
from locant.figures.numbers import wavelengths_of
from locant.figures.registry import Caption, register_figure
from locant.positions import sinusoid_table

_MOST_PAIRS = 8


def waves_numbers(
    *, d_model: int = 16, length: int = 60, base: float = 10000.0, token: int | None = None
) -> dict[str, Any]:
    """Return the waves of a sinusoidal code between positions 0 and ``length - 1``.

    Args:
        d_model: Even width of the code; of one with more pairs than 8 so many are taken, evenly spaced.
        length: Number of positions.
        base: Base of the wavelengths.
        token: Position whose values are marked; by default a third of the way.

    Raises:
        UsageError: ``token`` is beyond the text.
        ConfigError: Another value is out of range.
    """
    token = length // 3 if token is None else token
    if token >= length:
        raise UsageError(f"--token {token} is not among the {length} positions of the figure (0 to {length - 1}).")
    frequencies = 2 * math.pi / wavelengths_of(d_model, base=base)
    pairs = np.linspace(0, len(frequencies) - 1, min(_MOST_PAIRS, len(frequencies))).round().astype(int)
    places = np.linspace(0, length - 1, max(600, 8 * length))
    angles = frequencies[pairs, None] * places
    received = sinusoid_table(torch.tensor(token), d_model, base=base).double().numpy()
    return {
        "places": places,
        "sine": np.sin(angles),
        "cosine": np.cos(angles),
        "wavelengths": 2 * math.pi / frequencies[pairs],
        "pairs": pairs.astype(float),
        "token": token,
        "token_sine": received[0::2][pairs],
        "token_cosine": received[1::2][pairs],
        "title": f"Sinusoidal code of {d_model} features",
    }


def waves(
    places: Numbers,
    sine: Numbers,
    cosine: Numbers,
    *,
    wavelengths: Numbers,
    pairs: Numbers,
    token: int,
    token_sine: Numbers,
    token_cosine: Numbers,
    title: str,
) -> FigureData:
    """Draw each pair's sine and cosine in a strip of its own, and mark what one token receives.

    Args:
        places: Places ``[N]`` along the text at which the curves are given, in tokens; not only whole ones.
        sine: Sine ``[P, N]`` of every pair.
        cosine: Cosine ``[P, N]``.
        wavelengths: Tokens of a full turn, ``[P]``.
        pairs: Number of every pair, ``[P]``.
        token: Position of the token.
        token_sine: Sines ``[P]`` that it receives.
        token_cosine: Cosines ``[P]``.
        title: Title of the figure.

    Returns:
        The figure, 10 inches wide, and the arrays.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with drawing():
        figure = new_figure(10, 1.5 + 0.82 * len(pairs))
        strips = figure.subplots(len(pairs), 1, sharex=True, squeeze=False)[:, 0]
        for row, axes in enumerate(strips):
            axes.plot(places, sine[row], color=BLUE, label="sine")
            axes.plot(places, cosine[row], "--", color=VERMILION, label="cosine")
            axes.axvline(token, color=INK, linewidth=0.9)
            axes.plot(token, token_sine[row], "o", color=BLUE, markersize=6, markeredgecolor="white", clip_on=False)
            axes.plot(
                token, token_cosine[row], "s", color=VERMILION, markersize=6, markeredgecolor="white", clip_on=False
            )
            axes.set_ylim(-1.25, 1.25)
            axes.set_yticks([-1, 0, 1])
            axes.tick_params(labelsize=8.5)
            axes.set_ylabel(
                f"pair {int(pairs[row])}\n{count(wavelengths[row])} tokens",
                rotation=0,
                ha="right",
                va="center",
                fontsize=9,
                linespacing=1.4,
            )
            values = ((0.74, BLUE, "sin", token_sine[row]), (0.26, VERMILION, "cos", token_cosine[row]))
            for height, colour, name, value in values:
                axes.annotate(
                    f"{name} {signed(value)}",
                    (1.015, height),
                    xycoords="axes fraction",
                    va="center",
                    color=colour,
                    fontsize=9.5,
                )
        strips[0].set_title(title, pad=12)
        strips[0].annotate(f"token {token} receives", (1.015, 1.12), xycoords="axes fraction", fontsize=9.5, color=INK)
        strips[-1].set_xlabel("position in tokens")
        strips[-1].set_xlim(places[0], places[-1])
        handles, labels = strips[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9.5, labelcolor=FAINT)
        settle(figure)
    data = {
        "places": places,
        "sine": sine,
        "cosine": cosine,
        "wavelengths": wavelengths,
        "pairs": pairs,
        "token_sine": token_sine,
        "token_cosine": token_cosine,
    }
    return FigureData(figure, data)


register_figure(
    "waves",
    numbers=waves_numbers,
    draw=waves,
    caption=Caption(
        "The hands, seen from the side",
        "The two features of a pair are sine and cosine of its hand, so that along the text each pair draws two waves. "
        "A token receives the values on its vertical line: fast pairs tell it from its neighbours, slow ones say where "
        "in the text it stands.",
        "PE(p, 2i)&nbsp;= sin(p&thinsp;/&thinsp;10000<sup>2i/d</sup>) &nbsp;&nbsp; "
        "PE(p, 2i+1)&nbsp;= cos(p&thinsp;/&thinsp;10000<sup>2i/d</sup>) &nbsp;&nbsp; (Vaswani et al. 2017)",
    ),
    limits={"length": (2, 1000), "d_model": (2, 4096), "token": (0, 999)},
)
