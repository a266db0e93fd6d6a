"""Score biases: what is added to an attention score at each distance, head by head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from locant.errors import ConfigError
from locant.figures.drawing import FAINT, FigureData, Numbers, colour_scale, colours, drawing, new_figure, settle
from locant.figures.numbers import example_scheme
from locant.figures.record import read_record
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import load_trained
from locant.positions import SCHEMES, AttentionShape, PositionScheme
from locant.positions.registry import build_scheme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 3


@dataclass(frozen=True)
class HeadBiases:
    """The biases of one scheme.

    Attributes:
        title: Its name, and whether the values are trained.
        values: Bias ``[H, N]`` of every head at every distance.
        stepped: Whether distances share values without any order among these, which an image shows better than lines.
    """

    title: str
    values: Numbers
    stepped: bool = False


_FAR = 512  # tokens up to which it is asked whether distances share values
_HEADS = 8


def distance_biases(scheme: PositionScheme, length: int) -> Numbers | None:
    """Return the bias ``[H, length]`` of keys 0, 1, 2 ... tokens before a query, where the distance alone sets it."""
    keys, query = torch.arange(length), torch.zeros(1, dtype=torch.long)
    with torch.no_grad():
        # A query at 0 and keys before it: a bias may depend on more than the distance far from the beginning.
        found = scheme.distance_bias(query, -keys)
    return None if found is None else found[0].flip(-1).double().numpy()


def shown_biases(length: int) -> list[HeadBiases]:
    """Return the biases of the schemes that are fixed, and of those that are trained what a small model has learned.

    Args:
        length: Number of distances; the learned ones are recorded up to 200.
    """
    shape, found = AttentionShape(64 * _HEADS, _HEADS, causal=True), []
    for name, scheme in SCHEMES.items():
        example = example_scheme(name)
        if example.acts_on == {"scores"} and not list(example.parameters()):
            values = distance_biases(build_scheme(name, shape), length)
            if values is not None:
                found.append(HeadBiases(f"{scheme.title} (fixed)", values))
    for name, recorded in read_record("biases")["schemes"].items():
        values = np.array(recorded)[:, :length]
        found.append(HeadBiases(f"{SCHEMES[name].title} (learned)", values, stepped=name == "t5"))
    return found


def learned_biases(run: Path, *, length: int) -> tuple[Numbers, list[HeadBiases]]:
    """Return the score biases that a model has learned, and the distances, ``[length]``.

    Raises:
        CheckpointError: The folder holds no trained model.
        ConfigError: The model is no Transformer, or its scheme is not a bias of the distance.
    """
    _, model = load_trained(run, "The figure 'bias'")
    name = model.config.position
    schemes = []
    for title, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        scheme = stack.scheme(0)
        values = distance_biases(scheme, length)
        if values is None:
            raise ConfigError(
                f"The model of {run} tells positions by '{name}', which is no bias of the distance. Leave out --run "
                "for the biases of other schemes."
            )
        schemes.append(HeadBiases(f"{name}, {title} of {run.name}", values, stepped=_is_stepped(scheme)))
    return np.arange(length, dtype=float), schemes


def _is_stepped(scheme: PositionScheme) -> bool:
    """Whether most distances have the value of their neighbour, as buckets do."""
    values = distance_biases(scheme, _FAR)
    return values is not None and bool((np.diff(values) == 0).mean() > 0.5)


def bias_numbers(*, length: int = 200, run: Path | None = None) -> dict[str, Any]:
    """Return the biases of every such scheme, or with ``run`` those that a model has learned.

    Raises:
        LocantError: As for :func:`learned_biases`.
    """
    if run is not None:
        distances, schemes = learned_biases(run, length=length)
        return {"distances": distances, "schemes": schemes}
    return {"distances": np.arange(length, dtype=float), "schemes": shown_biases(length)}


def bias(distances: Numbers, schemes: Sequence[HeadBiases]) -> FigureData:
    """Draw the biases of several schemes, one line a head, or one row a head.

    Args:
        distances: How far before the query the key stands, ``[N]``, in tokens.
        schemes: One panel each; all with the same number of heads.

    Returns:
        The figure, 3.7 inches wide a panel and 11 at most, the distances and the values by title.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    heads = len(schemes[0].values)
    legend = any(not scheme.stepped for scheme in schemes)  # takes a panel's place
    columns = min(_COLUMNS, len(schemes) + legend)
    rows = -(-(len(schemes) + legend) // columns)
    with drawing():
        from matplotlib import colormaps

        figure = new_figure(11 / _COLUMNS * columns, 3.3 * rows)
        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        shades = colormaps["viridis"](np.linspace(0, 0.8, heads))
        for axes, scheme in zip(panels, schemes, strict=False):
            if scheme.stepped:
                _draw_rows(axes, scheme.values)
            else:
                for head, shade in enumerate(shades):
                    axes.plot(distances, scheme.values[head], color=shade, linewidth=1.5, label=f"head {head + 1}")
                axes.axhline(0, color=FAINT, linewidth=0.8)
                axes.set_ylabel("added to the score")
            axes.set_title(scheme.title, fontsize=11, pad=9)
            axes.set_xlabel("distance of the key, tokens")
            axes.set_xlim(distances[0], distances[-1])
        for axes in panels[len(schemes) :]:
            axes.set_axis_off()
        if legend:
            lined = next(axes for axes, scheme in zip(panels, schemes, strict=False) if not scheme.stepped)
            handles, labels = lined.get_legend_handles_labels()
            panels[len(schemes)].legend(handles, labels, loc="center left", ncols=1, fontsize=10.5)
        settle(figure)
    return FigureData(figure, {"distances": distances} | {scheme.title: scheme.values for scheme in schemes})


def _draw_rows(axes: Axes, values: Numbers) -> None:
    heads, count = values.shape
    scale, limits = colours(values)
    place = (-0.5, count - 0.5, heads + 0.5, 0.5)
    image = axes.imshow(values, cmap=scale, norm=limits, aspect="auto", interpolation="none", extent=place)
    axes.grid(visible=False)
    axes.set_yticks(range(1, heads + 1))
    axes.set_ylabel("head")
    colour_scale(axes, image)


register_figure(
    "bias",
    numbers=bias_numbers,
    draw=bias,
    caption=Caption(
        "Distance as a handicap",
        "Another family leaves queries and keys alone and adds a number to each attention score, which depends on the "
        "distance and the head. ALiBi and Sandwich are fixed. T5, KERPLE and FIRE are trained; shown is what they "
        "learned in a small language model of characters.",
        "score(h, i, j)&nbsp;= q<sub>i</sub> · k<sub>j</sub>&thinsp;/&thinsp;√D + b<sub>h</sub>(i &minus; j); &nbsp; "
        "ALiBi: b<sub>h</sub>(k)&nbsp;= &minus;2<sup>&minus;8h/H</sup>&thinsp;k",
    ),
    limits={"length": (2, 200)},
)
