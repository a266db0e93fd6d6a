"""Threads for what takes its time besides the models: turns, limits, failures, and work that nobody waits for."""

from __future__ import annotations

import asyncio
import threading
from random import Random

import pytest

from locant.server.errors import RequestError
from locant.server.scheduler import TextThreads

PATIENCE = 60  # seconds that anything here may take on a busy machine


def in_loop(test):
    """A test that is a coroutine."""
    return lambda: asyncio.run(test())


class Busy:
    """Threads of which one is busy until it is told to go on."""

    def __init__(self, threads=1, **limits):
        self.threads = TextThreads(threads, **{"waiting_requests": 8, "waiting_seconds": 60.0, **limits})
        self.gate, self.done, self.asked = threading.Event(), [], []
        self.busy = self.ask("busy", lambda: self.gate.wait(PATIENCE))

    def ask(self, client, work, **options):
        self.asked.append(asyncio.ensure_future(self.threads.run(client, work, **options)))
        return self.asked[-1]

    def note(self, client, name, **options):
        return self.ask(client, lambda: self.done.append(name), **options)

    async def finish(self):
        """Let everything come to its end, and return what was done."""
        await asyncio.sleep(0)
        self.gate.set()
        await asyncio.wait(self.asked)
        self.threads.end()
        return self.done


@in_loop
async def test_clients_take_turns():
    found = Busy()
    for number in range(4):
        found.note("a", f"a{number}")
    found.note("b", "b0")
    found.note("b", "again", resumed=True)
    assert await found.finish() == ["a0", "again", "a1", "b0", "a2", "a3"]


@in_loop
async def test_too_much_is_refused_but_not_what_has_been_taken():
    found = Busy()
    for number in range(6):
        found.note("a", number)
    await asyncio.sleep(0)
    with pytest.raises(RequestError):  # three quarters
        await found.threads.run("a", lambda: None)
    found.note("a", 6, resumed=True)
    found.note("b", 7)
    await asyncio.sleep(0)
    with pytest.raises(RequestError) as refused:
        await found.threads.run("c", lambda: None)
    assert (refused.value.status, refused.value.retry_after) == (503, 1)
    assert set(await found.finish()) == set(range(8))


@in_loop
async def test_what_has_waited_too_long_is_refused_while_all_threads_are_busy():
    found = Busy(waiting_seconds=0.05)
    with pytest.raises(RequestError):
        await asyncio.wait_for(found.note("a", 1), PATIENCE)
    assert not found.busy.done()
    assert await found.finish() == []


@in_loop
async def test_one_client_never_has_all_threads():
    found = Busy(threads=2)
    found.ask("busy", lambda: found.gate.wait(PATIENCE))
    await asyncio.sleep(0)
    found.busy.cancel()  # what has begun goes on, and counts
    assert await asyncio.wait_for(found.ask("b", lambda: 5), PATIENCE) == 5
    await found.finish()


@in_loop
async def test_work_that_has_begun_keeps_its_thread_when_nobody_waits_for_it():
    found, begun = Busy(), threading.Event()
    found.gate.set()
    await found.busy
    found.gate.clear()
    work = found.ask("busy", lambda: begun.set() or found.gate.wait(PATIENCE))
    await asyncio.to_thread(begun.wait, PATIENCE)
    work.cancel()
    found.note("b", 1)
    await asyncio.wait([work])
    assert not found.done
    assert await found.finish() == [1]


@in_loop
async def test_what_nobody_waits_for_does_not_begin_and_a_failure_is_told():
    found = Busy()
    given_up = found.note("a", 1)
    found.note("b", 2)
    broken = found.ask("c", lambda: 1 // 0)
    await asyncio.sleep(0)
    given_up.cancel()
    assert await found.finish() == [2]
    assert isinstance(broken.exception(), ZeroDivisionError)


@in_loop
async def test_threads_are_free_again_whatever_is_given_up_when():
    found, random = Busy(threads=2, waiting_requests=9_000), Random(0)
    found.gate.set()
    for _ in range(2_000):
        found.ask(random.choice("abc"), lambda: None, resumed=random.random() < 0.3)
        if random.random() < 0.4:
            random.choice(found.asked[-8:]).cancel()
        if random.random() < 0.7:
            await asyncio.sleep(0)
        if random.random() < 0.05:
            await asyncio.wait([random.choice(found.asked[-8:])], timeout=PATIENCE)
    _, pending = await asyncio.wait(found.asked, timeout=PATIENCE)
    assert not pending
    for client in "abc":
        assert await asyncio.wait_for(found.ask(client, lambda: 5), PATIENCE) == 5
