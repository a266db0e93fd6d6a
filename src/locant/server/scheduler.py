"""The scheduler of a model: threads that share its engine and translate the sentences of all requests together.

Sentences join the search when there is room and leave it when they are finished, so that nobody waits for a batch to
fill or to end. Clients take turns of some sentences, and so do the requests of a client: a request of ten thousand
sentences holds up one of a single sentence by a turn, not by ten thousand, and one of a few has them all in one turn.

A few sentences are in one search, whose steps have all threads of the kernels. Many are shared by several lanes, each a
thread with a search and a part of those threads of its own: nobody waits there for others, or for Python.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from locant.errors import LocantError
from locant.server.tickets import (
    Deliver,
    Lane,
    QueueFullError,
    SchedulerClosedError,
    Sentence,
    Ticket,
    TooManySentencesError,
)
from locant.translation.continuous import ContinuousSearch, Outcome

_LOG = logging.getLogger("locant.server")

_LONGEST_WAIT = 60  # seconds that a refused client is told to wait at most
_SHARE = 0.75  # of the queue that one client may fill
_KEPT = 0.99  # of what is known of the speed, at each step
_TURN = 16  # sentences, after which another client comes, and another request of this one
_LEAST_KNOWN = 32.0  # sentences that must have been translated lately for their speed to say something
_FLOOD = 2.0  # times as many requests refused as taken, which more waiting will not help
_LEAST_PATIENCE = 1.0  # seconds
_WINDOW = 0.5  # seconds for which refusals are counted
_LEAST_OF_A_LANE = 8  # sentences, for fewer of which no thread of their own is worth it
_LOOK = 0.1  # seconds between two looks at who has waited for too long


class Observer(Protocol):
    """What is told of a scheduler's work."""

    def stepped(self, sentences: int) -> None:
        """So many sentences were in the search while it made a step."""

    def finished(self, sentences: int, source_tokens: int, target_tokens: int) -> None:
        """So many sentences were translated."""

    def waiting(self, requests: int, sentences: int) -> None:
        """So many wait now."""


class Patience:
    """How long requests may wait: half as long after each half second in which many more were refused than taken.

    A queue that stays full lets nobody be translated sooner, and the way back from an overload is as long as the queue.
    After each half second without a flood it is twice as long again.

    Args:
        most: Seconds; also at first.
        now: Seconds of a clock.

    Attributes:
        seconds: For how long a request may wait now.
    """

    def __init__(self, most: float, now: float) -> None:
        self.seconds = self._most = most
        self._begun = now
        self._taken = self._refused = 0

    def note(self, now: float, *, taken: bool) -> None:
        """A request was taken, or refused because of what waits."""
        if windows := int((now - self._begun) / _WINDOW):
            if self._refused > _FLOOD * self._taken:
                self.seconds = max(min(_LEAST_PATIENCE, self._most), self.seconds / 2)
                windows -= 1
            self.seconds = min(self._most, self.seconds * 2.0 ** min(windows, 16))
            self._begun, self._taken, self._refused = now, 0, 0
        if taken:
            self._taken += 1
        else:
            self._refused += 1


