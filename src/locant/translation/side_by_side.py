"""Threads that do pieces of work side by side, and stay from call to call."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Generic, TypeVar

Result = TypeVar("Result")

# Of the processors' time that a call could have had, the least that it has on a quiet machine; and seconds below which
# that says nothing, because threads take a while to begin.
_QUIET, _JUDGED = 0.75, 0.003


class SideBySide:
    """Threads for pieces of work that need not wait for each other; any number of callers may share them.

    Where something else keeps a core busy, a system that gives each program its turn may let all threads share the
    other cores and leave that one alone. So where a call had much less of the processors than it could have had, the
    next ones have twice the threads, and the busy core is shared too.
    """

    def __init__(self) -> None:
        self._made: tuple[tuple[int, int], ThreadPoolExecutor] | None = None
        self._crowded = False

    def run(self, work: Sequence[Callable[[], Result]], threads: int) -> Iterator[Result]:
        """Yield what pieces of work return, in the order in which they are done.

        Where one fails, or the caller wants no more, those that have not begun never do.

        Args:
            work: The pieces; one alone is done by the caller.
            threads: As many as there are cores for.
        """
        if threads == 1 or len(work) == 1:
            yield from (piece() for piece in work)
            return
        executor = self._executor(2 * threads)
        pile, begun = _Pile(work), time.perf_counter()
        others = min(len(work), 2 * threads if self._crowded else threads) - 1
        workers = [executor.submit(pile.work) for _ in range(others)]
        try:
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
            self._judge([(spent, ended), *(worker.result() for worker in workers)], begun, min(len(work), threads))
        finally:
            pile.pieces.clear()
            wait(workers)

    def _judge(self, spent: list[tuple[float, float]], begun: float, threads: int) -> None:
        taken = max(ended for _, ended in spent) - begun
        if taken > _JUDGED:
            self._crowded = sum(seconds for seconds, _ in spent) < _QUIET * threads * taken

    def _executor(self, threads: int) -> ThreadPoolExecutor:
        key = (os.getpid(), threads)  # a child of fork has none of its parent's threads
        made = self._made
        if made is None or made[0] != key:
            made = self._made = (key, ThreadPoolExecutor(threads, "locant-translation"))
        return made[1]


class _Pile(Generic[Result]):
    """Pieces of work, from which workers take one after the other."""

    def __init__(self, work: Sequence[Callable[[], Result]]) -> None:
        self.pieces = deque(work)
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
            future.set_result(piece())
        except BaseException as error:  # for whoever waits for it
            future.set_exception(error)
        self.done.put(future)
        return time.thread_time() - begun

    def work(self) -> tuple[float, float]:
        """Do pieces until there are no more; returns the processor's time that they took, and when they ended."""
        spent = 0.0
        while self.pieces:
            spent += self.take()
        return spent, time.perf_counter()
