"""Threads for what takes its time besides the models: turns, failures, and work that nobody waits for."""

from __future__ import annotations

import asyncio
import threading
from random import Random

import pytest

from locant.server.translating import TextThreads

PATIENCE = 60  # seconds that anything here may take on a busy machine


class Busy:
    """Threads of which one client has one until it is told to go on."""

    def __init__(self):
        self.threads = TextThreads()
        self.gate, self.asked = threading.Event(), []
        self.busy = self.ask("busy", lambda: self.gate.wait(PATIENCE))

    def ask(self, client, work):
        self.asked.append(asyncio.ensure_future(self.threads.run(client, work)))
        return self.asked[-1]


def test_no_client_has_all_threads_also_when_it_goes_away():
    async def run():
        found, order = Busy(), []
        again = found.ask("busy", lambda: order.append("again"))
        await asyncio.sleep(0.05)
        found.busy.cancel()  # what has begun goes on, and counts
        assert await asyncio.wait_for(found.ask("b", lambda: order.append("b") or 5), PATIENCE) == 5
        found.gate.set()
        await asyncio.wait_for(again, PATIENCE)
        assert order == ["b", "again"]

    asyncio.run(run())


def test_a_failure_is_told():
    async def run():
        with pytest.raises(ZeroDivisionError):
            await TextThreads().run("a", lambda: 1 // 0)

    asyncio.run(run())


def test_threads_are_free_again_whatever_is_given_up_when():
    async def run():
        found, random = Busy(), Random(0)
        found.gate.set()
        for _ in range(2_000):
            found.ask(random.choice("abc"), lambda: None)
            if random.random() < 0.4:
                random.choice(found.asked[-8:]).cancel()
            if random.random() < 0.7:
                await asyncio.sleep(0)
        _, pending = await asyncio.wait(found.asked, timeout=PATIENCE)
        assert not pending
        for client in "abc":
            assert await asyncio.wait_for(found.ask(client, lambda: 5), PATIENCE) == 5

    asyncio.run(run())
