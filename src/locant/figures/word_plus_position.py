"""Word plus position: words of a model, each with the places where its positions take it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from locant.analysis.attention_steps import attention_steps
from locant.errors import ConfigError
from locant.figures.drawing import Axes, Figure, colour_scale, label, new_figure
from locant.figures.numbers import pair_features
from locant.figures.palette import BLUE, FAINT, GRID, INK, LINES, PAPER, VERMILION
from locant.figures.registry import register_figure
from locant.figures.trained import load_trained, readable
from locant.positions import Rotary, Sinusoidal
from locant.text.tokenizer import BOS, EOS

_WORDS, _FREQUENT, _POSITIONS = 5, 400, 16
_SLOW = 40  # tokens per turn of the second pair that is shown, about


def numbers(*, run: Path, text: str | None = None) -> dict[str, Any]:
    """Return words of the encoder, and where its positions take them.

    Args:
        run: The run folder.
        text: Words to show; without any, some frequent ones that are far apart are taken.

    Returns:
        By the title of each plane ``words TITLE`` ``[W, 2]``, and ``places TITLE`` ``[W, P, 2]`` at positions 0 to
        ``P - 1``. Where positions are added also the norms of both vectors; where they turn queries and keys
        ``scores`` ``[W, P]``, of each word's query with its own key that many tokens away.

    Raises:
        CheckpointError: The folder holds no trained model.
        ConfigError: The model is no Transformer, or its positions are neither added to the embeddings nor turn queries
            and keys.
    """
    translator, model = load_trained(run, "word-plus-position")
    scheme, tokenizer = model.encoder.scheme(0), translator.tokenizers.source
    count = min(_POSITIONS, scheme.max_positions or _POSITIONS)
    tokens = range(EOS + 1, tokenizer.vocab_size)
    pieces = {index: tokenizer.token(index) for index in tokens}
    whole = [index for index, piece in pieces.items() if piece[0] == "▁" and piece[1:].isalpha() and len(piece) > 3]
    candidates = (whole if len(whole) >= _WORDS else list(tokens))[: min(_FREQUENT, model.max_positions or _FREQUENT)]
    if text:
        candidates = list(dict.fromkeys(tokenizer.encode([text])[0]))[: 2 * _WORDS]
    with torch.no_grad():
        words = model.source_embedding.weight.detach().double() * math.sqrt(model.config.d_model)
        added = scheme.code(torch.arange(count))
        more: dict[str, Any] = {}
        if added is not None:
            codes, vectors = added.double(), words[candidates]
            moved = vectors[:, None] + codes
            more = {"word norms": words[EOS + 1 :].norm(dim=1).numpy(), "position norms": codes.norm(dim=1).numpy()}
            if isinstance(scheme, Sinusoidal):
                planes = _planes_of_pairs(scheme.frequencies.radians, pair_features(scheme), codes.shape[-1])
            else:
                _, _, principal = torch.linalg.svd(codes - codes.mean(0), full_matrices=True)
                planes = {"Where positions differ most": principal[:2].T}
        elif isinstance(scheme, Rotary) and scheme.rotary_config is not None:
            # The queries of the encoder's first head, as they are and turned.
            steps = attention_steps(model, candidates, [BOS])
            q, k = (part.transpose(0, 1)[:, :, None].expand(-1, -1, count, -1) for part in (steps.q, steps.k))
            turned = scheme.rotate(q, k, torch.arange(count), torch.arange(count))
            vectors, (moved, keys) = steps.q[0].double(), (part[:, 0].double() for part in turned)
            more = {"scores": ((moved * keys[:, :1]).sum(-1) / math.sqrt(vectors.shape[-1])).numpy()}
            rates = scheme.config.frequencies()
            pairs = torch.arange(2 * len(rates))
            features = pairs.view(2, -1).T if scheme.config.layout == "half" else pairs.view(-1, 2)
            planes = _planes_of_pairs(rates, features, vectors.shape[-1])
        else:
            raise ConfigError(
                f"The positions of {run} are '{model.config.position}', which neither adds to the word vectors nor "
                "is plain RoPE, so that no word is moved. Take a run with sinusoidal, learned or rotary positions."
            )
    flat = torch.stack([vectors @ plane for plane in planes.values()])
    chosen = list(range(len(candidates))) if text else _spread(flat, _WORDS)
    if "scores" in more:
        more["scores"] = more["scores"][chosen]
    found: dict[str, Any] = {"labels": readable([pieces.get(candidates[index], "") for index in chosen]), **more}
    for title, plane in planes.items():
        found[f"words {title}"] = (vectors[chosen] @ plane).numpy()
        found[f"places {title}"] = (moved[chosen] @ plane).numpy()
    return found


def _planes_of_pairs(rates: Sequence[Any], features: Tensor, width: int) -> dict[str, Tensor]:
    """Return the planes ``[E, 2]`` of the fastest pair and of one that turns in about 40 tokens."""
    waves = [2 * math.pi / (float(rate) or 1e-12) for rate in rates]
    slow = min(range(len(waves)), key=lambda pair: abs(math.log(waves[pair] / _SLOW)))
    axes = torch.eye(width, dtype=torch.float64)
    return {f"Pair {pair}: {waves[pair]:.3g} tokens per turn": axes[:, features[pair]] for pair in (0, slow)}


def _spread(planes: Tensor, count: int) -> list[int]:
    """Return which of points ``[planes, V, 2]`` are far from each other in every plane, the first among them."""
    chosen = [0]
    while len(chosen) < min(count, planes.shape[1]):
        gaps = (planes[:, :, None] - planes[:, None, chosen]).norm(dim=-1)
        chosen.append(int(gaps.amin(dim=(0, 2)).argmax()))
    return chosen


def draw(labels: list[str], **data: Any) -> Figure:
    """Draw words with the circle (or path) of their positions in several planes, and what follows from it."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    titles = [name.removeprefix("places ") for name in data if name.startswith("places ")]
    count = data[f"places {titles[0]}"].shape[1]
    figure = new_figure(4.7 * len(titles) + 4.2, 5.2)
    *planes, last = figure.subplots(1, len(titles) + 1, width_ratios=[1.15] * len(titles) + [1])
    shades = ScalarMappable(Normalize(0, count - 1), colormaps["viridis"])
    for axes, title in zip(planes, titles, strict=True):
        _draw_plane(axes, data[f"words {title}"], data[f"places {title}"], labels, shades, added="scores" not in data)
        label(axes, title, "first direction", "second direction")
        colour_scale(axes, shades, "position")
    if "scores" in data:
        for name, values, (color, stroke, mark) in zip(labels, data["scores"], LINES * 2, strict=False):
            last.plot(values, stroke, marker=mark, markersize=4, color=color, label=name)
        label(last, "Score of a word with itself", "tokens between the two", "query · key / √D")
        last.set_xticks(range(0, count, 5))
        last.legend(loc="best", fontsize=9)
    else:
        _draw_norms(last, data["word norms"], data["position norms"])
    return figure


