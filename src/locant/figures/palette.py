"""Colours and strokes, the same for the same things in every figure, report and page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import Any
from zlib import crc32

import numpy as np

# The palette of Okabe and Ito (2008), which people with any colour vision can tell apart; the first three also in grey.
BLUE, VERMILION, GREEN = "#0072B2", "#D55E00", "#009E73"
ORANGE, PURPLE, SKY = "#E69F00", "#CC79A7", "#56B4E9"
INK, FAINT, GRID, PAPER, PANEL = "#24292f", "#6e7781", "#d8dee4", "#ffffff", "#f4f6f8"
ON_LIGHT, ON_DARK = "#20252b", "#fefefe"
"""Letters on a fill, which stays as it is on a dark page, as INK and PAPER do not."""

# Stops of the maps of colours: vermilion below zero and blue above, or from white for one sign alone.
BOTH_SIGNS = ("#5e2700", "#D55E00", "#f3c19f", "#ffffff", "#9fcbe8", "#0072B2", "#00304d")
ONE_SIGN = ("#ffffff", "#9fcbe8", "#0072B2", "#00304d")
HIDDEN = "#e4e8ec"  # the fill of a cell that holds nothing

_COLOURS = (
    ("ink", INK, "#e4e9ee"),
    ("soft", FAINT, "#abb2b5"),
    ("line", GRID, "#38424c"),
    ("page", PAPER, "#14181c"),
    ("raised", PANEL, "#1d2329"),
    ("blue", BLUE, "#1c8cf8"),
    ("orange", VERMILION, "#dd6542"),
    ("green", GREEN, "#2db277"),
    ("yellow", ORANGE, "#eec23f"),
    ("purple", PURPLE, "#ad79a1"),
    ("sky", SKY, "#8fd0f5"),
)

VARIABLES = {light: name for name, light, _ in _COLOURS}
"""Custom properties of CSS by which a page may replace the colours of a figure."""

DARK = {light: dark for _, light, dark in _COLOURS}
"""The colours on a dark page."""

PROPERTIES = "".join(f"--{name}: light-dark({light}, {dark}); " for name, light, dark in _COLOURS[5:])
"""CSS of the properties whose colours mean something, for a page that is light or dark."""

LINES = (
    (BLUE, "-", "o"),
    (VERMILION, "--", "s"),
    (GREEN, "-.", "^"),
    (PURPLE, ":", "D"),
    (ORANGE, "-", "v"),
    (SKY, "--", "P"),
    (INK, "-.", "X"),
)
"""Colour, stroke and marker of the first line of a figure, the second ..."""

_SCHEMES = (
    *("rotary", "alibi", "t5", "learned", "sinusoidal", "shaw", "none"),
    *("kerple", "fire", "xpos", "transformer-xl", "deberta", "cope", "sandwich"),
    *("index", "normalised-index", "binary", "axial-rotary", "multimodal-rotary", "self-extend", "rerope"),
    *("randomised", "mixed-rotary", "pope", "key-offset", "data-dependent-alibi", "fox", "relative-profiles"),
    "temperature",
)
"""Schemes whose lines have the first numbers of :func:`line_style`, in this order; never in another one."""


def line_style(number: int) -> dict[str, Any]:
    """Return colour, stroke and marker of a line by its number; all three repeat after 196, colours after seven."""
    again, more = number // 7 % 4, number // 28
    return {
        "color": LINES[number % 7][0],
        "linestyle": ("-", "--", ":", "-.")[again],
        "marker": LINES[(number + 3 * again + more) % 7][2],
        "markersize": 4.5,
    }


def scheme_line(name: str) -> int:
    """Return the number of a scheme's line; it follows from the name alone, whatever else there is."""
    return _SCHEMES.index(name) if name in _SCHEMES else 28 + crc32(name.encode()) % 168


def styles_of(labels: Sequence[str]) -> list[dict[str, Any]]:
    """Return the style of each line by its label: a scheme's own where the first word names one, else the next free."""
    from locant.positions import SCHEMES

    words = [re.split(r"[\s,(]", label, maxsplit=1)[0] for label in labels]
    own = [scheme_line(word) if word in SCHEMES else None for word in words]
    free = (number for number in count() if number not in own)
    numbers: list[int] = []
    for number in own:
        # Of two variants of a scheme the second takes what is left.
        numbers.append(next(free) if number is None or number in numbers else number)
    return [line_style(number) for number in numbers]


def head_shades(heads: int) -> list[str]:
    """Return the colour of every head where several are in one panel, from blue to vermilion; seen on any page."""
    stops = np.array([[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in (BLUE, PURPLE, VERMILION)])
    places = np.linspace(0, 2, heads)
    shades = np.stack([np.interp(places, range(3), channel) for channel in stops.T], axis=1).round().astype(int)
    return ["#" + "".join(f"{value:02x}" for value in shade) for shade in shades.tolist()]
