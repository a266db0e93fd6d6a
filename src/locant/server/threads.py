"""Threads for what takes its time besides the models: long texts are cut, documents read, languages identified."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from locant.server.request_queue import RequestQueue, Speed
from locant.server.tickets import Waiting


class _Job(Waiting):
    """A piece of work that waits for a thread.

    Attributes:
        work: What is done.
        found: What comes of it.
    """

    def __init__(self, client: str, work: Callable[[], Any], found: asyncio.Future[Any], *, resumed: bool) -> None:
        super().__init__(client, 1, resumed=resumed)
        self.work, self.found = work, found


class TextThreads:
    """Runs pieces of work in a few threads; clients take turns, and what would have to wait for too long is refused.

    All its methods are called in the event loop. Work that has begun goes on to its end, whoever still waits for it.

    Args:
        threads: How many there are.
        waiting_requests: Most pieces of work that wait; three quarters of them may be one client's.
        waiting_seconds: Longest time until one begins.
    """

    def __init__(self, threads: int, *, waiting_requests: int, waiting_seconds: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="texts")
        self._threads = self._free = threads
        self._speed = Speed()
        self._queue: RequestQueue[_Job] = RequestQueue(
            waiting_requests, waiting_requests, waiting_seconds, self._speed, time.monotonic(), turn=1
        )

    async def run(self, client: str, work: Callable[[], Any], *, resumed: bool = False) -> Any:
        """Return what some work returns, when a thread has done it.

        Args:
            client: For whom it is; clients take turns.
            work: Is done.
            resumed: Whether the request has been taken before: it is not refused, and comes before the client's others.

        Raises:
            QueueFullError: Too much waits, of all clients or of this one, or it would have to wait for too long.
        """
        if not resumed:
            now = time.monotonic()
            self._queue.require_room(client, 1, now)
            self._queue.patience.note(now, taken=True)
        job = _Job(client, work, asyncio.get_running_loop().create_future(), resumed=resumed)
        self._queue.add(job)
        self._begin()
        try:
            return await job.found
        finally:
            self._queue.remove(job)

    def _begin(self) -> None:
        """Let as much begin as there are threads, and refuse what will not in time."""
        for late in self._queue.remove_late(time.monotonic()):
            if not late.found.done():
                late.found.set_exception(self._queue.refusal())
        while self._free and self._queue.requests:
            job = self._queue.first
            self._queue.take()
            if not job.found.done():  # given up at this moment
                self._free -= 1
                self._pool.submit(self._work, job)

    def _work(self, job: _Job) -> None:
        """Do some work, in a thread, and tell the loop what has come of it."""
        begun, result, failure = time.monotonic(), None, None
        try:
            result = job.work()
        except Exception as error:
            failure = error
        with suppress(RuntimeError):  # the loop has ended
            job.found.get_loop().call_soon_threadsafe(
                self._arrive, job.found, result, failure, time.monotonic() - begun
            )

    def _arrive(self, found: asyncio.Future[Any], result: Any, failure: Exception | None, seconds: float) -> None:
        self._speed.note(1, seconds / self._threads)
        self._free += 1
        self._begin()
        if found.done():
            return
        if failure is None:
            found.set_result(result)
        else:
            found.set_exception(failure)

    def end(self) -> None:
        """Let nothing more begin."""
        self._pool.shutdown(wait=False, cancel_futures=True)
