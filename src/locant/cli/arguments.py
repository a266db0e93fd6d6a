"""Values that several commands take: lengths in tokens, and lists separated by commas."""

from __future__ import annotations

import re
from collections.abc import Callable

from locant.errors import UsageError


def parse_length(text: str) -> int:
    """Return a length in tokens; ``8k`` is 8192.

    Raises:
        UsageError: It is none.
    """
    found = re.fullmatch(r"(\d{1,9})(k?)", text.strip().lower())
    if not found or int(found[1]) < 1:
        raise UsageError(f"'{text}' is no length in tokens. Write 8192 or 8k, for instance.")
    return int(found[1]) * (1024 if found[2] else 1)


def length_of(option: str) -> Callable[[str], int]:
    """Return :func:`parse_length` with messages that name an option."""

    def parse(text: str) -> int:
        try:
            return parse_length(text)
        except UsageError as error:
            raise UsageError(f"{option}: {error}") from None

    return parse


def parse_lengths(text: str) -> tuple[int, ...]:
    """Return lengths in tokens that commas separate, in increasing order, each once; ``2k,4k`` is ``(2048, 4096)``.

    Raises:
        UsageError: One of them is none.
    """
    return tuple(sorted({parse_length(part) for part in text.split(",")}))


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names that commas separate, in their order, each once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
