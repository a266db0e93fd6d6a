"""Translates the sentences of all requests together: a fair queue before each model, and the searches that it feeds.

Clients take turns of some sentences, and so do the requests of a client: a request of ten thousand sentences holds up
one of a single sentence by a turn, not by ten thousand. Sentences join a search when there is room and leave it when
they are finished, so that nobody waits for a batch to fill or to end (continuous batching).

A few sentences are in one search, whose steps have all threads of the kernels. Many are shared by several lanes, each a
thread with a search and a part of those threads of its own: nobody waits there for others, or for Python.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from locant.errors import LocantError
from locant.server import metrics
from locant.server.errors import RequestError, busy, closed
from locant.translation.compiled import Outcome, Searched
from locant.translation.continuous import ContinuousSearch

_LOG = logging.getLogger("locant.server")

_TURN = 16  # sentences after which another client comes, and another request of this one
_LEAST_OF_A_LANE = 8  # sentences; a thread for fewer is not worth it
_SHARE = 0.75  # of the queue that one client may fill


@dataclass(eq=False)
class Ticket:
    """The sentences of a request in a scheduler; made by :meth:`Scheduler.submit`.

    Attributes:
        client: Who asks.
        sentences: All of them.
        resumed: Whether it is of a request that has been taken before.
        outcomes: What becomes of each.
        taken: How many have joined a search.
        timer: Refuses it where none has in time.
    """

    client: str
    sentences: Sequence[Searched]
    resumed: bool = False
    outcomes: list[asyncio.Future[Outcome]] = field(default_factory=list)
    taken: int = 0
    timer: asyncio.TimerHandle | None = None

    @property
    def left(self) -> int:
        """Number of sentences that wait."""
        return len(self.sentences) - self.taken


class FairQueue:
    """Requests in the order of their turns; what has no room is refused.

    One thread at a time calls it.

    Args:
        most_requests: Most requests that wait; three quarters of them may be one client's.
        most_sentences: Most sentences that wait, likewise.

    Attributes:
        requests: Number of requests that wait.
        sentences: Number of sentences that wait.
    """

    def __init__(self, most_requests: int, most_sentences: int) -> None:
        self._most_requests, self._most_sentences = most_requests, most_sentences
        self._taken = 0  # sentences of the present turn
        self.requests = self.sentences = 0
        # Those whose turn comes next are first; of each client its requests, likewise.
        self._clients: dict[str, deque[Ticket]] = {}

    def require_room(self, client: str, sentences: int) -> None:
        """Raise RequestError where a new request has no room now (503), or would never have any (400)."""
        most = max(1, int(_SHARE * self._most_sentences))
        if sentences > most:
            sentence = f"The request has {sentences:,} sentences; at most {most:,} are taken. Ask for fewer at a time."
            raise RequestError(400, sentence, reason="sentences")
        own = self._clients.get(client, ())
        for present, of_client, more, limit in (
            (self.requests, len(own), 1, self._most_requests),
            (self.sentences, sum(ticket.left for ticket in own), sentences, self._most_sentences),
        ):
            if present + more > limit or (of_client and of_client + more > _SHARE * limit):
                raise busy()

    def add(self, request: Ticket) -> None:
        """Put a request in; one that goes on is before the others of its client."""
        queue = self._clients.setdefault(request.client, deque())
        if request.resumed:
            queue.appendleft(request)
        else:
            queue.append(request)
        self.requests += 1
        self.sentences += request.left

    def first(self) -> Ticket | None:
        """Return the request whose sentence comes next; ``None`` where none waits."""
        return next(iter(self._clients.values()))[0] if self._clients else None

    def take(self) -> None:
        """Note that a sentence of the request that comes next has had its turn; another one's may come."""
        client, queue = next(iter(self._clients.items()))
        request = queue[0]
        request.taken += 1
        self._taken += 1
        self.sentences -= 1
        if not request.left:
            queue.popleft()
            self.requests -= 1
        if self._taken == _TURN or not queue:
            self._taken = 0
            del self._clients[client]
            if queue:
                self._clients[client] = queue
                if request.left:
                    queue.rotate(-1)

    def remove(self, request: Ticket) -> bool:
        """Take a request out, and return whether it still waited."""
        queue = self._clients.get(request.client)
        if queue is None or request not in queue:
            return False
        queue.remove(request)
        if not queue:
            if request.client == next(iter(self._clients)):
                self._taken = 0
            del self._clients[request.client]
        self.requests -= 1
        self.sentences -= request.left
        return True


