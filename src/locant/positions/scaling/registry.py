"""The registry of frequency scalings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import MappingProxyType
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.scaling import clipped, linear, llama3, longrope, ntk, proportional, yarn
from locant.positions.scaling.frequency import REGISTERED, FrequencyScaling

# In the order of every table: modules may have been imported, and so registered, in another one.
_ORDER = [module.__name__ for module in (linear, ntk, yarn, longrope, llama3, proportional, clipped)]
_OWN = {name: each for name, each in REGISTERED.items() if each.__module__ in _ORDER}
for _name in sorted(_OWN, key=lambda name: _ORDER.index(_OWN[name].__module__)):
    REGISTERED[_name] = REGISTERED.pop(_name)

SCALINGS: Mapping[str, type[FrequencyScaling]] = MappingProxyType(REGISTERED)
"""Every frequency scaling by name."""


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
