"""The architecture of a model: its modules in the order in which they run, with the shape of every tensor between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from locant.analysis.structure import StackStructure, TracedModule, transformer_structure
from locant.errors import ConfigError, UsageError
from locant.figures.drawing import SLIDE, SLIDE_LETTERS, TIMES, Axes, Figure, arrow, canvas, write
from locant.figures.palette import FAINT, INK, ON_LIGHT, PANEL, PAPER
from locant.figures.registry import register_figure
from locant.figures.trained import load_trained
from locant.models.architectures import parse_model_config
from locant.models.config import TransformerConfig, require_served
from locant.positions import SCHEMES, build_scheme

_SOURCE, _TARGET = 10, 8  # tokens; two numbers, so that shapes tell the sides apart
_VOCABULARY = 37_000  # of Vaswani et al. 2017, section 5.1, English and German


@dataclass(frozen=True)
class _Item:
    """Something on the way up a stack: what it is, what is written in it, and the shape of what leaves it.

    ``sublayer`` is the number of the residual connection that it is inside of; ``None`` outside of the layers.
    """

    kind: str
    lines: tuple[str, ...]
    shape: tuple[int, ...] = ()
    sublayer: int | None = None


def numbers(*, run: Path | None = None, model: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the modules of a model as they run, and the shapes of what they return.

    Args:
        run: The run folder whose model is drawn.
        model: Fields of the model's configuration that differ from the base model of the paper, ``preset`` among them.

    Raises:
        ConfigError: The model is no Transformer, or a field is unknown or wrong.
        UsageError: Both ``run`` and ``model`` are given.
    """
    if run is not None and model is not None:
        raise UsageError("--model describes a new model; leave it out for the model of --run.")
    if run is not None:
        config = load_trained(run, "architecture")[1].config
    else:
        sizes = {"source_vocab_size": _VOCABULARY, "target_vocab_size": _VOCABULARY}
        given = dict(model or {})
        preset = {"preset": "base"} if given.get("architecture", "transformer") == "transformer" else {}
        settings = parse_model_config({**preset, **sizes, **given})
        if not isinstance(settings, TransformerConfig):
            raise ConfigError(
                f"The figure 'architecture' draws a Transformer, not the architecture {settings.architecture}."
            )
        config = settings
    require_served(config, "The figure 'architecture'", "Draw a preset.")
    stacks = transformer_structure(config, source=_SOURCE, target=_TARGET)
    modules = [module for stack in stacks for part in (stack.entry, *stack.sublayers, stack.closing) for module in part]
    return {
        "stacks": stacks,
        "ways": [_way(stack, config) for stack in stacks],
        "vocabulary": config.target_vocab_size,
        "width": config.d_model,
        "parameters": np.array([stack.parameters for stack in stacks]),
        **{f"shape {module.name}": np.array(module.shape) for module in modules},
    }


def _way(stack: StackStructure, config: TransformerConfig) -> list[_Item]:
    """Return what is on the way up a stack."""
    width, tokens, heads = config.d_model, stack.tokens, config.heads
    scheme = SCHEMES[config.position].title or config.position
    shape = config.blocks().attention_shape(causal=False)
    places = build_scheme(config.position, shape, config.position_options).acts_on
    acts = {"queries+keys": "turns Q and K", "scores": "adds to the scores"}
    told = " and ".join(what for place, what in acts.items() if place in places)
    many, features = f"{heads} heads" if heads > 1 else "1 head", width // heads

    def lines(module: TracedModule) -> tuple[str, ...]:
        if module.kind == "self-attention":
            masked = "Masked self-attention" if stack.name == "decoder" else "Self-attention"
            own = (masked, f"{many}: Q, K, V {_by(tokens, features)}", f"weights {_by(tokens, tokens)}")
            return (*own, f"positions: {scheme} {told}") if told else own
        if module.kind == "cross-attention":
            both = f"{many}: Q {_by(tokens, features)}, K, V {_by(_SOURCE, features)}"
            return ("Cross-attention", both, f"weights {_by(tokens, _SOURCE)}")
        if module.kind == "feed-forward":
            return ("Feed-forward", f"{width} → {config.d_ff:,} → {width}, {config.feed_forward}")
        return ("Layer norm",) if module.kind == "norm" else ("+",)

    embedding = (f"Embedding {_by(stack.vocabulary, width)}", f"times √{width}")
    items = [_Item("embedding", embedding, module.shape) for module in stack.entry]
    if "embedding" in places:
        items.append(_Item("positions", (f"positions: {scheme}", "added to the embeddings"), (tokens, width)))
    for number, modules in enumerate(stack.sublayers):
        items += [_Item(module.kind, lines(module), module.shape, number) for module in modules]
    for module in stack.closing:
        if module.kind == "norm":
            items.append(_Item("norm", ("Layer norm",), module.shape))
        else:
            tied = ("the matrix of the embedding",) if config.tie_output else ()
            items.append(_Item("output", (f"Linear {width} → {module.shape[-1]:,}", *tied), module.shape))
            items.append(_Item("output", ("Softmax",), module.shape))
    return items


