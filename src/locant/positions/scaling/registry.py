"""Every frequency scaling by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.scaling.frequency import FrequencyScaling
from locant.positions.scaling.linear import Linear, Unscaled
from locant.positions.scaling.llama3 import Llama3
from locant.positions.scaling.longrope import LongRoPE
from locant.positions.scaling.ntk import DynamicNTK, NTKAware
from locant.positions.scaling.proportional import Proportional
from locant.positions.scaling.yarn import NTKByParts, YaRN

SCALINGS: dict[str, type[FrequencyScaling]] = {
    scaling.name: scaling
    for scaling in (Unscaled, Linear, NTKAware, DynamicNTK, NTKByParts, YaRN, LongRoPE, Llama3, Proportional)
}


def scaling_from_options(name: str, options: Mapping[str, Any] | None = None) -> FrequencyScaling:
    """Make a scaling from plain data, as a configuration file holds it.

    Args:
        name: A key of :data:`SCALINGS`.
        options: The scaling's fields.

    Raises:
        ConfigError: The name or an option is unknown (the nearest known one is named), an option is missing, or values
            are out of range or contradict each other.

    Example:
        >>> scaling_from_options("linear", {"factor": 4, "original_length": 2048}).as_options()
        {'factor': 4, 'target_length': 8192, 'original_length': 2048}
    """
    if name not in SCALINGS:
        raise ConfigError(f"Unknown frequency scaling '{name}'.{nearest(name, SCALINGS)} Known: {', '.join(SCALINGS)}.")
    options = options or {}
    known = {field.name: field for field in fields(SCALINGS[name])}
    for option in options:
        if option not in known:
            said = f"Known options: {', '.join(known)}." if known else "It has no options."
            raise ConfigError(f"The scaling '{name}' has no option '{option}'.{nearest(option, known)} {said}")
    for option, field in known.items():
        if field.default is MISSING and option not in options:
            raise ConfigError(f"The scaling '{name}' needs the option '{option}'.")
    return SCALINGS[name](**options)
