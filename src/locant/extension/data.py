"""An inspection as plain data, for programs."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from locant.extension.inspection import Inspection
from locant.positions.rotary.config import RotaryConfig


def as_data(inspection: Inspection) -> dict[str, Any]:
    """Return an inspection as JSON can say it.

    Lengths are in tokens, wavelengths in tokens a turn (``null`` for pairs that stand still), frequencies in radians a
    token.
    """
    reading = inspection.reading
    return {
        "path": str(inspection.path),
        "kind": inspection.kind,
        "model_type": inspection.model_type,
        "declared_length": inspection.declared_length,
        "layers": {} if reading is None else {layer: _layer(config) for layer, config in reading.configs.items()},
        "multimodal": {} if reading is None else reading.multimodal,
        "findings": [dataclasses.asdict(diagnosis) for diagnosis in inspection.diagnoses],
    }


def _layer(config: RotaryConfig) -> dict[str, Any]:
    assert config.rotary_dim is not None
    explanation = config.explain()
    return {
        "head_dim": config.head_dim,
        "rotary_dim": config.rotary_dim,
        "rotary_share": config.rotary_dim / config.head_dim,
        "layout": config.layout,
        "base": config.base,
        "scaling": {"name": config.scaling.name, **config.scaling.as_options()},
        "trained_length": explanation.trained_length,
        "effective_length": explanation.effective_length,
        "attention_scale": explanation.attention_scale,
        "attention_temperature": explanation.attention_temperature,
        "bands": [
            {
                "first_pair": band[0].index,
                "last_pair": band[-1].index,
                "fate": band[0].fate,
                "wavelengths": [band[0].wavelength, band[-1].wavelength],
                "scaled_wavelengths": [_finite(pair.scaled_wavelength) for pair in (band[0], band[-1])],
            }
            for band in explanation.bands
        ],
        "frequencies": [pair.frequency_after for pair in explanation.pairs],
        "incomplete_pairs": list(explanation.incomplete_pairs),
        "notes": list(explanation.notes),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
