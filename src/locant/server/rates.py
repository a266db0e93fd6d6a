"""Numbers of requests in a minute, counted for all processes of a server together.

Counts are kept in a table of fixed size, so that nobody fills the memory with addresses. The table is anonymous shared
memory: processes forked after it was made count in the same one. Two processes that count for one client at the same
moment may lose one of the two, which makes a limit wrong by one and nothing else.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import secrets
import time
from typing import Any

import numpy as np

_SLOTS = 1 << 15
_PROBED = 8
_MINUTE = 60.0

# What a slot holds: the mark of a client, its present minute, the number of requests in it and in the one before.
_SLOT = np.dtype([("mark", np.uint64), ("minute", np.int64), ("count", np.int64), ("before", np.int64)])


class Rates:
    """Counts events of clients by the minute.

    The last sixty seconds are what has come in this minute and the share of the one before that they reach into.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SLOTS * _SLOT.itemsize)
        self._table: Any = np.frombuffer(self._memory, dtype=_SLOT)
        self._secret = secrets.token_bytes(16)  # nobody can choose an address that falls upon another's slot

    def count(self, client: str, limit: int, *, now: float | None = None) -> int:
        """Count an event unless that would exceed the limit.

        Args:
            client: Who causes it.
            limit: Most in sixty seconds.
            now: Seconds since the epoch; by default those of the clock.

        Returns:
            0 where it was counted, otherwise the seconds after which one more is allowed.
        """
        now = time.time() if now is None else now
        slot = self._slot(client, now)
        wait = self._wait(slot, limit, now)
        if not wait:
            slot["count"] += 1
        return wait

    def is_over(self, client: str, limit: int, *, now: float | None = None) -> int:
        """Return what :meth:`count` would, and count nothing."""
        now = time.time() if now is None else now
        return self._wait(self._slot(client, now), limit, now)

    def _wait(self, slot: Any, limit: int, now: float) -> int:
        passed = now % _MINUTE
        count, before = int(slot["count"]), int(slot["before"])
        if count + before * (1 - passed / _MINUTE) + 1 <= limit:
            return 0
        if count + 1 <= limit and before:
            # In this minute, when enough of the one before is gone.
            reached = _MINUTE * (1 - (limit - count - 1) / before)
        else:
            # In the next one, of which this is the one before.
            reached = _MINUTE + _MINUTE * max(0.0, 1 - (limit - 1) / max(count, 1))
        return max(1, math.ceil(reached - passed))

    def _slot(self, client: str, now: float) -> Any:
        """Return the slot of a client, brought up to the present minute."""
        digest = hashlib.blake2b(client.encode("utf-8", "surrogatepass"), key=self._secret, digest_size=16).digest()
        mark = np.uint64(int.from_bytes(digest[:8], "little") | 1)
        first = int.from_bytes(digest[8:], "little")
        places = [(first + step) % _SLOTS for step in range(_PROBED)]
        found = next((place for place in places if self._table["mark"][place] == mark), None)
        if found is None:
            # An empty one, or that of whoever has been away for longest.
            found = min(places, key=lambda place: int(self._table["minute"][place]))
            self._table[found] = (mark, 0, 0, 0)
        slot = self._table[found]
        minute = int(now // _MINUTE)
        if slot["minute"] != minute:
            slot["before"] = slot["count"] if slot["minute"] == minute - 1 else 0
            slot["count"], slot["minute"] = 0, minute
        return slot
