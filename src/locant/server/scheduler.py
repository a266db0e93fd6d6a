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
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

from locant.errors import LocantError
from locant.models.decoding_settings import DecodingSettings
from locant.server.metrics import ModelMetrics
from locant.translation.compiled import Outcome
from locant.translation.continuous import ContinuousSearch

_LOG = logging.getLogger("locant.server")

_TURN = 16  # sentences after which another client comes, and another request of this one
_LEAST_OF_A_LANE = 8  # sentences, for fewer of which no thread of their own is worth it
_LONGEST_RETRY = 60  # seconds that a refused client is told to wait at most
_SHARE = 0.75  # of the queue that one client may fill
_KEPT = 0.99  # of what is known of the speed, at each step
_LEAST_KNOWN = 32.0  # sentences that must have been translated lately for their speed to say something
_FLOOD = 2.0  # times as many requests refused as taken, which more waiting will not help
_SHORTEST_WAIT = 1.0  # seconds that requests may wait in a flood
_WINDOW = 0.5  # seconds for which refusals are counted


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


class QueueFullError(LocantError):
    """Too much waits already.

    Attributes:
        retry_after: Seconds after which there may be room.
    """

    def __init__(self, retry_after: int) -> None:
        super().__init__("The server has more to translate than it can take. Try again later.")
        self.retry_after = retry_after


class TooManySentencesError(LocantError):
    """A request has more sentences than one client may have in the queue."""

    def __init__(self, sentences: int, most: int) -> None:
        super().__init__(
            f"The request has {sentences:,} sentences; at most {most:,} are taken. Ask for fewer at a time."
        )


class SchedulerClosedError(LocantError):
    """The scheduler takes no more requests, or has ended."""

    def __init__(self) -> None:
        super().__init__("The server is being shut down. Try again in a moment.")


class Waiting:
    """What waits in a queue for its turns.

    Attributes:
        client: Who asks.
        count: How many turns it needs.
        resumed: Whether it is of a request that has been taken before.
        taken: How many turns it has had.
        turn: Those that it had without others of its client between them.
    """

    def __init__(self, client: str, count: int, *, resumed: bool = False) -> None:
        self.client, self.count, self.resumed = client, count, resumed
        self.taken = self.turn = 0

    @property
    def left(self) -> int:
        """Number of turns for which it waits."""
        return self.count - self.taken


Entry = TypeVar("Entry", bound=Waiting)


