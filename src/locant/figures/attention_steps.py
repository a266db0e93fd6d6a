"""Attention step by step: from embeddings to the output of one layer's self-attention, every intermediate result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from locant.analysis.attention_steps import AttentionSteps
from locant.analysis.attention_steps import attention_steps as steps_of
from locant.analysis.introspection import token_pair
from locant.errors import DataError, UsageError
from locant.figures.cells import draw_cells, numbers_in
from locant.figures.drawing import FAINT, INK, MINUS, FigureData, Numbers, colours, drawing
from locant.figures.numbers import SEED
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import load_trained, readable, short_sentence
from locant.models.config import TransformerConfig
from locant.models.transformer import Transformer
from locant.text.tokenizer import BOS, EOS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Stack = Literal["encoder", "decoder"]


@dataclass(frozen=True)
class Step:
    """One intermediate result.

    Attributes:
        title: How it is computed, matplotlib's mathematics in it.
        values: ``[R, C]``.
        scale: Steps of the same name share their colours.
        rows: Tokens of the rows; none unless given.
        columns: Tokens of the columns; none unless given.
        splits: Columns at which another head begins.
        heading: Whether the title is drawn; further heads repeat that of the first.
    """

    title: str
    values: Numbers
    scale: str
    rows: Sequence[str] | None = None
    columns: Sequence[str] | None = None
    splits: Sequence[int] = ()
    heading: bool = True


# The classic small example: three heads of two features.
_WIDTH, _HEADS = 6, 3
_EXAMPLE, _MOST_WORDS = "the cat sat down", 8
_MOST_TOKENS = 24  # of a trained model's sentence whose steps can still be read


def attention_steps_numbers(
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
        CheckpointError: The folder holds no trained model, or without ``text``: the run has not been evaluated.
        DataError: The sentence is empty, or too long to be read in a figure.
        UsageError: There is no such stack or layer.
        ConfigError: The model is no Transformer.
    """
    if stack not in get_args(Stack):
        raise UsageError(f"--stack is {' or '.join(get_args(Stack))}; got '{stack}'.")
    if text is not None and not text.strip():
        raise DataError("--text is empty; give a sentence.")
    of: Stack = "encoder" if stack == "encoder" else "decoder"
    if run is None:
        words = (text or _EXAMPLE).split()
        if len(words) > _MOST_WORDS:
            raise DataError(f"--text has {len(words)} words, of which at most {_MOST_WORDS} can be drawn with numbers.")
        model, source, target = _example(words, layer)
        tokens = words if of == "encoder" else ["(begin)", *words]
    else:
        translator, model = load_trained(run, "The figure 'attention-steps'")
        text = text or short_sentence(run, translator)
        pair = token_pair(translator.tokenizers, text, translator.translate(text), translator.prefixes)
        source, target = pair.source, pair.target
        tokens = readable(pair.source_tokens if of == "encoder" else pair.target_tokens)
        if len(tokens) > _MOST_TOKENS:
            raise DataError(f"The sentence has {len(tokens)} tokens, of which at most {_MOST_TOKENS} can be drawn.")
    found = steps_of(model, source, target, stack=of, layer=layer - 1)
    return {"lines": _lines(found, tokens, first=layer == 1)}


