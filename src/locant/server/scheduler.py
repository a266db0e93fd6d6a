"""Translates the sentences of all requests together: a fair queue before each model, and searches that it feeds.

Clients take turns of some sentences, and so do the requests of a client: a request of ten thousand sentences holds up
one of a single sentence by a turn, not by ten thousand. Sentences join the search when there is room and leave it when
they are finished, so that nobody waits for a batch to fill or to end (continuous batching).

A few sentences are in one search, whose steps have all threads of the kernels. Many are shared by several lanes, each a
thread with a search and a part of those threads of its own: nobody waits there for others, or for Python.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from locant.errors import LocantError
from locant.models.decoding_settings import DecodingSettings
from locant.server.errors import RequestError, busy, closed
from locant.server.metrics import Metrics
from locant.translation.compiled import Outcome
from locant.translation.continuous import ContinuousSearch

_LOG = logging.getLogger("locant.server")

_TURN = 16  # sentences after which another client comes, and another request of this one
_LEAST_OF_A_LANE = 8  # sentences, for fewer of which no thread of their own is worth it
_LONGEST_RETRY = 60  # seconds that a refused client is asked to wait at most
_SHARE = 0.75  # of the queue that one client may fill
_KEPT = 0.99  # of what is known of the speed, at each step
_LEAST_KNOWN = 32.0  # sentences that must have been translated lately for their speed to say something
_SHORTEST_WAIT = 1.0  # seconds that requests may wait in a flood
# What patience is divided and multiplied by for each request that is refused or taken: where more than two are refused
# for one that is taken, it shrinks.
_REFUSED, _TAKEN = 1.05, 1.1

Found = TypeVar("Found")


class Sentence(NamedTuple):
    """A sentence for the search.

    Attributes:
        source: Ids as the encoder reads them, EOS included.
        max_length: Most target tokens, EOS included.
        prefix: Ids that the decoder reads before it writes.
        settings: How to search.
    """

    source: list[int]
    max_length: int
    prefix: Sequence[int]
    settings: DecodingSettings


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
    sentences: Sequence[Sentence]
    resumed: bool = False
    outcomes: list[asyncio.Future[Outcome]] = field(default_factory=list)
    taken: int = 0
    timer: asyncio.TimerHandle | None = None

    @property
    def left(self) -> int:
        """Number of sentences that wait."""
        return len(self.sentences) - self.taken


class FairQueue:
    """Requests in the order of their turns; what has no room or would wait for too long is refused.

    One thread at a time calls it.

    Args:
        most_requests: Most requests that wait; three quarters of them may be one client's.
        most_sentences: Most sentences that wait, likewise.
        most_seconds: Longest time until the first sentence of a request has its turn.
        turn: Sentences after which another client comes, and another request of this one.

    Attributes:
        requests: Number of requests that wait.
        sentences: Number of sentences that wait.
        patience: Seconds that a request may wait whose client has others there. It shrinks while many more requests are
            refused than taken: a queue that stays full lets nobody be translated sooner.
    """

    def __init__(self, most_requests: int, most_sentences: int, most_seconds: float, turn: int = _TURN) -> None:
        self._most_requests, self._most_sentences, self._most_seconds = most_requests, most_sentences, most_seconds
        self._turn, self._taken = turn, 0  # sentences of a turn, and how many of the present one have been taken
        self.requests = self.sentences = 0
        self.patience = most_seconds
        # Those whose turn comes next are first; of each client its requests, likewise.
        self._clients: dict[str, deque[Ticket]] = {}
        self._left: Counter[str] = Counter()  # of each client the sentences that wait
        self._done = self._seconds = 0.0  # sentences of late, and the time that they took

    def note_speed(self, sentences: int, seconds: float) -> None:
        """Note a step that finished this many sentences; its seconds are shared with steps beside it."""
        self._done = _KEPT * self._done + sentences
        self._seconds = _KEPT * self._seconds + seconds

    def check_size(self, sentences: int) -> None:
        """Raise RequestError (400) where that many sentences of one request would never be taken."""
        most = max(1, int(_SHARE * self._most_sentences))
        if sentences > most:
            sentence = f"The request has {sentences:,} sentences; at most {most:,} are taken. Ask for fewer at a time."
            raise RequestError(400, sentence, reason="sentences")

    def require_room(self, client: str, sentences: int) -> None:
        """Raise RequestError (503) where a new request of a client has no room, or would begin too late."""
        if not self.requests and sentences <= self._most_sentences:
            return
        own = self._clients.get(client, ())
        refused = False
        for there, of_client, more, most in (
            (self.requests, len(own), 1, self._most_requests),
            (self.sentences, self._left[client], sentences, self._most_sentences),
        ):
            refused |= there + more > most or bool(of_client and of_client + more > _SHARE * most)
        # A client that has nothing there has no part in a flood.
        longest = self.patience if own else self._most_seconds
        speed = self._seconds / self._done if self._done >= _LEAST_KNOWN else 0.0
        if not refused and self.sentences * speed > longest:  # or all would begin soon enough
            before = sum(min(self._turn, request.left) for request in own)
            others = sum(min(left, before + self._turn) for name, left in self._left.items() if name != client)
            refused = speed * (before + others) > longest
        if refused:
            self.patience = max(min(_SHORTEST_WAIT, self._most_seconds), self.patience / _REFUSED)
            raise self.refusal()

    def refusal(self) -> RequestError:
        """Return what is said to a request that is refused for what waits."""
        seconds = self.sentences * self._seconds / self._done if self._done else 1.0
        return busy(max(1, min(_LONGEST_RETRY, math.ceil(seconds))))

    def add(self, request: Ticket) -> None:
        """Put a request in; one that goes on is before the others of its client."""
        queue = self._clients.setdefault(request.client, deque())
        if request.resumed:
            queue.appendleft(request)
        else:
            queue.append(request)
            self.patience = min(self._most_seconds, self.patience * _TAKEN)
        self.requests += 1
        self._count(request.client, request.left)

    def first(self) -> Ticket | None:
        """Return the request whose sentence comes next; ``None`` where none waits."""
        return next(iter(self._clients.values()))[0] if self._clients else None

    def take(self) -> None:
        """Note that a sentence of the request that comes next has had its turn; another one's may come."""
        client, queue = next(iter(self._clients.items()))
        request = queue[0]
        request.taken += 1
        self._taken += 1
        self._count(client, -1)
        if not request.left:
            queue.popleft()
            self.requests -= 1
        if self._taken == self._turn or not queue:
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
        self._count(request.client, -request.left)
        return True

    def _count(self, client: str, sentences: int) -> None:
        self.sentences += sentences
        self._left[client] += sentences
        if not self._left[client]:
            del self._left[client]


