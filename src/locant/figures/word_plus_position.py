"""Word plus position: word vectors of a model, each with the places where its positions take it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from locant.errors import ConfigError
from locant.figures.drawing import BLUE, FAINT, INK, VERMILION, FigureData, Numbers, drawing, new_figure, settle
from locant.figures.registry import Caption, register_figure
from locant.figures.trained import load_trained, readable
from locant.positions import PositionScheme
from locant.text.tokenizer import EOS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize


@dataclass(frozen=True)
class WordPlane:
    """Two directions of the model's space.

    Attributes:
        title: Which directions.
        axes: Their names.
        words: Word vectors there, ``[W, 2]``.
        positions: What positions 0 to ``P - 1`` add there, ``[P, 2]``.
    """

    title: str
    axes: tuple[str, str]
    words: Numbers
    positions: Numbers


_WORDS, _FREQUENT = 5, 1000
_POSITIONS = 16


def _is_word(piece: str) -> bool:
    return piece.startswith("▁") and piece[1:].isalpha() and len(piece) > 3


def _axes(title: str) -> tuple[str, str]:
    return ("sine feature", "cosine feature") if title.startswith("Pair") else ("first direction", "second direction")


def _directions(scheme: PositionScheme, codes: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the planes to look at, ``[E, 2]`` each: pairs of sinusoids, or where other codes vary the most."""
    if pairs := scheme.wave_pairs:
        slow = min(range(len(pairs)), key=lambda i: abs(math.log(pairs[i][0] / 40)))
        identity = torch.eye(codes.shape[-1], dtype=torch.float64)
        return {
            f"Pair {pair}: {pairs[pair][0]:.3g} tokens per turn": identity[:, list(pairs[pair][1:])]
            for pair in dict.fromkeys((0, slow))
        }
    _, _, principal = torch.linalg.svd(codes - codes.mean(0), full_matrices=True)
    return {"Where positions differ most": principal[:2].T}


def _spread(planes: torch.Tensor, candidates: Sequence[int], count: int) -> list[int]:
    """Return candidates far from each other in every plane ``[P, V, 2]``, beginning with the first."""
    points = planes[:, list(candidates)]
    chosen = [0]
    while len(chosen) < min(count, len(candidates)):
        gaps = (points[:, :, None] - points[:, None, chosen]).norm(dim=-1)
        chosen.append(int(gaps.amin(dim=(0, 2)).argmax()))
    return [candidates[index] for index in chosen]


def word_plus_position_numbers(*, run: Path, text: str | None = None) -> dict[str, Any]:
    """Return word vectors of the encoder and what its positions add to them.

    Args:
        run: The run folder.
        text: Words to show; without any, some frequent ones that stand apart are taken.

    Raises:
        CheckpointError: The folder holds no trained model.
        ConfigError: The model is no Transformer, or its positions are not added to the embeddings.
    """
    translator, model = load_trained(run, "The figure 'word-plus-position'")
    scheme = model.encoder.scheme(0)
    count = min(_POSITIONS, scheme.max_positions or _POSITIONS)
    with torch.no_grad():
        words = model.source_embedding.weight.detach().double() * math.sqrt(model.config.d_model)
        added = scheme.code(torch.arange(count))
    if added is None:
        raise ConfigError(
            f"The model of {run} tells positions by '{model.config.position}', which adds nothing to its word vectors, "
            "so that there are no circles around them to draw."
        )
    codes = added.double()
    directions = _directions(scheme, codes)
    tokenizer = translator.tokenizers.source
    if text:
        chosen = list(dict.fromkeys(tokenizer.encode([text])[0]))[: 2 * _WORDS]
    else:
        tokens = range(EOS + 1, tokenizer.vocab_size)
        whole = [index for index in tokens if _is_word(tokenizer.token(index))][:_FREQUENT]
        candidates = whole if len(whole) >= _WORDS else tokens
        chosen = _spread(torch.stack([words @ plane for plane in directions.values()]), candidates, _WORDS)
    planes = [
        WordPlane(title, _axes(title), (words[chosen] @ plane).numpy(), (codes @ plane).numpy())
        for title, plane in directions.items()
    ]
    return {
        "planes": planes,
        "labels": readable([tokenizer.token(index) for index in chosen]),
        "word_norms": words[EOS + 1 :].norm(dim=1).numpy(),
        "position_norms": codes.norm(dim=1).numpy(),
    }