def _by(*sizes: int) -> str:
    return f" {TIMES} ".join(f"{size:,}" for size in sizes)


_WIDE = 11.0  # inches of the figure
_LINE, _ARROW, _SUM = 0.19, 0.3, 0.13  # a line, an arrow, radius of a sum
_HALF, _AWAY = 1.45, 0.28  # half the width of a box; how far beside it a residual connection runs
_TOLD = "#8f4a00"  # letters about positions
_CENTRES = (2.75, 8.15)
_FILLS = {
    "embedding": "#eadcea",
    "norm": "#fdf3d1",
    "self-attention": "#d3e8f6",
    "cross-attention": "#d3e8f6",
    "feed-forward": "#d6efe6",
    "output": "#eadcea",
    "positions": "#fbdcae",
}


def draw(
    stacks: tuple[StackStructure, StackStructure], *, ways: list[list[_Item]], vocabulary: int, width: int, **_: Any
) -> Figure:
    """Draw a model: above one box each for encoder and decoder, below every module of one layer of each."""
    encoder, decoder = stacks
    height = max(sum(_height(item) + _ARROW for item in way) for way in ways) + 2 * _ARROW + 0.75
    figure, axes = canvas(_WIDE, height)
    write(axes, 0.35, height - 0.18, "Overview", ha="left")
    _draw_overview(axes, height - 1.15, 0.0, stacks, vocabulary, width, 9)
    write(axes, _CENTRES[0], 0.37, f"source ids [{encoder.tokens}]", color=INK)
    write(axes, _CENTRES[1], 0.37, f"target ids [{decoder.tokens}], BOS first", color=INK)
    memory, _none = _draw_way(axes, _CENTRES[0], 0.5, -1, ways[0], encoder.layers)
    top, crossing = _draw_way(axes, _CENTRES[1], 0.5, 1, ways[1], decoder.layers)
    write(axes, _CENTRES[1], top + 0.17, "probabilities of every next token", color=INK)
    middle = sum(_CENTRES) / 2
    corners = ([_CENTRES[0]] * 2 + [middle] * 2, [memory, memory + 0.1, memory + 0.1, crossing])
    axes.plot(*corners, color=INK, linewidth=1.2)
    arrow(axes, (middle, crossing), (_CENTRES[1] - _HALF, crossing))
    write(axes, middle + 0.06, crossing + 0.1, "K, V", ha="left")
    said = f"{_by(encoder.tokens, width)}, read by every decoder layer"
    write(axes, middle - 0.08, memory + 0.25, said, ha="right")
    return figure


def slides(
    stacks: tuple[StackStructure, StackStructure], *, ways: list[list[_Item]], vocabulary: int, width: int, **_: Any
) -> Iterator[Figure]:
    """Draw the overview, then one part of each stack beside the other on each slide, from below."""
    figure, axes = canvas(*SLIDE)
    _draw_overview(axes, SLIDE[1] / 2 - 0.05, -0.05, stacks, vocabulary, width, SLIDE_LETTERS)
    yield figure
    parts = [[list(part) for _, part in groupby(way, lambda item: item.sublayer)] for way in ways]
    if len(parts[0]) == len(ways[0]) or parts[0][-1][0].sublayer is not None:
        parts[0].append([])  # nothing follows the last layer of the encoder
    parts[0].insert(-2, [])  # it has no cross-attention
    for left, right in zip(*parts, strict=True):
        figure, axes = canvas(*SLIDE)
        for x, side, stack, part in ((1.5, -1, stacks[0], left), (4.35, 1, stacks[1], right)):
            if part:
                write(axes, x, SLIDE[1] - 0.15, stack.name.capitalize(), 12, color=INK, fontweight="bold")
                _draw_way(axes, x, 0.1, side, part, stack.layers, letters=SLIDE_LETTERS)
        yield figure


def _height(item: _Item, line: float = _LINE) -> float:
    """Return the inches that something takes, without the arrow to it."""
    return 2 * _SUM if item.kind == "add" else 0.16 + line * len(item.lines)


