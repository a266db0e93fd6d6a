"""API keys, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping


class KeyRing:
    """The keys that open a server.

    Args:
        keys: Keys by name; without any, everybody may ask.
    """

    def __init__(self, keys: Mapping[str, str]) -> None:
        # Digests have one length, whatever that of the keys.
        self._digests = {name: _digest(key) for name, key in keys.items()}

    @property
    def required(self) -> bool:
        """Whether one must have a key."""
        return bool(self._digests)

    def name_of(self, key: str) -> str | None:
        """Return the name of a key, or ``None`` for a wrong one.

        The time that this takes says nothing about how much of a key is right, nor which one it resembles.
        """
        given, found = _digest(key), None
        for name, digest in self._digests.items():
            if hmac.compare_digest(given, digest):
                found = name
        return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
