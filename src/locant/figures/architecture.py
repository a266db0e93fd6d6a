"""The architecture of a model: its modules in the order in which they run, with the shape of every tensor between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from locant.analysis.structure import StackStructure, TracedModule, transformer_structure
from locant.errors import ConfigError, UsageError
from locant.figures.drawing import FAINT, INK, ON_LIGHT, PANEL, PAPER, arrow, canvas
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import load_trained
from locant.models.architectures import parse_model_config
from locant.models.config import TransformerConfig, require_served
from locant.positions import SCHEMES, build_scheme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SOURCE, _TARGET = 10, 8  # tokens; two numbers, so that shapes tell the sides apart
_VOCABULARY = 37_000  # of Vaswani et al. 2017, section 5.1, English and German


@dataclass(frozen=True)
class _Item:
    """Something on the way up a stack, the sum of a residual connection among others.

    Attributes:
        kind: What it is.
        lines: What is written in it.
        shape: Of what leaves it.
        sublayer: Which residual connection it is inside of; ``None`` outside of the layers.
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
        CheckpointError: The folder holds no trained model.
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
    places = build_scheme(config.position, config.blocks().attention_shape(causal=False), config.position_options)
    title = SCHEMES[config.position].title or config.position
    shapes = {
        f"shape {module.name}": np.array(module.shape)
        for stack in stacks
        for part in (stack.entry, *stack.sublayers, stack.closing)
        for module in part
    }
    return {
        "stacks": stacks,
        "ways": [_way(stack, config, title, places.acts_on) for stack in stacks],
        "vocabulary": config.target_vocab_size,
        "width": config.d_model,
        "parameters": np.array([stack.parameters for stack in stacks]),
        **shapes,
    }


def _way(stack: StackStructure, config: TransformerConfig, scheme: str, places: frozenset[str]) -> list[_Item]:
    """Return what stands on the way up a stack."""
    width, tokens = config.d_model, stack.tokens
    items = []
    for module in stack.entry:
        text = (f"Embedding {_by(stack.vocabulary, width)}", f"times √{width}")
        items.append(_Item("embedding", text, module.shape))
    if "embedding" in places:
        items.append(_Item("positions", (f"positions: {scheme}", "added to the embeddings"), (tokens, width)))
    for number, modules in enumerate(stack.sublayers):
        for module in modules:
            lines = _lines(module, stack, config, scheme, places)
            items.append(_Item(module.kind, lines, module.shape, number))
    for module in stack.closing:
        if module.kind == "norm":
            items.append(_Item("norm", ("Layer norm",), module.shape))
        else:
            tied = ("the matrix of the embedding",) if config.tie_output else ()
            items.append(_Item("output", (f"Linear {width} → {module.shape[-1]:,}", *tied), module.shape))
            items.append(_Item("output", ("Softmax",), module.shape))
    return items


def _lines(
    module: TracedModule, stack: StackStructure, config: TransformerConfig, scheme: str, places: frozenset[str]
) -> tuple[str, ...]:
    """Return what is written in the box of a module inside a layer."""
    heads, features, queries = config.heads, config.d_model // config.heads, stack.tokens
    many = f"{heads} heads" if heads > 1 else "1 head"
    if module.kind == "self-attention":
        masked = "Masked self-attention" if stack.name == "decoder" else "Self-attention"
        where = {"queries+keys": "turns Q and K", "scores": "adds to the scores"}
        told = [what for place, what in where.items() if place in places]
        positions = (f"positions: {scheme} {' and '.join(told)}",) if told else ()
        return (masked, f"{many}: Q, K, V {_by(queries, features)}", f"weights {_by(queries, queries)}", *positions)
    if module.kind == "cross-attention":
        both = f"{many}: Q {_by(queries, features)}, K, V {_by(_SOURCE, features)}"
        return ("Cross-attention", both, f"weights {_by(queries, _SOURCE)}")
    if module.kind == "feed-forward":
        inner = f"{config.d_model} → {config.d_ff:,} → {config.d_model}, {config.feed_forward}"
        return ("Feed-forward", inner)
    return ("Layer norm",) if module.kind == "norm" else ("+",)


