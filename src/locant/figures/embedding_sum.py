"""The sum at work: word vectors, position codes and what the first layer receives, for one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from locant.analysis.introspection import introspect, token_pair
from locant.errors import ConfigError, DataError, UsageError
from locant.figures.drawing import (
    BLUE,
    INK,
    VERMILION,
    FigureData,
    Numbers,
    colour_scale,
    colours,
    drawing,
    new_figure,
    settle,
    signed,
)
from locant.figures.record import read_record
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import RECORDED, load_trained, readable, short_sentence
from locant.positions import Sinusoidal

_MOST_TOKENS, _WRITTEN = 20, 6
_TITLES = ("Word vectors  √E · E[w]", "Codes  PE(p)", "Their sum: what layer 1 receives")


def embedding_sum_numbers(*, run: Path | None = None, text: str | None = None, token: int = 1) -> dict[str, Any]:
    """Return word vectors, codes and sums of a sentence in the encoder.

    Args:
        run: The run folder; ``None`` for the record that comes with Locant.
        text: A sentence; without one a short held-out sentence of the run's evaluation is taken.
        token: Position whose numbers are written out.

    Raises:
        UsageError: There is a text for the record, which has its own.
        CheckpointError: The folder holds no trained model, or without ``text``: the run has not been evaluated.
        ConfigError: The model is no Transformer, or its positions are not added to the embeddings.
        DataError: The sentence is empty, too long, or has no such token.
    """
    if run is None:
        if text is not None:
            raise UsageError(
                "--text of the figure 'embedding-sum' belongs to a trained model; say which: --run FOLDER."
            )
        found = _of_record()
    else:
        found = _of_run(run, text)
    length = len(found["tokens"])
    if token >= length:
        raise DataError(f"--token {token} is not among the {length} tokens of the sentence.")
    return found | {"token": token}


def _of_record() -> dict[str, Any]:
    record = read_record("trained")["embedding_sum"]
    words = np.array(record["words"])
    with torch.no_grad():
        code = Sinusoidal(words.shape[1]).code(torch.arange(len(words)))
    assert code is not None
    codes = code.double().numpy()
    return {"words": words, "codes": codes, "sums": words + codes, "tokens": record["tokens"]}


def _of_run(run: Path, text: str | None) -> dict[str, Any]:
    translator, model = load_trained(run, "The figure 'embedding-sum'")
    scheme = model.encoder.scheme(0)
    if scheme.code(torch.arange(1)) is None:
        raise ConfigError(
            f"The model of {run} tells positions by '{model.config.position}', which adds nothing to its word vectors, "
            "so that there is no sum to draw."
        )
    if text is None:
        text = short_sentence(run, translator)
    if not text.strip():
        raise DataError("--text is empty; give a sentence.")
    pair = token_pair(translator.tokenizers, text, "", translator.prefixes)
    length = len(pair.source)
    if length > _MOST_TOKENS:
        raise DataError(f"The sentence has {length} tokens, of which at most {_MOST_TOKENS} can be drawn.")
    states = introspect(model, pair.source, pair.target).encoder
    with torch.no_grad():
        code = scheme.code(torch.arange(length))
    assert code is not None
    return {
        "words": states.words.double().numpy(),
        "codes": code.double().numpy(),
        "sums": states.layers[0].double().numpy(),
        "tokens": readable(pair.source_tokens),
    }


def embedding_sum(words: Numbers, codes: Numbers, sums: Numbers, *, tokens: Sequence[str], token: int) -> FigureData:
    """Draw word vectors, codes and their sums as images, and write out one token's first features.

    Args:
        words: Word vectors, ``[L, E]``.
        codes: Codes of the positions, ``[L, E]``.
        sums: What the first layer receives, ``[L, E]``.
        tokens: The tokens, ``L``.
        token: Position of the one written out.

    Returns:
        The figure and the arrays.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with drawing():
        from matplotlib.patches import Rectangle

        rows = len(tokens)
        figure = new_figure(13, 2.6 + 3 * (0.55 + 0.17 * rows))
        panels = figure.subplots(4, 1, height_ratios=[*[0.55 + 0.17 * rows] * 3, 1.9])
        # Single large values of trained word vectors would leave all others pale.
        most = float(np.quantile(np.abs(np.concatenate((words, codes, sums))), 0.99))
        shades, limits = colours(np.array([-most, most]))
        for axes, values, title in zip(panels, (words, codes, sums), _TITLES, strict=False):
            image = axes.imshow(values, cmap=shades, norm=limits, aspect="auto", interpolation="nearest")
            axes.grid(False)
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0)
            axes.set_yticks(range(rows), [f"{name}  {p}" for p, name in enumerate(tokens)], fontsize=9)
            axes.set_title(title, fontsize=11, pad=6)
            corner = (-0.5, token - 0.5)
            axes.add_patch(
                Rectangle(corner, min(_WRITTEN, words.shape[1]), 1, fill=False, edgecolor=INK, clip_on=False)
            )
            colour_scale(axes, image)
        panels[2].set_xlabel("feature")
        _write(panels[3], words[token], codes[token], sums[token], tokens[token], token)
        settle(figure)
    return FigureData(figure, {"words": words, "codes": codes, "sums": sums})


def _write(axes: Any, word: Numbers, code: Numbers, total: Numbers, name: str, position: int) -> None:
    """Write the first features of one token as a sum."""
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 4)
    rows = (
        (f"“{name}”", word, BLUE),
        (f"+ PE({position})", code, VERMILION),
        ("= sum", total, INK),
    )
    for height, (label, values, colour) in zip((3.0, 2.0, 0.9), rows, strict=True):
        axes.text(0.0, height, label, va="center", color=colour, fontweight="bold")
        for place, value in enumerate(values[:_WRITTEN]):
            x = 0.22 + 0.115 * place
            axes.text(x, height, signed(value), va="center", ha="right", family="DejaVu Sans Mono", color=colour)
        if len(values) > _WRITTEN:
            axes.text(0.24 + 0.115 * (_WRITTEN - 1), height, "…", va="center", color=colour)
    axes.plot([0, 0.25 + 0.115 * (_WRITTEN - 1)], [1.45, 1.45], color=INK, linewidth=0.9)


register_figure(
    "embedding-sum",
    numbers=embedding_sum_numbers,
    draw=embedding_sum,
    caption=Caption(
        "The sum at work",
        "A sentence as the first layer receives it: the vector of every word times √E, plus the code of its place, "
        "feature by feature. The codes are the same under every sentence; the framed numbers are written out below.",
        "x<sub>p</sub>&nbsp;= √E&thinsp;E[w<sub>p</sub>] + PE(p)  &nbsp; (Vaswani et al. 2017, sections 3.4 and 3.5)",
        (RECORDED,),
    ),
    limits={"token": (0, 19)},
    recorded=True,
)
