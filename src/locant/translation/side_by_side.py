"""Threads that do pieces of work side by side, and stay from call to call."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeAlias, TypeVar

Result = TypeVar("Result")
Piece: TypeAlias = Callable[[Callable[[], bool]], Result]
"""A piece of work. It is given what says whether its result is still wanted: a long one asks, and returns if not."""

# Of the processors' time that a call could have had, the least that it has on a quiet machine; and seconds below which
# that says nothing, because threads take a while to begin.
_QUIET, _JUDGED = 0.75, 0.003

# Seconds for which calls then have twice the threads, before as many as cores are tried again; they double, up to the
# longest, while those do not have enough. What twice as many had says nothing: beside a busy core it is as much.
_SHORTEST, _LONGEST = 0.05, 1.0


class SideBySide:
    """Threads for pieces of work that need not wait for each other; any number of callers may share them.

    Where something else keeps a core busy, a system that gives each program its turn may let all threads share the
    other cores and leave that one alone. So where a call had much less of the processors than it could have had, those
    of some time after it have twice the threads, and the busy core is shared too.
    """

    def __init__(self) -> None:
        self._made: tuple[tuple[int, int], ThreadPoolExecutor] | None = None
        self._crowded_until, self._pause = -math.inf, _SHORTEST

    def run(self, work: Sequence[Piece[Result]], threads: int) -> Iterator[Result]:
        """Yield what pieces of work return, in the order in which they are done.

        Where one fails, or the caller wants no more, those that have not begun never do. Threads that other callers
        keep busy are not waited for.

        Args:
            work: The pieces; one alone is done by the caller.
            threads: As many as there are cores for.
        """
        if threads == 1 or len(work) == 1:
            yield from (piece(lambda: True) for piece in work)
            return
        executor = self._executor(2 * threads)
        pile, begun = _Pile(work), time.perf_counter()
        crowded = begun < self._crowded_until
        others = min(len(work), 2 * threads if crowded else threads) - 1
        workers: list[Future[tuple[float, float]]] = []
        try:
            with suppress(RuntimeError):  # where the program ends, or the system gives no thread, the caller does all
                for _ in range(others):
                    workers.append(executor.submit(pile.work))
            # The caller has a core already; for another thread one must be found, which at once may be its own.
            spent, left = 0.0, len(work)
            while pile.pieces:
                spent += pile.take()
                for _ in range(pile.done.qsize()):
                    yield pile.done.get().result()
                    left -= 1
            ended = time.perf_counter()
            for _ in range(left):
                yield pile.done.get().result()
            came = [worker.result() for worker in workers if not worker.cancel()]
            if not crowded:
                self._judge([(spent, ended), *came], begun, min(len(work), threads))
        finally:
            pile.abandon()
            wait([worker for worker in workers if not worker.cancel()])

    def _judge(self, spent: list[tuple[float, float]], begun: float, threads: int) -> None:
        """Judge a call by the processors' time that each thread took, and when it ended."""
        latest = max(ended for _, ended in spent)
        taken = latest - begun
        if taken <= _JUDGED:
            return
        if sum(seconds for seconds, _ in spent) >= _QUIET * threads * taken:
            self._pause = _SHORTEST
            return
        self._crowded_until = latest + self._pause
        self._pause = min(2 * self._pause, _LONGEST)

    def _executor(self, threads: int) -> ThreadPoolExecutor:
        key = (os.getpid(), threads)  # a child of fork has none of its parent's threads
        made = self._made
        if made is None or made[0] != key:
            made = self._made = (key, ThreadPoolExecutor(threads, "locant-translation"))
        return made[1]


class _Pile(Generic[Result]):
    """Pieces of work, from which workers take one after the other."""

    def __init__(self, work: Sequence[Piece[Result]]) -> None:
        self.pieces, self.wanted = deque(work), True
        self.done: SimpleQueue[Future[Result]] = SimpleQueue()

    def take(self) -> float:
        """Do a piece, unless there are no more; returns the processor's time that it took."""
        try:
            piece = self.pieces.popleft()
        except IndexError:
            return 0.0
        begun = time.thread_time()
        future: Future[Result] = Future()
        try:
            future.set_result(piece(lambda: self.wanted))
        except BaseException as error:  # for whoever waits for it
            future.set_exception(error)
        self.done.put(future)
        if future.exception():  # only now: what ends because of it comes after it
            self.abandon()
        return time.thread_time() - begun

    def abandon(self) -> None:
        """Let no more pieces begin, and those end that ask."""
        self.wanted = False
        self.pieces.clear()

    def work(self) -> tuple[float, float]:
        """Do pieces until there are no more; returns the processor's time that they took, and when they ended."""
        spent = 0.0
        while self.pieces:
            spent += self.take()
        return spent, time.perf_counter()
