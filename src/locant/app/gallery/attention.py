"""The numbers behind the figures of schemes that act in attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from locant.figures import HeadBiases, Spectrum
from locant.figures.drawn import Numbers
from locant.positions import AttentionShape, RotaryConfig, build_scheme, sinusoid_frequencies
from locant.positions.relative import RelativeBias
from locant.positions.scaling import (
    Explanation,
    FrequencyScaling,
    Linear,
    Llama3,
    LongRoPE,
    NTKAware,
    NTKByParts,
    Unscaled,
    YaRN,
)

_SEED = 0

# Phi-3-mini (Abdin et al. 2024), the model whose factors for LongRoPE are the best known. Trained for 4,096 tokens,
# extended to 131,072; the long factors of its configuration, which lists them in float32.
HEAD_DIM, BASE, TRAINED, TARGET = 96, 10000.0, 4096, 131072
LONG_FACTORS = (
    1.03, 1.05, 1.05, 1.08, 1.23, 1.23, 1.30, 1.45, 1.60, 1.65, 1.90, 2.86, 3.69, 5.42, 5.49, 5.49,
    9.09, 11.58, 15.66, 15.77, 15.79, 18.36, 21.99, 23.08, 30.01, 32.35, 32.59, 35.56, 39.95, 53.84, 56.20, 57.95,
    59.29, 59.77, 59.92, 61.19, 61.96, 62.50, 63.37, 63.48, 63.48, 63.66, 63.85, 64.08, 64.76, 64.80, 64.81, 64.81,
)  # fmt: skip


def spectra() -> list[Spectrum]:
    """Return what each scaling makes of the wavelengths of Phi-3-mini, extended from 4,096 to 131,072 tokens."""
    lengths: dict[str, Any] = {"original_length": TRAINED, "target_length": TARGET}
    scalings: Sequence[FrequencyScaling] = (
        Unscaled(),
        Linear(**lengths),
        NTKAware(**lengths),
        NTKByParts(**lengths),
        YaRN(**lengths),
        LongRoPE(**lengths, short_factors=(1.0,) * len(LONG_FACTORS), long_factors=LONG_FACTORS),
        Llama3(**lengths),
    )
    return [_spectrum(scaling) for scaling in scalings]


def _spectrum(scaling: FrequencyScaling) -> Spectrum:
    # The length that an unscaled model is declared for is the one that it was trained for.
    declared = TRAINED if isinstance(scaling, Unscaled) else None
    config = RotaryConfig(head_dim=HEAD_DIM, base=BASE, scaling=scaling, max_length=declared)
    explanation = config.explain(length=TARGET)
    return Spectrum(
        name=scaling.name,
        wavelengths=np.array([pair.wavelength for pair in explanation.pairs]),
        scaled=np.array([pair.scaled_wavelength for pair in explanation.pairs]),
        fates=[pair.fate for pair in explanation.pairs],
        first_unseen=first_unseen_position(explanation),
        attention_scale=explanation.attention_scale,
    )


def first_unseen_position(explanation: Explanation) -> int | None:
    """Return the first position at which a pair is turned farther than in training.

    Training on ``L`` tokens showed a pair the angles below ``L`` times its frequency; all where that is a full turn.

    Args:
        explanation: Of a scaling, with the trained and the effective length.

    Returns:
        A position in tokens below the effective length, or ``None`` where no angle is new.
    """
    assert explanation.trained_length is not None
    assert explanation.effective_length is not None
    trained = explanation.trained_length
    # What rounding leaves of a ratio is no new angle.
    reached = [math.ceil(trained / explanation.pairs[i].ratio - 1e-6) for i in explanation.incomplete_pairs]
    first = min(reached, default=explanation.effective_length)
    return first if first < explanation.effective_length else None


def rotary_bound(*, head_dim: int, reach: int, base: float) -> tuple[Numbers, Numbers]:
    """Return the upper bound of a rotary score at distances 0 to ``reach``, up to a factor of the contents.

    Source: Su et al. 2021, "RoFormer", section 3.4.3, which bounds a score by summation by parts::

        |score(m, n)| <= max_i |h_(i+1) - h_i| * sum_(j=1)^(d/2) |S_j|        S_j = sum_(i=0)^(j-1) e^(i (m-n) theta_i)

    and plots the mean of ``|S_j|``, which is returned.

    Args:
        head_dim: Even number of rotated features, ``d``.
        reach: Largest distance in tokens.
        base: Base of the frequencies.

    Returns:
        Distances and bounds, ``[reach + 1]`` each.

    Raises:
        ConfigError: ``head_dim`` or ``base`` is out of range.
    """
    distances = torch.arange(reach + 1)
    angles = sinusoid_frequencies(head_dim, base=base).angles(distances)
    sums = torch.polar(torch.ones_like(angles), angles).cumsum(-1)
    return distances.double().numpy(), sums.abs().mean(-1).numpy()


def head_biases(*, length: int, d_model: int, heads: int = 8) -> tuple[Numbers, list[HeadBiases]]:
    """Return the score biases of each head at distances 0 to ``length - 1``, the key standing before the query.

    Trained schemes have their initial values, drawn from a fixed seed.

    Args:
        length: Number of distances.
        d_model: Width of the model, which sets the scale of T5's initial values.
        heads: Number of heads.

    Returns:
        Distances ``[length]``, and for each scheme values ``[heads, length]``.

    Raises:
        ConfigError: A value is out of range.
    """
    distances = torch.arange(length)
    schemes = []
    for name, label in (
        ("alibi", "ALiBi"),
        ("t5", "T5"),
        ("kerple", "KERPLE"),
        ("fire", "FIRE"),
        ("sandwich", "Sandwich"),
    ):
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(_SEED)
            scheme = build_scheme(name, AttentionShape(d_model, heads, causal=True))
            assert isinstance(scheme, RelativeBias)
            values = scheme.bias(-distances).double().numpy()
        trained = any(True for _ in scheme.parameters())
        title = f"{label} (initial values)" if trained else f"{label} (fixed)"
        schemes.append(HeadBiases(title, values, stepped=name == "t5"))
    return distances.double().numpy(), schemes
