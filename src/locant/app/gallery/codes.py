"""The numbers behind the figures of position codes at the input embedding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from locant.analysis.geometry import measure_geometry
from locant.errors import ConfigError, nearest
from locant.figures import Products
from locant.figures.drawing import Numbers
from locant.positions import SCHEMES, AttentionShape, build_scheme, sinusoid_frequencies, sinusoid_table
from locant.positions.embeddings.position_code import PositionCode
from locant.positions.registry import option_names

INPUT_SCHEMES = tuple(name for name, scheme in SCHEMES.items() if issubclass(scheme, PositionCode))

_SEED = 0


def code_table(scheme: str, *, d_model: int, length: int, options: Mapping[str, Any] | None = None) -> Numbers:
    """Return what a scheme adds to the embeddings of positions 0 to ``length - 1``.

    Trained schemes have their initial values, drawn from a fixed seed.

    Args:
        scheme: One of :data:`INPUT_SCHEMES`.
        d_model: Width of the model.
        length: Number of positions; also the length declared, where a scheme needs one.
        options: Further options of the scheme.

    Returns:
        Float64 ``[length, d_model]``.

    Raises:
        ConfigError: The scheme does not act at the input embedding, an option is unknown, or a value is out of range.
    """
    if scheme not in INPUT_SCHEMES:
        known = ", ".join(INPUT_SCHEMES)
        raise ConfigError(
            f"'{scheme}' adds nothing to the input embeddings, so there is no code to draw."
            f"{nearest(scheme, INPUT_SCHEMES)} Known: {known}."
        )
    declared = {"max_positions": length} if "max_positions" in option_names(SCHEMES[scheme]) else {}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(_SEED)
        built = build_scheme(scheme, AttentionShape(d_model, 1, causal=False), {**declared, **(options or {})})
        table = built.embed(torch.zeros(1, length, d_model), torch.arange(length))[0]
    return table.double().numpy()


@dataclass(frozen=True)
class Waves:
    """Sines and cosines of some pairs; the fields are the arguments of :func:`locant.figures.waves`."""

    places: Numbers
    sine: Numbers
    cosine: Numbers
    wavelengths: Numbers
    pairs: Numbers
    token: int
    token_sine: Numbers
    token_cosine: Numbers


def wave_curves(*, d_model: int, length: int, base: float, token: int, most_pairs: int = 8) -> Waves:
    """Return the waves of a sinusoidal code between positions 0 and ``length - 1``.

    Args:
        d_model: Even width of the code.
        length: Number of positions.
        base: Base of the wavelengths.
        token: Position whose values are marked.
        most_pairs: Where the code has more pairs, so many of them are taken, evenly spaced.

    Raises:
        ConfigError: A value is out of range.
    """
    frequencies = 2 * math.pi / wavelengths_of(d_model, base=base)
    pairs = np.linspace(0, len(frequencies) - 1, min(most_pairs, len(frequencies))).round().astype(int)
    places = np.linspace(0, length - 1, max(600, 8 * length))
    angles = frequencies[pairs, None] * places
    received = sinusoid_table(torch.tensor(token), d_model, base=base).double().numpy()
    return Waves(
        places=places,
        sine=np.sin(angles),
        cosine=np.cos(angles),
        wavelengths=2 * math.pi / frequencies[pairs],
        pairs=pairs.astype(float),
        token=token,
        token_sine=received[0::2][pairs],
        token_cosine=received[1::2][pairs],
    )


def product_matrix(*, d_model: int, length: int, base: float) -> Products:
    """Return the dot products of all pairs of ``length`` sinusoidal codes, divided by ``d_model / 2``.

    Raises:
        ConfigError: A value is out of range.
    """
    table = sinusoid_table(torch.arange(length), d_model, base=base).double()
    return Products((table @ table.T / (d_model / 2)).numpy(), measure_geometry(table).first_rise)


def products_around(centre: int, *, d_model: int, reach: int, base: float) -> tuple[Numbers, Numbers]:
    """Return offsets ``-reach .. reach`` and the dot products of a position's code with those at the offsets.

    Returns:
        Both ``[2 reach + 1]``; the products are divided by ``d_model / 2``.

    Raises:
        ConfigError: A value is out of range.
    """
    offsets = torch.arange(-reach, reach + 1)
    rows = sinusoid_table(centre + offsets, d_model, base=base).double()
    return offsets.double().numpy(), (rows @ rows[reach] / (d_model / 2)).numpy()


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
