"""The architecture of a model: its modules in the order in which they run, with the shape of every tensor between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from locant.analysis.structure import StackStructure, TracedModule, transformer_structure
from locant.errors import ConfigError, UsageError
from locant.figures.drawing import FAINT, INK, FigureData, drawing
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import load_trained
from locant.models.architectures import parse_model_config
from locant.models.config import TransformerConfig
from locant.positions import SCHEMES, build_scheme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SOURCE, _TARGET = 10, 8  # tokens; two numbers, so that shapes tell the sides apart
_VOCABULARY = 37_000  # of Vaswani et al. 2017, section 5.1, English and German


def architecture_numbers(*, run: Path | None = None, model: Mapping[str, Any] | None = None) -> dict[str, Any]:
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
        config = load_trained(run, "The figure 'architecture'")[1].config
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
    encoder, decoder = transformer_structure(config, source=_SOURCE, target=_TARGET)
    shape = config.blocks().attention_shape(causal=False)
    return {
        "encoder": encoder,
        "decoder": decoder,
        "config": config,
        "scheme": SCHEMES[config.position].title or config.position,
        "places": build_scheme(config.position, shape, config.position_options).acts_on,
    }


_WIDE = 11.0  # inches of the figure
_PADDING, _LINE, _ARROW, _SUM = 0.16, 0.19, 0.3, 0.13  # around the lines of a box, a line, an arrow, radius of a sum
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


@dataclass(frozen=True)
class _Item:
    """Something on the way up a stack, the sum of a residual connection among others.

    Attributes:
        kind: What it is.
        lines: What is written in it.
        shape: Of what leaves it.
        sublayer: Which residual connection it is inside of, or ``None``.
        inside: Whether it belongs to a layer.
    """

    kind: str
    lines: tuple[str, ...]
    shape: tuple[int, ...]
    sublayer: int | None = None
    inside: bool = False

    @property
    def height(self) -> float:
        """Inches that it takes, without the arrow to it."""
        return 2 * _SUM if self.kind == "add" else _PADDING + _LINE * len(self.lines)


def _items(
    stack: StackStructure, keys: int, config: TransformerConfig, scheme: str, places: frozenset[str]
) -> list[_Item]:
    """Return what stands on the way up a stack whose cross-attention, if it has any, looks at so many keys."""
    width, tokens = config.d_model, stack.tokens
    items = []
    for module in stack.entry:
        text = (f"Embedding {_by(stack.vocabulary, width)}", f"times √{width}")
        items.append(_Item("embedding", text, module.shape))
    if "embedding" in places:
        items.append(
            _Item(
                "positions",
                (f"positions: {scheme}", "added to the embeddings"),
                (tokens, width),
            )
        )
    for number, modules in enumerate(stack.sublayers):
        items += [
            _Item(module.kind, _lines(module, stack, keys, config, scheme, places), module.shape, number, inside=True)
            for module in modules
        ]
    for module in stack.closing:
        if module.kind == "norm":
            items.append(_Item("norm", ("Layer norm",), module.shape))
        else:
            tied = ("the matrix of the embedding",) if config.tie_output else ()
            items.append(_Item("output", (f"Linear {width} → {module.shape[-1]:,}", *tied), module.shape))
            items.append(_Item("output", ("Softmax",), module.shape))
    return items


def _lines(
    module: TracedModule,
    stack: StackStructure,
    keys: int,
    config: TransformerConfig,
    scheme: str,
    places: frozenset[str],
) -> tuple[str, ...]:
    heads, features = config.heads, config.d_model // config.heads
    queries = stack.tokens
    many = f"{heads} heads" if heads > 1 else "1 head"
    if module.kind == "self-attention":
        masked = "Masked self-attention" if stack.name == "decoder" else "Self-attention"
        where = {"queries+keys": "turns Q and K", "scores": "adds to the scores"}
        told = [what for place, what in where.items() if place in places]
        positions = (f"positions: {scheme} {' and '.join(told)}",) if told else ()
        return (
            masked,
            f"{many}: Q, K, V {_by(queries, features)}",
            f"weights {_by(queries, queries)}",
            *positions,
        )
    if module.kind == "cross-attention":
        both = f"{many}: Q {_by(queries, features)}, K, V {_by(keys, features)}"
        return ("Cross-attention", both, f"weights {_by(queries, keys)}")
    if module.kind == "feed-forward":
        kind = config.feed_forward
        return ("Feed-forward", f"{config.d_model} → {config.d_ff:,} → {config.d_model}, {kind}")
    return ("Layer norm",) if module.kind == "norm" else ("+",)


def _by(*sizes: int) -> str:
    return " \N{MULTIPLICATION SIGN} ".join(f"{size:,}" for size in sizes)


def architecture(
    encoder: StackStructure, decoder: StackStructure, *, config: TransformerConfig, scheme: str, places: frozenset[str]
) -> FigureData:
    """Draw a model: above one box each for encoder and decoder, below every module of one layer of each.

    Args:
        encoder: The stack that reads the source.
        decoder: The stack that reads the target so far, and the encoder's output.
        config: Of the model.
        scheme: Name of the positional scheme.
        places: Where it acts.

    Returns:
        The figure, 11 inches wide; ``parameters`` of encoder and decoder, and ``shape NAME`` of what every module
        returns.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    keys = encoder.tokens
    ways = [_items(stack, keys, config, scheme, places) for stack in (encoder, decoder)]
    tall = max(sum(item.height + _ARROW for item in way) for way in ways) + 2 * _ARROW
    height = tall + 0.75
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_WIDE, height))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, _WIDE)
        axes.set_ylim(0, height)
        axes.set_axis_off()
        _draw_simple(axes, height, encoder, decoder, config)
        reads = (f"source ids [{encoder.tokens}]", f"target ids [{decoder.tokens}], BOS first")
        memory, _ = _draw_way(axes, _CENTRES[0], -1, ways[0], encoder.layers, reads[0])
        top, crossing = _draw_way(axes, _CENTRES[1], 1, ways[1], decoder.layers, reads[1])
        _write(axes, _CENTRES[1], top + 0.1, "probabilities of every next token", colour=INK)
        middle = sum(_CENTRES) / 2
        left = _CENTRES[1] - _HALF
        axes.plot([_CENTRES[0]] * 2, [memory, memory + 0.1], color=INK, linewidth=1.2)
        axes.plot([_CENTRES[0], middle, middle], [memory + 0.1, memory + 0.1, crossing], color=INK, linewidth=1.2)
        _arrow(axes, (middle, crossing), (left, crossing))
        _write(
            axes,
            middle - 0.08,
            memory + 0.18,
            f"{_by(keys, config.d_model)}, read by every decoder layer",
            align="right",
        )
    modules = [
        module
        for stack in (encoder, decoder)
        for part in (stack.entry, *stack.sublayers, stack.closing)
        for module in part
    ]
    data = {f"shape {module.name}": np.array(module.shape) for module in modules}
    return FigureData(figure, {"parameters": np.array([encoder.parameters, decoder.parameters]), **data})