class _Lane:
    """A thread of a scheduler, with a search of its own.

    Attributes:
        active: The sentences in the search: their requests, and their numbers there.
        removals: Keys of sentences that are to leave the search.
    """

    def __init__(self) -> None:
        self.active: dict[int, tuple[Ticket, int]] = {}
        self.removals: list[int] = []


class Scheduler:
    """Translates the sentences of many requests with one engine, in threads of its own.

    Its public methods are called in one event loop.

    Args:
        make_search: Returns a search of the engine; called in each thread, again after a failure.
        waiting_requests: See :class:`FairQueue`.
        waiting_sentences: Likewise.
        waiting_seconds: Longest time until the first sentence of a request joins the search; then it is refused.
        lanes: Most searches beside each other.
        name: Of the model, for the metrics and the threads.
    """

    def __init__(
        self,
        make_search: Callable[[], ContinuousSearch],
        *,
        waiting_requests: int,
        waiting_sentences: int,
        waiting_seconds: float,
        lanes: int = 1,
        name: str,
    ) -> None:
        self._make_search, self._name, self._longest_wait = make_search, name, waiting_seconds
        self._waiting = metrics.WAITING_REQUESTS.labels(name), metrics.WAITING_SENTENCES.labels(name)
        self._batch = metrics.BATCH.labels(name)
        self._queue = FairQueue(waiting_requests, waiting_sentences)
        self._changed = threading.Condition()  # also the lock of all that is below
        self._lanes = [_Lane() for _ in range(lanes)]
        self._keys = itertools.count()
        self._loop: asyncio.AbstractEventLoop | None = None  # of those who ask
        self._ended = False
        self._threads = [
            threading.Thread(target=self._run, args=(lane,), name=f"model {name} {number}", daemon=True)
            for number, lane in enumerate(self._lanes, start=1)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, client: str, sentences: Sequence[Searched], *, resumed: bool = False) -> Ticket:
        """Put the sentences of a request into the queue.

        Args:
            client: Who asks; clients take turns.
            sentences: At least one.
            resumed: Whether a request asks for more that has been taken before: it is not refused for what waits, and
                comes before the client's others.

        Returns:
            The ticket, whose ``outcomes`` come; :meth:`release` ends it.

        Raises:
            RequestError: Too much waits, of all clients or of this one, or no requests are taken any more (503); that
                many sentences would never be taken (400).
        """
        self._loop = loop = asyncio.get_running_loop()
        with self._changed:
            if self._ended:
                raise closed()
            if not resumed:
                self._queue.require_room(client, len(sentences))
            ticket = Ticket(client, sentences, resumed, [loop.create_future() for _ in sentences])
            if not resumed:
                ticket.timer = loop.call_later(self._longest_wait, self._refuse_late, ticket)
            self._queue.add(ticket)
            self._changed.notify(max(0, self._needed() - self._busy()))
            return ticket

    def check_room(self, client: str) -> None:
        """Raise what :meth:`submit` would for a request of one sentence, before anything is done for it."""
        if self._ended:
            raise closed()
        if self._queue.requests:
            with self._changed:
                self._queue.require_room(client, 1)

    def release(self, ticket: Ticket) -> None:
        """Drop what is left of a request; nothing more comes."""
        if ticket.timer:
            ticket.timer.cancel()
            ticket.timer = None  # which knows the ticket
        if all(outcome.done() and not outcome.cancelled() for outcome in ticket.outcomes):
            return
        for outcome in ticket.outcomes:
            outcome.cancel()
        with self._changed:
            self._queue.remove(ticket)
            for lane in self._lanes:
                lane.removals += [key for key, (own, _) in lane.active.items() if own is ticket]

    def _refuse_late(self, ticket: Ticket) -> None:
        with self._changed:
            late = not ticket.taken and self._queue.remove(ticket)
        if late:
            _deliver([(outcome, busy()) for outcome in ticket.outcomes])

    def end(self, seconds: float = 10.0) -> None:
        """End the threads; what is not finished fails with RequestError (503)."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        latest = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, latest - time.monotonic()))

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is being translated."""
        with self._changed:
            return not self._present()

    def _present(self) -> int:
        """Return the number of sentences that wait or are being translated."""
        return self._queue.sentences + sum([len(lane.active) for lane in self._lanes])

    def _needed(self) -> int:
        """Return how many lanes there is enough to do for."""
        return max(1, min(len(self._lanes), self._present() // _LEAST_OF_A_LANE))

    def _busy(self) -> int:
        """Return how many lanes have sentences."""
        return sum([bool(lane.active) for lane in self._lanes])

    def _may_take(self, lane: _Lane) -> bool:
        """Return whether a sentence that waits may join a lane's search: each has its part."""
        needed = self._needed()
        if not self._queue.requests or not (lane.active or self._busy() < needed):
            return False
        return len(lane.active) * needed < self._present()

    def _run(self, lane: _Lane) -> None:
        search: ContinuousSearch | None = None
        while True:
            with self._changed:
                while not (lane.active or lane.removals or self._may_take(lane) or self._ended):
                    self._changed.wait()
                if self._ended:
                    break
                removed = [key for key in lane.removals if lane.active.pop(key, None)]
                lane.removals = []
            try:
                search = search or self._make_search()
                for key in removed:
                    search.remove(key)
                self._fill(lane, search)
                if lane.active:
                    self._step(lane, search)
            except Exception as error:
                _LOG.error("a search failed", extra={"error": type(error).__name__})
                search = None
                self._fail(lane, LocantError("The translation failed."))
        with self._changed:
            while ticket := self._queue.first():
                places = range(ticket.taken, len(ticket.outcomes))
                lane.active |= {next(self._keys): (ticket, place) for place in places}
                self._queue.remove(ticket)
        self._fail(lane, closed())

    def _fill(self, lane: _Lane, search: ContinuousSearch) -> None:
        """Add sentences to the search as long as there is room, clients and their requests in turns."""
        with self._changed:
            while self._may_take(lane):
                ticket = self._queue.first()
                assert ticket
                one = ticket.sentences[ticket.taken]
                if lane.active and not search.has_room(len(one.source)):
                    break
                key = next(self._keys)
                lane.active[key] = ticket, ticket.taken
                self._queue.take()
                search.add(key, one.source, one.max_length, one.prefix, one.settings)
            self._waiting[0].set(self._queue.requests)
            self._waiting[1].set(self._queue.sentences)

    def _step(self, lane: _Lane, search: ContinuousSearch) -> None:
        with self._changed:
            # Also those that will begin at once.
            sharing = max(self._needed(), self._busy())
            waiting = self._queue.sentences
        self._batch.observe(len(lane.active))
        found = search.step(sharing, waiting)
        if not found:
            return
        results: list[tuple[asyncio.Future[Outcome], Outcome]] = []
        source_tokens = target_tokens = 0
        with self._changed:
            for key, result in found:
                ticket, place = lane.active.pop(key)
                source_tokens += len(ticket.sentences[place].source)
                if not isinstance(result, LocantError):
                    target_tokens += len(result[0].tokens) + 1
                results.append((ticket.outcomes[place], result))
        metrics.SENTENCES.labels(self._name).inc(len(found))
        metrics.SOURCE_TOKENS.labels(self._name).inc(source_tokens)
        metrics.TARGET_TOKENS.labels(self._name).inc(target_tokens)
        self._send(results)

    def _fail(self, lane: _Lane, error: LocantError) -> None:
        """Let all sentences of a lane fail."""
        with self._changed:
            active, lane.active = lane.active, {}
        self._send([(ticket.outcomes[place], error) for ticket, place in active.values()])

    def _send(self, results: Sequence[tuple[asyncio.Future[Outcome], Outcome]]) -> None:
        """Have results delivered in the event loop, all in one turn of it."""
        if results and self._loop:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(_deliver, results)


def _deliver(results: Sequence[tuple[asyncio.Future[Outcome], Outcome]]) -> None:
    for outcome, result in results:
        if not outcome.done():
            outcome.set_result(result)
