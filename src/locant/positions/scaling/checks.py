"""Checks of the numbers that frequency scalings take."""

from __future__ import annotations

import math
from typing import TypeGuard

from locant.errors import ConfigError

MOST_TOKENS = (1 << 63) - 1
"""Length of the longest text of which every position is a 64-bit integer."""

MOST_FEATURES = 1 << 16
"""Rotated features of the widest head that frequencies are computed for."""


def check_rotary_dim(dim: int) -> None:
    """Raise ConfigError unless ``dim`` features can be turned in pairs."""
    if not isinstance(dim, int) or dim < 2 or dim % 2:
        raise ConfigError(f"Rotary positions turn features in pairs, so their number must be even; got {dim}.")
    if dim > MOST_FEATURES:
        raise ConfigError(
            f"Rotary positions of {dim:g} features are more than any head has; {MOST_FEATURES} is the most."
        )


def check_base(base: float, *, above: float = 1) -> None:
    """Raise ConfigError unless ``base`` is a finite number above 1, or 0 where only the formula has to be defined."""
    if not is_number(base) or not base > above:
        raise ConfigError(f"The base of rotary positions must be a number above {above}, like 10000; got {base!r}.")


def is_number(value: object) -> TypeGuard[int | float]:
    """Tell whether a value is a finite number that a float can hold; True and False are not."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def check_number(scaling: str, field: str, value: float, *, minimum: float) -> None:
    """Raise ConfigError unless ``value`` is a finite number of at least ``minimum``."""
    if not is_number(value):
        raise ConfigError(f"{field} of the scaling '{scaling}' must be a number; got {value!r}.")
    if value < minimum:
        raise ConfigError(f"{field} of the scaling '{scaling}' must be at least {minimum:g}; got {value:g}.")


def check_positive(scaling: str, field: str, value: float) -> None:
    """Raise ConfigError unless ``value`` is a finite number above 0."""
    if not is_number(value) or not value > 0:
        raise ConfigError(f"{field} of the scaling '{scaling}' must be a number above 0; got {value!r}.")


def check_length(scaling: str, field: str, value: int) -> None:
    """Raise ConfigError unless ``value`` is a positive whole number of tokens."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{field} of the scaling '{scaling}' must be a positive whole number; got {value!r}.")
    if value > MOST_TOKENS:
        raise ConfigError(f"{field} of the scaling '{scaling}' is beyond all positions, which are 64-bit integers.")


def check_target(scaling: str, target_length: int, original_length: int) -> None:
    """Raise ConfigError where the target is shorter than what the model was trained for."""
    if target_length < original_length:
        raise ConfigError(
            f"The scaling '{scaling}' has target_length {target_length}, which is below original_length "
            f"{original_length}: a scaling extends the trained length."
        )


def missing_original_length(scaling: str, use: str) -> ConfigError:
    """Return the error for a scaling that is not told the trained length."""
    return ConfigError(
        f"The scaling '{scaling}' needs original_length, the length trained before the extension, {use}. Models state "
        "it as 'original_max_position_embeddings', in the 'rope_parameters' or 'rope_scaling' of config.json or next "
        "to it; where it is missing there, it is 'max_position_embeddings' of the model that was extended."
    )


def require_longer(length: int, target_length: int, does: str) -> None:
    """Raise ConfigError where a model is to be extended to what it reads already.

    Args:
        length: Length in tokens that it has.
        target_length: Length in tokens that it shall read.
        does: What it does with the first: "reads" or "was trained for".
    """
    if target_length <= length:
        raise ConfigError(f"The model {does} {length} tokens already; extending it to {target_length} makes no sense.")
