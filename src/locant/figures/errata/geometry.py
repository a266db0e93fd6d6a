"""Errata on what sinusoidal codes do: nearness, counting, longer texts, and where the positions are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from locant.analysis import measure_geometry, shift_matrix
from locant.figures.errata.entry import Erratum, Value
from locant.figures.numbers import SEED, wavelengths_of
from locant.figures.record import read_record
from locant.positions import sinusoid_frequencies, sinusoid_table

_PAPER = 512
_SECTION = "Vaswani et al. 2017, section 3.5"


def _table(width: int, length: int) -> torch.Tensor:
    return sinusoid_table(torch.arange(length), width).double()


def _first_rise(width: int) -> float:
    rise = measure_geometry(_table(width, 200)).first_rise
    assert rise is not None
    return rise


def _ripples() -> list[Value]:
    return [
        *(
            Value(
                f"first offset at which two codes are more alike than at the offset before, d = {width}",
                _first_rise(width),
            )
            for width in (64, _PAPER)
        ),
        Value(
            "cosine of half a radian, if the cosine of one is given and it were inversely proportional",
            math.cos(0.5),
            2 * math.cos(1),
            "{:.4f}",
        ),
        Value("cosine between the fastest hand now and 3 tokens later", math.cos(3), form="{:.2f}"),
        Value("and 6 tokens later", math.cos(6), form="{:.2f}"),
    ]


def _decay() -> list[Value]:
    table = _table(_PAPER, 201)
    shares = table[0] @ table.T / (_PAPER / 2)
    return [
        Value("first offset at which the dot product rises, d = 512", _first_rise(_PAPER)),
        Value("of the offsets 1 to 200, at how many it rises", int((shares[1:] > shares[:-1]).sum()), 0),
        Value("dot product at offset 200, as a share of that at offset 0", float(shares[200]), form="{:.2f}"),
    ]


def _counter() -> list[Value]:
    waves = wavelengths_of(_PAPER).tolist()
    radians = sinusoid_frequencies(_PAPER).radians
    return [
        Value("hands that have moved after one token, d = 512", sum(float(each) > 0 for each in radians), 1),
        Value("turns of the second hand while the first goes round once", waves[0] / waves[1], 0.0, "{:.3f}"),
        Value("ratio of these two waves", waves[1] / waves[0], form="{:.3f}"),
    ]


def exact_match(scheme: str, part: str) -> float:
    """Return the mean share of exact answers of the record of copying letters, in percent.

    Args:
        scheme: Name of the positional scheme.
        part: ``seen`` or ``unseen`` lengths.
    """
    record = read_record("unseen_lengths")
    shares: Sequence[float] = record["exact"][scheme]
    seen = record["training"]["longest"]
    chosen = shares[:seen] if part == "seen" else shares[seen:]
    return sum(chosen) / len(chosen)


def _longer() -> list[Value]:
    code = sinusoid_table(torch.tensor(100_000), _PAPER)
    return [
        Value(
            "largest number in the code of position 100,000: it is defined, and bounded",
            float(code.abs().max()),
            form="{:.2f}",
        ),
        Value(
            "copying letters, trained on 1 to 20 of them: right answers at 1 to 20",
            exact_match("sinusoidal", "seen"),
            form="{:.1f} %",
        ),
        Value(
            "the same model at 21 to 40 letters",
            exact_match("sinusoidal", "unseen"),
            exact_match("sinusoidal", "seen"),
            "{:.1f} %",
        ),
    ]


def _turning() -> list[Value]:
    angles = torch.tensor([float(each) for each in sinusoid_frequencies(_PAPER).radians], dtype=torch.float64) * 49
    return [
        Value("pairs of 256 that turn by more than 0.1 radian over 50 tokens, d = 512", int((angles > 0.1).sum())),
        Value("pairs that turn by more than 1 radian", int((angles > 1).sum())),
        Value(
            "features of 512 whose values differ by more than 0.1 over 50 tokens",
            int(((table := _table(_PAPER, 50)).amax(0) - table.amin(0) > 0.1).sum()),
        ),
    ]


def _absolute() -> list[Value]:
    width, offset = 64, 5
    table = _table(width, 105)
    generator = torch.Generator().manual_seed(SEED)
    query, key = torch.randn(2, width, width, generator=generator, dtype=torch.float64) / width**0.5
    scores = ((table @ query.T) * (table @ key.T).roll(-offset, 0)).sum(1)[:100]
    residual = (table[:100] @ shift_matrix(width, offset).T - table[offset : 100 + offset]).abs().max()
    return [
        Value(
            "distance between the codes of positions 3 and 13, d = 64",
            float((table[3] - table[13]).norm()),
            0.0,
            "{:.2f}",
        ),
        Value(
            "what the matrix M<sub>5</sub> leaves between PE(p + 5) and M<sub>5</sub> PE(p), at most, p = 0 … 99",
            float(residual),
            form="{:.4f}",
        ),
        Value(
            "score between positions 0 and 5 after drawn W<sub>Q</sub> and W<sub>K</sub>",
            float(scores[0]),
            form="{:.2f}",
        ),
        Value("score between positions 50 and 55 after the same", float(scores[50]), float(scores[0]), "{:.2f}"),
    ]


_PRODUCT = "PE(p) · PE(p + k) = Σ<sub>i</sub> cos(k ω<sub>i</sub>)"

ERRATA = (
    Erratum(
        key="e5",
        title="Cosine and distance",
        statement="The cosine of the angle between two codes is inversely proportional to the angle, and so to the "
        "distance of the words.",
        why="A cosine is not inversely proportional to anything: it falls up to half a turn and rises again. The dot "
        "product of two codes is a sum of such cosines. It falls near offset 0, then ripples; the wider the code, the "
        "later it rises first.",
        formula=_PRODUCT,
        values=_ripples,
        source=_SECTION + " (the code; the product follows from cos a cos b + sin a sin b = cos(a &minus; b))",
        figures=("dot-products", "tutorial-errors"),
    ),
    Erratum(
        key="e8",
        title="Nice decay",
        statement="The similarity of two positions decays nicely with their distance.",
        why="It is symmetric, depends on the distance alone, and falls at first: so much is right. It is not monotone, "
        "and it does not go to 0: far positions can look nearer than closer ones.",
        formula=_PRODUCT,
        values=_decay,
        source=_SECTION,
        figures=("distance", "dot-products", "tutorial-errors"),
    ),
    Erratum(
        key="e6",
        title="The mechanical counter",
        statement="The pairs work like a mechanical counter: a hand moves on when the one before has gone round.",
        why="The wheels of a counter wait for each other; all hands of the code move with every token, each at its own "
        "steady speed, like those of a clock without gears. Nor does one turn of a hand make a whole number of turns "
        "of the one before, except for d = 4 (100 turns) and d = 8 (10).",
        formula="ratio of neighbouring waves = 10000<sup>2/d</sup>",
        values=_counter,
        source=_SECTION,
        figures=("clocks", "waves"),
    ),
    Erratum(
        key="e7",
        title="Longer sentences without any effort",
        statement="Sinusoids generalise to sentences longer than those of training without any effort.",
        why="The code is defined there, which a learned table is not. Whether the model can use it is another matter: "
        "sums of codes that it never met lead to attention that it never learned. The paper only says that it “may” "
        "help; measurements since say that it mostly does not.",
        values=_longer,
        source=_SECTION + ", last paragraph; Press et al. 2022, “Train Short, Test Long”, section 2 and Figure 1",
        figures=("criteria", "turning-pairs"),
    ),
    Erratum(
        key="e9",
        title="Only the first features",
        statement="Only the first few dimensions carry positions, so that the words can use the rest.",
        why="Over a sentence of 50 tokens most pairs turn visibly; the longer the text, the more of them. That words "
        "and positions do not disturb each other is a matter of directions in a wide space, which training finds, not "
        "of features set apart. What is true: the last pairs hardly move in a short text.",
        formula="angle of pair i over L tokens = (L &minus; 1) ω<sub>i</sub>",
        values=_turning,
        source=_SECTION,
        figures=("turning-pairs", "word-energy", "embedding-sum"),
    ),
    Erratum(
        key="e11",
        title="Absolute or relative",
        statement="The sinusoidal code tells the model the relative location of each word.",
        why="It is an absolute code: what is added depends on the position alone. Relative positions can be had from "
        "it by a linear map, which is the reason the paper gives for its choice, but a model must learn to. Once query "
        "and key have projections of their own, the score between two codes depends on where they stand and not on "
        "their offset alone.",
        formula="PE(p + k) = M<sub>k</sub> PE(p), &nbsp; M<sub>k</sub> a rotation of each pair by k ω<sub>i</sub>",
        values=_absolute,
        source=_SECTION + "; Shaw et al. 2018, section 3 (positions that are relative)",
        figures=("circle", "shift-derivation", "bias"),
    ),
)
