"""Errata on the formula of the sinusoids, its listings and its worked numbers."""

from __future__ import annotations

import math
from itertools import pairwise

import torch

from locant.figures.errata.entry import Erratum, Value
from locant.figures.numbers import wavelengths_of
from locant.positions import sinusoid_frequencies, sinusoid_table

_PAPER = 512  # width of the paper's base model
_SOURCE = "Vaswani et al. 2017, section 3.5"
_FORMULA = (
    "PE(p, 2i) = sin(p / 10000<sup>2i/d</sup>), &nbsp; PE(p, 2i + 1) = cos(p / 10000<sup>2i/d</sup>), &nbsp; "
    "i = 0 … d/2 &minus; 1"
)
_TOKENS = "{:,.0f} tokens"


def _feature(position: int, feature: int, width: int) -> float:
    return float(sinusoid_table(torch.tensor(position), width)[feature])


def _radians(width: int) -> list[float]:
    return [float(radians) for radians in sinusoid_frequencies(width).radians]


def _longest_index() -> list[Value]:
    waves = wavelengths_of(_PAPER)
    return [
        Value("the last i, d = 512", len(waves) - 1, 9998),
        Value("its wave", waves[-1], form=_TOKENS),
    ]


def _exact_end() -> list[Value]:
    reached = {width: wavelengths_of(width)[-1] for width in (64, _PAPER)}
    authors = 2 * math.pi / float(sinusoid_frequencies(_PAPER, dialect="tensor2tensor").radians[-1])
    stated = 2 * math.pi * 10000
    return [
        *(Value(f"longest wave, d = {width}", wave, stated, _TOKENS) for width, wave in reached.items()),
        Value(
            "longest wave of the authors' own code, whose exponent is i/(d/2 &minus; 1), d = 512", authors, form=_TOKENS
        ),
    ]


def _index_of_pairs() -> list[Value]:
    width = 6
    waves = wavelengths_of(width)
    return [
        Value("different frequencies, d = 6", len(set(_radians(width))), width),
        Value("longest wave, d = 6", waves[-1], 2 * math.pi * 10000 ** (2 * (width - 1) / width), _TOKENS),
    ]


