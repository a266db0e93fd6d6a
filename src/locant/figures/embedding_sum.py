"""The sum at work: word vectors, position codes and what the first layer receives, for one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from locant.analysis.introspection import introspect
from locant.errors import ConfigError, DataError, UsageError
from locant.figures.drawing import (
    BLUE,
    INK,
    VERMILION,
    blank,
    colour_scale,
    colours,
    draw_image,
    label,
    new_figure,
    signed,
)
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import RECORDED, load_trained, read_record, readable, sentence_pair
from locant.positions import Sinusoidal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_TOKENS, _WRITTEN = 20, 6
_TITLES = {
    "words": "Word vectors  √d · E[w]",
    "codes": "Codes  PE(p)",
    "sums": "Their sum: what layer 1 receives",
}


def numbers(*, run: Path | None = None, text: str | None = None, token: int = 1) -> dict[str, Any]:
    """Return word vectors, codes and sums ``[L, E]`` of a sentence in the encoder.

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
    if run is None and text is not None:
        raise UsageError("--text of the figure 'embedding-sum' belongs to a trained model; say which: --run FOLDER.")
    if run is None:
        record = read_record("trained")["embedding_sum"]
        words, tokens = np.array(record["words"]), record["tokens"]
        code = Sinusoidal(words.shape[1]).code(torch.arange(len(words)))
        assert code is not None
        sums = words + code.double().numpy()
    else:
        translator, model = load_trained(run, "embedding-sum")
        pair = sentence_pair(run, translator, text, most=_MOST_TOKENS)
        with torch.no_grad():
            code = model.encoder.scheme(0).code(torch.arange(len(pair.source)))
        if code is None:
            raise ConfigError(
                f"The model of {run} tells positions by '{model.config.position}', which adds nothing to its word "
                "vectors, so that there is no sum to draw."
            )
        states = introspect(model, pair.source, pair.target).encoder
        words, sums = states.words.double().numpy(), states.layers[0].double().numpy()
        tokens = readable(pair.source_tokens)
    if token >= len(tokens):
        raise DataError(f"--token {token} is not among the {len(tokens)} tokens of the sentence.")
    return {"words": words, "codes": code.double().numpy(), "sums": sums, "tokens": tokens, "token": token}


def draw(tokens: list[str], token: int, **vectors: Any) -> Figure:
    """Draw word vectors, codes and their sums as images, and write out one token's first features."""
    from matplotlib.patches import Rectangle

    rows, written = len(tokens), min(_WRITTEN, vectors["words"].shape[1])
    height = 0.55 + 0.17 * rows
    figure = new_figure(13, 2.6 + 3 * height)
    *images, sheet = figure.subplots(4, 1, height_ratios=[height] * 3 + [1.9])
    # Single large values of trained word vectors would leave all others pale.
    most = float(np.quantile(np.abs(np.concatenate(list(vectors.values()))), 0.99))
    for axes, (name, title) in zip(images, _TITLES.items(), strict=True):
        colour_scale(axes, draw_image(axes, vectors[name], colours(np.array([-most, most])), aspect="auto"))
        axes.set_yticks(range(rows), [f"{each}  {p}" for p, each in enumerate(tokens)], fontsize=9)
        axes.add_patch(Rectangle((-0.5, token - 0.5), written, 1, fill=False, edgecolor=INK, clip_on=False))
        label(axes, title)
    images[-1].set_xlabel("feature")
    blank(sheet, height=4)
    lines = (
        (3, f"“{tokens[token]}”", "words", BLUE),
        (2, f"+ PE({token})", "codes", VERMILION),
        (0.9, "= sum", "sums", INK),
    )
    for y, name, which, color in lines:
        sheet.text(0.0, y, name, va="center", color=color, fontweight="bold")
        how: dict[str, Any] = {"va": "center", "ha": "right", "family": "DejaVu Sans Mono", "color": color}
        for place, value in enumerate(vectors[which][token, :written]):
            sheet.text(0.22 + 0.115 * place, y, signed(value), **how)
        sheet.text(0.26 + 0.115 * (written - 1), y, "…", **how)
    sheet.plot([0, 0.25 + 0.115 * (written - 1)], [1.45, 1.45], color=INK, linewidth=0.9)
    return figure


register_figure(
    "embedding-sum",
    numbers=numbers,
    draw=draw,
    caption=Caption(
        "The sum at work",
        "A sentence as the first layer receives it: the vector of every word times √d, plus the code of its place, "
        "feature by feature. The codes are the same under every sentence; the framed numbers are written out below.",
        "x<sub>p</sub>&nbsp;= √d&thinsp;E[w<sub>p</sub>] + PE(p)  &nbsp; (Vaswani et al. 2017, sections 3.4 and 3.5)",
        (RECORDED,),
    ),
    limits={"token": (0, 19)},
    recorded=True,
)
