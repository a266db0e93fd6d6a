"""Panels of what turns with the position: waves, clocks, odometer and circle."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from locant.analysis.geometry import shift_matrix
from locant.app.explorer.panels import Circle, Clocks, Odometer, Strips
from locant.figures import numbers
from locant.figures.drawing import Numbers, count

_BASE = 10000.0
_MOST_CLOCKS = 16
_MOST_HANDS = 8
_MOST_POINTS = 1024
_FINEST = 8  # points a token, with which a turn in six tokens looks round
_MOST_WAVES = 8
_ROWS = 13
_TURNED = 3

_WHEELS = (
    "Every wheel of the decimal odometer moves once where the one to its right has gone round (tinted), every bit "
    "where the one to its right falls from 1 to 0: the last bit alternates at every step, the next at every second."
)


@lru_cache(maxsize=4)  # for several pictures, and while only other knobs are turned
def hands(width: int, length: int, base: float) -> tuple[Numbers, Numbers, Numbers]:
    """Return sine and cosine ``[length, width / 2]`` of every pair, and its tokens of a full turn ``[width / 2]``.

    Raises:
        ConfigError: The width is odd.
    """
    return numbers.hands(length, d_model=width, base=base)


def waves(width: int, length: int, base: float) -> Strips:
    """Return sine and cosine along the text for some pairs; an odd width is a ConfigError."""
    wavelengths = numbers.wavelengths_of(width, base=base)
    chosen = _some(len(wavelengths), _MOST_WAVES)
    finer = min(_FINEST, max(1, _MOST_POINTS // length))
    places = np.arange((length - 1) * finer + 1) / finer
    angles = 2 * np.pi / wavelengths[chosen, None] * places
    return Strips(
        "The waves of the pairs",
        f"Sine and cosine of {len(chosen)} of {width // 2} pairs; the marked position receives the values "
        "on the vertical line.",
        places,
        "position",
        {
            f"pair {pair}: {count(wavelength)} tokens": {"sine": sine, "cosine": cosine}
            for pair, wavelength, sine, cosine in zip(
                chosen.tolist(), wavelengths[chosen], np.sin(angles), np.cos(angles), strict=True
            )
        },
    )


def clocks(width: int, length: int, base: float, position: int) -> Clocks:
    """Return the hands of some pairs at a position; errors as for :func:`waves`."""
    sine, cosine, wavelengths = hands(width, length, base)
    chosen = _some(len(wavelengths), _MOST_CLOCKS)
    return Clocks(
        f"The clocks of position {position}",
        "Every pair of features is the hand of a clock, from 12 at position 0; the fast ones first. Step the marked "
        "position and see them run.",
        chosen,
        sine[position, chosen],
        cosine[position, chosen],
        wavelengths[chosen],
    )


def odometer(width: int, length: int, base: float, position: int) -> Odometer:
    """Return the positions around one as decimal wheels, bits and hands; errors as for :func:`waves`."""
    sine, cosine, wavelengths = hands(width, length, base)
    chosen, positions = _some(len(wavelengths), _MOST_HANDS), _around(position, length)
    caption = f"{_WHEELS} The hands of {len(chosen)} of {width // 2} pairs go round without steps, the slowest first."
    return _odometer(
        caption,
        length,
        position,
        chosen,
        sine[np.ix_(positions, chosen)],
        cosine[np.ix_(positions, chosen)],
        wavelengths[chosen],
    )


def digits(length: int, position: int) -> Odometer:
    """Return the positions around one as decimal wheels and bits."""
    none = np.empty((len(_around(position, length)), 0))
    caption = f"{_WHEELS} The bits are the features of the code, the lowest of them its first feature."
    return _odometer(caption, length, position, np.arange(0), none, none, np.empty(0))


def circle(name: str, position: int, offset: int) -> Circle:
    """Return codes of two features from a position on, and the matrix that shifts each by so many tokens.

    Args:
        name: What the code of a position is called.
        position: The first of the positions that are shifted.
        offset: Tokens, ``k``.
    """
    positions = np.arange(position, position + _TURNED)
    sine, cosine, wavelengths = numbers.hands(int(positions[-1]) + offset + 1, d_model=2, base=_BASE)
    codes = np.concatenate((sine, cosine), axis=1)
    matrix = shift_matrix(2, offset).numpy()
    speed = 2 * np.pi / float(wavelengths[0])
    what = "The code for d = 2" if name == "PE" else "The first pair of a query that points to 12 at position 0"
    return Circle(
        f"One turn for every shift by k = {offset}",
        f"{what} turns by one radian a token. From p to p + k it turns by the same angle wherever p stands, so that "
        "one matrix M_k turns every code into the one k tokens farther on: the rings are what it makes of each.",
        name,
        offset,
        positions,
        codes[positions],
        codes[positions + offset],
        matrix,
        codes[positions] @ matrix.T,
        speed * positions,
        speed * offset,
    )


def _odometer(
    caption: str,
    length: int,
    position: int,
    pairs: NDArray[np.int64],
    sine: Numbers,
    cosine: Numbers,
    wavelengths: Numbers,
) -> Odometer:
    positions, last = _around(position, length), length - 1
    return Odometer(
        f"Position {position} on the odometer",
        caption,
        positions,
        numbers.digits_of(positions, 10, len(str(last))),
        numbers.digits_of(positions, 2, last.bit_length()),
        pairs,
        sine,
        cosine,
        wavelengths,
        position,
    )


def _around(position: int, length: int) -> NDArray[np.int64]:
    """Return up to thirteen positions of a text with the given one in the middle, where there are so many."""
    first = max(0, min(position - _ROWS // 2, length - _ROWS))
    return np.arange(first, min(first + _ROWS, length))


def _some(pairs: int, most: int) -> NDArray[np.int64]:
    """Return numbers of pairs, evenly spaced from the first to the last."""
    return np.linspace(0, pairs - 1, min(most, pairs)).round().astype(int)
