"""The time that a request has, and clients that do not wait for so long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import Request

from locant.server.reading import RequestError
from locant.server.state import state_of
from locant.server.timers import Limit, timers

_MOMENT = 0.5  # seconds, after which a client may have gone that has not been answered

Result = TypeVar("Result")


def deadline_of(request: Request) -> float:
    """Return when a request must have been answered, in the time of the event loop."""
    return float(request.scope["state"]["arrived"]) + state_of(request).settings.limits.request_seconds


def too_slow(seconds: float) -> RequestError:
    """Return what is said to a request whose time is over."""
    return RequestError(504, f"The translation took longer than {seconds:g} seconds and was given up.", reason="time")


async def in_time(request: Request, work: Awaitable[Result]) -> Result:
    """Return what comes of some work; when its time is over or the client goes away, give it up.

    Whether the client has gone is looked at after a moment, in which most work is done.
    """
    own, loop, known = asyncio.current_task(), asyncio.get_running_loop(), timers()
    assert own
    gone = False
    watching: asyncio.Task[None] | None = None

    async def watch() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        own.cancel()

    def begin() -> None:
        nonlocal watching
        watching = loop.create_task(watch())

    beginning = known.begin(loop.time() + _MOMENT, begin)
    try:
        with Limit(deadline_of(request)):
            return await work
    except TimeoutError:
        raise too_slow(state_of(request).settings.limits.request_seconds) from None
    except asyncio.CancelledError:
        if not gone:
            raise
        own.uncancel()
        raise RequestError(499, "The client has gone.", reason="gone") from None
    finally:
        known.end(beginning)
        if watching:
            watching.cancel()
