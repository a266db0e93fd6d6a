"""Threads that do pieces of work side by side, and stay from call to call."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeAlias, TypeVar

Result = TypeVar("Result")
Piece: TypeAlias = Callable[[Callable[[], bool]], Result]
"""A piece of work. It is given what says whether its result is still wanted: a long one asks, and returns if not."""


class SideBySide:
    """Threads for pieces of work that need not wait for each other; any number of callers may share them.

    There are twice as many as cores. Where something else keeps a core busy, a system that gives each program its turn
    may let as many threads as cores share the other ones and leave that one alone; of twice as many some share it too.
    Two quiet cores were no slower with them (docs/results/speed.md).
    """

    def __init__(self) -> None:
        self._made: tuple[tuple[int, int], ThreadPoolExecutor] | None = None

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
        executor, pile = self._executor(2 * threads), _Pile(work)
        workers: list[Future[None]] = []
        try:
            with suppress(RuntimeError):  # where the program ends, or the system gives no thread, the caller does all
                for _ in range(min(len(work), 2 * threads) - 1):
                    workers.append(executor.submit(pile.work))
            # The caller has a core already; for another thread one must be found, which at once may be its own.
            left = len(work)
            while pile.pieces:
                pile.take()
                for _ in range(pile.done.qsize()):
                    yield pile.done.get().result()
                    left -= 1
            for _ in range(left):
                yield pile.done.get().result()
        finally:
            pile.abandon()
            wait([worker for worker in workers if not worker.cancel()])

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

    def take(self) -> None:
        """Do a piece, unless there are no more."""
        try:
            piece = self.pieces.popleft()
        except IndexError:
            return
        future: Future[Result] = Future()
        try:
            future.set_result(piece(lambda: self.wanted))
        except BaseException as error:  # for whoever waits for it
            future.set_exception(error)
        self.done.put(future)
        if future.exception():  # only now: what ends because of it comes after it
            self.abandon()

    def abandon(self) -> None:
        """Let no more pieces begin, and those end that ask."""
        self.wanted = False
        self.pieces.clear()

    def work(self) -> None:
        """Do pieces until there are no more."""
        while self.pieces:
            self.take()