def _draw_way(axes: Axes, x: float, side: int, items: list[_Item], layers: int, reads: str) -> tuple[float, float]:
    """Draw what stands on the way up a stack; residual connections run on a side, -1 for the left and 1 for the right.

    Returns:
        Where the way ends, and the middle of the cross-attention.
    """
    from matplotlib.patches import Circle, FancyBboxPatch

    y = 0.3
    _write(axes, x, y, reads, colour=INK)
    y += 0.2
    ends, crossing, branch, frame = "", 0.0, 0.0, (0.0, 0.0)
    previous: _Item | None = None
    for item in items:
        if item.inside and (previous is None or not previous.inside):
            frame = (y + 0.06, 0.0)
            y += 0.12
            axes.plot([x, x], [y - 0.12, y], color=INK, linewidth=1.2)
        if item.sublayer is not None and (previous is None or previous.sublayer != item.sublayer):
            branch = y + 0.07
        _arrow(axes, (x, y), (x, y + _ARROW))
        if ends:
            leaves = previous is not None and previous.inside and not item.inside
            _write(axes, x + 0.08, y + (0.13 if leaves else 0.09), ends, align="left")
        y += _ARROW
        middle = y + item.height / 2
        if item.kind == "add":
            away = x + side * (_HALF + _AWAY)
            axes.plot([x, away, away], [branch, branch, middle], color=FAINT, linewidth=1.2)
            _arrow(axes, (away, middle), (x + side * _SUM, middle), colour=FAINT)
            axes.add_patch(Circle((x, middle), _SUM, facecolor="white", edgecolor=INK, linewidth=1.1, zorder=3))
            _write(axes, x, middle, "+", colour=INK, size=12, middle=True)
        else:
            _box(axes, x, y, _HALF, item)
        if item.kind == "cross-attention":
            crossing = middle
        y += item.height
        if item.inside:
            frame = (frame[0], y + 0.1)
        ends = _by(*item.shape)
        previous = item
    axes.plot([x, x], [y, y + 0.08], color=INK, linewidth=1.2)
    _arrow(axes, (x, y), (x, y + _ARROW))
    _write(axes, x + 0.08, y + 0.09, ends, align="left")
    wide = _HALF + _AWAY + 0.14
    axes.add_patch(
        FancyBboxPatch(
            (x - wide, frame[0]),
            2 * wide,
            frame[1] - frame[0],
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor="#f4f6f8",
            edgecolor=FAINT,
            linewidth=0.9,
            zorder=0,
        )
    )
    repeated = f"\N{MULTIPLICATION SIGN} {layers}" if layers > 1 else "1 layer"
    _write(axes, x - side * wide, frame[1] + 0.05, repeated, align="left" if side > 0 else "right", colour=INK)
    return y + _ARROW, crossing