def _by(*sizes: int) -> str:
    return " \N{MULTIPLICATION SIGN} ".join(f"{size:,}" for size in sizes)


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
    _draw_overview(axes, height, stacks, vocabulary, width)
    reads = (f"source ids [{encoder.tokens}]", f"target ids [{decoder.tokens}], BOS first")
    memory, _none = _draw_way(axes, _CENTRES[0], -1, ways[0], encoder.layers, reads[0])
    top, crossing = _draw_way(axes, _CENTRES[1], 1, ways[1], decoder.layers, reads[1])
    _write(axes, _CENTRES[1], top + 0.1, "probabilities of every next token", color=INK)
    middle = sum(_CENTRES) / 2
    corners = ([_CENTRES[0]] * 2 + [middle] * 2, [memory, memory + 0.1, memory + 0.1, crossing])
    axes.plot(*corners, color=INK, linewidth=1.2)
    arrow(axes, (middle, crossing), (_CENTRES[1] - _HALF, crossing))
    said = f"{_by(encoder.tokens, width)}, read by every decoder layer"
    _write(axes, middle - 0.08, memory + 0.18, said, ha="right")
    return figure


def _height(item: _Item) -> float:
    """Return the inches that something takes, without the arrow to it."""
    return 2 * _SUM if item.kind == "add" else 0.16 + _LINE * len(item.lines)


def _draw_way(axes: Axes, x: float, side: int, items: list[_Item], layers: int, reads: str) -> tuple[float, float]:
    """Draw what stands on the way up a stack; residual connections run on a side, -1 for the left and 1 for the right.

    Returns:
        Where the way ends, and the middle of the cross-attention.
    """
    from matplotlib.patches import Circle

    _write(axes, x, 0.3, reads, color=INK)
    y, ends, crossing, branch, frame = 0.5, "", 0.0, 0.0, [0.0, 0.0]
    before: int | None = None
    for item in items:
        if item.sublayer is not None and before is None:
            frame[0] = y + 0.06
            axes.plot([x, x], [y, y + 0.12], color=INK, linewidth=1.2)
            y += 0.12
        if item.sublayer is not None and item.sublayer != before:
            branch = y + 0.07
        arrow(axes, (x, y), (x, y + _ARROW))
        _write(axes, x + 0.08, y + (0.13 if item.sublayer is None and before is not None else 0.09), ends, ha="left")
        y += _ARROW
        middle = y + _height(item) / 2
        if item.kind == "add":
            away = x + side * (_HALF + _AWAY)
            axes.plot([x, away, away], [branch, branch, middle], color=FAINT, linewidth=1.2)
            arrow(axes, (away, middle), (x + side * _SUM, middle), color=FAINT)
            axes.add_patch(Circle((x, middle), _SUM, facecolor=PAPER, edgecolor=INK, linewidth=1.1, zorder=3))
            _write(axes, x, middle, "+", color=INK, fontsize=12, va="center")
        else:
            _box(axes, x, y, _HALF, item, _height(item))
        if item.kind == "cross-attention":
            crossing = middle
        y += _height(item)
        if item.sublayer is not None:
            frame[1] = y + 0.1
        ends, before = _by(*item.shape), item.sublayer
    axes.plot([x, x], [y, y + 0.08], color=INK, linewidth=1.2)
    arrow(axes, (x, y), (x, y + _ARROW))
    _write(axes, x + 0.08, y + 0.09, ends, ha="left")
    wide = _HALF + _AWAY + 0.14
    _rounded(axes, x - wide, frame[0], 2 * wide, frame[1] - frame[0], 0.12, PANEL, edgecolor=FAINT, zorder=0)
    repeated = f"\N{MULTIPLICATION SIGN} {layers}" if layers > 1 else "1 layer"
    _write(axes, x - side * wide, frame[1] + 0.05, repeated, ha="left" if side > 0 else "right", color=INK)
    return y + _ARROW, crossing