def _example(words: Sequence[str], layers: int) -> tuple[Transformer, list[int], list[int]]:
    """Return a small model with initial weights, and a text as its source and target; equal words have equal ids."""
    known = {word: EOS + 1 + number for number, word in enumerate(dict.fromkeys(words))}
    size = EOS + 1 + len(known)
    config = TransformerConfig(
        source_vocab_size=size,
        target_vocab_size=size,
        d_model=_WIDTH,
        d_ff=4 * _WIDTH,
        heads=_HEADS,
        encoder_layers=layers,
        decoder_layers=layers,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = Transformer(config).eval()
    ids = [known[word] for word in words]
    return model, ids, [BOS, *ids]


def _lines(steps: AttentionSteps, tokens: Sequence[str], *, first: bool) -> list[list[Step]]:
    heads, _, features = steps.q.shape
    splits = [features * head for head in range(1, heads)]

    def of(values: Tensor) -> Numbers:
        return values.double().numpy()

    def beside(by_head: Tensor) -> Numbers:
        return of(by_head.transpose(0, 1).flatten(1))

    inputs = [Step("layer input", of(steps.received), "input", tokens)]
    if first:
        inputs = [Step(r"embeddings $\cdot\,\sqrt{d}$", of(steps.words), "input", tokens)]
        if not torch.equal(steps.words, steps.received):
            inputs.append(Step("+ position", of(steps.received - steps.words), "input"))
            inputs.append(Step(r"= $X$", of(steps.received), "input"))
    if not torch.equal(steps.x, steps.received):
        inputs.append(Step("layer norm", of(steps.x), "input"))
    q, k = steps.rotated or (steps.q, steps.k)
    turned = ", rotated" if steps.rotated else ""
    projections = [
        Step(rf"$Q = X\,W_Q${turned}", beside(q), "projections", tokens, splits=splits),
        Step(rf"$K = X\,W_K${turned}", beside(k), "projections", splits=splits),
        Step(r"$V = X\,W_V$", beside(steps.v), "projections", splits=splits),
    ]
    lines = [inputs, projections]
    masked = "mask" if steps.bias is None else "+ bias, mask"
    for head in range(heads):
        last, begins = head == heads - 1, head == 0
        keys = tokens if last else None
        lines.append(
            [
                Step(r"$Q_h K_h^T$", of(steps.products[head]), "products", tokens, keys, heading=begins),
                Step(r"$/\,\sqrt{d_k}$", of(steps.scaled[head]), "scores", None, keys, heading=begins),
                Step(masked, of(steps.masked[head]), "scores", None, keys, heading=begins),
                Step("softmax", of(steps.weights[head]), "weights", None, keys, heading=begins),
                Step(r"$V_h$", of(steps.v[head]), "projections", heading=begins),
                Step(r"softmax $\cdot\,V_h$", of(steps.contexts[head]), "contexts", heading=begins),
            ]
        )
    lines.append(
        [
            Step("heads, concatenated", of(steps.joined), "contexts", tokens, splits=splits),
            Step(r"$W_O$", of(steps.output_weight), "matrix"),
            Step(r"output $= $ heads $\cdot\,W_O$", of(steps.output), "output"),
        ]
    )
    return lines


_ACROSS = 11.0  # inches of the figure
_LARGEST_CELL, _NUMBERS_FROM = 0.44, 0.3  # inches of a cell, and from which it has room for a number
_GAP, _ABOVE, _BETWEEN, _RIGHT = 0.32, 0.62, 0.14, 0.35  # inches
_SHOWN_FEATURES = 10  # cells of a head's features; more of them become narrower
_HIGHEST = 2.0  # inches of W_O where it has more rows than there are tokens


def attention_steps(lines: Sequence[Sequence[Step]]) -> FigureData:
    """Draw the steps of attention, line by line; small matrices with their numbers, large ones by colours alone.

    Args:
        lines: The inputs, the projections, one line of six for each head, and the output.

    Returns:
        The figure, 11 inches wide, and the values by title; those of heads as ``TITLE, head N``.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    tokens = [token for line in lines for token in line[0].rows or ()]
    left = 0.25 + 0.085 * max(map(len, tokens))
    of_heads = lines[2:-1]
    length, features = of_heads[0][4].values.shape
    room = _ACROSS - left - _RIGHT - 5 * _GAP
    cell = min(_LARGEST_CELL, room / (4 * length + 2 * min(features, _SHOWN_FEATURES)))
    below = 0.05 + 0.07 * max(map(len, tokens)) * min(1.0, cell / 0.2)
    data: dict[str, Numbers] = {}
    sizes = [[_size(step, cell, len(line)) for step in line] for line in lines]
    heights = [max(height for _, height in line) for line in sizes]
    above = [_ABOVE if line[0].heading else _BETWEEN for line in lines]
    under = [below if line[0].columns else 0.0 for line in lines]
    total = sum(heights) + sum(above) + sum(under) + 0.25
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_ACROSS, total))
        ranges = _ranges(lines)
        top = total
        for number, line in enumerate(lines):
            top -= above[number]
            x = left
            for step, (width, height) in zip(line, sizes[number], strict=True):
                axes = figure.add_axes((x / _ACROSS, (top - height) / total, width / _ACROSS, height / total))
                _draw(axes, step, ranges[step.scale], width / step.values.shape[1], cell)
                head = (
                    f", head {number - 1}" if step.scale in ("products", "scores", "weights") or len(line) == 6 else ""
                )
                data[step.title + head] = step.values
                x += width + _GAP
            if 2 <= number < len(lines) - 1:
                _name_head(figure, number - 1, (top - heights[number] / 2) / total)
            top -= heights[number] + under[number]
    return FigureData(figure, data)


def _size(step: Step, cell: float, count: int) -> tuple[float, float]:
    """Return width and height of a matrix in inches, in a line of so many."""
    rows, columns = step.values.shape
    height = min(rows * cell, _HIGHEST) if step.scale == "matrix" else rows * cell
    if count == 6:
        return (
            columns if step.scale in ("products", "scores", "weights") else min(columns, _SHOWN_FEATURES)
        ) * cell, height
    return min(columns * cell, (_ACROSS - 1.6 - (count - 1) * _GAP) / count), height


def _ranges(lines: Sequence[Sequence[Step]]) -> dict[str, Any]:
    """Return the colours of every scale, from all finite values that share it."""
    values: dict[str, list[Numbers]] = {}
    for line in lines:
        for step in line:
            values.setdefault(step.scale, []).append(step.values[np.isfinite(step.values)])
    found = {scale: colours(np.concatenate(of_scale)) for scale, of_scale in values.items()}
    return {**found, "weights": colours(np.ones(1))}


def _draw(axes: Axes, step: Step, scale: Any, width: float, height: float) -> None:
    """Draw one matrix whose cells have a width and a height in inches."""
    numbered = min(width, height) >= _NUMBERS_FROM
    letters = min(9.0, 72 * height * 0.6)
    draw_cells(
        axes,
        step.values,
        scale,
        texts=numbers_in(step.values) if numbered else None,
        rows=step.rows,
        columns=step.columns,
        splits=step.splits,
        letters=letters,
        text_letters=7.5,
        aspect="auto",
    )
    if step.heading:
        rows, columns = step.values.shape
        finite = step.values[np.isfinite(step.values)]
        span = f"{finite.min():.3g} … {finite.max():.3g}".replace("-", MINUS)
        axes.annotate(
            step.title, (0, 1), (0, 16), xycoords="axes fraction", textcoords="offset points", fontsize=10.5, color=INK
        )
        axes.annotate(
            f"{rows} \N{MULTIPLICATION SIGN} {columns}"
            if numbered
            else f"{rows} \N{MULTIPLICATION SIGN} {columns}:  {span}",
            (0, 1),
            (0, 4),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=8.5,
            color=FAINT,
        )


def _name_head(figure: Figure, head: int, middle: float) -> None:
    figure.text(
        0.12 / figure.get_figwidth(),
        middle,
        f"head {head}",
        rotation=90,
        ha="center",
        va="center",
        fontsize=9,
        color=FAINT,
    )


register_figure(
    "attention-steps",
    numbers=attention_steps_numbers,
    draw=attention_steps,
    caption=Caption(
        "Attention, step by step",
        "Every number between the embeddings and the output of one layer's self-attention, with the shapes. Each head "
        "projects the whole input to a few features of its own, compares its queries with its keys, hides what the "
        "mask hides, and mixes its values; the results are concatenated, and W_O mixes them.",
        "head<sub>h</sub>&nbsp;= softmax( Q<sub>h</sub>&thinsp;K<sub>h</sub><sup>T</sup>&thinsp;/&thinsp;"
        "√d<sub>k</sub> + mask )&thinsp;V<sub>h</sub>, &nbsp; Q<sub>h</sub>&nbsp;= X&thinsp;W<sub>h</sub><sup>Q</sup>, "
        "… &nbsp; output&nbsp;= [head<sub>1</sub> … head<sub>H</sub>]&thinsp;W<sub>O</sub>",
        (
            "Lines inside Q, K and V divide the heads: a head reads all features of the input and writes a few of its "
            "own; it is not given a slice of the embedding.",
            "Grey cells are hidden by the mask: their score is minus infinity and their weight exactly 0.",
            "Initial weights, or with --run those of a trained model; biases of the projections are added too.",
        ),
    ),
    limits={"layer": (1, 64)},
)
