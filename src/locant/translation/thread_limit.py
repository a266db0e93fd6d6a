"""The number of threads that are of use while the system grants more or fewer."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import torch

from locant.runtime import most_threads, threads_are_fixed, usable_cores

_LOOK = 2.0  # seconds between two looks at what the system grants

if hasattr(os, "register_at_fork"):
    # Threads do not come along into a forked process, and PyTorch would wait for them for ever.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


class ThreadLimit:
    """How many threads the system feeds, which may change while a process runs: by its cores and by its quota.

    A process that has as many threads as it was granted at first follows what it is granted, down and up. Where another
    number was chosen there are no more than that, whatever is granted. What the system grants is looked up every other
    second.

    Args:
        threads: That the process has at first, such as PyTorch's.
        system: Where the file system begins.
    """

    def __init__(self, threads: int, system: Path = Path("/")) -> None:
        self._system = system
        self._cores, self._quota = self._first = usable_cores(), most_threads(system)
        self._looked = time.monotonic()
        self._default = threads if threads == self._granted else None

    def of(self, threads: int) -> int:
        """Return the most threads of use.

        Args:
            threads: That the process has now.
        """
        if time.monotonic() - self._looked >= _LOOK:
            self._cores, self._quota = usable_cores(), most_threads(self._system)
            self._looked = time.monotonic()
        if threads_are_fixed():
            return threads
        if (self._cores, self._quota) != self._first and threads == self._default:
            return self._granted or threads
        # More threads than cores are the user's choice, unless there were more cores then.
        limit = self._quota if self._cores == self._first[0] else self._granted
        return min(threads, limit or threads)

    @property
    def _granted(self) -> int | None:
        return min((count for count in (self._cores, self._quota) if count), default=None)
