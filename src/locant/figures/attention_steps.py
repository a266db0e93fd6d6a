"""Attention step by step: from embeddings to the output of one layer's self-attention, every intermediate result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from locant.analysis.attention_steps import AttentionSteps
from locant.analysis.attention_steps import attention_steps as steps_of
from locant.errors import DataError, UsageError
from locant.figures.drawing import FAINT, MINUS, Numbers, colours, draw_cells
from locant.figures.numbers import seeded
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import load_trained, readable, sentence_pair
from locant.models.config import TransformerConfig
from locant.models.transformer import Transformer
from locant.text.tokenizer import BOS, EOS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Stack = Literal["encoder", "decoder"]

# The classic small example: three heads of two features.
_WIDTH, _HEADS = 6, 3
_EXAMPLE, _MOST_WORDS = "the cat sat down", 8
_MOST_TOKENS = 24  # of a trained model's sentence whose steps can still be read


@dataclass(frozen=True)
class _Step:
    """One intermediate result.

    Attributes:
        title: How it is computed, matplotlib's mathematics in it; drawn unless it is of a further head.
        values: ``[R, C]``.
        scale: Steps of the same name share their colours.
        rows: Whether tokens stand before the rows.
        columns: Whether tokens stand below the columns.
        splits: Columns at which another head begins.
        head: Which head, from 1; 0 for all.
    """

    title: str
    values: Numbers
    scale: str
    rows: bool = False
    columns: bool = False
    splits: tuple[int, ...] = ()
    head: int = 0


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
        CheckpointError: The folder holds no trained model, or without ``text``: the run has not been evaluated.
        DataError: The sentence is empty, or too long to be read in a figure.
        UsageError: There is no such stack or layer.
        ConfigError: The model is no Transformer.
    """
    if stack not in get_args(Stack):
        raise UsageError(f"--stack is {' or '.join(get_args(Stack))}; got '{stack}'.")
    of: Stack = "encoder" if stack == "encoder" else "decoder"
    if run is None:
        words = (_EXAMPLE if text is None else text).split()
        if not 0 < len(words) <= _MOST_WORDS:
            raise DataError(f"--text must have 1 to {_MOST_WORDS} words to be drawn with numbers; got {len(words)}.")
        ids = {word: EOS + 1 + number for number, word in enumerate(dict.fromkeys(words))}
        config = TransformerConfig(
            source_vocab_size=EOS + 1 + len(ids),
            target_vocab_size=EOS + 1 + len(ids),
            d_model=_WIDTH,
            d_ff=4 * _WIDTH,
            heads=_HEADS,
            encoder_layers=layer,
            decoder_layers=layer,
        )
        with seeded():
            model = Transformer(config).eval()
        source = [ids[word] for word in words]
        target, tokens = [BOS, *source], words if of == "encoder" else ["(begin)", *words]
    else:
        translator, model = load_trained(run, "attention-steps")
        pair = sentence_pair(run, translator, text, most=_MOST_TOKENS)
        source, target = pair.source, pair.target
        tokens = readable(pair.source_tokens if of == "encoder" else pair.target_tokens)
    lines = _lines(steps_of(model, source, target, stack=of, layer=layer - 1), first=layer == 1)
    data = {step.title + (f", head {step.head}" if step.head else ""): step.values for line in lines for step in line}
    return {"tokens": tokens, "lines": lines, **data}


def _lines(steps: AttentionSteps, *, first: bool) -> list[list[_Step]]:
    """Return the inputs, the projections, one line of six steps for each head, and the output."""
    heads, _, features = steps.q.shape
    splits = tuple(features * head for head in range(1, heads))

    def step(title: str, values: Tensor, scale: str, **more: Any) -> _Step:
        return _Step(title, values.double().numpy(), scale, **more)

    inputs = [step("layer input", steps.received, "input")]
    if first:
        inputs = [step(r"embeddings $\cdot\,\sqrt{d}$", steps.words, "input")]
        if not torch.equal(steps.words, steps.received):
            inputs.append(step("+ position", steps.received - steps.words, "input"))
            inputs.append(step(r"= $X$", steps.received, "input"))
    if not torch.equal(steps.x, steps.received):
        inputs.append(step("layer norm", steps.x, "input"))
    q, k = steps.rotated or (steps.q, steps.k)
    turned = ", rotated" if steps.rotated else ""
    projections = [
        step(rf"${name} = X\,W_{name}${how}", by_head.transpose(0, 1).flatten(1), "projections", splits=splits)
        for name, by_head, how in (("Q", q, turned), ("K", k, turned), ("V", steps.v, ""))
    ]
    masked = "mask" if steps.bias is None else "+ bias, mask"
    of_heads = [
        [
            step(title, values[head], scale, head=head + 1, columns=scale in _SQUARE and head == heads - 1)
            for title, values, scale in (
                (r"$Q_h K_h^T$", steps.products, "products"),
                (r"$/\,\sqrt{d_k}$", steps.scaled, "scores"),
                (masked, steps.masked, "scores"),
                ("softmax", steps.weights, "weights"),
                (r"$V_h$", steps.v, "projections"),
                (r"softmax $\cdot\,V_h$", steps.contexts, "contexts"),
            )
        ]
        for head in range(heads)
    ]
    output = [
        step("heads, concatenated", steps.joined, "contexts", splits=splits),
        step(r"$W_O$", steps.output_weight, "matrix"),
        step(r"output $= $ heads $\cdot\,W_O$", steps.output, "output"),
    ]
    return [[replace(line[0], rows=True), *line[1:]] for line in (inputs, projections, *of_heads, output)]