def _doubled() -> list[Value]:
    waves = wavelengths_of(_PAPER)
    doubled = [2 * math.pi * 10000 ** (4 * pair / _PAPER) for pair in range(_PAPER // 2)]
    return [
        Value("PE(1)[2], d = 6", _feature(1, 2, 6), math.sin(10000 ** (-2 * 2 / 6)), "{:.4f}"),
        Value("longest wave, d = 512", waves[-1], doubled[-1], _TOKENS),
        Value(
            "pairs that make a full turn within 512 tokens, d = 512",
            sum(wave <= 512 for wave in waves.tolist()),
            sum(wave <= 512 for wave in doubled),
        ),
    ]


def _own_exponent() -> list[Value]:
    table = sinusoid_table(torch.arange(200), 6).double()
    positions = torch.arange(200, dtype=torch.float64)
    stated = positions.sin() ** 2 + (positions * 10000 ** (-2 / 6)).cos() ** 2
    return [
        Value("PE(3)[1], d = 6", _feature(3, 1, 6), math.cos(3 * 10000 ** (-2 / 6)), "{:.4f}"),
        Value(
            "smallest sin² + cos² of the first pair, positions 0 to 199",
            float((table[:, :2] ** 2).sum(1).min()),
            float(stated.min()),
            "{:.2f}",
        ),
        Value("largest", float((table[:, :2] ** 2).sum(1).max()), float(stated.max()), "{:.2f}"),
    ]


def _halved() -> list[Value]:
    return [
        Value("divisor of the second pair, i = 1, d = 4", 1 / _radians(4)[1], 10.0, "{:,.0f}"),
        Value("sin(0.1)", math.sin(0.1), 0.00999983, "{:.8f}"),
        Value("PE(1)[2], d = 4", _feature(1, 2, 4), form="{:.8f}"),
    ]


def _off_by_one() -> list[Value]:
    return [
        Value("sin(1)", math.sin(1), 0.0, "{:.4f}"),
        Value("PE(0)[0] = sin(0)", _feature(0, 0, 4), form="{:.4f}"),
        Value("PE(1)[0] = sin(1)", _feature(1, 0, 4), math.sin(2), "{:.4f}"),
    ]


def _divisor() -> list[Value]:
    frequency = _radians(_PAPER)[128]
    return [
        Value("10000<sup>2i/d</sup>, i = 128, d = 512", 1 / frequency, form="{:,.0f}"),
        Value("frequency of this pair, radians a token", frequency, 100.0, "{:,.2f}"),
        Value("its wave", wavelengths_of(_PAPER)[128], form=_TOKENS),
    ]


def _falling() -> list[Value]:
    radians = _radians(_PAPER)
    return [
        Value("frequency of the first pair, i = 0, radians a token, d = 512", radians[0], form="{:.4f}"),
        Value("frequency of the last pair, i = 255", radians[-1], form="{:.4f}"),
        Value(
            "pairs that are faster than the one before",
            sum(later > earlier for earlier, later in pairwise(radians)),
            len(radians) - 1,
        ),
    ]


def _parity() -> list[Value]:
    return [
        Value("PE(1)[0], the first feature of an odd position", _feature(1, 0, 4), math.cos(1), "{:.4f}"),
        Value("PE(1)[1], its second feature", _feature(1, 1, 4), form="{:.4f}"),
    ]


def _base() -> list[Value]:
    return [
        Value("longest wave, d = 512", wavelengths_of(_PAPER)[-1], wavelengths_of(_PAPER, base=1000.0)[-1], _TOKENS),
        Value(
            "PE(1)[2], d = 6", _feature(1, 2, 6), float(sinusoid_table(torch.tensor(1), 6, base=1000.0)[2]), "{:.4f}"
        ),
    ]


_QUOTED = "print(\N{LEFT SINGLE QUOTATION MARK}sin\N{RIGHT SINGLE QUOTATION MARK})"


def _quotes() -> list[Value]:
    try:
        compile(_QUOTED, "listing", "exec")
    except SyntaxError as error:
        stopped = ord(_QUOTED[(error.offset or 1) - 1])
    return [Value("the character at which Python stops", stopped, form="U+{:04X}")]


ERRATA = (
    Erratum(
        key="e1",
        title="Where the longest wave stands",
        statement="The waves become longer up to 10000 · 2π, which is reached where i is 9998.",
        why="i counts pairs of features and ends at d/2 &minus; 1; 10000 is the base of the waves, not a number of "
        "features. For the paper's d = 512 the last pair is i = 255.",
        formula="λ<sub>i</sub> = 2π · 10000<sup>2i/d</sup>, &nbsp; i = 0 … d/2 &minus; 1",
        values=_longest_index,
        source=_SOURCE,
        figures=("waves", "turning-pairs"),
    ),
    Erratum(
        key="e10",
        title="How long the longest wave is",
        statement="The wavelengths form a geometric progression from 2π to 10000 · 2π.",
        why="The paper says so itself, in round numbers. By its formula 10000 · 2π is the wave of the pair that would "
        "come next; the last one is shorter by the ratio of two neighbours. The authors' code has another exponent, "
        "and there the end is exact.",
        formula="λ<sub>d/2&minus;1</sub> = 2π · 10000<sup>(d&minus;2)/d</sup>",
        values=_exact_end,
        source=_SOURCE,
        figures=("waves", "tutorial-errors"),
    ),
    Erratum(
        key="e12",
        title="What i counts",
        statement="i is the index of the dimension, from 0 to d &minus; 1.",
        why="i counts pairs: the features 2i and 2i + 1 share one frequency, one with the sine and one with the "
        "cosine. With i as the index of a feature the exponents run to nearly 2 and half of the waves are longer than "
        "any text.",
        formula=_FORMULA,
        values=_index_of_pairs,
        source=_SOURCE,
        figures=("waves", "circle"),
    ),
    Erratum(
        key="e32",
        title="What is even and what is odd",
        statement="Words at even positions get a sine, words at odd positions a cosine.",
        why="Even and odd are the features, not the positions. Every position has both, a sine and a cosine of each "
        "frequency; with one of them alone a shift would be no linear map.",
        formula=_FORMULA,
        values=_parity,
        source=_SOURCE,
        figures=("waves", "heatmap", "sine-alone"),
    ),
    Erratum(
        key="e4",
        title="The exponent doubled",
        statement="`for i in range(0, d, 2): PE[p, i] = sin(p / 10000 ** (2 * i / d))`, and then PE(1)[2] = 0.0022 for "
        "d = 6.",
        why="The loop counts features 0, 2, 4 …, so that its i is the formula's 2i already, and doubling it once more "
        "squares every divisor. It runs and looks plausible; but most waves become longer than any text, and half of "
        "the features hardly move. Divide by `10000 ** (i / d)` in such a loop.",
        formula=_FORMULA,
        values=_doubled,
        source=_SOURCE,
        figures=("tutorial-errors", "sinusoid-forms"),
        example="PE(1)[2] = 0.0022 for d = 6\n",
    ),
    Erratum(
        key="e33",
        title="A cosine with a frequency of its own",
        statement="`PE[p, i] = sin(p / 10000 ** (2 * i / d)); PE[p, i + 1] = cos(p / 10000 ** (2 * (i + 1) / d))`",
        why="Here the cosine has its own exponent, besides the doubled one. Sine and cosine of a pair no longer stand "
        "on one circle, so that no rotation leads from a position to the next: the linear map of the paper is lost.",
        formula=_FORMULA,
        values=_own_exponent,
        source=_SOURCE,
        figures=("circle", "shift-derivation", "sinusoid-forms"),
        example="[[ 0.      1.      0.      1.      0.      1.    ]\n"
        " [ 0.8415  0.9989  0.0022  1.      0.      1.    ]\n"
        " [ 0.9093  0.9957  0.0043  1.      0.      1.    ]]\n",
    ),
    Erratum(
        key="e19",
        title="The factor 2 forgotten",
        statement="For d = 4 and i = 1: 10000^(1/4) = 10, and sin(0.1) = 0.00999983.",
        why="The exponent is 2i/d = 2/4, so that the divisor is 100. The sine of 0.1 is 0.0998; the number printed is "
        "the sine of 0.01, and so the right value at the end of a wrong line.",
        formula=_FORMULA,
        values=_halved,
        source=_SOURCE,
        figures=("waves", "shift-derivation"),
        example="d = 4\n10000^(1/4) = 10\nsin(0.1) = 0.00999983\n",
    ),
    Erratum(
        key="e21",
        title="Off by one",
        statement="sin(1) = 0 for the first word; position 1 gets sin(2).",
        why="The paper's positions count from 0, as its code's do: the first word has sin(0) = 0 and cos(0) = 1, the "
        "second sin(1) = 0.8415. Counting from 1 harms no model, as long as training and use agree, but the "
        "numbers are then those of another row.",
        values=_off_by_one,
        source=_SOURCE,
        figures=("waves", "heatmap"),
        example="sin(1) = 0\n",
    ),
    Erratum(
        key="e22",
        title="A divisor is no frequency",
        statement="10000<sup>2i/d</sup> is the frequency; small i have a longer frequency.",
        why="It is what the position is divided by: the length of the wave over 2π. The frequency is its inverse, in "
        "radians a token. Waves are longer or shorter, frequencies higher or lower.",
        formula="ω<sub>i</sub> = 10000<sup>&minus;2i/d</sup>, &nbsp; λ<sub>i</sub> = 2π / ω<sub>i</sub>",
        values=_divisor,
        source=_SOURCE,
        figures=("waves", "tutorial-errors"),
    ),
    Erratum(
        key="e24",
        title="The order of the frequencies",
        statement="The higher i, the higher the frequency.",
        why="The exponent grows with i, and it divides: the first pair is the fastest, the last the slowest.",
        formula="ω<sub>i</sub> = 10000<sup>&minus;2i/d</sup>",
        values=_falling,
        source=_SOURCE,
        figures=("tutorial-errors", "waves", "heatmap"),
    ),
    Erratum(
        key="e34",
        title="Another base than the paper's",
        statement="`p / np.power(1000, 2 * (i // 2) / d)`, under the paper's formula with 10000.",
        why="The base sets the longest wave. 1000 is a fair choice for short texts, but its numbers and pictures are "
        "not those of the formula above them: the same pattern is stretched over fewer positions.",
        formula=_FORMULA,
        values=_base,
        source=_SOURCE,
        figures=("heatmap", "tutorial-errors"),
        example="[[0.     1.     0.     1.     0.     1.    ]\n [0.8415 0.5403 0.0998 0.995  0.01   1.    ]\n"
        " [0.9093 -0.4161 0.1987 0.9801 0.02   0.9998]]\n",
    ),
    Erratum(
        key="e2",
        title="Listings that do not run",
        statement=f"`{_QUOTED}`: a listing with typographic quotation marks.",
        why="Python's strings stand between straight marks, ' or \". Pages that make them curly spoil every listing; "
        "the program stops before its first line. A typographic minus sign does the same.",
        values=_quotes,
        source="The Python Language Reference, section 2, “Lexical analysis”",
        figures=("sinusoid-forms",),
        example=f"{_QUOTED}\n",
    ),
)