class _Lane:
    """A thread of a scheduler, with a search of its own.

    Attributes:
        changed: Notified when there may be something to do.
        active: The sentences in the search: their requests, and their numbers there.
        removals: Keys of sentences that are to leave the search.
        is_full: Whether the search had no room for the sentence that came next.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self.changed = threading.Condition(lock)
        self.active: dict[int, tuple[Ticket, int]] = {}
        self.removals: list[int] = []
        self.is_full = False


class Scheduler:
    """Translates the sentences of many requests with one engine, in threads of its own.

    Its public methods are called in one event loop.

    Args:
        make_search: Returns a search of the engine; called in each thread, again after a failure.
        metrics: Counts what happens, in the threads.
        waiting_requests: See :class:`FairQueue`.
        waiting_sentences: Likewise.
        waiting_seconds: Longest time until the first sentence of a request joins the search: one that would have to
            wait longer by the present speed is refused, and so is one that has waited for so long.
        lanes: Most searches beside each other.
        name: Of the model, for the metrics and the threads.
    """

    def __init__(
        self,
        make_search: Callable[[], ContinuousSearch],
        metrics: Metrics,
        *,
        waiting_requests: int,
        waiting_sentences: int,
        waiting_seconds: float,
        lanes: int = 1,
        name: str,
    ) -> None:
        self._make_search, self._metrics, self._name, self._longest_wait = make_search, metrics, name, waiting_seconds
        self._queue = FairQueue(waiting_requests, waiting_sentences, waiting_seconds)
        self._lock = threading.Lock()
        self._lanes = [_Lane(self._lock) for _ in range(lanes)]
        self._reported = (-1, -1)
        self._keys = itertools.count()
        self._loop: asyncio.AbstractEventLoop | None = None  # of those who ask
        self._ended = False
        self._threads = [
            threading.Thread(target=self._run, args=(lane,), name=f"model {name} {number}", daemon=True)
            for number, lane in enumerate(self._lanes, start=1)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, client: str, sentences: Sequence[Sentence], *, resumed: bool = False) -> Ticket:
        """Put the sentences of a request into the queue.

        Args:
            client: Who asks; clients take turns.
            sentences: At least one.
            resumed: Whether a request asks for more that has been taken before: it is not refused for what waits, and
                comes before the client's others.

        Returns:
            The ticket, whose ``outcomes`` come; :meth:`release` ends it.

        Raises:
            RequestError: Too much waits, of all clients or of this one, or it would have to wait for too long, or no
                requests are taken any more (503); that many sentences would never be taken (400).
        """
        self._queue.check_size(len(sentences))
        self._loop = loop = asyncio.get_running_loop()
        with self._lock:
            if self._ended:
                raise closed()
            if not resumed:
                self._queue.require_room(client, len(sentences))
            ticket = Ticket(client, sentences, resumed, [loop.create_future() for _ in sentences])
            if not resumed:
                ticket.timer = loop.call_later(self._longest_wait, self._refuse_late, ticket)
            self._queue.add(ticket)
            self._wake()
            return ticket

    def check_room(self, client: str) -> None:
        """Raise what :meth:`submit` would for a request of one sentence, before anything is done for it."""
        if self._ended:
            raise closed()
        if self._queue.requests:
            with self._lock:
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
        with self._lock:
            self._queue.remove(ticket)
            for lane in self._lanes:
                lane.removals += [key for key, (own, _) in lane.active.items() if own is ticket]
            self._wake(every=True)

    def _refuse_late(self, ticket: Ticket) -> None:
        with self._lock:
            late = not ticket.taken and self._queue.remove(ticket)
        if late:
            refusal = self._queue.refusal()
            _deliver([(outcome, refusal) for outcome in ticket.outcomes])

    def end(self, seconds: float = 10.0) -> None:
        """End the threads; what is not finished fails with RequestError (503)."""
        with self._lock:
            self._ended = True
            self._wake(every=True)
        latest = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, latest - time.monotonic()))

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is being translated."""
        with self._lock:
            return not self._present()

    def _wake(self, *, every: bool = False) -> None:
        """Tell lanes that there is something to do: those that are needed, or every one of them."""
        for lane in self._lanes if every else self._lanes[: self._needed(self._present())]:
            lane.changed.notify()

    def _needed(self, present: int) -> int:
        """Return how many lanes that many sentences are enough to do for, or more where those are full."""
        full = sum([lane.is_full for lane in self._lanes])
        return max(1, min(len(self._lanes), max(present // _LEAST_OF_A_LANE, full + 1)))

    def _present(self) -> int:
        """Return the number of sentences that wait or are being translated."""
        return self._queue.sentences + sum([len(lane.active) for lane in self._lanes])

    def _may_take(self, lane: _Lane) -> bool:
        """Return whether a sentence that waits may join a lane's search: each has its part, or more."""
        if not self._queue.requests:
            return False
        present = self._present()
        needed = self._lanes[: self._needed(present)]
        if lane not in needed:
            return False
        return len(lane.active) * len(needed) < present or all(each.is_full for each in needed if each != lane)

    def _run(self, lane: _Lane) -> None:
        search: ContinuousSearch | None = None
        while True:
            with self._lock:
                waiting = self._queue.requests, self._queue.sentences
                if waiting != self._reported:
                    self._reported = waiting
                    self._metrics.waiting(self._name, *waiting)
                while not (lane.active or lane.removals or self._may_take(lane) or self._ended):
                    lane.changed.wait()
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
        with self._lock:
            while ticket := self._queue.first():
                lane.active |= {
                    next(self._keys): (ticket, place) for place in range(ticket.taken, len(ticket.outcomes))
                }
                self._queue.remove(ticket)
        self._fail(lane, closed())

    def _fill(self, lane: _Lane, search: ContinuousSearch) -> None:
        """Add sentences to the search as long as there is room, clients and their requests in turns."""
        with self._lock:
            lane.is_full = False
            while self._may_take(lane):
                ticket = self._queue.first()
                assert ticket
                sentence = ticket.sentences[ticket.taken]
                if lane.active and not search.has_room(len(sentence.source)):
                    lane.is_full = True
                    self._wake()
                    break
                key = next(self._keys)
                lane.active[key] = ticket, ticket.taken
                self._queue.take()
                search.add(key, *sentence)

    def _step(self, lane: _Lane, search: ContinuousSearch) -> None:
        with self._lock:
            # Also those that will begin at once.
            sharing = max(self._needed(self._present()), sum(bool(each.active) for each in self._lanes))
            waiting = self._queue.sentences
        self._metrics.stepped(self._name, len(lane.active))
        begun = time.monotonic()
        found = search.step(sharing, waiting)
        seconds = time.monotonic() - begun
        results: list[tuple[asyncio.Future[Outcome], Outcome]] = []
        source_tokens = target_tokens = 0
        with self._lock:
            self._queue.note_speed(len(found), seconds / sharing)
            for key, result in found:
                ticket, place = lane.active.pop(key)
                source_tokens += len(ticket.sentences[place].source)
                if not isinstance(result, LocantError):
                    target_tokens += len(result[0].tokens) + 1
                results.append((ticket.outcomes[place], result))
        if found:
            self._metrics.finished(self._name, len(found), source_tokens, target_tokens)
            self._send(results)

    def _fail(self, lane: _Lane, error: LocantError) -> None:
        """Let all sentences of a lane fail."""
        with self._lock:
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


class TextThreads:
    """Threads for what takes its time besides the models: long texts are cut, documents read, languages identified.

    Clients take turns, and each has one thread at a time. Work that has begun goes on to its end, whoever still waits
    for it. All methods are called in one event loop.

    Args:
        threads: How many there are.
        waiting_requests: Most pieces of work that wait; three quarters of them may be one client's.
        waiting_seconds: Longest time until one begins.
    """

    def __init__(self, threads: int, *, waiting_requests: int, waiting_seconds: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="texts")
        self._threads, self._most, self._longest_wait = threads, waiting_requests, waiting_seconds
        self._busy: set[str] = set()  # clients with a thread
        # Of the others the turns that their work waits for; those that come next are first.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def run(self, client: str, work: Callable[[], Found], *, resumed: bool = False) -> Found:
        """Return what some work returns, when a thread has done it.

        Args:
            client: For whom it is.
            work: Is done.
            resumed: Whether the request has been taken before: it is not refused, and comes before the client's others.

        Raises:
            RequestError: Too much waits, of all clients or of this one, or it has waited for too long (503).
        """
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        if resumed:
            self._waiting.setdefault(client, deque()).appendleft(turn)
        else:
            present, own = sum(map(len, self._waiting.values())), len(self._waiting.get(client, ()))
            if present >= self._most or (own and own + 1 > _SHARE * self._most):
                raise busy(1)
            self._waiting.setdefault(client, deque()).append(turn)
        self._begin()
        try:
            async with asyncio.timeout(None if resumed else self._longest_wait):
                await turn
        except (TimeoutError, asyncio.CancelledError) as gone:
            if not turn.cancelled():  # it came just now
                self._end(client)
            elif turn in (waiting := self._waiting.get(client, deque())):
                waiting.remove(turn)
                if not waiting:
                    del self._waiting[client]
            raise (busy(1) if isinstance(gone, TimeoutError) else gone) from None
        doing = loop.run_in_executor(self._pool, work)
        doing.add_done_callback(lambda done: self._end(client))
        return await asyncio.shield(doing)

    def _begin(self) -> None:
        for client in [client for client in self._waiting if client not in self._busy]:
            if len(self._busy) == self._threads:
                return
            own = self._waiting.pop(client)
            while own and (turn := own.popleft()):
                if not turn.done():  # else it was given up just now
                    turn.set_result(None)
                    self._busy.add(client)
                    break
            if own:
                self._waiting[client] = own  # behind the others

    def _end(self, client: str) -> None:
        self._busy.remove(client)
        self._begin()

    def end(self) -> None:
        """Let nothing more begin."""
        self._pool.shutdown(wait=False, cancel_futures=True)
