"""The way of the works of a request to their ends: to the schedulers with what they ask for, and back to the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Self

from locant.errors import LocantError
from locant.server.scheduler import Scheduler
from locant.server.tickets import Ticket
from locant.server.works import Batch, Work, Works
from locant.translation.compiled import Outcome


class Delivery:
    """Carries what the threads of models find to the event loop, which wakes once for all that waits by then.

    Args:
        loop: The event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._told = False

    def put(self, arrive: Callable[[], None]) -> None:
        """Have something called in the loop; from any thread."""
        self._waiting.append(arrive)
        if not self._told:
            self._told = True
            with suppress(RuntimeError):  # the loop has ended
                self.loop.call_soon_threadsafe(self._arrive)

    def _arrive(self) -> None:
        self._told = False  # before the first is taken: what comes after the last tells the loop again
        while self._waiting:
            self._waiting.popleft()()


class Answers:
    """What comes of the sentences of a request, and where it is asked for.

    Args:
        schedulers: Of the models.
        client: Who asks.
        works: What the answers are for.
        delivery: Brings them.
    """

    def __init__(self, schedulers: Sequence[Scheduler], client: str, works: Works, delivery: Delivery) -> None:
        self._schedulers, self._client, self._works, self._delivery = schedulers, client, works, delivery
        self._tickets: list[tuple[Scheduler, Ticket]] = []
        # What has come while nobody waited for it: another thread may be at the works then.
        self._arrived: list[tuple[Batch, Sequence[tuple[int, Outcome]]]] = []
        self._waiting: asyncio.Future[None] | None = None
        self.left = 0

    def ask(self, batch: Batch, *, resumed: bool) -> None:
        """Submit sentences; ``resumed`` where the request has been taken already."""
        scheduler = self._schedulers[batch.route.number]

        def deliver(results: Sequence[tuple[int, Outcome]]) -> None:
            self._delivery.put(partial(self._arrive, batch, results))

        self._tickets.append((scheduler, scheduler.submit(self._client, batch.sentences, deliver, resumed=resumed)))
        self.left += len(batch.sentences)

    async def ready(self) -> None:
        """Wait until the works can go on; raises what went wrong with a sentence."""
        self._note()
        if not self._works.can_go_on:
            self._waiting = self._delivery.loop.create_future()
            await self._waiting

    def _arrive(self, batch: Batch, results: Sequence[tuple[int, Outcome]]) -> None:
        self._arrived.append((batch, results))
        if not self._waiting or self._waiting.done():
            return
        try:
            self._note()
        except Exception as error:  # whatever it is, it is this request's alone: others wait for the same call
            self._waiting.set_exception(error)
        else:
            if self._works.can_go_on:
                self._waiting.set_result(None)

    def _note(self) -> None:
        for batch, results in self._arrived:
            self.left -= len(results)
            for number, result in results:
                if isinstance(result, LocantError):
                    raise result
                self._works.note(batch, number, result)
        self._arrived.clear()

    def close(self) -> None:
        """Drop what has not come."""
        if self.left:
            for scheduler, ticket in self._tickets:
                scheduler.cancel(ticket)
        self._tickets.clear()  # which know this object: neither would go before it is looked for circles


class Progress:
    """The way of works to their ends; what has not come is dropped at the end of a block of it.

    Args:
        works: The works.
        answers: What comes for them.
        aside: Runs what takes its time in another thread.
        short: Whether to go on takes less time than that.
        resumed: Whether they are of a request that has been taken already.
    """

    def __init__(
        self,
        works: Works,
        answers: Answers,
        aside: Callable[..., Awaitable[Any]],
        *,
        short: bool,
        resumed: bool,
    ) -> None:
        self._works, self._answers, self._aside = works, answers, aside
        self._short, self._resumed = short, resumed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._answers.close()

    async def go_on(self) -> list[Work]:
        """Return the works that are finished next; none when all of them are."""
        works, answers = self._works, self._answers
        while works.can_go_on or answers.left:
            await answers.ready()
            finished, batches = works.go_on() if self._short else await self._aside(works.go_on)
            for batch in batches:
                answers.ask(batch, resumed=self._resumed)
            self._resumed = True
            if works.can_align:
                await self._aside(works.align)
            if finished:
                return finished
        return []