class FairQueue(Generic[Entry]):
    """Requests in the order of their turns; what has no room or would wait for too long is refused.

    One thread at a time calls it.

    Args:
        most_requests: Most requests that wait; three quarters of them may be one client's.
        most_sentences: Most sentences that wait, likewise.
        most_seconds: Longest time until the first sentence of a request has its turn.
        turn: Sentences after which another client comes, and another request of this one.
        clock: Tells the time in seconds.

    Attributes:
        requests: Number of requests that wait.
        sentences: Number of sentences that wait.
        patience: Seconds that a request may wait whose client has others there. After each half second in which many
            more requests were refused than taken it is half as long: a queue that stays full lets nobody be translated
            sooner. After each other half second it is twice as long again.
    """

    def __init__(
        self,
        most_requests: int,
        most_sentences: int,
        most_seconds: float,
        turn: int = _TURN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_requests, self._most_sentences, self._most_seconds = most_requests, most_sentences, most_seconds
        self._each_turn, self._clock = turn, clock
        self.requests = self.sentences = 0
        # Those whose turn comes next stand first; of each client its requests, likewise.
        self._clients: OrderedDict[str, deque[Entry]] = OrderedDict()
        self._left: Counter[str] = Counter()  # of each client the sentences that wait
        self._turn = 0  # sentences taken in the present turn of the client that stands first
        self._done = self._seconds = 0.0  # sentences of late, and the time that they took
        self.patience = most_seconds
        self._window, self._taken, self._refused = clock(), 0, 0

    def note_speed(self, sentences: int, seconds: float) -> None:
        """So many sentences were finished in a step; its seconds are shared with steps beside it."""
        self._done = _KEPT * self._done + sentences
        self._seconds = _KEPT * self._seconds + seconds

    def check_size(self, sentences: int) -> None:
        """Raise TooManySentencesError where so many sentences of one request would never be taken."""
        most = max(1, int(_SHARE * self._most_sentences))
        if sentences > most:
            raise TooManySentencesError(sentences, most)

    def require_room(self, client: str, sentences: int) -> None:
        """Raise QueueFullError where a new request of a client has no room, or would begin too late."""
        if not self.requests and sentences <= self._most_sentences:
            return
        own = self._clients.get(client, ())
        for there, of_client, more, most in (
            (self.requests, len(own), 1, self._most_requests),
            (self.sentences, self._left[client], sentences, self._most_sentences),
        ):
            if there + more > most or (of_client and of_client + more > _SHARE * most):
                raise self._refused_now()
        # A client that has nothing there has no part in a flood.
        longest = self.patience if own else self._most_seconds
        speed = self._seconds / self._done if self._done >= _LEAST_KNOWN else 0.0
        if self.sentences * speed > longest:  # or all would begin soon enough
            before = sum(min(self._each_turn, request.left) for request in own)
            others = sum(min(left, before + self._each_turn) for name, left in self._left.items() if name != client)
            if speed * (before + others) > longest:
                raise self._refused_now()

    def note_taken(self) -> None:
        """A new request was taken."""
        self._look_at_window()
        self._taken += 1

    def _refused_now(self) -> QueueFullError:
        self._look_at_window()
        self._refused += 1
        return self.refusal()

    def _look_at_window(self) -> None:
        now = self._clock()
        if windows := int((now - self._window) / _WINDOW):
            if self._refused > _FLOOD * self._taken:
                self.patience = max(min(_SHORTEST_WAIT, self._most_seconds), self.patience / 2)
                windows -= 1
            self.patience = min(self._most_seconds, self.patience * 2.0 ** min(windows, 16))
            self._window, self._taken, self._refused = now, 0, 0

    def refusal(self) -> QueueFullError:
        """Return what is said to a request that is refused for what waits."""
        seconds = self.sentences * self._seconds / self._done if self._done else 1.0
        return QueueFullError(max(1, min(_LONGEST_RETRY, math.ceil(seconds))))

    def add(self, request: Entry) -> None:
        """Put a request in; one that goes on stands before the others of its client."""
        queue = self._clients.setdefault(request.client, deque())
        if request.resumed:
            queue.appendleft(request)
        else:
            queue.append(request)
        self.requests += 1
        self.sentences += request.left
        self._left[request.client] += request.left

    def first(self, passed_over: Collection[str] = ()) -> Entry | None:
        """Return the request whose sentence comes next, but for some clients; ``None`` where none waits."""
        return next((queue[0] for client, queue in self._clients.items() if client not in passed_over), None)

    def take(self, request: Entry) -> None:
        """Note that a sentence of the request that comes next has had its turn; another one's may come."""
        client, queue = request.client, self._clients[request.client]
        if client != next(iter(self._clients)):
            self._clients.move_to_end(client, last=False)
            self._turn = 0
        request.taken += 1
        request.turn += 1
        self._forget(client, 1)
        self._turn += 1
        if not request.left:
            queue.popleft()
            self.requests -= 1
        elif request.turn == self._each_turn:
            request.turn = 0
            queue.rotate(-1)
        if not queue:
            del self._clients[client]
            self._turn = 0
        elif self._turn == self._each_turn:
            self._clients.move_to_end(client)
            self._turn = 0

    def remove(self, request: Entry) -> bool:
        """Take a request out, and return whether it still waited."""
        queue = self._clients.get(request.client)
        if queue is None or request not in queue:
            return False
        queue.remove(request)
        if not queue:
            if next(iter(self._clients)) == request.client:
                self._turn = 0
            del self._clients[request.client]
        self.requests -= 1
        self._forget(request.client, request.left)
        return True

    def _forget(self, client: str, count: int) -> None:
        self.sentences -= count
        self._left[client] -= count
        if not self._left[client]:
            del self._left[client]


class Ticket(Waiting):
    """The sentences of a request in a scheduler; made by :meth:`Scheduler.submit`.

    Attributes:
        sentences: All of them; ``taken`` is how many have joined a search.
        outcomes: What becomes of each.
        dropped: Whether nobody waits for it any more.
        active: The keys of those that are being translated, and the lane that each is in.
        timer: Refuses it where it has not begun in time.
    """

    def __init__(self, client: str, sentences: Sequence[Sentence], *, resumed: bool) -> None:
        super().__init__(client, len(sentences), resumed=resumed)
        self.loop = asyncio.get_running_loop()
        self.sentences = sentences
        self.outcomes: list[asyncio.Future[Outcome]] = [self.loop.create_future() for _ in sentences]
        self.dropped = False
        self.active: dict[Hashable, _Lane] = {}
        self.timer: asyncio.TimerHandle | None = None


class _Lane:
    """A thread of a scheduler, with a search of its own.

    Attributes:
        changed: Told when there may be something to do.
        active: The sentences in the search: their requests, and their numbers there.
        removals: Keys of sentences that are to leave the search.
        is_full: Whether the search had no room for the sentence that came next.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self.changed = threading.Condition(lock)
        self.active: dict[Hashable, tuple[Ticket, int]] = {}
        self.removals: list[Hashable] = []
        self.is_full = False


class Scheduler:
    """Translates the sentences of many requests with one engine, in threads of its own.

    Its public methods are called in the event loop.

    Args:
        make_search: Returns a search of the engine; called in each thread, again after a failure.
        metrics: Is told what happens, from the threads.
        waiting_requests: See :class:`FairQueue`.
        waiting_sentences: Likewise.
        waiting_seconds: Longest time until the first sentence of a request joins the search: one that would have to
            wait longer by the present speed is refused, and so is one that has waited for so long.
        lanes: Most searches beside each other.
        name: Of the threads.
    """

    def __init__(
        self,
        make_search: Callable[[], ContinuousSearch],
        metrics: ModelMetrics,
        *,
        waiting_requests: int,
        waiting_sentences: int,
        waiting_seconds: float,
        lanes: int = 1,
        name: str = "scheduler",
    ) -> None:
        self._make_search, self._metrics, self._longest_wait = make_search, metrics, waiting_seconds
        self._queue: FairQueue[Ticket] = FairQueue(waiting_requests, waiting_sentences, waiting_seconds)
        self._lock = threading.Lock()
        self._lanes = [_Lane(self._lock) for _ in range(lanes)]
        self._told = (0, 0)
        self._keys = itertools.count()
        self._ended = False
        self._threads = [
            threading.Thread(target=self._run, args=(lane,), name=f"{name} {number}", daemon=True)
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
            QueueFullError: Too much waits, of all clients or of this one, or it would have to wait for too long.
            TooManySentencesError: So many would never be taken.
            SchedulerClosedError: No requests are taken any more.
        """
        self.check_size(len(sentences))
        with self._lock:
            if self._ended:
                raise SchedulerClosedError
            if not resumed:
                self._queue.require_room(client, len(sentences))
                self._queue.note_taken()
            ticket = Ticket(client, sentences, resumed=resumed)
            if not resumed:
                ticket.timer = ticket.loop.call_later(self._longest_wait, self._refuse_late, ticket)
            self._queue.add(ticket)
            self._wake()
            return ticket

    def check_room(self, client: str) -> None:
        """Raise what :meth:`submit` would for a request of one sentence, before anything is done for it."""
        if self._ended:
            raise SchedulerClosedError
        if self._queue.requests:
            with self._lock:
                self._queue.require_room(client, 1)

    def check_size(self, sentences: int) -> None:
        """Raise TooManySentencesError where so many sentences would never be taken; from any thread."""
        self._queue.check_size(sentences)

    def release(self, ticket: Ticket) -> None:
        """Drop what is left of a request; nothing more comes."""
        if ticket.timer:
            ticket.timer.cancel()
            ticket.timer = None  # which knows the ticket
        if not (ticket.left or ticket.active):
            return
        with self._lock:
            ticket.dropped = True
            self._queue.remove(ticket)
            for key, lane in ticket.active.items():
                lane.removals.append(key)
            self._wake(every=True)

    def _refuse_late(self, ticket: Ticket) -> None:
        with self._lock:
            late = not ticket.taken and self._queue.remove(ticket)
        if late:
            refusal = self._queue.refusal()
            _deliver([(outcome, refusal) for outcome in ticket.outcomes])

    def end(self, seconds: float = 10.0) -> None:
        """End the threads; what is not finished fails with :class:`SchedulerClosedError`."""
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
            return not self._queue.requests and not any(lane.active for lane in self._lanes)

    def _wake(self, *, every: bool = False) -> None:
        """Tell lanes that there is something to do: those that are needed, or every one of them."""
        for lane in self._lanes if every else self._lanes[: self._needed(self._present())]:
            lane.changed.notify()

    def _needed(self, present: int) -> int:
        """Return how many lanes so many sentences are enough to do for, or more where those are full."""
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
                if waiting != self._told:
                    self._told = waiting
                    self._metrics.waiting(*waiting)
                while not (lane.active or lane.removals or self._may_take(lane) or self._ended):
                    lane.changed.wait()
                if self._ended:
                    break
                removals, lane.removals = lane.removals, []
            try:
                search = search or self._make_search()
                for key in removals:
                    with self._lock:
                        known = lane.active.pop(key, None)
                    if known:
                        search.remove(key)
                self._fill(lane, search)
                if lane.active:
                    self._step(lane, search)
            except (Exception, MemoryError) as error:
                _LOG.error("a search failed", extra={"error": type(error).__name__})
                search = None
                self._fail(lane, LocantError("The translation failed."))
        while True:
            with self._lock:
                ticket = self._queue.first()
                if ticket is None:
                    break
                self._queue.remove(ticket)
            _send([(outcome, SchedulerClosedError()) for outcome in ticket.outcomes[ticket.taken :]], ticket.loop)
        self._fail(lane, SchedulerClosedError())

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
                key, index = next(self._keys), ticket.taken
                self._queue.take(ticket)
                try:
                    search.add(key, sentence.source, sentence.max_length, sentence.prefix, sentence.settings)
                except LocantError as error:
                    _send([(ticket.outcomes[index], error)], ticket.loop)
                else:
                    lane.active[key] = ticket, index
                    ticket.active[key] = lane

    def _step(self, lane: _Lane, search: ContinuousSearch) -> None:
        with self._lock:
            # Also those that will begin at once.
            sharing = max(self._needed(self._present()), sum(bool(each.active) for each in self._lanes))
            waiting = self._queue.sentences
        self._metrics.stepped(len(lane.active))
        begun = time.monotonic()
        found = search.step(sharing, waiting)
        seconds = time.monotonic() - begun
        outcomes: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Outcome], Outcome]]] = {}
        source_tokens = target_tokens = 0
        with self._lock:
            self._queue.note_speed(len(found), seconds / sharing)
            for key, result in found:
                known = lane.active.pop(key, None)
                if known is None:
                    continue
                ticket, index = known
                ticket.active.pop(key, None)
                source_tokens += len(ticket.sentences[index].source)
                if not isinstance(result, LocantError):
                    target_tokens += len(result[0].tokens) + 1
                if not ticket.dropped:
                    outcomes.setdefault(ticket.loop, []).append((ticket.outcomes[index], result))
        if found:
            self._metrics.finished(len(found), source_tokens, target_tokens)
        for loop, results in outcomes.items():
            _send(results, loop)

    def _fail(self, lane: _Lane, error: LocantError) -> None:
        """Let all sentences of a lane fail."""
        with self._lock:
            active, lane.active = lane.active, {}
        for ticket, index in active.values():
            ticket.active.clear()
            _send([(ticket.outcomes[index], error)], ticket.loop)


