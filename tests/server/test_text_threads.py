"""Threads for what takes its time besides the models: turns, limits, failures, and work that nobody waits for."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from served import serving

from locant.server.threads import TextThreads
from locant.server.tickets import QueueFullError

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
        with pytest.raises(QueueFullError):  # three quarters
            await found.threads.run("a", lambda: None)
        waiting += [found.note("a", 6, resumed=True), found.note("b", 7)]
        await asyncio.sleep(0)
        with pytest.raises(QueueFullError):
            await found.threads.run("c", lambda: None)
        found.gate.set()
        await asyncio.gather(*waiting)
        found.threads.end()
        return set(found.done)

    assert asyncio.run(run()) == set(range(8))


def test_what_has_waited_too_long_is_refused():
    async def run():
        found = Fixture(waiting_seconds=0.05)
        busy, late = found.busy(), found.note("a", 1)
        await asyncio.sleep(0.2)
        found.gate.set()
        await busy
        with pytest.raises(QueueFullError):
            await late
        found.threads.end()
        return found.done

    assert asyncio.run(run()) == []


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


def test_failures_arrive():
    async def run():
        found = Fixture()
        with pytest.raises(KeyError):
            await found.threads.run("a", lambda: {}["missing"])
        result = await found.threads.run("a", lambda: 5)
        found.threads.end()
        return result

    assert asyncio.run(run()) == 5


@pytest.mark.parametrize("path", ["/detect", "/translate"])
def test_the_time_of_a_request_counts_for_its_language_too(path):
    with serving(limits={"request_seconds": 0.2}) as client:
        gate = threading.Event()
        state = client.app.state.locant
        state.identifier.identify = state.identifier.choose = lambda *arguments: gate.wait(PATIENCE)
        begun = time.monotonic()
        answer = client.post(path, json={"q": "alpha beta", "source": "auto", "target": "en"})
        waited = time.monotonic() - begun
        gate.set()
        assert answer.status_code == 504
        assert waited < PATIENCE / 2


def test_the_long_texts_of_one_client_do_not_hold_up_those_of_another():
    """All threads are busy, and one client has more waiting: the other one's turn comes next but one."""
    with serving() as client:
        state = client.app.state.locant
        threads, gate, done, seen = state.service.threads, threading.Event(), [], []
        state.identifier.identify = lambda text: seen.append(len(done)) or []

        async def fill():
            waiting = [asyncio.ensure_future(threads.run("other", lambda: gate.wait(PATIENCE))) for _ in range(2)]
            waiting += [asyncio.ensure_future(threads.run("other", lambda: done.append(1))) for _ in range(50)]
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_later(0.5, gate.set)
            return waiting

        client.portal.call(fill)
        assert client.post("/detect", json={"q": "Ein Mann reitet auf einem Pferd."}).status_code == 200
        assert seen[0] < 5
