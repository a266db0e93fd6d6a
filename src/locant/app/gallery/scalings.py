"""What every scaling makes of a rotary model that shall read longer texts than it was trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from locant.figures import Spectrum
from locant.positions import RotaryConfig
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

# Phi-3-mini (Abdin et al. 2024), the model whose factors for LongRoPE are the best known. Trained for 4,096 tokens,
# extended to 131,072; the long factors of its configuration, which lists them in float32.
HEAD_DIM, BASE, TRAINED, TARGET = 96, 10000.0, 4096, 131072
LONG_FACTORS = (
    1.03, 1.05, 1.05, 1.08, 1.23, 1.23, 1.30, 1.45, 1.60, 1.65, 1.90, 2.86, 3.69, 5.42, 5.49, 5.49,
    9.09, 11.58, 15.66, 15.77, 15.79, 18.36, 21.99, 23.08, 30.01, 32.35, 32.59, 35.56, 39.95, 53.84, 56.20, 57.95,
    59.29, 59.77, 59.92, 61.19, 61.96, 62.50, 63.37, 63.48, 63.48, 63.66, 63.85, 64.08, 64.76, 64.80, 64.81, 64.81,
)  # fmt: skip


@dataclass(frozen=True)
class Scaled:
    """What one scaling makes of a model.

    Attributes:
        name: What the field calls it.
        explanation: What becomes of every pair, with the trained and the effective length.
        first_unseen: First position that turns a pair to an angle that training never showed, in tokens; ``None``
            where there is none up to the length to be read.
    """

    name: str
    explanation: Explanation
    first_unseen: int | None


def scaled_models(head_dim: int, base: float, trained: int, target: int) -> list[Scaled]:
    """Return what every scaling makes of a rotary model.

    LongRoPE's factors are searched for each model. Those of Phi-3-mini stand for them, spread over the pairs that
    there are.

    Args:
        head_dim: Features of a head, all rotated.
        base: Base of the frequencies.
        trained: Length trained, in tokens.
        target: Length to be read, in tokens.

    Raises:
        ConfigError: A value is out of range, or they contradict each other.
    """
    places = np.linspace(0, len(LONG_FACTORS) - 1, head_dim // 2)
    factors = tuple(np.interp(places, range(len(LONG_FACTORS)), LONG_FACTORS).tolist())
    lengths: dict[str, Any] = {"original_length": trained, "target_length": target}
    scalings: dict[str, FrequencyScaling] = {
        "none": Unscaled(),
        "PI": Linear(**lengths),
        "NTK": NTKAware(**lengths),
        "NTK-by-parts": NTKByParts(**lengths),
        "YaRN": YaRN(**lengths),
        "LongRoPE": LongRoPE(**lengths, short_factors=(1.0,) * len(factors), long_factors=factors),
        "Llama 3": Llama3(**lengths),
    }
    models = []
    for name, scaling in scalings.items():
        # The length that an unscaled model is declared for is the one that it was trained for.
        declared = trained if isinstance(scaling, Unscaled) else None
        config = RotaryConfig(head_dim=head_dim, base=base, scaling=scaling, max_length=declared)
        explanation = config.explain(length=target)
        models.append(Scaled(name, explanation, first_unseen_position(explanation)))
    return models


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


def spectra() -> list[Spectrum]:
    """Return what each scaling makes of the wavelengths of Phi-3-mini, extended from 4,096 to 131,072 tokens."""
    return [
        Spectrum(
            name=model.name,
            wavelengths=np.array([pair.wavelength for pair in model.explanation.pairs]),
            scaled=np.array([pair.scaled_wavelength for pair in model.explanation.pairs]),
            fates=[pair.fate for pair in model.explanation.pairs],
            first_unseen=model.first_unseen,
            attention_scale=model.explanation.attention_scale,
        )
        for model in scaled_models(HEAD_DIM, BASE, TRAINED, TARGET)
    ]
