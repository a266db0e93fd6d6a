"""The scheduler of a model: threads that share its engine and translate the sentences of all requests together.

Sentences join the search when there is room and leave it when they are finished, so that nobody waits for a batch to
fill or to end; :mod:`locant.server.request_queue` says whose turn it is.

A few sentences are in one search, whose steps have all threads of the kernels. Many are shared by several lanes, each a
thread with a search and a part of those threads of its own: nobody waits there for others, or for Python.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from locant.errors import LocantError
from locant.server.request_queue import RequestQueue, Speed
from locant.server.tickets import Deliver, Lane, SchedulerClosedError, Sentence, Ticket
from locant.translation.compiled import Outcome
from locant.translation.continuous import ContinuousSearch

_LOG = logging.getLogger("locant.server")

_LEAST_OF_A_LANE = 8  # sentences, for fewer of which no thread of their own is worth it


class Observer(Protocol):
    """What is told of a scheduler's work."""

    def stepped(self, sentences: int) -> None:
        """So many sentences were in the search while it made a step."""

    def finished(self, sentences: int, source_tokens: int, target_tokens: int) -> None:
        """So many sentences were translated."""

    def waiting(self, requests: int, sentences: int) -> None:
        """So many wait now."""


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
        self._speed = Speed()
        self._queue: RequestQueue[Ticket] = RequestQueue(
            waiting_requests, waiting_sentences, waiting_seconds, self._speed, time.monotonic()
        )
        self._lock = threading.Lock()
        self._lanes = [Lane(self._lock) for _ in range(lanes)]
        self._told = (0, 0)
        self._keys = itertools.count()
        self._closed = self._ended = False
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
                self._queue.patience.note(time.monotonic(), taken=True)
            ticket = Ticket(client, sentences, deliver, resumed=resumed)
            self._queue.add(ticket)
            self._wake()
            return ticket

    def check_room(self, client: str) -> None:
        """Raise what :meth:`submit` would for a request of one sentence, before anything is done for it."""
        if self._queue.requests or self._closed:
            with self._lock:
                self._require_room(client, 1)

    def _require_room(self, client: str, sentences: int) -> None:
        if self._closed:
            raise SchedulerClosedError
        self._queue.require_room(client, sentences, time.monotonic())

    def check_size(self, sentences: int) -> None:
        """Raise TooManySentencesError where so many sentences would never be taken."""
        self._queue.check_size(sentences)

    def cancel(self, ticket: Ticket) -> None:
        """Drop what is left of a request; nothing more is delivered."""
        with self._lock:
            if ticket.dropped:
                return
            ticket.dropped = True
            self._queue.remove(ticket)
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
            return not self._queue.requests and not any(lane.active for lane in self._lanes)

    def _tell_waiting(self) -> None:
        waiting = self._queue.requests, self._queue.sentences
        if waiting != self._told:
            self._told = waiting
            self._observer.waiting(*waiting)

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

    def _may_take(self, lane: Lane) -> bool:
        """Return whether a sentence that waits may join a lane's search: each has its part, or more."""
        if not self._queue.requests:
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
            waiting = self._queue.clear()
            self._tell_waiting()
        for ticket in waiting:
            ticket.deliver([(index, SchedulerClosedError()) for index in range(ticket.taken, len(ticket.sentences))])
        self._fail_active(lane, SchedulerClosedError())

    def _is_over(self, lane: Lane) -> bool:
        """Return whether a lane has nothing more to do, ever."""
        return self._ended or (self._closed and not self._queue.requests and not lane.active)

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
                ticket = self._queue.first
                sentence = ticket.sentences[ticket.taken]
                if lane.active and not search.has_room(len(sentence.source)):
                    lane.is_full = True
                    self._wake()
                    break
                key, index = next(self._keys), ticket.taken
                self._queue.take()
                if self._closed and not self._queue.requests:
                    self._wake(every=True)  # to their ends
                try:
                    search.add(key, sentence.source, sentence.max_length, sentence.prefix, sentence.settings)
                except LocantError as error:
                    failed.append((ticket, index, error))
                else:
                    lane.active[key] = ticket, index
                    ticket.active[key] = lane
        for ticket, index, why in failed:
            ticket.deliver([(index, why)])

    def _refuse_late(self) -> None:
        with self._lock:
            late = self._queue.remove_late(time.monotonic())
            for ticket in late:
                ticket.dropped = True
        for ticket in late:
            ticket.deliver([(0, self._queue.refusal())])

    def _step(self, lane: Lane, search: ContinuousSearch) -> None:
        if not lane.active:
            return
        with self._lock:
            # Also those that will begin at once.
            sharing = max(self._needed(self._present()), sum(bool(each.active) for each in self._lanes))
            waiting = self._queue.sentences
        self._observer.stepped(len(lane.active))
        begun = time.monotonic()
        found = search.step(sharing, waiting)
        seconds = time.monotonic() - begun
        with self._lock:
            self._speed.note(len(found), seconds / sharing)
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
