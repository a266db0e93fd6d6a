"""Word energy: in which features trained word vectors keep what tells words apart, beside the code of the position."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from locant.errors import ConfigError
from locant.figures.drawing import Figure, Numbers, label, new_figure
from locant.figures.numbers import pair_features
from locant.figures.palette import BLUE, FAINT, GREEN, INK, PAPER, VERMILION
from locant.figures.registry import register_figure
from locant.figures.trained import load_trained, read_record
from locant.positions import Sinusoidal
from locant.text.tokenizer import EOS

_FREQUENT = 500  # tokens; tokenizers have the frequent ones first
_GROUPS = ("more than 1 rad", "0.1 to 1 rad", "less than 0.1 rad")


def numbers(*, run: Path | None = None, length: int = 50) -> dict[str, Any]:
    """Return the energy of a model's word vectors and of its position code by pair of features.

    Args:
        run: The run folder; ``None`` for the record that comes with Locant.
        length: Tokens of a text.

    Returns:
        ``words`` and ``frequent``, the variance of the two features of each pair over the vocabulary and over its
        first 500 tokens, and ``positions``, that of the code over a text, ``[P]`` each, the fastest pair first;
        ``groups``, for pairs by how far they turn, their share of the pairs and of both energies, ``[3, 3]``.

    Raises:
        CheckpointError: The folder holds no trained model.
        ConfigError: The model is no Transformer, or its positions are not sinusoids added to the embeddings.
    """
    if run is None:
        record = read_record("trained")["word_energy"]
        of_all, of_frequent = np.array(record["words"]), np.array(record["frequent"])
        scheme = Sinusoidal(2 * len(of_all))
    else:
        _, model = load_trained(run, "word-energy")
        found = model.encoder.scheme(0)
        if not isinstance(found, Sinusoidal) or found.code(torch.arange(1)) is None:
            raise ConfigError(
                f"The model of {run} tells positions by '{model.config.position}', which adds no sinusoids to its word "
                "vectors, so that there are no pairs of features to compare."
            )
        scheme = found
        words = model.source_embedding.weight[EOS + 1 :].detach().double() * math.sqrt(model.config.d_model)
        of_all, of_frequent = (energy_by_pair(scheme, vectors) for vectors in (words, words[:_FREQUENT]))
    turned = np.array([float(radians) * (length - 1) for radians in scheme.frequencies.radians])
    inside = np.stack([turned > 1, (turned > 0.1) & (turned <= 1), turned <= 0.1])
    shares = np.stack((np.full(len(turned), 1 / len(turned)), of_all / of_all.sum(), of_frequent / of_frequent.sum()))
    return {
        "words": of_all,
        "frequent": of_frequent,
        "positions": energy_by_pair(scheme, scheme.encode(torch.arange(length))),
        "groups": inside @ shares.T,
        "length": length,
    }


def energy_by_pair(scheme: Sinusoidal, vectors: torch.Tensor) -> Numbers:
    """Return the variance of vectors ``[N, E]`` by pair of features, ``[P]``, the fastest pair first."""
    energy: Numbers = vectors.double().var(0, correction=0)[pair_features(scheme)].sum(1).numpy()
    return energy


def draw(words: Any, frequent: Any, positions: Any, groups: Any, length: int) -> Figure:
    """Draw the variance of word vectors and of position codes by pair, and shares of groups of pairs."""
    figure = new_figure(12, 4.8)
    left, right = figure.subplots(1, 2, width_ratios=[1.5, 1])
    left.plot(words, color=BLUE, label="√d · E[w], over the vocabulary")
    left.plot(frequent, "-.", color=GREEN, label=f"√d · E[w], over its first {_FREQUENT} tokens")
    left.plot(positions, "--", color=VERMILION, label=f"position code, over {length} tokens")
    left.set_ylim(0, 1.4 * max(words.max(), frequent.max(), positions.max()))
    label(left, "Where the energy is", "pair i, the fastest first", "variance of its two features")
    left.legend(loc="upper right", fontsize=9)
    places = np.arange(len(groups))
    bars = (("pairs", FAINT, ""), ("energy of all tokens", BLUE, "//"), (f"of the first {_FREQUENT}", GREEN, ".."))
    for offset, values, (name, color, hatch) in zip((-0.28, 0.0, 0.28), groups.T, bars, strict=True):
        drawn = right.bar(places + offset, values, 0.27, color=color, hatch=hatch, edgecolor=PAPER, label=name)
        right.bar_label(drawn, [f"{100 * value:.0f} %" for value in values], fontsize=9, color=INK, padding=2)
    right.set_xticks(places, _GROUPS)
    right.set_ylim(0, 1.6 * float(groups.max()))
    right.yaxis.set_major_formatter(lambda value, place: f"{100 * value:.0f} %")
    right.grid(axis="x", visible=False)
    label(right, "Do words avoid the pairs that turn?", f"turn of the pair over {length} tokens")
    right.legend(loc="upper right", fontsize=9)
    return figure


register_figure("word-energy", numbers, draw, limits={"length": (2, 4096)})
