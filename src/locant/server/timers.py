"""Limits of time that hardly ever run out: of the body of a request, of its answer, of the silence of its client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self
from weakref import WeakKeyDictionary

_TICK = 0.05  # seconds between two looks at the timers


class Timers:
    """Timers of an event loop that cost next to nothing unless they run out, up to a twentieth of a second late.

    A request has several, and hardly ever does one run out. All of them together are looked at some times a second,
    which takes less time than to hand each to the loop and to take it back. Those that run out before the next look are
    the loop's own.
    """

    def __init__(self) -> None:
        self._waiting: dict[Timer, None] = {}
        self._looking = False

    def begin(self, at: float, call: Callable[[], object]) -> Timer:
        """Return a timer that calls something at a time of the event loop."""
        loop, timer = asyncio.get_running_loop(), Timer(at, call)
        if at <= loop.time() + _TICK:
            timer.own = loop.call_at(at, call)
            return timer
        self._waiting[timer] = None
        if not self._looking:
            self._looking = True
            loop.call_later(_TICK, self._look)
        return timer

    def end(self, timer: Timer) -> None:
        """Let a timer not run out any more."""
        self._waiting.pop(timer, None)
        if timer.own:
            timer.own.cancel()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for timer in [timer for timer in self._waiting if timer.at <= now]:
            del self._waiting[timer]
            timer.own = loop.call_soon(timer.call)
        self._looking = bool(self._waiting)
        if self._looking:
            loop.call_later(_TICK, self._look)


class Timer:
    """A call that is to come; made by :meth:`Timers.begin`.

    Attributes:
        at: When, in the time of the event loop.
        call: What is called.
        own: What the loop holds of it, once it does.
    """

    __slots__ = ("at", "call", "own")

    def __init__(self, at: float, call: Callable[[], object]) -> None:
        self.at, self.call = at, call
        self.own: asyncio.Handle | None = None


class Limit:
    """A block that is given up when its time is over; like ``asyncio.timeout_at``, but by :class:`Timers`.

    Args:
        at: When it is, in the time of the event loop.

    Raises:
        TimeoutError: It is over.
    """

    __slots__ = ("_at", "_over", "_requests", "_task", "_timer", "_timers")

    def __init__(self, at: float) -> None:
        self._at, self._over = at, False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task
        self._task, self._requests = task, task.cancelling()
        self._timers = timers()
        self._timer = self._timers.begin(self._at, self._give_up)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timers.end(self._timer)
        del self._timer  # which knows this block: neither would go before it is looked for circles
        # Who else has cancelled the task meanwhile wants more than the end of this block.
        if self._over and self._task.uncancel() <= self._requests and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def _give_up(self) -> None:
        self._over = True
        self._task.cancel()


_TIMERS: WeakKeyDictionary[asyncio.AbstractEventLoop, Timers] = WeakKeyDictionary()


def timers() -> Timers:
    """Return the timers of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _TIMERS.get(loop)
    if found is None:
        found = _TIMERS[loop] = Timers()
    return found
