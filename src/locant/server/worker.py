"""A process that answers requests: how it begins, drains, retires and ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette

from locant.server.protocol import bounded_protocol
from locant.server.settings import LimitSettings
from locant.server.state import State

_LOG = logging.getLogger("locant.server")

_KEEP_ALIVE = 5  # seconds for which a connection without a request stays open
_TICK = 0.1  # seconds between two looks at what is still going on
_GRACE = 5.0  # seconds beyond the longest request
_COLLECTED = 100_000  # objects more than before, at which it is looked for those that nobody needs
_TURN = 0.0005  # seconds for which one Python thread may keep another waiting


class Worker(uvicorn.Server):
    """Serves an application until it is told to end.

    * SIGTERM or SIGINT: requests that are here are finished, others are refused with 503, then the process ends; a
      second one ends it at once.
    * SIGUSR1: no more connections are taken; those that are open are served to their ends, then the process ends.

    Args:
        app: The application.
        state: What its routes share.
        lifeline: A file descriptor that is at its end when the parent has died, which counts as SIGTERM.
        ready: A file descriptor to which a byte is written when the first request can come.
    """

    def __init__(self, app: Starlette, state: State, *, lifeline: int, ready: int) -> None:
        limits = state.settings.limits
        super().__init__(
            uvicorn.Config(
                app,
                http=bounded_protocol(limits.head_bytes),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE,
            )
        )
        self._state, self._lifeline, self._ready = state, lifeline, ready
        self._tasks: list[asyncio.Task[None]] = []

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the loop's own handlers."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        # The thread of a model comes back from the kernels several times a step. Were it to wait for the interpreter as
        # long as Python lets it by default, 5 ms, requests that are refused would hold up those that are translated.
        sys.setswitchinterval(_TURN)
        # A request makes hundreds of objects and leaves none that only this finds: what hundreds of requests at a time
        # have must not count as garbage.
        gc.set_threshold(_COLLECTED)
        gc.freeze()  # what the application is made of stays to the end, so it need not look through that
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._terminate)
        loop.add_signal_handler(signal.SIGUSR1, self._retire)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        loop.add_reader(self._lifeline, self._orphaned)
        self._tasks.append(asyncio.create_task(close_silent(self, self._state.settings.limits)))
        await super().startup(sockets)
        if self.started:
            os.write(self._ready, b"1")
        os.close(self._ready)

    def _orphaned(self) -> None:
        asyncio.get_running_loop().remove_reader(self._lifeline)
        self._terminate()

    def _terminate(self) -> None:
        if self._state.draining:
            _LOG.warning("ended at once")
            os._exit(1)
        _LOG.info("draining", extra={"requests": self._state.requests})
        self._state.draining = True
        self._tasks.append(asyncio.create_task(self._end_when(lambda: not self._state.requests)))

    def _retire(self) -> None:
        if self._state.draining or self._state.retiring:
            return
        self._state.retiring = True
        for server in self.servers:
            server.close()
        self._tasks.append(asyncio.create_task(self._end_when(lambda: not self.server_state.connections)))

    async def _end_when(self, done: Any) -> None:
        latest = time.monotonic() + self._state.settings.limits.request_seconds + _GRACE
        while not done() and time.monotonic() < latest:
            await asyncio.sleep(_TICK)
        self.should_exit = True


async def close_silent(server: uvicorn.Server, limits: LimitSettings) -> None:
    """Close connections on which the head of a request is late, or nobody reads the answer: none is held by silence.

    Where there are more connections than allowed, those that have been silent for longest are closed at once.
    """
    # Of each connection that waits: its last request, which another one replaces, and since when it has been the last.
    silent: dict[Any, tuple[Any, float]] = {}
    while True:
        await asyncio.sleep(min(1.0, limits.head_seconds / 2))
        now = time.monotonic()
        connections: set[Any] = set(server.server_state.connections)
        waiting = {each for each in connections if each.cycle is None or each.cycle.response_complete}
        before = silent
        silent = {}
        for each in waiting:
            last, since = before.get(each, (each.cycle, now))
            silent[each] = each.cycle, since if last is each.cycle else now
        for each in connections:
            if each.full_since is not None and now - each.full_since >= limits.head_seconds:
                each.transport.abort()
        excess = len(connections) - limits.connections
        for place, (connection, (_, since)) in enumerate(sorted(silent.items(), key=lambda each: each[1][1])):
            if (now - since >= limits.head_seconds or place < excess) and connection.transport is not None:
                connection.transport.abort()