def _draw_simple(
    axes: Axes, top: float, encoder: StackStructure, decoder: StackStructure, config: TransformerConfig
) -> None:
    """Draw the view with one box each under a height, above the encoder."""
    middle, width = top - 1.15, config.d_model
    _write(axes, 0.35, top - 0.25, "Overview", align="left")
    for x, stack in ((1.45, encoder), (4.35, decoder)):
        text = (stack.name.capitalize(), f"{stack.layers} layer{'s' if stack.layers > 1 else ''}", _million(stack))
        fill = "self-attention" if stack is encoder else "feed-forward"
        _box(axes, x, middle - 0.4, 1.05, _Item(fill, text, ()), 0.8)
        _arrow(axes, (x, middle - 0.8), (x, middle - 0.4))
        _write(axes, x + 0.08, middle - 0.68, _by(stack.tokens, width), align="left")
        _write(axes, x, middle - 1.0, "source" if stack is encoder else "target so far", colour=INK)
    _arrow(axes, (2.5, middle), (3.3, middle))
    _write(axes, 2.9, middle + 0.08, _by(encoder.tokens, width))
    _arrow(axes, (4.35, middle + 0.4), (4.35, middle + 0.8))
    _write(axes, 4.43, middle + 0.52, _by(decoder.tokens, config.target_vocab_size), align="left")
    _write(axes, 4.35, middle + 0.85, "next tokens", colour=INK)


def _million(stack: StackStructure) -> str:
    return (
        f"{stack.parameters / 1e6:.3g} million parameters"
        if stack.parameters >= 1e5
        else f"{stack.parameters:,} parameters"
    )


def _box(axes: Axes, x: float, y: float, half: float, item: _Item, height: float | None = None) -> None:
    from matplotlib.patches import FancyBboxPatch

    tall = height or item.height
    positions = item.kind == "positions"
    axes.add_patch(
        FancyBboxPatch(
            (x - half, y),
            2 * half,
            tall,
            boxstyle="round,pad=0,rounding_size=0.06",
            facecolor=_FILLS[item.kind],
            edgecolor=INK,
            linewidth=1.6 if positions else 0.9,
            zorder=2,
        )
    )
    top = y + tall / 2 + _LINE * (len(item.lines) - 1) / 2
    for number, line in enumerate(item.lines):
        told = line.startswith("positions:")
        axes.text(
            x,
            top - _LINE * number,
            line,
            ha="center",
            va="center",
            fontsize=9.5 if number == 0 else 8.5,
            fontweight="bold" if number == 0 or told else "normal",
            color=_TOLD if told else INK,
            zorder=4,
        )


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], *, colour: str = INK) -> None:
    axes.annotate(
        "",
        end,
        start,
        arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0},
        zorder=1,
    )


def _write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    *,
    align: Literal["left", "center", "right"] = "center",
    colour: str = FAINT,
    size: float = 9,
    middle: bool = False,
) -> None:
    axes.text(x, y, text, ha=align, va="center" if middle else "bottom", fontsize=size, color=colour, zorder=4)


register_figure(
    "architecture",
    numbers=architecture_numbers,
    draw=architecture,
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
)