def _draw_plane(axes: Axes, words: Any, places: Any, labels: list[str], shades: Any, *, added: bool) -> None:
    from matplotlib.patches import Circle
    from matplotlib.patheffects import withStroke

    for word, path, name in zip(words, places, labels, strict=True):
        middle = word if added else np.zeros(2)
        radii = np.hypot(*(path - middle).T)
        if np.ptp(radii) < 1e-3 * radii.max():
            axes.add_patch(Circle(tuple(middle), radii[0], fill=False, edgecolor=GRID, linewidth=0.9))
        else:
            axes.plot(*path.T, color=GRID, linewidth=0.9, zorder=1)
        axes.scatter(path[:, 0], path[:, 1], c=np.arange(len(path)), cmap=shades.cmap, norm=shades.norm, s=22, zorder=3)
        if added:
            axes.plot(*word, "x", color=INK, markersize=6, zorder=4)
        halo = [withStroke(linewidth=2.5, foreground=PAPER)]  # it may be wider than the circle
        style: dict[str, Any] = {"ha": "center", "fontsize": 9.5, "zorder": 5, "path_effects": halo}
        axes.annotate(name, tuple(word), (0, 5), textcoords="offset points", **style)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.06)


def _draw_norms(axes: Axes, words: Any, positions: Any) -> None:
    bins = np.linspace(0, 1.05 * max(words.max(), positions.max()), 60)
    axes.hist(words, bins.tolist(), color=BLUE, label=f"√d · word vectors, median {np.median(words):.1f}")
    name = f"position codes, {positions.min():.1f} to {positions.max():.1f}"
    axes.axvspan(positions.min(), positions.max(), color=VERMILION, linewidth=2, label=name)
    label(axes, "Lengths of both", "norm", "tokens of the vocabulary")
    axes.set_ylim(top=1.3 * axes.get_ylim()[1])
    axes.legend(loc="upper left", fontsize=9, labelcolor=FAINT, frameon=True, framealpha=1, edgecolor=PAPER)


register_figure("word-plus-position", numbers, draw)
