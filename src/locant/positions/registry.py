"""Every positional scheme by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.learned import Learned
from locant.positions.none import NoPositions
from locant.positions.scheme import AttentionShape, PositionScheme
from locant.positions.sinusoidal import Sinusoidal

SCHEMES: dict[str, type[PositionScheme]] = {
    "none": NoPositions,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
}


def option_names(scheme: type[PositionScheme]) -> list[str]:
    """Return the names of a scheme's options: the keyword-only arguments of its constructor."""
    parameters = inspect.signature(scheme.__init__).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]


def _check_type(scheme: str, option: str, value: Any, default: Any) -> None:
    """Raise ConfigError where a value cannot be meant for an option with this default.

    Configurations arrive as plain data: YAML reads 1e4 as text, for example.
    """
    expected = (int, float) if isinstance(default, float) else type(default)
    if not isinstance(value, expected) or (isinstance(value, bool) and not isinstance(default, bool)):
        what = {float: "a number", int: "a whole number", str: "text"}.get(type(default), type(default).__name__)
        raise ConfigError(
            f"The option '{option}' of the scheme '{scheme}' must be {what}, like {default}; got {value!r}."
        )


def build_scheme(name: str, shape: AttentionShape, options: Mapping[str, Any] | None = None) -> PositionScheme:
    """Build a positional scheme by name.

    Args:
        name: A key of :data:`SCHEMES`.
        shape: Dimensions of the model.
        options: The scheme's options.

    Raises:
        ConfigError: The name or an option is unknown (the nearest known one is named), or a value is out of range.
    """
    if name not in SCHEMES:
        raise ConfigError(f"Unknown positional scheme '{name}'.{nearest(name, SCHEMES)} Known: {', '.join(SCHEMES)}.")
    scheme = SCHEMES[name]
    known = option_names(scheme)
    parameters = inspect.signature(scheme.__init__).parameters
    for option, value in (options or {}).items():
        if option not in known:
            said = f"Known options: {', '.join(known)}." if known else "It has no options."
            raise ConfigError(f"The scheme '{name}' has no option '{option}'.{nearest(option, known)} {said}")
        if parameters[option].default not in (None, inspect.Parameter.empty):
            _check_type(name, option, value, parameters[option].default)
    return scheme.for_model(shape, **(options or {}))
