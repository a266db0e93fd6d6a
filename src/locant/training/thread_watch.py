"""PyTorch's threads in a training on the CPU, fewer of them while something else keeps cores busy."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import torch

from locant.runtime import threads_are_fixed

_JUDGED = 0.5
"""Seconds of updates that are judged together."""

_SHORTEST, _LONGEST = 5.0, 60.0
"""Seconds until all threads are tried again, at first and at most."""


class ThreadWatch:
    """Says how many threads are worth their waiting for each other.

    An update that takes much longer than the processor time of the thread that calls has waited: something else keeps a
    core busy, and whoever had that core was waited for. There are then fewer threads for a while, after which all are
    tried again; while that does not help the while doubles.

    Args:
        threads: All that there are.

    Example:
        >>> watch = ThreadWatch(2)
        >>> watch.note(seconds=1.0, computed=0.9, now=100.0)
        2
        >>> watch.note(seconds=1.0, computed=0.3, now=101.0)
        1
        >>> watch.note(seconds=1.0, computed=1.0, now=106.0)
        2
    """

    def __init__(self, threads: int) -> None:
        self._all = self._now = threads
        self._seconds = self._computed = 0.0
        self._until, self._pause = 0.0, _SHORTEST

    def note(self, *, seconds: float, computed: float, now: float) -> int:
        """Return how many threads the next update should have.

        Args:
            seconds: How long an update was.
            computed: Processor time of the calling thread in it, in seconds.
            now: The time, in seconds from anywhere.
        """
        self._seconds += seconds
        self._computed += computed
        if self._seconds >= _JUDGED:
            waits = self._computed < 0.6 * self._seconds
            self._seconds = self._computed = 0.0
            if waits:
                self._now = max(1, self._now * 3 // 4)
                self._until = now + self._pause
                self._pause = min(2 * self._pause, _LONGEST)
            elif self._now == self._all:
                self._pause = _SHORTEST
        if self._now < self._all and now >= self._until:
            self._now = self._all
        return self._now


class WatchedThreads:
    """Watches the updates of a training, and sets PyTorch's number of threads; at the end it is as it was.

    It does so on the CPU alone, and only where nobody has asked for the same number at all times, by
    ``OMP_NUM_THREADS`` or by deterministic algorithms: the last bits of a sum depend on it.

    Args:
        device: Where the model is.
    """

    def __init__(self, device: torch.device) -> None:
        self._all = torch.get_num_threads()
        fixed = threads_are_fixed() or torch.are_deterministic_algorithms_enabled()
        self._watch = ThreadWatch(self._all) if device.type == "cpu" and self._all > 1 and not fixed else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._watch is not None:
            torch.set_num_threads(self._all)

    @contextmanager
    def update(self) -> Iterator[None]:
        """Watch what is done inside, an update."""
        if self._watch is None:
            yield
            return
        begun, before = time.perf_counter(), time.thread_time()
        yield
        now = time.perf_counter()
        threads = self._watch.note(seconds=now - begun, computed=time.thread_time() - before, now=now)
        if threads != torch.get_num_threads():
            torch.set_num_threads(threads)