def _draw_way(
    axes: Axes, x: float, y: float, side: int, items: Sequence[_Item], layers: int, letters: float = 9
) -> tuple[float, float]:
    """Draw what is on the way up a stack from a height; residual connections run on a side, -1 for the left.

    Returns:
        Where the way ends, and the middle of the cross-attention.
    """
    from matplotlib.patches import Circle

    whole, line = letters == 9, _LINE * letters / 9
    half, away = (_HALF, _AWAY) if whole else (1.32, 0.08)
    ends, crossing, branch, frame = "", 0.0, 0.0, [0.0, 0.0]
    before: int | None = None
    for item in items:
        if item.sublayer is not None and before is None:
            frame[0] = y + 0.06
            axes.plot([x, x], [y, y + 0.12], color=INK, linewidth=1.2)
            y += 0.12
        if item.sublayer is not None and item.sublayer != before:
            branch = y + 0.07
        arrow(axes, (x, y), (x, y + _ARROW))
        above = 0.2 if item.sublayer is None and before is not None else 0.16
        write(axes, x + 0.08, y + above, ends, letters, ha="left")
        y += _ARROW
        tall = _height(item, line)
        middle = y + tall / 2
        if item.kind == "add":
            beside = x + side * (half + away)
            axes.plot([x, beside, beside], [branch, branch, middle], color=FAINT, linewidth=1.2)
            arrow(axes, (beside, middle), (x + side * _SUM, middle), color=FAINT)
            axes.add_patch(Circle((x, middle), _SUM, facecolor=PAPER, edgecolor=INK, linewidth=1.1, zorder=3))
            write(axes, x, middle, "+", 12, color=INK)
        else:
            _box(axes, x, y, half, item, tall, letters)
        if item.kind == "cross-attention":
            crossing = middle
        y += tall
        if item.sublayer is not None:
            frame[1] = y + 0.1
        ends, before = _by(*item.shape), item.sublayer
    axes.plot([x, x], [y, y + 0.08], color=INK, linewidth=1.2)
    arrow(axes, (x, y), (x, y + _ARROW))
    write(axes, x + 0.08, y + 0.16, ends, letters, ha="left")
    if whole:
        wide = half + away + 0.14
        _rounded(axes, x - wide, frame[0], 2 * wide, frame[1] - frame[0], 0.12, PANEL, edgecolor=FAINT, zorder=0)
        repeated = f"{TIMES} {layers}" if layers > 1 else "1 layer"
        write(axes, x - side * wide, frame[1] + 0.12, repeated, ha="left" if side > 0 else "right", color=INK)
    return y + _ARROW, crossing


def _draw_overview(
    axes: Axes,
    middle: float,
    left: float,
    stacks: tuple[StackStructure, StackStructure],
    vocabulary: int,
    width: int,
    letters: float,
) -> None:
    """Draw one box each for encoder and decoder around a height."""
    for x, stack, fill in zip((left + 1.45, left + 4.35), stacks, ("self-attention", "feed-forward"), strict=True):
        many = f"{stack.parameters / 1e6:.3g} million" if stack.parameters >= 1e5 else f"{stack.parameters:,}"
        layers = f"{stack.layers} layer{'s' if stack.layers > 1 else ''}"
        item = _Item(fill, (stack.name.capitalize(), layers, f"{many} parameters"))
        _box(axes, x, middle - 0.4, 1.05, item, 0.8, letters)
        arrow(axes, (x, middle - 0.8), (x, middle - 0.4))
        write(axes, x + 0.08, middle - 0.61, _by(stack.tokens, width), letters, ha="left")
        write(axes, x, middle - 0.93, "source" if stack is stacks[0] else "target so far", letters, color=INK)
    arrow(axes, (left + 2.5, middle), (left + 3.3, middle))
    write(axes, left + 2.9, middle + 0.15, _by(stacks[0].tokens, width), letters)
    arrow(axes, (left + 4.35, middle + 0.4), (left + 4.35, middle + 0.8))
    write(axes, left + 4.43, middle + 0.59, _by(stacks[1].tokens, vocabulary), letters, ha="left")
    write(axes, left + 4.35, middle + 0.92, "next tokens", letters, color=INK)


def _box(axes: Axes, x: float, y: float, half: float, item: _Item, tall: float, letters: float) -> None:
    thick = 1.6 if item.kind == "positions" else 0.9
    _rounded(axes, x - half, y, 2 * half, tall, 0.06, _FILLS[item.kind], edgecolor=INK, linewidth=thick, zorder=2)
    line = _LINE * letters / 9
    for number, text in enumerate(item.lines):
        told = text.startswith("positions:")
        style = {"color": _TOLD if told else ON_LIGHT, "weight": "normal" if number and not told else "bold"}
        size = max(SLIDE_LETTERS, letters) if letters > 9 else 9.5 - (number > 0)
        write(axes, x, y + tall / 2 + line * ((len(item.lines) - 1) / 2 - number), text, size, zorder=4, **style)


def _rounded(axes: Axes, x: float, y: float, wide: float, tall: float, radius: float, fill: str, **style: Any) -> None:
    from matplotlib.patches import FancyBboxPatch

    shape = f"round,pad=0,rounding_size={radius}"
    axes.add_patch(FancyBboxPatch((x, y), wide, tall, boxstyle=shape, facecolor=fill, **{"linewidth": 0.9, **style}))


register_figure("architecture", numbers, draw, slides=slides)
