"""Numbers that several figures and the explorer share: codes of positions, and the pairs of the sinusoids."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from locant.errors import ConfigError, nearest
from locant.figures.drawing import Numbers
from locant.lab.variants import options_for_lengths
from locant.positions import (
    SCHEMES,
    AttentionShape,
    PositionScheme,
    Sinusoidal,
    build_scheme,
    sinusoid_frequencies,
    sinusoid_table,
)

SEED = 0
"""From which the initial values of trained schemes are drawn."""

_EXAMPLE = AttentionShape(64, 4, causal=True)


@contextmanager
def seeded() -> Iterator[None]:
    """Draw random values on the CPU from a fixed seed, and leave those of everybody else as they were."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        yield


def example_scheme(
    name: str, shape: AttentionShape = _EXAMPLE, *, length: int = 16, options: Mapping[str, Any] | None = None
) -> PositionScheme:
    """Return a scheme for texts of a length; trained values are the initial ones, drawn from a fixed seed.

    The scheme of a small model serves to be asked what it is; one that wraps another answers for that.

    Raises:
        ConfigError: An option is unknown, or a value is out of range.
    """
    declared = options_for_lengths(SCHEMES[name], trained=length, longest=length)
    with seeded(), torch.no_grad():
        return build_scheme(name, shape, {**declared, **(options or {})}).eval()


def embedding_schemes() -> list[str]:
    """Return the names of the schemes that act at the input embedding."""
    return [name for name in SCHEMES if "embedding" in example_scheme(name).acts_on]


def code_table(scheme: str, *, d_model: int, length: int, options: Mapping[str, Any] | None = None) -> Numbers:
    """Return what a scheme adds to the embeddings of positions 0 to ``length - 1``.

    Trained schemes have their initial values, drawn from a fixed seed.

    Args:
        scheme: One of :func:`embedding_schemes`.
        d_model: Width of the model.
        length: Number of positions; also the length declared, where a scheme needs one.
        options: Further options of the scheme.

    Returns:
        Float64 ``[length, d_model]``.

    Raises:
        ConfigError: The scheme does not act at the input embedding, an option is unknown, or a value is out of range.
    """
    known = embedding_schemes()
    if scheme not in known:
        raise ConfigError(
            f"'{scheme}' adds nothing to the input embeddings, so there is no code to draw."
            f"{nearest(scheme, known)} Known: {', '.join(known)}."
        )
    built = example_scheme(scheme, AttentionShape(d_model, 1, causal=False), length=length, options=options)
    with torch.no_grad():
        return built.embed(torch.zeros(1, length, d_model), torch.arange(length))[0].double().numpy()


def initial_note(scheme: str) -> str:
    """Return ``, initial values`` for a scheme with values that training shapes, and nothing for a fixed one."""
    return ", initial values" if any(True for _ in example_scheme(scheme).parameters()) else ""


def digits_of(positions: NDArray[np.int64], base: int, places: int) -> NDArray[np.int64]:
    """Return the digits ``[L, places]`` of positions ``[L]`` in a number system, the highest first."""
    return positions[:, None] // base ** np.arange(places - 1, -1, -1) % base


def hands(length: int, *, d_model: int, base: float) -> tuple[Numbers, Numbers, Numbers]:
    """Return sine and cosine of every pair at positions 0 to ``length - 1``, and the wavelengths.

    Returns:
        ``[length, d_model / 2]`` twice, and ``[d_model / 2]`` in tokens.

    Raises:
        ConfigError: A value is out of range.
    """
    table = sinusoid_table(torch.arange(length), d_model, base=base).double().numpy()
    return table[:, 0::2], table[:, 1::2], wavelengths_of(d_model, base=base)


def wavelengths_of(d_model: int, *, base: float = 10000.0) -> Numbers:
    """Return the tokens of a full turn of every pair, ``[d_model / 2]``; raises ConfigError for an odd width."""
    return np.array([2 * math.pi / float(radians) for radians in sinusoid_frequencies(d_model, base=base).radians])


def pair_features(scheme: Sinusoidal) -> Tensor:
    """Return the two features of every pair of a sinusoidal code, ``[P, 2]``."""
    features = torch.arange(scheme.features)
    # In the paper's dialect the two of a pair are side by side, elsewhere all sines come first.
    return features.view(-1, 2) if scheme.dialect == "paper" else features.view(2, -1).T
