"""Word vectors of a trained model and what its positions add to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from locant.app.gallery.trained import load_trained, readable
from locant.errors import ConfigError
from locant.figures import WordPlane
from locant.figures.drawing import Numbers
from locant.positions.embeddings.position_code import PositionCode
from locant.positions.embeddings.sinusoidal import Sinusoidal
from locant.text.tokenizer import EOS

_WORDS, _FREQUENT = 5, 1000
_POSITIONS = 16


@dataclass(frozen=True)
class Words:
    """Words and positions of a model; the fields are the arguments of :func:`locant.figures.word_plus_position`."""

    planes: list[WordPlane]
    labels: list[str]
    word_norms: Numbers
    position_norms: Numbers


def words_and_positions(run: Path, text: str | None) -> Words:
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
    if not isinstance(scheme, PositionCode) or scheme.combine != "add" or scheme.features != scheme.dim:
        raise ConfigError(
            f"The model of {run} tells positions by '{model.config.position}', which adds nothing to its word vectors, "
            "so that there are no circles around them to draw."
        )
    with torch.no_grad():
        words = model.source_embedding.weight.detach().double() * math.sqrt(model.config.d_model)
        count = min(_POSITIONS, scheme.max_positions or _POSITIONS)
        codes = scheme.encode(torch.arange(count)).double()
    directions = _directions(scheme, codes)
    tokenizer = translator.tokenizers.source
    if text:
        chosen = list(dict.fromkeys(tokenizer.encode([text])[0]))[: 2 * _WORDS]
    else:
        pieces = range(EOS + 1, tokenizer.vocab_size)
        whole = [index for index in pieces if _is_word(tokenizer.piece(index))][:_FREQUENT]
        candidates = whole if len(whole) >= _WORDS else pieces
        chosen = _spread(torch.stack([words @ plane for plane in directions.values()]), candidates, _WORDS)
    planes = [
        WordPlane(title, _axes(title), (words[chosen] @ plane).numpy(), (codes @ plane).numpy())
        for title, plane in directions.items()
    ]
    return Words(
        planes,
        readable([tokenizer.piece(index) for index in chosen]),
        word_norms=words[EOS + 1 :].norm(dim=1).numpy(),
        position_norms=codes.norm(dim=1).numpy(),
    )


def _is_word(piece: str) -> bool:
    return piece.startswith("▁") and piece[1:].isalpha() and len(piece) > 3


def _axes(title: str) -> tuple[str, str]:
    return ("sine feature", "cosine feature") if title.startswith("Pair") else ("first direction", "second direction")


def _directions(scheme: PositionCode, codes: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the planes to look at, ``[E, 2]`` each: pairs of sinusoids, or where other codes vary the most."""
    if isinstance(scheme, Sinusoidal):
        half, planes = scheme.dim // 2, {}
        wavelengths = [2 * math.pi / float(radians) for radians in scheme.frequencies.radians]
        slow = min(range(half), key=lambda i: abs(math.log(wavelengths[i] / 40)))
        for pair in dict.fromkeys((0, slow)):
            features = [2 * pair, 2 * pair + 1] if scheme.dialect == "paper" else [pair, half + pair]
            title = f"Pair {pair}: {wavelengths[pair]:.3g} tokens a turn"
            planes[title] = torch.eye(scheme.dim, dtype=torch.float64)[:, features]
        return planes
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
