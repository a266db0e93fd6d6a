"""Limits of time that are looked at together."""

from __future__ import annotations

import asyncio

import pytest

from locant.server.timers import Limit, timers


async def waited(seconds: float, limit: float) -> float:
    """Wait within a limit and return how long that took; ``TimeoutError`` where it was over."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    with Limit(begun + limit):
        await asyncio.sleep(seconds)
    return loop.time() - begun


@pytest.mark.parametrize("limit", [-1.0, 0.0, 0.01, 0.06])
def test_what_takes_longer_is_given_up(limit: float) -> None:
    async def ask() -> None:
        task = asyncio.current_task()
        assert task
        with pytest.raises(TimeoutError):
            await waited(5, limit)
        assert not task.cancelling()

    asyncio.run(asyncio.wait_for(ask(), 1))


def test_what_is_done_in_time_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locant.server.timers._TICK", 0.5)  # a busy machine is in time

    async def ask() -> None:
        for limit in (0.45, 0.7):
            await waited(0.001, limit)
        await asyncio.sleep(1.3)  # in which the limits would run out

    asyncio.run(ask())


def test_who_is_cancelled_is_not_late() -> None:
    async def ask() -> None:
        task = asyncio.create_task(waited(5, 0.06))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(ask())


def test_a_limit_that_runs_out_when_the_work_is_done_gives_up_nothing_else() -> None:
    """The work ends after the look at the timers, in the same turn of the loop, and its task goes on."""

    async def ask() -> str:
        done = asyncio.get_running_loop().create_future()
        known = timers()
        with Limit(asyncio.get_running_loop().time() + 0.06):
            for timer in known._waiting:
                timer.at = 0.0
            known._look()
            done.set_result(None)
        await asyncio.sleep(0.01)
        return "on"

    assert asyncio.run(ask()) == "on"


def test_timers_run_out_in_their_time() -> None:
    async def ask() -> list[float]:
        loop, over = asyncio.get_running_loop(), []
        begun = loop.time()
        for seconds in (0.01, 0.07, 0.13):
            timers().begin(begun + seconds, lambda: over.append(loop.time() - begun))
        ended = timers().begin(begun + 0.08, lambda: over.append(-1.0))
        timers().end(ended)
        await asyncio.sleep(0.3)
        return over

    first, second, third = asyncio.run(ask())
    assert 0.01 <= first <= 0.07 <= second <= 0.13 <= third