def word_plus_position(
    planes: Sequence[WordPlane], *, labels: Sequence[str], word_norms: Numbers, position_norms: Numbers
) -> FigureData:
    """Draw words with the circle (or path) of their positions in several planes, and the lengths of both vectors.

    Args:
        planes: One panel each.
        labels: The words, ``W``.
        word_norms: Norm of every word vector of the vocabulary, ``[V]``.
        position_norms: Norm of what every position adds, ``[P]``.

    Returns:
        The figure, the norms, and ``words TITLE`` and ``positions TITLE`` of every plane.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with drawing():
        from matplotlib import colormaps
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        figure = new_figure(4.7 * len(planes) + 4.2, 5.2)
        panels = list(figure.subplots(1, len(planes) + 1, width_ratios=[1.15] * len(planes) + [1]))
        limits, shades = Normalize(0, len(planes[0].positions) - 1), colormaps["viridis"]
        for axes, plane in zip(panels, planes, strict=False):
            _draw_plane(axes, plane, labels, shades, limits)
        figure.colorbar(
            ScalarMappable(limits, shades),
            ax=panels[: len(planes)],
            label="position",
            location="bottom",
            shrink=0.4,
            aspect=40,
            ticks=range(0, len(planes[0].positions), 5),
        ).outline.set_visible(False)
        _draw_norms(panels[-1], word_norms, position_norms)
        settle(figure)
    data = {"word norms": word_norms, "position norms": position_norms}
    for plane in planes:
        data |= {f"words {plane.title}": plane.words, f"positions {plane.title}": plane.positions}
    return FigureData(figure, data)


def _draw_plane(axes: Axes, plane: WordPlane, labels: Sequence[str], shades: Colormap, limits: Normalize) -> None:
    from matplotlib.patches import Circle
    from matplotlib.patheffects import withStroke

    radii = np.hypot(*plane.positions.T)
    round_ = np.ptp(radii) < 1e-3 * radii.max()
    for word, label in zip(plane.words, labels, strict=True):
        places = word + plane.positions
        if round_:
            axes.add_patch(Circle(tuple(word), radii[0], fill=False, edgecolor="#c3cad1", linewidth=0.9))
        else:
            axes.plot(*places.T, color="#c3cad1", linewidth=0.9, zorder=1)
        axes.scatter(places[:, 0], places[:, 1], c=np.arange(len(places)), cmap=shades, norm=limits, s=22, zorder=3)
        axes.plot(*word, "x", color=INK, markersize=6, zorder=4)
        axes.annotate(
            label,
            tuple(word),
            (0, 5),
            textcoords="offset points",
            ha="center",
            fontsize=9.5,
            zorder=5,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],  # it may be wider than the circle
        )
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.06)
    axes.set_title(plane.title, fontsize=11, pad=9)
    axes.set_xlabel(plane.axes[0])
    axes.set_ylabel(plane.axes[1])


def _draw_norms(axes: Axes, words: Numbers, positions: Numbers) -> None:
    bins = np.linspace(0, 1.05 * max(words.max(), positions.max()), 60)
    axes.hist(words, bins.tolist(), color=BLUE, label=f"√E · word vectors, median {np.median(words):.1f}")
    name = f"position codes, {positions.min():.1f}"
    if np.ptp(positions) > 1e-3 * positions.max():
        name += f" to {positions.max():.1f}"
        axes.axvspan(positions.min(), positions.max(), color=VERMILION, alpha=0.25, linewidth=0)
    axes.axvline(float(np.median(positions)), color=VERMILION, linewidth=2, label=name)
    axes.set_title("Lengths of both", fontsize=11, pad=9)
    axes.set_xlabel("norm")
    axes.set_ylabel("tokens of the vocabulary")
    axes.set_ylim(top=1.3 * axes.get_ylim()[1])
    axes.legend(loc="upper left", fontsize=9, labelcolor=FAINT, frameon=True, framealpha=1, edgecolor="white")


register_figure(
    "word-plus-position",
    numbers=word_plus_position_numbers,
    draw=word_plus_position,
    caption=Caption(
        "A word is not one point but a circle of points",
        "The model adds the code of the position to the vector of the word. In the plane of one pair of features the "
        "same word then lies somewhere on a circle around its own vector: all words are moved alike, so that the place "
        "can be told from the word. The lengths of both show how much room the position takes.",
        "x<sub>p</sub>&nbsp;= √d&thinsp;E[w] + PE(p), &nbsp; |PE(p)|&nbsp;= √(d/2) for every p",
    ),
)
