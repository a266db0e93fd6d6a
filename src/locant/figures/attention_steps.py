"""Attention step by step: from embeddings to the output of one layer's self-attention, every intermediate result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from locant.analysis.attention_steps import AttentionSteps
from locant.analysis.attention_steps import attention_steps as steps_of
from locant.errors import DataError, UsageError
from locant.figures.drawing import MINUS, SLIDE, SLIDE_LETTERS, TIMES, Axes, Figure, Numbers, colours, draw_cells
from locant.figures.numbers import seeded
from locant.figures.palette import FAINT, INK
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


@dataclass(frozen=True)
class _Step:
    """One intermediate result.

    Attributes:
        title: How it is computed, matplotlib's mathematics in it; drawn unless it is of a further head.
        values: ``[R, C]``.
        scale: Steps of the same name share their colours.
        splits: Columns at which another head begins.
        head: Which head, from 1; 0 for all.
    """

    title: str
    values: Numbers
    scale: str
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
    of_heads = [
        [
            step(title, values[head], scale, head=head + 1)
            for title, values, scale in (
                (r"$Q_h K_h^T$", steps.products, "products"),
                (r"$/\,\sqrt{d_k}$", steps.scaled, "scores"),
                ("mask" if steps.bias is None else "+ bias, mask", steps.masked, "scores"),
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
    return [inputs, projections, *of_heads, output]


_SQUARE = ("products", "scores", "weights")  # scales of matrices with a column for each token
_ACROSS = 11.0  # inches of the figure
_LARGEST_CELL, _NUMBERS_FROM = 0.44, 0.3  # inches of a cell, and from which it has room for a number
_GAP, _ABOVE, _BETWEEN, _RIGHT = 0.32, 0.62, 0.14, 0.35  # inches
_SHOWN_FEATURES = 10  # cells of a head's features; more of them become narrower
_HIGHEST = 2.0  # inches of W_O where it has more rows than there are tokens


def _ranges(lines: list[list[_Step]]) -> dict[str, Any]:
    values: dict[str, list[Numbers]] = {}
    for step in (step for line in lines for step in line):
        values.setdefault(step.scale, []).append(step.values[np.isfinite(step.values)])
    return {scale: colours(np.concatenate(of)) for scale, of in values.items()} | {"weights": colours(np.ones(1))}


def draw(tokens: Sequence[str], *, lines: list[list[_Step]], **_: Any) -> Figure:
    """Draw the steps of attention, line by line; small matrices with their numbers, large ones by colours alone."""
    from matplotlib.figure import Figure

    longest, length, heads = max(map(len, tokens)), len(tokens), len(lines) - 3
    left = 0.25 + 0.085 * longest
    features = lines[2][4].values.shape[1]
    room = _ACROSS - left - _RIGHT - 5 * _GAP
    cell = min(_LARGEST_CELL, room / (4 * length + 2 * min(features, _SHOWN_FEATURES)))

    def size(step: _Step, beside: int) -> tuple[float, float]:
        rows, columns = step.values.shape
        height = min(rows * cell, _HIGHEST) if step.scale == "matrix" else rows * cell
        if step.head:
            return (columns if step.scale in _SQUARE else min(columns, _SHOWN_FEATURES)) * cell, height
        return min(columns * cell, (_ACROSS - 1.6 - (beside - 1) * _GAP) / beside), height

    sizes = [[size(step, len(line)) for step in line] for line in lines]
    heights = [max(height for _, height in line) for line in sizes]
    above = [_BETWEEN if line[0].head > 1 else _ABOVE for line in lines]
    named = 0.05 + 0.07 * longest * min(1.0, cell / 0.2)  # of the columns, below the last head
    total = sum(heights) + sum(above) + named + 0.25
    figure, ranges = Figure(figsize=(_ACROSS, total)), _ranges(lines)
    top = total
    for number, line in enumerate(lines):
        top -= above[number]
        x = left
        for step, (width, height) in zip(line, sizes[number], strict=True):
            axes = figure.add_axes((x / _ACROSS, (top - height) / total, width / _ACROSS, height / total))
            below = tokens if step.scale in _SQUARE and step.head == heads else None
            letters = min(9.0, 72 * cell * 0.6)
            rows = tokens if step is line[0] else None
            written = 2 if min(width / step.values.shape[1], cell) >= _NUMBERS_FROM else None
            _draw_step(axes, step, rows, below, ranges, letters, written)
            x += width + _GAP
        if line[0].head:
            middle = (top - heights[number] / 2) / total
            how: dict[str, Any] = {"rotation": 90, "ha": "center", "va": "center", "fontsize": 9, "color": FAINT}
            figure.text(0.12 / _ACROSS, middle, f"head {line[0].head}", **how)
        top -= heights[number] + (named if line[0].head == heads else 0)
    return figure


def _draw_step(
    axes: Axes,
    step: _Step,
    rows: Sequence[str] | None,
    columns: Sequence[str] | None,
    ranges: dict[str, Any],
    letters: float,
    decimals: int | None,
    *,
    title: float = 10.5,
    shape: float = 8.5,
    text: float = 7.5,
) -> None:
    """Draw one matrix, with that many decimals of its numbers or without any; sizes of letters in points."""
    texts = None
    if decimals is not None:
        rounded = step.values.round(decimals).ravel() + 0.0  # what rounds to -0 has no sign
        found = [f"{each:.{decimals}f}".replace("-", MINUS).replace("inf", "∞") for each in rounded]
        texts = np.array(found, dtype=object).reshape(step.values.shape)
    scale = ranges[step.scale]
    names: dict[str, Any] = {"rows": rows, "columns": columns, "letters": letters, "text_letters": text}
    draw_cells(axes, step.values, scale, texts=texts, splits=step.splits, aspect="auto", **names)
    if step.head <= 1:
        finite = step.values[np.isfinite(step.values)]
        wide = not step.head or step.scale in _SQUARE  # beside its neighbour
        span = f":  {finite.min():.3g} … {finite.max():.3g}".replace("-", MINUS) if texts is None and wide else ""
        place: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        axes.annotate(step.title, (0, 1), (0, 8 + shape), fontsize=title, color=INK, **place)
        said = f"{step.values.shape[0]} {TIMES} {step.values.shape[1]}{span}"
        axes.annotate(said, (0, 1), (0, 4), fontsize=shape, color=FAINT, **place)


def slides(tokens: Sequence[str], *, lines: list[list[_Step]], **_: Any) -> Iterator[Figure]:
    """Draw the steps up to those of the first head, and the output, as many on a slide as there is room for."""
    from matplotlib.figure import Figure

    left, gap, above = 0.2 + 0.09 * max(map(len, tokens)), 0.3, 0.55  # inches
    wide, high = SLIDE
    rows: list[list[tuple[_Step, float, float]]] = []
    for line in (*lines[:3], lines[-1]):
        room = 0.0
        for step in line:
            tall, across = step.values.shape
            width, height = min(0.37 * across, wide - left - 0.1), min(0.2 * tall, high - above - 0.1)
            if width > room:
                rows.append([])
                room = wide - left - 0.1
            rows[-1].append((step, width, height))
            room -= width + gap
    figure, top, ranges = Figure(figsize=SLIDE), high, _ranges(lines)
    letters: dict[str, Any] = {"title": 11.5, "shape": SLIDE_LETTERS, "text": SLIDE_LETTERS}
    for row in rows:
        tallest = above + max(height for _, _, height in row)
        if tallest > top:
            yield figure
            figure, top = Figure(figsize=SLIDE), high
        x = left
        for step, width, height in row:
            axes = figure.add_axes((x / wide, (top - above - height) / high, width / wide, height / high))
            named = tokens if x == left and step.scale != "matrix" else None
            written = 1 if width / step.values.shape[1] > 0.36 and height / step.values.shape[0] > 0.19 else None
            _draw_step(axes, step, named, None, ranges, SLIDE_LETTERS, written, **letters)
            x += width + gap
        top -= tallest
    yield figure


register_figure("attention-steps", numbers, draw, limits={"layer": (1, 64)}, slides=slides)
