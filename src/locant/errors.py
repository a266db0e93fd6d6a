"""Errors that speak to the user.

Every mistake a user can make ends in one of these, with one or two plain sentences: what was wrong, where, and
what would be right. The command line prints the sentences without a traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LocantError(Exception):
    """Something failed that the user can understand and act on (command-line exit code 1)."""

    exit_code = 1


class UsageError(LocantError):
    """The request itself cannot be right: a wrong option, key or value (command-line exit code 2)."""

    exit_code = 2


class ConfigError(UsageError, ValueError):
    """A configuration value is unknown, missing, out of range or contradicts another."""


class DataError(LocantError):
    """A file that was named (a text, a recipe, a glossary) is missing, or cannot be used as it is."""


class CheckpointError(LocantError):
    """A run folder, model folder or checkpoint is missing, occupied, incompatible or damaged."""


class TrainingError(LocantError):
    """Training had to stop, for instance because the loss was no longer a number."""


class StoppedError(LocantError):
    """Work ended because SIGTERM asked for it, and what was done is saved (command-line exit code 143)."""

    exit_code = 143


class MissingExtraError(UsageError):
    """A feature needs an optional dependency that is not installed."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the package '{package}', which is not installed. "
            f"Install it with: pip install 'locant[{extra}]'"
        )
        self._arguments = feature, package, extra

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str, str]]:
        return type(self), self._arguments  # so that it reaches another process


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the known word closest to ``word``, or an empty string."""
    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f" Did you mean '{matches[0]}'?" if matches else ""