class Scheduler:
    """Translates the sentences of many requests with one engine, in threads of its own.

    Args:
        make_search: Returns a search of the engine; called in each thread, again after a failure.
        observer: Is told what happens, from the threads.
        waiting_requests: Most requests with sentences that wait; three quarters of them may be one client's.
        waiting_sentences: Most sentences that wait, likewise.
        waiting_seconds: Longest time until the first sentence of a request joins the search. One that would have to
            wait longer by the present speed is refused, and so is one that has waited for so long. In a flood of
            requests it is as short as a second for clients that have some there (:class:`Patience`).
        lanes: Most searches beside each other.
        name: Of the threads.
    """

    def __init__(
        self,
        make_search: Callable[[], ContinuousSearch],
        observer: Observer,
        *,
        waiting_requests: int,
        waiting_sentences: int,
        waiting_seconds: float,
        lanes: int = 1,
        name: str = "scheduler",
    ) -> None:
        self._make_search, self._observer = make_search, observer
        self._most_requests, self._most_sentences = waiting_requests, waiting_sentences
        self._most_seconds = waiting_seconds
        self._patience = Patience(waiting_seconds, time.monotonic())
        self._lock = threading.Lock()
        self._lanes = [Lane(self._lock) for _ in range(lanes)]
        # Those whose turn comes next stand first; of each client its requests, likewise.
        self._clients: OrderedDict[str, deque[Ticket]] = OrderedDict()
        self._left: Counter[str] = Counter()  # of each client the sentences that wait
        self._requests = self._sentences = 0
        self._told = (0, 0)
        self._turn = 0  # sentences taken in the present turn of the client that stands first
        self._looked = 0.0  # when it was last looked who has waited for too long
        self._keys = itertools.count()
        self._closed = self._ended = False
        self._done = self._busy = 0.0  # sentences and seconds, lately
        self._threads = [
            threading.Thread(target=self._run, args=(lane,), name=f"{name} {number}", daemon=True)
            for number, lane in enumerate(self._lanes, start=1)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, client: str, sentences: Sequence[Sentence], deliver: Deliver, *, resumed: bool = False) -> Ticket:
        """Put the sentences of a request into the queue.

        Args:
            client: Who asks; clients take turns.
            sentences: At least one.
            deliver: Called in the scheduler's thread with numbers of sentences and what has become of them.
            resumed: Whether a request asks for more that has been taken before: it is not refused for what waits, and
                comes before the client's others.

        Raises:
            QueueFullError: Too much waits, of all clients or of this one, or it would have to wait for too long.
            TooManySentencesError: So many would never be taken.
            SchedulerClosedError: No requests are taken any more.
        """
        self.check_size(len(sentences))
        with self._lock:
            if self._closed or not resumed:
                self._require_room(client, len(sentences))
                self._patience.note(time.monotonic(), taken=True)
            ticket = Ticket(client, sentences, deliver, resumed=resumed)
            queue = self._clients.setdefault(client, deque())
            if resumed:
                queue.appendleft(ticket)
            else:
                queue.append(ticket)
            self._requests += 1
            self._sentences += len(sentences)
            self._left[client] += len(sentences)
            self._wake()
            return ticket

    def check_room(self, client: str) -> None:
        """Raise what :meth:`submit` would for a request of one sentence, before anything is done for it."""
        with self._lock:
            self._require_room(client, 1)

    def _require_room(self, client: str, sentences: int) -> None:
        if self._closed:
            raise SchedulerClosedError
        own = self._clients.get(client, ())
        for there, of_client, more, most in (
            (self._requests, len(own), 1, self._most_requests),
            (self._sentences, self._left[client], sentences, self._most_sentences),
        ):
            if there + more > most or (of_client and of_client + more > _SHARE * most):
                raise self._refusal()
        # Whoever has nothing there has no part in a flood.
        if self._seconds_to_begin(client) > (self._patience.seconds if own else self._most_seconds):
            raise self._refusal()

    def _refusal(self) -> QueueFullError:
        self._patience.note(time.monotonic(), taken=False)
        return QueueFullError(self._seconds_to_drain())

    def check_size(self, sentences: int) -> None:
        """Raise TooManySentencesError where so many sentences would never be taken."""
        most = max(1, int(_SHARE * self._most_sentences))
        if sentences > most:
            raise TooManySentencesError(sentences, most)

    def cancel(self, ticket: Ticket) -> None:
        """Drop what is left of a request; nothing more is delivered."""
        with self._lock:
            if ticket.dropped:
                return
            ticket.dropped = True
            self._forget_waiting(ticket)
            for key, lane in ticket.active.items():
                lane.removals.append(key)
            self._wake(every=True)

    def close(self) -> None:
        """Take no more requests; those that are here are finished."""
        with self._lock:
            self._closed = True
            self._wake(every=True)

    def end(self, seconds: float = 10.0) -> None:
        """End the threads; what is not finished fails with :class:`SchedulerClosedError`."""
        with self._lock:
            self._closed = self._ended = True
            self._wake(every=True)
        latest = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, latest - time.monotonic()))

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is being translated."""
        with self._lock:
            return not self._clients and not any(lane.active for lane in self._lanes)

    def _seconds_to_drain(self) -> int:
        seconds = self._sentences * self._busy / self._done if self._done else 1.0
        return max(1, min(_LONGEST_WAIT, math.ceil(seconds)))

    def _seconds_to_begin(self, client: str) -> float:
        """Return how long a request of a client would wait at the present speed; 0 where that is not known.

        Before it come a turn of each of the client's others, and as many sentences and a turn more of other clients.
        """
        seconds = self._busy / self._done if self._done >= _LEAST_KNOWN else 0.0
        if self._sentences * seconds <= self._patience.seconds:
            return self._sentences * seconds
        own = sum(min(_TURN, ticket.left) for ticket in self._clients.get(client, ()))
        others = (min(own + _TURN, self._left[name]) for name in self._clients if name != client)
        return seconds * (own + sum(others))

    def _tell_waiting(self) -> None:
        waiting = self._requests, self._sentences
        if waiting != self._told:
            self._told = waiting
            self._observer.waiting(*waiting)

    def _forget_waiting(self, ticket: Ticket) -> None:
        """Take a request out of the queue, if it still waits there."""
        queue = self._clients.get(ticket.client)
        if queue is None or ticket not in queue:
            return
        queue.remove(ticket)
        if not queue:
            if next(iter(self._clients)) == ticket.client:
                self._turn = 0
            del self._clients[ticket.client]
        self._requests -= 1
        self._forget_sentences(ticket.client, ticket.left)

    def _forget_sentences(self, client: str, count: int) -> None:
        """Note that sentences of a client do not wait any more."""
        self._sentences -= count
        self._left[client] -= count
        if not self._left[client]:
            del self._left[client]

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
        return self._sentences + sum([len(lane.active) for lane in self._lanes])

    def _may_take(self, lane: Lane) -> bool:
        """Return whether a sentence that waits may join a lane's search: each has its part, or more."""
        if not self._clients:
            return False
        present = self._present()
        needed = self._lanes[: self._needed(present)]
        if lane not in needed:
            return False
        return len(lane.active) * len(needed) < present or all(each.is_full for each in needed if each != lane)

    def _run(self, lane: Lane) -> None:
        search: ContinuousSearch | None = None
        while True:
            with self._lock:
                self._tell_waiting()
                while not (lane.active or lane.removals or self._may_take(lane) or self._is_over(lane)):
                    lane.changed.wait()
                if self._is_over(lane):
                    break
                removals, lane.removals = lane.removals, []
            try:
                if search is None:
                    search = self._make_search()
                self._remove(lane, search, removals)
                self._refuse_late()
                self._fill(lane, search)
                self._step(lane, search)
            except (Exception, MemoryError) as error:
                _LOG.error("a search failed", extra={"error": type(error).__name__})
                search = None
                self._fail_active(lane, LocantError("The translation failed."))
        with self._lock:
            waiting = [ticket for queue in self._clients.values() for ticket in queue]
            self._clients.clear()
            self._left.clear()
            self._requests = self._sentences = 0
            self._tell_waiting()
        for ticket in waiting:
            ticket.deliver([(index, SchedulerClosedError()) for index in range(ticket.taken, len(ticket.sentences))])
        self._fail_active(lane, SchedulerClosedError())

    def _is_over(self, lane: Lane) -> bool:
        """Return whether a lane has nothing more to do, ever."""
        return self._ended or (self._closed and not self._clients and not lane.active)

    def _remove(self, lane: Lane, search: ContinuousSearch, keys: Sequence[Hashable]) -> None:
        for key in keys:
            with self._lock:
                known = lane.active.pop(key, None)
            if known:
                search.remove(key)

    def _fill(self, lane: Lane, search: ContinuousSearch) -> None:
        """Add sentences to the search as long as there is room, clients and their requests in turns."""
        failed: list[tuple[Ticket, int, LocantError]] = []
        with self._lock:
            lane.is_full = False
            while self._may_take(lane):
                client, queue = next(iter(self._clients.items()))
                ticket = queue[0]
                sentence = ticket.sentences[ticket.taken]
                if lane.active and not search.has_room(len(sentence.source)):
                    lane.is_full = True
                    self._wake()
                    break
                key, index = next(self._keys), ticket.taken
                self._take(client, queue, ticket)
                try:
                    search.add(key, sentence.source, sentence.max_length, sentence.prefix, sentence.settings)
                except LocantError as error:
                    failed.append((ticket, index, error))
                else:
                    lane.active[key] = ticket, index
                    ticket.active[key] = lane
        for ticket, index, why in failed:
            ticket.deliver([(index, why)])

    def _take(self, client: str, queue: deque[Ticket], ticket: Ticket) -> None:
        """Note that a sentence of the request that stands first has joined a search; the next one's turn comes."""
        ticket.taken += 1
        ticket.turn += 1
        self._forget_sentences(client, 1)
        self._turn += 1
        if not ticket.left:
            queue.popleft()
            self._requests -= 1
        elif ticket.turn == _TURN:
            ticket.turn = 0
            queue.rotate(-1)
        if not queue:
            del self._clients[client]
            self._turn = 0
            if self._closed and not self._clients:
                self._wake(every=True)  # to their ends
        elif self._turn == _TURN:
            self._clients.move_to_end(client)
            self._turn = 0

    def _refuse_late(self) -> None:
        """Refuse requests of which nothing has begun in the time that there is for it: the speed has fallen."""
        now = time.monotonic()
        with self._lock:
            if not self._clients or now < self._looked + min(_LOOK, self._most_seconds):
                return
            self._looked = now
            late = [
                ticket
                for queue in self._clients.values()
                for ticket in queue
                if not (ticket.taken or ticket.resumed) and now - ticket.since > self._most_seconds
            ]
            for ticket in late:
                ticket.dropped = True
                self._forget_waiting(ticket)
            refusal = QueueFullError(self._seconds_to_drain())
        for ticket in late:
            ticket.deliver([(0, refusal)])

    def _step(self, lane: Lane, search: ContinuousSearch) -> None:
        if not lane.active:
            return
        with self._lock:
            # Also those that will begin at once.
            sharing = max(self._needed(self._present()), sum(bool(each.active) for each in self._lanes))
            waiting = self._sentences
        self._observer.stepped(len(lane.active))
        begun = time.monotonic()
        found = search.step(sharing, waiting)
        seconds = time.monotonic() - begun
        with self._lock:
            self._busy = _KEPT * self._busy + seconds / sharing
            self._done = _KEPT * self._done + len(found)
        if not found:
            return
        deliveries: dict[Ticket, list[tuple[int, Outcome]]] = {}
        source_tokens = target_tokens = 0
        with self._lock:
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
                    deliveries.setdefault(ticket, []).append((index, result))
        self._observer.finished(len(found), source_tokens, target_tokens)
        for ticket, results in deliveries.items():
            ticket.deliver(results)

    def _fail_active(self, lane: Lane, error: LocantError) -> None:
        with self._lock:
            active, lane.active = lane.active, {}
        for ticket, index in active.values():
            ticket.active.clear()
            if not ticket.dropped:
                ticket.deliver([(index, error)])
