"""Threads for what takes its time besides the models: turns, limits, failures, and work that nobody waits for."""

from __future__ import annotations

import asyncio
import threading

import pytest

from locant.server.errors import RequestError
from locant.server.scheduler import TextThreads

PATIENCE = 60  # seconds that anything here may take on a busy machine


class Fixture:
    """One thread that is busy until it is told to go on."""

    def __init__(self, **limits):
        self.threads = TextThreads(1, **{"waiting_requests": 8, "waiting_seconds": 60.0, **limits})
        self.gate, self.done = threading.Event(), []

    def busy(self):
        return self.ask("busy", lambda: self.gate.wait(PATIENCE))

    def ask(self, client, work, **options):
        return asyncio.ensure_future(self.threads.run(client, work, **options))

    def note(self, client, name, **options):
        return self.ask(client, lambda: self.done.append(name), **options)


def test_clients_take_turns():
    async def run():
        found = Fixture()
        waiting = [found.busy()]
        waiting += [found.note("a", f"a{number}") for number in range(4)]
        waiting += [found.note("b", "b0"), found.note("b", "again", resumed=True)]
        await asyncio.sleep(0)
        found.gate.set()
        await asyncio.gather(*waiting)
        found.threads.end()
        return found.done

    assert asyncio.run(run()) == ["a0", "again", "a1", "b0", "a2", "a3"]


def test_too_much_is_refused_but_not_what_has_been_taken():
    async def run():
        found = Fixture()
        waiting = [found.busy()]
        waiting += [found.note("a", number) for number in range(6)]
        await asyncio.sleep(0)
        with pytest.raises(RequestError):  # three quarters
            await found.threads.run("a", lambda: None)
        waiting += [found.note("a", 6, resumed=True), found.note("b", 7)]
        await asyncio.sleep(0)
        with pytest.raises(RequestError):
            await found.threads.run("c", lambda: None)
        found.gate.set()
        await asyncio.gather(*waiting)
        found.threads.end()
        return set(found.done)

    assert asyncio.run(run()) == set(range(8))


def test_what_has_waited_too_long_is_refused_while_all_threads_are_busy():
    async def run():
        found = Fixture(waiting_seconds=0.05)
        busy, late = found.busy(), found.note("a", 1)
        with pytest.raises(RequestError):
            await asyncio.wait_for(late, PATIENCE)
        assert not busy.done()
        found.gate.set()
        await busy
        found.threads.end()
        return found.done

    assert asyncio.run(run()) == []


def test_one_client_never_has_all_threads():
    async def run():
        threads, gate = TextThreads(2, waiting_requests=8, waiting_seconds=60.0), threading.Event()
        greedy = [asyncio.ensure_future(threads.run("a", lambda: gate.wait(PATIENCE))) for _ in range(3)]
        await asyncio.sleep(0)
        greedy[0].cancel()  # what has begun goes on, and counts
        assert await asyncio.wait_for(threads.run("b", lambda: 5), PATIENCE) == 5
        gate.set()
        await asyncio.wait(greedy)
        threads.end()

    asyncio.run(run())


def test_work_that_has_begun_keeps_its_thread_when_nobody_waits_for_it():
    async def run():
        found = Fixture()
        busy = found.busy()
        await asyncio.sleep(0.01)
        busy.cancel()
        other = found.note("b", 1)
        await asyncio.sleep(0.05)
        assert not found.done
        found.gate.set()
        await other
        found.threads.end()
        return found.done

    assert asyncio.run(run()) == [1]


def test_what_nobody_waits_for_does_not_begin():
    async def run():
        found = Fixture()
        busy, given_up, other = found.busy(), found.note("a", 1), found.note("b", 2)
        await asyncio.sleep(0)
        given_up.cancel()
        found.gate.set()
        await asyncio.gather(busy, other)
        await asyncio.wait([given_up])
        found.threads.end()
        return found.done

    assert asyncio.run(run()) == [2]
