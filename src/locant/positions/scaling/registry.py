"""The registry of frequency scalings."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.scaling.frequency import REGISTERED, FrequencyScaling

_MODULES = (
    "locant.positions.scaling.linear",
    "locant.positions.scaling.ntk",
    "locant.positions.scaling.ntk_by_parts",
    "locant.positions.scaling.yarn",
    "locant.positions.scaling.longrope",
    "locant.positions.scaling.llama3",
    "locant.positions.scaling.proportional",
)


class _Scalings(Mapping[str, type[FrequencyScaling]]):
    """The registered scalings, Locant's own first; their modules are imported at the first question."""

    def __getitem__(self, name: str) -> type[FrequencyScaling]:
        _import_all()
        return REGISTERED[name]

    def __iter__(self) -> Iterator[str]:
        _import_all()
        places = {module: place for place, module in enumerate(_MODULES)}
        return iter(sorted(REGISTERED, key=lambda name: places.get(REGISTERED[name].__module__, len(places))))

    def __len__(self) -> int:
        _import_all()
        return len(REGISTERED)


@functools.cache
def _import_all() -> None:
    for module in _MODULES:
        import_module(module)


SCALINGS: Mapping[str, type[FrequencyScaling]] = _Scalings()
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
