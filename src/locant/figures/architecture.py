"""The architecture of a model: its modules in the order in which they run, with the shape of every tensor between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from locant import kernels
from locant.errors import ConfigError, UsageError
from locant.figures.drawing import SLIDE, SLIDE_LETTERS, TIMES, Axes, Figure, arrow, blank, canvas, panels, write
from locant.figures.palette import FAINT, INK, ON_LIGHT, PANEL, PAPER
from locant.figures.registry import register_figure
from locant.figures.trained import load_trained
from locant.models.architectures import parse_model_config
from locant.models.blocks import Residual
from locant.models.config import TransformerConfig, require_served
from locant.models.transformer import Transformer, count_parameters
from locant.positions import SCHEMES, build_scheme

_SOURCE, _TARGET = 10, 8  # tokens; two numbers, so that shapes tell the sides apart
_VOCABULARY = 37_000  # of Vaswani et al. 2017, section 5.1, English and German
_KINDS = {
    "norm": "norm",
    "self_attention": "self-attention",
    "cross_attention": "cross-attention",
    "feed_forward": "feed-forward",
    "source_embedding": "embedding",
    "target_embedding": "embedding",
    "output": "output",
}


@dataclass(frozen=True)
class _Item:
    """Something on the way up a stack: what is written in it, and the shape of what leaves it.

    ``sublayer`` is the number of the residual connection that it is inside of; ``None`` outside of the layers.
    """

    kind: str
    name: str
    shape: tuple[int, ...]
    sublayer: int | None = None
    lines: tuple[str, ...] = ()

    @property
    def height(self) -> float:
        """Inches."""
        return 2 * _SUM if self.kind == "add" else 0.16 + _LINE * len(self.lines)


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
    with torch.device("meta"):
        whole = Transformer(config)
    ran = _run(config)
    decoder = [item.kind for item in ran].index("embedding", 1)
    return {
        "ways": [_way(ran[:decoder], config, "encoder"), _way(ran[decoder:], config, "decoder")],
        "layers": [config.encoder_layers, config.decoder_layers],
        "parameters": np.array([count_parameters(stack) for stack in (whole.encoder, whole.decoder)]),
        **{f"shape {item.name}": np.array(item.shape) for item in ran},
    }


def _run(config: TransformerConfig) -> list[_Item]:
    """Run a model of one encoder and one decoder layer, and return its modules in the order in which they finish.

    Its weights are whatever is in memory, and the positional scheme, which changes no shape, is left out.
    """
    with torch.device("meta"):
        plain = config.with_positions(position="none")
        model = Transformer(plain.model_copy(update={"encoder_layers": 1, "decoder_layers": 1}))
    model = model.to_empty(device="cpu").eval()
    found: list[_Item] = []
    inside: list[int] = []  # the residual connection that runs

    def finished(name: str) -> Callable[[nn.Module, tuple[Any, ...], Tensor], None]:
        def keep(module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
            kind = _KINDS.get(name.rsplit(".", 1)[-1], "")
            if name.endswith(".dropout") and len(arguments) > 1:
                kind = "add"  # with a second tensor it adds the residual
            if kind and not name.endswith("attention.output") and not isinstance(module, nn.Identity):
                found.append(_Item(kind, name, tuple(output.shape[1:]), inside[0] if inside else None))

        return keep

    for name, module in model.named_modules():
        if isinstance(module, Residual):
            number = int(name.rsplit(".", 1)[-1])
            module.register_forward_pre_hook(lambda *_, number=number: inside.append(number))
            module.register_forward_hook(lambda *_: inside.clear())
        else:
            module.register_forward_hook(finished(name))
    used = kernels.enabled()
    kernels.enabled(False)  # a kernel does the work of several modules at once
    try:
        with torch.no_grad():
            source, target = (torch.zeros(1, tokens, dtype=torch.long) for tokens in (_SOURCE, _TARGET))
            model(source, torch.tensor([_SOURCE]), target)
    finally:
        kernels.enabled(used)
    return found


def _way(ran: Sequence[_Item], config: TransformerConfig, stack: str) -> list[_Item]:
    """Return what is on the way up a stack, with its words."""
    width, heads, decoder = config.d_model, config.heads, stack == "decoder"
    tokens, vocabulary = (_TARGET, config.target_vocab_size) if decoder else (_SOURCE, config.source_vocab_size)
    scheme = SCHEMES[config.position].title or config.position
    shape = config.blocks().attention_shape(causal=False)
    places = build_scheme(config.position, shape, config.position_options).acts_on
    acts = {"queries+keys": "turns Q and K", "scores": "adds to the scores"}
    does = " and ".join(what for place, what in acts.items() if place in places)
    many, features = f"{heads} heads" if heads > 1 else "1 head", width // heads
    attention = f"{many}: Q, K, V {_by(tokens, features)}", f"weights {_by(tokens, tokens)}"
    crossing = f"{many}: Q {_by(tokens, features)}, K, V {_by(_SOURCE, features)}", f"weights {_by(tokens, _SOURCE)}"
    tied = ("the matrix of the embedding",) if config.tie_output else ()
    lines = {
        "embedding": (f"Embedding {_by(vocabulary, width)}", f"times √{width}"),
        "self-attention": ("Masked self-attention" if decoder else "Self-attention", *attention),
        "cross-attention": ("Cross-attention", *crossing),
        "feed-forward": ("Feed-forward", f"{width} → {config.d_ff:,} → {width}, {config.feed_forward}"),
        "norm": ("Layer norm",),
        "add": ("+",),
        "output": (f"Linear {width} → {vocabulary:,}", *tied),
    }
    if does:
        lines["self-attention"] += (f"positions: {scheme} {does}",)
    items = [_Item(item.kind, item.name, item.shape, item.sublayer, lines[item.kind]) for item in ran]
    if "embedding" in places:
        said = f"positions: {scheme}", "added to the embeddings"
        items.insert(1, _Item("positions", "", (tokens, width), lines=said))
    if decoder:
        items.append(_Item("output", "", items[-1].shape, lines=("Softmax",)))
    return items


def _by(*sizes: int) -> str:
    return f" {TIMES} ".join(f"{size:,}" for size in sizes)


_WIDE, _CENTRES = 7.7, (1.75, 5.95)  # inches of the figure, and to the middle of encoder and decoder
_LINE, _ARROW, _SUM = 0.22, 0.3, 0.13  # inches of a line and of an arrow; radius of a sum
_HALF, _AWAY = 1.32, 0.08  # half the width of a box; how far beside it a residual connection runs
_FRAME = _HALF + _AWAY + 0.12
_ABOUT_POSITIONS = "#8f4a00"  # letters
_FILLS = {
    "embedding": "#eadcea",
    "norm": "#fdf3d1",
    "self-attention": "#d3e8f6",
    "cross-attention": "#d3e8f6",
    "feed-forward": "#d6efe6",
    "output": "#eadcea",
    "positions": "#fbdcae",
}


def draw(ways: list[list[_Item]], *, layers: list[int], parameters: Any, **_: Any) -> Figure:
    """Draw every module of one layer of the encoder and of the decoder, and what is below and above the layers."""
    height = max(sum(item.height + _ARROW for item in way) for way in ways) + _ARROW + 1.35
    figure, axes = canvas(_WIDE, height)
    ends, crossing = [], 0.0
    for x, side, way, number, size in zip(_CENTRES, (-1, 1), ways, layers, parameters, strict=True):
        stack, many = ("Encoder", "Decoder")[side > 0], f"{size / 1e6:.3g} million" if size >= 1e5 else f"{size:,}"
        write(axes, x, height - 0.2, f"{stack}: {many} parameters", 11.5, color=INK, fontweight="bold")
        read = f"target ids [{_TARGET}], BOS first" if side > 0 else f"source ids [{_SOURCE}]"
        write(axes, x, 0.37, read, SLIDE_LETTERS, color=INK)
        places = _draw_way(axes, x, 0.5, side, way)
        ends.append(places[-1] + _ARROW)
        inside = [place for place, item in zip(places, way, strict=True) if item.sublayer is not None]
        first = next(item for item in way if item.sublayer is not None)
        low, high = inside[0] - first.height - 0.27, inside[-1] + 0.1
        _rounded(axes, x - _FRAME, low, 2 * _FRAME, high - low, 0.12, PANEL, edgecolor=FAINT, zorder=0)
        repeated = f"{TIMES} {number}" if number > 1 else "1 layer"
        where = {"ha": "left" if side > 0 else "right", "color": INK}
        write(axes, x - side * _FRAME, high + 0.1, repeated, SLIDE_LETTERS, **where)
        for place, item in zip(places, way, strict=True):
            crossing = place - item.height / 2 if item.kind == "cross-attention" else crossing
    write(axes, _CENTRES[1], ends[1] + 0.14, "probabilities of every next token", SLIDE_LETTERS, color=INK)
    middle = sum(_CENTRES) / 2
    corners = ([_CENTRES[0]] * 2 + [middle] * 2, [ends[0], ends[0] + 0.1, ends[0] + 0.1, crossing])
    axes.plot(*corners, color=INK, linewidth=1.2)
    arrow(axes, (middle, crossing), (_CENTRES[1] - _HALF, crossing))
    write(axes, middle + 0.06, crossing + 0.12, "K, V", SLIDE_LETTERS, ha="left")
    write(axes, middle - 0.08, ends[0] + 0.25, "read by every decoder layer", SLIDE_LETTERS, ha="right")
    return figure


def slides(ways: list[list[_Item]], **_: Any) -> Figure:
    """Draw a part of each stack beside the other in a panel of the size of a slide, from below."""
    parts = [[list(part) for _, part in groupby(way, lambda item: item.sublayer)] for way in ways]
    pairs = list(zip_longest(*parts))
    figure, found = panels(len(pairs), 1, width=SLIDE[0], height=SLIDE[1])
    for axes, pair in zip(found, pairs, strict=True):
        blank(axes, width=SLIDE[0], height=SLIDE[1])
        for x, side, stack, part in zip((1.5, 4.35), (-1, 1), ("Encoder", "Decoder"), pair, strict=True):
            if part:
                write(axes, x, SLIDE[1] - 0.15, stack, 12, color=INK, fontweight="bold")
                _draw_way(axes, x, 0.1, side, part)
    return figure


def _draw_way(axes: Axes, x: float, y: float, side: int, items: Sequence[_Item]) -> list[float]:
    """Draw what is on the way up a stack, with residual connections on a side, -1 for the left; return the tops."""
    from matplotlib.patches import Circle

    tops: list[float] = []
    shape, branch, before = "", 0.0, None
    for item in items:
        if item.sublayer != before:
            branch = y + 0.09
        arrow(axes, (x, y), (x, y + _ARROW))
        write(axes, x + 0.08, y + 0.16, shape, SLIDE_LETTERS, ha="left")
        y += _ARROW
        middle = y + item.height / 2
        if item.kind == "add":
            beside = x + side * (_HALF + _AWAY)
            axes.plot([x, beside, beside], [branch, branch, middle], color=FAINT, linewidth=1.2)
            arrow(axes, (beside, middle), (x + side * _SUM, middle), color=FAINT)
            axes.add_patch(Circle((x, middle), _SUM, facecolor=PAPER, edgecolor=INK, linewidth=1.1, zorder=3))
            write(axes, x, middle, "+", 12, color=INK, zorder=4)
        else:
            thick = 1.6 if item.kind == "positions" else 0.9
            fill = _FILLS[item.kind]
            _rounded(axes, x - _HALF, y, 2 * _HALF, item.height, 0.06, fill, edgecolor=INK, linewidth=thick, zorder=2)
            for number, text in enumerate(item.lines):
                own = text.startswith("positions:")
                style = {"color": _ABOUT_POSITIONS if own else ON_LIGHT, "weight": "normal" if number else "bold"}
                at = middle + _LINE * ((len(item.lines) - 1) / 2 - number)
                write(axes, x, at, text, SLIDE_LETTERS, zorder=4, **style)
        y += item.height
        tops.append(y)
        shape, before = _by(*item.shape), item.sublayer
    arrow(axes, (x, y), (x, y + _ARROW))
    write(axes, x + 0.08, y + 0.16, shape, SLIDE_LETTERS, ha="left")
    return tops


def _rounded(axes: Axes, x: float, y: float, wide: float, tall: float, radius: float, fill: str, **style: Any) -> None:
    from matplotlib.patches import FancyBboxPatch

    shape = f"round,pad=0,rounding_size={radius}"
    axes.add_patch(FancyBboxPatch((x, y), wide, tall, boxstyle=shape, facecolor=fill, **{"linewidth": 0.9, **style}))


register_figure("architecture", numbers, draw, slides=slides)