def _send(results: Sequence[tuple[asyncio.Future[Outcome], Outcome]], loop: asyncio.AbstractEventLoop) -> None:
    """Have results delivered in an event loop, all in one turn of it."""
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(_deliver, results)


def _deliver(results: Sequence[tuple[asyncio.Future[Outcome], Outcome]]) -> None:
    for outcome, result in results:
        if not outcome.done():
            outcome.set_result(result)


class _Job(Waiting):
    """A piece of work that waits for a thread."""

    def __init__(self, client: str, work: Callable[[], Any], *, resumed: bool) -> None:
        super().__init__(client, 1, resumed=resumed)
        self.work, self.found = work, asyncio.get_running_loop().create_future()


class TextThreads:
    """Threads for what takes its time besides the models: long texts are cut, documents read, languages identified.

    Clients take turns, and none has all of the threads. Work that has begun goes on to its end, whoever still waits for
    it. All methods are called in the event loop.

    Args:
        threads: How many there are.
        waiting_requests: Most pieces of work that wait; three quarters of them may be one client's.
        waiting_seconds: Longest time until one begins.
    """

    def __init__(self, threads: int, *, waiting_requests: int, waiting_seconds: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="texts")
        self._threads, self._longest_wait = threads, waiting_seconds
        self._running: Counter[str] = Counter()
        self._queue: FairQueue[_Job] = FairQueue(waiting_requests, waiting_requests, waiting_seconds, turn=1)

    async def run(self, client: str, work: Callable[[], Any], *, resumed: bool = False) -> Any:
        """Return what some work returns, when a thread has done it.

        Args:
            client: For whom it is.
            work: Is done.
            resumed: Whether the request has been taken before: it is not refused, and comes before the client's others.

        Raises:
            QueueFullError: Too much waits, of all clients or of this one, or it has waited for too long.
        """
        if not resumed:
            self._queue.require_room(client, 1)
            self._queue.note_taken()
        job = _Job(client, work, resumed=resumed)
        self._queue.add(job)
        timer = None if resumed else job.found.get_loop().call_later(self._longest_wait, self._refuse_late, job)
        self._begin()
        try:
            return await job.found
        finally:
            self._queue.remove(job)
            if timer:
                timer.cancel()

    def _refuse_late(self, job: _Job) -> None:
        if self._queue.remove(job) and not job.found.done():
            job.found.set_exception(self._queue.refusal())

    def _begin(self) -> None:
        most = max(1, self._threads - 1)
        while self._running.total() < self._threads:
            job = self._queue.first([client for client, count in self._running.items() if count >= most])
            if job is None:
                return
            self._queue.take(job)
            self._running[job.client] += 1
            begun = time.monotonic()
            doing = job.found.get_loop().run_in_executor(self._pool, job.work)
            doing.add_done_callback(lambda done, job=job, begun=begun: self._arrive(job, done, begun))  # type: ignore[misc]

    def _arrive(self, job: _Job, done: asyncio.Future[Any], begun: float) -> None:
        self._queue.note_speed(1, (time.monotonic() - begun) / self._threads)
        self._running[job.client] -= 1
        self._running += Counter()  # forgets who has none
        self._begin()
        failure = None if done.cancelled() else done.exception()
        if job.found.done():
            return
        if done.cancelled():
            job.found.cancel()
        elif failure:
            job.found.set_exception(failure)
        else:
            job.found.set_result(done.result())

    def end(self) -> None:
        """Let nothing more begin."""
        self._pool.shutdown(wait=False, cancel_futures=True)
