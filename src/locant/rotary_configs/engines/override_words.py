"""The names of entries in vLLM's ``--hf-overrides``, and findings that say that an entry stands there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

OPTION = "--hf-overrides"


def names_in(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of all entries of overrides, nested ones among them."""
    for name, value in given.items():
        yield name
        if isinstance(value, Mapping):
            yield from names_in(value)


def placed(message: str, names: frozenset[str]) -> str:
    """Return a message that says of entries that an override has that they stand there.

    Example:
        >>> placed("'rope_paramters' in config.json is not known.", frozenset(["rope_paramters"]))
        "'rope_paramters' in --hf-overrides is not known."
    """

    def there(found: re.Match[str]) -> str:
        return found[0].replace("config.json", OPTION) if found[1] in names else found[0]

    return re.sub(r"(\w+)'? (?:is \S+ )?(?:stands )?(?:in|of) config\.json", there, message)
