"""Attention step by step: from embeddings to the output of one layer's self-attention, every intermediate result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from locant.analysis.attention_steps import AttentionSteps
from locant.analysis.attention_steps import attention_steps as steps_of
from locant.errors import DataError, UsageError
from locant.figures.drawing import MINUS, TIMES, Figure, Numbers, colours, draw_cells, label, new_figure
from locant.figures.numbers import seeded
from locant.figures.registry import register_figure
from locant.figures.trained import load_trained, readable, sentence_pair
from locant.models.config import TransformerConfig
from locant.models.transformer import Transformer
from locant.text.tokenizer import BOS, EOS

Stack = Literal["encoder", "decoder"]

# The classic small example: three heads of two features.
_WIDTH, _HEADS = 6, 3
_EXAMPLE, _MOST_WORDS = "the cat sat down", 8
_MOST_TOKENS = 24  # of a trained model's sentence whose steps can still be read

_Line = dict[str, tuple[str, Numbers]]
"""Steps that are drawn beside each other: by title a name that steps of the same colours share, and ``[R, C]``."""


def numbers(
    *, run: Path | None = None, text: str | None = None, stack: str = "decoder", layer: int = 1
) -> dict[str, Any]:
    """Return the steps of one layer's self-attention, of a small untrained model or of a trained one.

    Args:
        run: The run folder; without one the model has 6 features, 3 heads and initial weights from a fixed seed.
        text: A sentence. The example takes a few words, and the decoder reads them after BOS; a trained decoder reads
            its own translation. Without one a short held-out sentence of the run is taken.
        stack: ``encoder`` or ``decoder``.
        layer: Which layer, counted from 1.

    Raises:
        DataError: The sentence is empty, or too long to be read in a figure.
        UsageError: There is no such stack or layer.
    """
    if stack not in get_args(Stack):
        raise UsageError(f"--stack is {' or '.join(get_args(Stack))}; got '{stack}'.")
    of: Stack = "encoder" if stack == "encoder" else "decoder"
    if run is None:
        words = (_EXAMPLE if text is None else text).split()
        if not 0 < len(words) <= _MOST_WORDS:
            raise DataError(f"--text must have 1 to {_MOST_WORDS} words to be drawn with numbers; got {len(words)}.")
        ids = {word: EOS + 1 + number for number, word in enumerate(dict.fromkeys(words))}
        sizes = {"d_model": _WIDTH, "d_ff": 4 * _WIDTH, "heads": _HEADS}
        layers = {"encoder_layers": layer, "decoder_layers": layer}
        known = EOS + 1 + len(ids)
        with seeded():
            config = TransformerConfig(source_vocab_size=known, target_vocab_size=known, **sizes, **layers)
            model = Transformer(config).eval()
        source = [ids[word] for word in words]
        target, tokens = [BOS, *source], words if of == "encoder" else ["(begin)", *words]
    else:
        translator, model = load_trained(run, "attention-steps")
        pair = sentence_pair(run, translator, text, most=_MOST_TOKENS)
        source, target = pair.source, pair.target
        tokens = readable(pair.source_tokens if of == "encoder" else pair.target_tokens)
    lines = _lines(steps_of(model, source, target, stack=of, layer=layer - 1), first=layer == 1)
    data = {title: values for line in (*lines[:2], lines[-1]) for title, (_, values) in line.items()}
    for head, line in enumerate(lines[2:-1], start=1):
        data |= {f"{title}, head {head}": values for title, (_, values) in line.items()}
    return {"tokens": tokens, "lines": lines, **data}


def _lines(steps: AttentionSteps, *, first: bool) -> list[_Line]:
    """Return the inputs, the projections, one line of six steps for each head, and the output."""
    inputs = {"layer input": ("input", steps.received)}
    if first:
        inputs = {r"embeddings $\cdot\,\sqrt{d}$": ("input", steps.words)}
        if not torch.equal(steps.words, steps.received):
            inputs["+ position"] = ("input", steps.received - steps.words)
            inputs[r"= $X$"] = ("input", steps.received)
    if not torch.equal(steps.x, steps.received):
        inputs["layer norm"] = ("input", steps.x)
    q, k = steps.rotated or (steps.q, steps.k)
    turned = ", rotated" if steps.rotated else ""
    projections: dict[str, tuple[str, Tensor]] = {
        rf"${name} = X\,W_{name}${how}": ("projections", by_head.transpose(0, 1).flatten(1))
        for name, by_head, how in (("Q", q, turned), ("K", k, turned), ("V", steps.v, ""))
    }
    of_heads = [
        {
            r"$Q_h K_h^T$": ("products", steps.products[head]),
            r"$/\,\sqrt{d_k}$": ("scores", steps.scaled[head]),
            "mask" if steps.bias is None else "+ bias, mask": ("scores", steps.masked[head]),
            "softmax": ("weights", steps.weights[head]),
            r"$V_h$": ("projections", steps.v[head]),
            r"softmax $\cdot\,V_h$": ("contexts", steps.contexts[head]),
        }
        for head in range(len(steps.q))
    ]
    output = {
        "heads, concatenated": ("contexts", steps.joined),
        r"$W_O$": ("matrix", steps.output_weight),
        r"output $= $ heads $\cdot\,W_O$": ("output", steps.output),
    }
    lines = [inputs, projections, *of_heads, output]
    return [{title: (scale, x.double().numpy()) for title, (scale, x) in line.items()} for line in lines]


_SQUARE = ("products", "scores", "weights")  # names of matrices with a column for each token
_MOST_NUMBERS = 30  # columns of a line whose numbers can be read


def draw(tokens: Sequence[str], *, lines: list[_Line], **_: Any) -> Figure:
    """Draw the steps of attention, line by line; small matrices with their numbers, large ones by colours alone."""
    seen: dict[str, list[Numbers]] = {"weights": [np.ones(1)]}
    for scale, values in (step for line in lines for step in line.values()):
        seen.setdefault(scale, []).append(values[np.isfinite(values)])
    ranges = {scale: colours(np.concatenate(values)) for scale, values in seen.items()}
    features = lines[2][r"$V_h$"][1].shape[1]
    cell = min(0.3, 3 / len(tokens))
    heights = [len(tokens) * cell + (0.3 if 2 < number < len(lines) - 1 else 0.7) for number in range(len(lines))]
    heights[-2] += 0.07 * max(map(len, tokens))  # names of columns
    figure = new_figure(11, sum(heights))
    grid = figure.add_gridspec(len(lines), height_ratios=heights)
    for number, line in enumerate(lines):
        head = number - 1 if 1 < number < len(lines) - 1 else 0
        widths = [max(3, values.shape[1]) for _, values in line.values()]  # three columns have room for a heading
        row = grid[number].subgridspec(1, len(line), width_ratios=widths)
        for place, (title, (scale, values)) in enumerate(line.items()):
            axes = figure.add_subplot(row[place])
            draw_cells(
                axes,
                values,
                ranges[scale],
                texts=_texts(values) if sum(widths) <= _MOST_NUMBERS else None,
                rows=tokens if scale != "matrix" else None,
                columns=tokens if scale in _SQUARE else None,
                splits=range(features, values.shape[1], features) if scale in ("projections", "contexts") else (),
                letters=min(9.0, 43 * cell),
                text_letters=7.5,
                aspect="auto",
            )
            axes.tick_params(labelleft=not place, labelbottom=head == len(lines) - 3)
            if head <= 1:
                label(axes, title, note=f"{values.shape[0]} {TIMES} {values.shape[1]}")
            if head and not place:
                axes.set_ylabel(f"head {head}")
    return figure


def slides(tokens: Sequence[str], *, lines: list[_Line], **_: Any) -> Figure:
    """Draw the steps up to those of the first head, and the output."""
    return draw(tokens, lines=[*lines[:3], lines[-1]])


def _texts(values: Numbers) -> Any:
    """Return numbers with two decimals, as they are written."""
    rounded = values.round(2) + 0.0  # what rounds to -0 has no sign
    write = np.vectorize(lambda each: f"{each:.2f}".replace("-", MINUS).replace("inf", "∞"), otypes=[object])
    return write(rounded)


register_figure("attention-steps", numbers, draw, limits={"layer": (1, 64)}, slides=slides)
