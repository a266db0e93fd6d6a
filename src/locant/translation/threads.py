"""Threads of translation: how many are of use, and pieces of work that several do side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import TypeAlias, TypeVar

import torch

from locant.runtime import most_threads, threads_are_fixed, usable_cores

Result = TypeVar("Result")
Piece: TypeAlias = Callable[[Callable[[], bool]], Result]
"""A piece of work. It is given what says whether its result is still wanted: a long one asks, and returns if not."""

_LOOK = 2.0  # seconds between two looks at what the system grants

if hasattr(os, "register_at_fork"):
    # Threads do not come along into a forked process, and PyTorch would wait for them for ever.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


class ThreadLimit:
    """How many threads the system feeds, which may change while a process runs: by its cores and by its quota.

    A process that has as many threads as it was granted at first follows what it is granted, down and up. Where another
    number was chosen there are no more than that, whatever is granted. What the system grants is looked up every other
    second.
    """

    def __init__(self, threads: int, system: Path = Path("/")) -> None:
        self._system = system
        self._cores, self._quota = self._first = usable_cores(), most_threads(system)
        self._looked = time.monotonic()
        self._default = threads if threads == self._granted else None

    def of(self, threads: int) -> int:
        """Return the most threads of use to a process that has so many now."""
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


def side_by_side(work: Sequence[Piece[Result]], threads: int) -> Iterator[Result]:
    """Run pieces of work in threads and yield their results in the order in which they finish.

    One alone is done by the caller. Where one fails, or the caller wants no more, those that have not begun never do.
    For so many cores there are twice as many threads: where something else keeps a core busy, a system that gives each
    program its turn may let as many threads as cores share the other ones and leave that one alone; of twice as many
    some share it too. Two quiet cores were no slower with them (docs/results/speed.md).
    """
    if threads == 1 or len(work) == 1:
        yield from (piece(lambda: True) for piece in work)
        return
    stopped = Event()
    wanted = lambda: not stopped.is_set()  # noqa: E731
    pool = ThreadPoolExecutor(min(len(work), 2 * threads), "locant-translation")
    futures = []
    try:
        with suppress(RuntimeError):  # where the program ends, or the system gives no thread, the caller does the rest
            for piece in work:
                futures.append(pool.submit(piece, wanted))
        for done in as_completed(futures):
            yield done.result()
        for piece in work[len(futures) :]:
            yield piece(wanted)
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)