def _draw_overview(
    axes: Axes, top: float, stacks: tuple[StackStructure, StackStructure], vocabulary: int, width: int
) -> None:
    """Draw one box each under a height, above the encoder."""
    middle = top - 1.15
    _write(axes, 0.35, top - 0.25, "Overview", ha="left")
    for x, stack, fill in zip((1.45, 4.35), stacks, ("self-attention", "feed-forward"), strict=True):
        many = f"{stack.parameters / 1e6:.3g} million" if stack.parameters >= 1e5 else f"{stack.parameters:,}"
        layers = f"{stack.layers} layer{'s' if stack.layers > 1 else ''}"
        _box(axes, x, middle - 0.4, 1.05, _Item(fill, (stack.name.capitalize(), layers, f"{many} parameters")), 0.8)
        arrow(axes, (x, middle - 0.8), (x, middle - 0.4))
        _write(axes, x + 0.08, middle - 0.68, _by(stack.tokens, width), ha="left")
        _write(axes, x, middle - 1.0, "source" if stack is stacks[0] else "target so far", color=INK)
    arrow(axes, (2.5, middle), (3.3, middle))
    _write(axes, 2.9, middle + 0.08, _by(stacks[0].tokens, width))
    arrow(axes, (4.35, middle + 0.4), (4.35, middle + 0.8))
    _write(axes, 4.43, middle + 0.52, _by(stacks[1].tokens, vocabulary), ha="left")
    _write(axes, 4.35, middle + 0.85, "next tokens", color=INK)


def _box(axes: Axes, x: float, y: float, half: float, item: _Item, tall: float) -> None:
    thick = 1.6 if item.kind == "positions" else 0.9
    _rounded(axes, x - half, y, 2 * half, tall, 0.06, _FILLS[item.kind], edgecolor=INK, linewidth=thick, zorder=2)
    top = y + tall / 2 + _LINE * (len(item.lines) - 1) / 2
    for number, line in enumerate(item.lines):
        told = line.startswith("positions:")
        style: dict[str, Any] = {"fontsize": 9.5 if number == 0 else 8.5, "color": _TOLD if told else ON_LIGHT}
        _write(
            axes,
            x,
            top - _LINE * number,
            line,
            va="center",
            weight="bold" if number == 0 or told else "normal",
            **style,
        )


def _rounded(axes: Axes, x: float, y: float, wide: float, tall: float, radius: float, fill: str, **style: Any) -> None:
    from matplotlib.patches import FancyBboxPatch

    shape = f"round,pad=0,rounding_size={radius}"
    axes.add_patch(FancyBboxPatch((x, y), wide, tall, boxstyle=shape, facecolor=fill, **{"linewidth": 0.9, **style}))


def _write(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    axes.text(x, y, text, **{"ha": "center", "va": "bottom", "fontsize": 9, "color": FAINT, "zorder": 4, **style})


register_figure(
    "architecture",
    numbers=numbers,
    draw=draw,
    caption=Caption(
        "The Transformer",
        "Figure 1 of Vaswani et al. 2017, drawn from a model's own modules in the order in which they run: what stands "
        "at an arrow is the shape of the tensor that passed it, for a source of 10 tokens and a target of 8. Positions "
        "are told where the letters are brown; the causal mask apart, nothing else in the model knows any order.",
        "post-norm: LayerNorm(x + Sublayer(x)) &nbsp;&nbsp; pre-norm: x + Sublayer(LayerNorm(x))",
        (
            "The width stays the same from the embedding to the top, so that a sub-layer can add to what it received.",
            "Each head has features of its own, projected from the whole width; together the heads are as wide as the "
            "model.",
            "Another model: --model norm=pre encoder_layers=3 position=rotary, or --run for a trained one.",
        ),
    ),
    slides={},
)
