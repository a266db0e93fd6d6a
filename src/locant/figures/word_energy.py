"""Word energy: in which features trained word vectors keep what tells words apart, beside the code of the position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.figures.drawing import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    VERMILION,
    FigureData,
    Numbers,
    drawing,
    new_figure,
    settle,
)
from locant.figures.record import read_record
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import RECORDED, load_trained
from locant.positions import PositionScheme, Sinusoidal
from locant.text.tokenizer import EOS

_FREQUENT = 500  # tokens; tokenizers have the frequent ones first


@dataclass(frozen=True)
class PairGroup:
    """Pairs of features that turn alike.

    Attributes:
        label: How far they turn.
        share: Share of the pairs that belong to the group.
        energy: Share of the energy of the word vectors in it.
        frequent: The same of the frequent ones.
    """

    label: str
    share: float
    energy: float
    frequent: float


def word_energy_numbers(*, run: Path | None = None, length: int = 50) -> dict[str, Any]:
    """Return the energy of a model's word vectors and of its position code by pair of features.

    Args:
        run: The run folder; ``None`` for the record that comes with Locant.
        length: Tokens of a text.

    Raises:
        CheckpointError: The folder holds no trained model.
        ConfigError: The model is no Transformer, or its positions are not sinusoids added to the embeddings.
    """
    if run is None:
        record = read_record("trained")["word_energy"]
        energies = [np.array(record[which]) for which in ("words", "frequent")]
        scheme: PositionScheme = Sinusoidal(2 * len(energies[0]))
        energies.append(_energy(scheme, scheme.code(torch.arange(length))))
    else:
        scheme, energies = _of_run(run, length)
    turned = np.array([2 * np.pi / wavelength * (length - 1) for wavelength, *_ in sorted(scheme.wave_pairs)])
    of_all, of_frequent = (energy / energy.sum() for energy in energies[:2])
    groups = [
        PairGroup(label, float(inside.mean()), float(of_all[inside].sum()), float(of_frequent[inside].sum()))
        for label, inside in (
            ("more than 1 rad", turned > 1),
            ("0.1 to 1 rad", (turned > 0.1) & (turned <= 1)),
            ("less than 0.1 rad", turned <= 0.1),
        )
    ]
    return {
        "words": energies[0],
        "frequent": energies[1],
        "positions": energies[2],
        "groups": groups,
        "length": length,
    }


def _energy(scheme: PositionScheme, vectors: Tensor | None) -> Numbers:
    """Return the variance of vectors ``[N, E]`` by pair of features, ``[P]``, the fastest pair first."""
    assert vectors is not None
    by_feature = vectors.double().var(0, correction=0).numpy()
    return np.array([by_feature[[sine, cosine]].sum() for _, sine, cosine in sorted(scheme.wave_pairs)])


def _of_run(run: Path, length: int) -> tuple[PositionScheme, list[Numbers]]:
    """Return the scheme of a run, and the energies of its words, of its frequent words and of its code."""
    _, model = load_trained(run, "The figure 'word-energy'")
    scheme = model.encoder.scheme(0)
    code = scheme.code(torch.arange(length)) if scheme.wave_pairs else None
    if code is None:
        raise ConfigError(
            f"The model of {run} tells positions by '{model.config.position}', which adds no sinusoids to its word "
            "vectors, so that there are no pairs of features to compare."
        )
    with torch.no_grad():
        words = model.source_embedding.weight[EOS + 1 :].double() * math.sqrt(model.config.d_model)
    return scheme, [_energy(scheme, vectors) for vectors in (words, words[:_FREQUENT], code)]


def word_energy(
    words: Numbers, *, frequent: Numbers, positions: Numbers, groups: Sequence[PairGroup], length: int
) -> FigureData:
    """Draw the variance of word vectors and of position codes by pair, and shares of groups of pairs.

    Args:
        words: Variance over the vocabulary of the two features of each pair, ``[P]``, the fastest pair first.
        frequent: The same over the first tokens of the vocabulary, ``[P]``.
        positions: Variance of the code over a text, ``[P]``.
        groups: Pairs by how far they turn.
        length: Tokens of the text.

    Returns:
        The figure and the arrays; ``groups`` has a row for every group, share of the pairs, of the energy, and of
        that of the frequent tokens.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    shares = np.array([[group.share, group.energy, group.frequent] for group in groups])
    with drawing():
        figure = new_figure(12, 4.8)
        left, right = figure.subplots(1, 2, width_ratios=[1.5, 1])
        left.plot(words, color=BLUE, label="√E · E[w], over the vocabulary")
        left.plot(frequent, "-.", color=GREEN, label=f"√E · E[w], over its first {_FREQUENT} tokens")
        left.plot(positions, "--", color=VERMILION, label=f"position code, over {length} tokens")
        left.set_xlabel("pair i, the fastest first")
        left.set_ylabel("variance of its two features")
        left.set_ylim(0, 1.4 * max(words.max(), frequent.max(), positions.max()))
        left.set_title("Where the energy is", pad=10)
        left.legend(loc="upper right", fontsize=9)
        places = np.arange(len(groups))
        for offset, colour, hatch, name, values in (
            (-0.28, FAINT, "", "pairs", [group.share for group in groups]),
            (0.0, BLUE, "//", "energy of all tokens", [group.energy for group in groups]),
            (0.28, GREEN, "..", f"energy of the first {_FREQUENT} tokens", [group.frequent for group in groups]),
        ):
            bars = right.bar(places + offset, values, 0.27, color=colour, hatch=hatch, edgecolor="white", label=name)
            right.bar_label(bars, [f"{100 * value:.0f} %" for value in values], fontsize=9, color=INK, padding=2)
        right.set_xticks(places, [group.label for group in groups])
        right.set_xlabel(f"turn of the pair over {length} tokens")
        right.set_ylim(0, 1.35 * float(shares.max()))
        right.yaxis.set_major_formatter(lambda value, place: f"{100 * value:.0f} %")
        right.grid(axis="x", visible=False)
        right.set_title("Do words avoid the pairs that turn?", pad=10)
        right.legend(loc="upper right", fontsize=9)
        settle(figure)
    return FigureData(figure, {"words": words, "frequent": frequent, "positions": positions, "groups": shares})


register_figure(
    "word-energy",
    numbers=word_energy_numbers,
    draw=word_energy,
    caption=Caption(
        "Do words keep out of the first features?",
        "If words left the first features to the position, their vectors would hardly vary there. A group of pairs "
        "that words avoid has less of their energy than its share of the pairs. Compare the bars: to lean away from "
        "the pairs that turn is one thing, to leave them to the position another.",
        "energy of pair i&nbsp;= E&thinsp;(var<sub>w</sub> E[w]<sub>2i</sub> + var<sub>w</sub> E[w]<sub>2i+1</sub>)",
        (RECORDED,),
    ),
    limits={"length": (2, 4096)},
    recorded=True,
)
