"""Checks of the numbers that frequency scalings take."""

from __future__ import annotations

import math
from typing import TypeGuard

from locant.errors import ConfigError

MOST_TOKENS = (1 << 63) - 1
"""Length of the longest text of which every position is a 64-bit integer."""

MOST_FEATURES = 1 << 16
"""Rotated features of the widest head that frequencies are computed for."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a finite number that a float can hold; True and False are not."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def check_rotary_dim(dim: int) -> None:
    """Raise ConfigError unless ``dim`` features can be turned in pairs."""
    if not isinstance(dim, int) or dim < 2 or dim % 2:
        raise ConfigError(f"Rotary positions turn features in pairs, so their number must be even; got {dim}.")
    if dim > MOST_FEATURES:
        raise ConfigError(f"Rotary positions of {dim:g} features: {MOST_FEATURES} is the most.")


def check_base(base: float) -> None:
    """Raise ConfigError unless ``base`` is a finite number above 1."""
    if not is_number(base) or not base > 1:
        raise ConfigError(f"The base of rotary positions must be a number above 1, like 10000; got {base!r}.")


def check_factor(scaling: str, factor: float) -> None:
    """Raise ConfigError unless ``factor`` is a finite number of at least 1."""
    if not is_number(factor) or factor < 1:
        raise ConfigError(f"factor of the scaling '{scaling}' must be a number of at least 1; got {factor!r}.")


def check_positive(scaling: str, field: str, value: float | None) -> None:
    """Raise ConfigError unless ``value`` is a finite number above 0, or ``None``."""
    if value is not None and (not is_number(value) or not value > 0):
        raise ConfigError(f"{field} of the scaling '{scaling}' must be a number above 0; got {value!r}.")


def check_length(scaling: str, field: str, value: int | None) -> None:
    """Raise ConfigError unless ``value`` is a positive whole number of tokens, or ``None``."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_TOKENS):
        raise ConfigError(f"{field} of the scaling '{scaling}' must be a positive whole number; got {value!r}.")


def check_original(scaling: str, original_length: int | None, target_length: int | None, use: str | None) -> None:
    """Raise ConfigError for a missing original length that has a ``use``, or a target that is shorter."""
    if use is not None and original_length is None:
        raise ConfigError(
            f"The scaling '{scaling}' needs original_length, the length trained before the extension, {use}. Models "
            "state it as 'original_max_position_embeddings'; where it is missing there, it is "
            "'max_position_embeddings' of the model that was extended."
        )
    if original_length is not None and target_length is not None and target_length < original_length:
        raise ConfigError(
            f"The scaling '{scaling}' has target_length {target_length}, which is below original_length "
            f"{original_length}: a scaling extends the trained length."
        )
