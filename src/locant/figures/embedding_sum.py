"""The sum at work: word vectors, position codes and what the first layer receives, for one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from locant.analysis.introspection import introspect
from locant.errors import ConfigError, DataError, UsageError
from locant.figures.drawing import MONO, Figure, blank, colour_scale, colours, draw_image, label, new_figure, signed
from locant.figures.palette import BLUE, INK, ON_LIGHT, VERMILION
from locant.figures.registry import register_figure
from locant.figures.trained import load_trained, read_record, readable, sentence_pair
from locant.positions import Sinusoidal

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
        axes.add_patch(Rectangle((-0.5, token - 0.5), written, 1, fill=False, edgecolor=ON_LIGHT, clip_on=False))
        label(axes, title, "feature")
    blank(sheet, height=4)
    for y, name, which, color in (
        (3, f"“{tokens[token]}”", "words", BLUE),
        (2, f"+ PE({token})", "codes", VERMILION),
        (0.9, "= sum", "sums", INK),
    ):
        sheet.text(0.0, y, name, va="center", color=color, fontweight="bold")
        for place, value in enumerate([*vectors[which][token, :written], None]):
            shown = "…" if value is None else signed(value)
            sheet.text(0.22 + 0.115 * place, y, shown, va="center", ha="right", color=color, **MONO)
    sheet.plot([0, 0.22 + 0.115 * written], [1.45, 1.45], color=INK, linewidth=0.9)
    return figure


register_figure("embedding-sum", numbers, draw, limits={"token": (0, 19)}, recorded=True)