_SQUARE = ("products", "scores", "weights")  # scales of matrices with a column for each token
_ACROSS = 11.0  # inches of the figure
_LARGEST_CELL, _NUMBERS_FROM = 0.44, 0.3  # inches of a cell, and from which it has room for a number
_GAP, _ABOVE, _BETWEEN, _RIGHT = 0.32, 0.62, 0.14, 0.35  # inches
_SHOWN_FEATURES = 10  # cells of a head's features; more of them become narrower
_HIGHEST = 2.0  # inches of W_O where it has more rows than there are tokens


def draw(tokens: Sequence[str], *, lines: list[list[_Step]], **_: Any) -> Figure:
    """Draw the steps of attention, line by line; small matrices with their numbers, large ones by colours alone."""
    from matplotlib.figure import Figure

    longest, length = max(map(len, tokens)), len(tokens)
    left = 0.25 + 0.085 * longest
    features = lines[2][4].values.shape[1]
    room = _ACROSS - left - _RIGHT - 5 * _GAP
    cell = min(_LARGEST_CELL, room / (4 * length + 2 * min(features, _SHOWN_FEATURES)))
    sizes = [[_size(step, cell, len(line)) for step in line] for line in lines]
    heights = [max(height for _, height in line) for line in sizes]
    above = [_BETWEEN if line[0].head > 1 else _ABOVE for line in lines]
    under = [(0.05 + 0.07 * longest * min(1.0, cell / 0.2)) if line[0].columns else 0.0 for line in lines]
    total = sum(heights) + sum(above) + sum(under) + 0.25
    values: dict[str, list[Numbers]] = {}
    for step in (step for line in lines for step in line):
        values.setdefault(step.scale, []).append(step.values[np.isfinite(step.values)])
    ranges = {scale: colours(np.concatenate(of)) for scale, of in values.items()} | {"weights": colours(np.ones(1))}
    figure = Figure(figsize=(_ACROSS, total))
    top = total
    for number, line in enumerate(lines):
        top -= above[number]
        x = left
        for step, (width, height) in zip(line, sizes[number], strict=True):
            axes = figure.add_axes((x / _ACROSS, (top - height) / total, width / _ACROSS, height / total))
            _draw_step(axes, step, tokens, ranges[step.scale], min(width / step.values.shape[1], cell), cell)
            x += width + _GAP
        if line[0].head:
            middle = (top - heights[number] / 2) / total
            how: dict[str, Any] = {"rotation": 90, "ha": "center", "va": "center", "fontsize": 9, "color": FAINT}
            figure.text(0.12 / _ACROSS, middle, f"head {line[0].head}", **how)
        top -= heights[number] + under[number]
    return figure


def _size(step: _Step, cell: float, count: int) -> tuple[float, float]:
    """Return width and height of a matrix in inches, in a line of so many."""
    rows, columns = step.values.shape
    height = min(rows * cell, _HIGHEST) if step.scale == "matrix" else rows * cell
    if step.head:
        return (columns if step.scale in _SQUARE else min(columns, _SHOWN_FEATURES)) * cell, height
    return min(columns * cell, (_ACROSS - 1.6 - (count - 1) * _GAP) / count), height


def _draw_step(axes: Axes, step: _Step, tokens: Sequence[str], scale: Any, smaller: float, height: float) -> None:
    """Draw one matrix whose cells have a smaller side and a height in inches."""
    texts = None
    if smaller >= _NUMBERS_FROM:
        written = [f"{each:.2f}".replace("-", MINUS).replace("inf", "∞") for each in step.values.ravel()]
        texts = np.array(written, dtype=object).reshape(step.values.shape)
    draw_cells(
        axes,
        step.values,
        scale,
        texts=texts,
        rows=tokens if step.rows else None,
        columns=tokens if step.columns else None,
        splits=step.splits,
        letters=min(9.0, 72 * height * 0.6),
        text_letters=7.5,
        aspect="auto",
    )
    if step.head <= 1:
        rows, columns = step.values.shape
        finite = step.values[np.isfinite(step.values)]
        span = f":  {finite.min():.3g} … {finite.max():.3g}".replace("-", MINUS) if texts is None else ""
        place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        axes.annotate(step.title, (0, 1), (0, 16), fontsize=10.5, **place)
        shape = f"{rows} \N{MULTIPLICATION SIGN} {columns}{span}"
        axes.annotate(shape, (0, 1), (0, 4), fontsize=8.5, color=FAINT, **place)


register_figure(
    "attention-steps",
    numbers=numbers,
    draw=draw,
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
    slides={"text": "the cat"},
)
