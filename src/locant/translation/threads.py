"""Threads of translation: how many are of use, and pieces of work that several do side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from functools import lru_cache, partial
from threading import Event
from typing import TypeAlias, TypeVar

import torch

from locant.runtime import granted_cores, threads_are_fixed

Result = TypeVar("Result")
Piece: TypeAlias = Callable[[Callable[[], bool]], Result]
"""A piece of work. It is given what says whether its result is still wanted: a long one asks, and returns if not."""

_LOOK = 2.0  # seconds between two looks at what the system grants

if hasattr(os, "register_at_fork"):
    # Threads do not come along into a forked process, and PyTorch would wait for them for ever.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


@lru_cache(maxsize=1)
def _granted(look: int) -> int:
    """Return how many threads the system feeds by its cores and its quota; another ``look`` has it found out again."""
    return granted_cores()


def useful_threads(threads: int) -> int:
    """Return how many of that many threads the system feeds now, which may change while a process runs.

    It is looked up every other second. What the user has said by ``OMP_NUM_THREADS`` stays as it is.
    """
    if threads_are_fixed():
        return threads
    return min(threads, _granted(int(time.monotonic() / _LOOK)))


@lru_cache(maxsize=1)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Return threads that stay, of a process: a child of fork has none of its parent's."""
    return ThreadPoolExecutor(threads, "locant-translation")


def side_by_side(work: Sequence[Piece[Result]], threads: int) -> Iterator[Result]:
    """Run pieces of work in threads and yield their results in the order in which they finish.

    One alone is done by the caller. Where one fails, or the caller wants no more, those that have not begun never do.
    The threads stay from call to call, because to begin and end them takes a part of the time of a small batch.
    There are twice as many threads as cores: where something else keeps a core busy, a system that gives each
    program its turn may let as many threads as cores share the other ones and leave that one alone; of twice as many
    some share it too. Two quiet cores were no slower with them (docs/results/speed.md).
    """
    if threads == 1 or len(work) == 1:
        yield from (piece(lambda: True) for piece in work)
        return
    stopped = Event()

    def run(piece: Piece[Result]) -> Result:
        try:
            return piece(lambda: not stopped.is_set())
        except BaseException:
            stopped.set()
            raise

    futures: list[Future[Result]] = []
    try:
        for piece in work:
            futures.append(_pool(2 * threads, os.getpid()).submit(run, piece))
        for done in as_completed(futures):
            yield done.result()
    finally:
        stopped.set()
        wait([future for future in futures if not future.cancel()])
