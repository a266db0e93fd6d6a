"""A queue of requests: which one's turn is next, which of them find room, and which would wait for too long.

Clients take turns of some sentences, and so do the requests of a client: a request of ten thousand sentences holds up
one of a single sentence by a turn, not by ten thousand, and one of a few has them all in one turn. What is done besides
translating waits in such a queue as well, a request for one piece of work at a time, which counts like a sentence.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from itertools import accumulate
from typing import Generic, TypeVar

from locant.server.tickets import QueueFullError, TooManySentencesError, Waiting

_LONGEST_WAIT = 60  # seconds that a refused client is told to wait at most
_SHARE = 0.75  # of the queue that one client may fill
_KEPT = 0.99  # of what is known of the speed, at each step
_LEAST_KNOWN = 32.0  # sentences that must have been translated lately for their speed to say something
_FLOOD = 2.0  # times as many requests refused as taken, which more waiting will not help
_LEAST_PATIENCE = 1.0  # seconds
_WINDOW = 0.5  # seconds for which refusals are counted
_LOOK = 0.1  # seconds between two looks at who will not begin in time

Request = TypeVar("Request", bound=Waiting)


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


class Speed:
    """How fast sentences have been translated lately."""

    def __init__(self) -> None:
        self._sentences = self._seconds = 0.0

    def note(self, sentences: int, seconds: float) -> None:
        """So many sentences were finished in a step; its seconds are shared with steps beside it."""
        self._sentences = _KEPT * self._sentences + sentences
        self._seconds = _KEPT * self._seconds + seconds

    @property
    def seconds(self) -> float:
        """Seconds for each sentence; 0 where too few have been translated to know."""
        return self._seconds / self._sentences if self._sentences >= _LEAST_KNOWN else 0.0

    def time_of(self, sentences: int) -> float:
        """Return the seconds that some sentences will take, as far as can be said."""
        return sentences * self._seconds / self._sentences if self._sentences else 1.0


class RequestQueue(Generic[Request]):
    """Requests with sentences that wait, in the order in which these will join the search.

    It is called by one thread at a time.

    Args:
        most_requests: Most requests that wait; three quarters of them may be one client's.
        most_sentences: Most sentences that wait, likewise.
        most_seconds: Longest time until the first sentence of a request joins the search.
        speed: How fast sentences are translated.
        now: Seconds of a clock.
        turn: Sentences after which another client comes, and another request of this one.

    Attributes:
        requests: Number of requests that wait.
        sentences: Number of sentences that wait.
        patience: For how long a request may wait whose client has others there.
    """

    def __init__(
        self, most_requests: int, most_sentences: int, most_seconds: float, speed: Speed, now: float, turn: int = 16
    ) -> None:
        self._most_requests, self._most_sentences = most_requests, most_sentences
        self._most_seconds = most_seconds
        self._speed, self._each_turn = speed, turn
        self.patience = Patience(most_seconds, now)
        self.requests = self.sentences = 0
        # Those whose turn comes next stand first; of each client its requests, likewise.
        self._clients: OrderedDict[str, deque[Request]] = OrderedDict()
        self._left: Counter[str] = Counter()  # of each client the sentences that wait
        self._turn = 0  # sentences taken in the present turn of the client that stands first
        self._looked = -math.inf  # when it was last looked who will not begin in time

    def check_size(self, sentences: int) -> None:
        """Raise TooManySentencesError where so many sentences of one request would never be taken."""
        most = max(1, int(_SHARE * self._most_sentences))
        if sentences > most:
            raise TooManySentencesError(sentences, most)

    def require_room(self, client: str, sentences: int, now: float) -> None:
        """Raise QueueFullError where a new request of a client has no room, or would begin too late."""
        if not self.requests and sentences <= self._most_sentences:
            return
        own = self._clients.get(client, ())
        for there, of_client, more, most in (
            (self.requests, len(own), 1, self._most_requests),
            (self.sentences, self._left[client], sentences, self._most_sentences),
        ):
            if there + more > most or (of_client and of_client + more > _SHARE * most):
                raise self._refusal(now)
        if self.sentences * self._speed.seconds > self.patience.seconds:  # or all would begin soon enough
            before = sum([min(self._each_turn, request.left) for request in own])
            if self._wait()(client, before) > self._longest_wait(before):
                raise self._refusal(now)

    def _refusal(self, now: float) -> QueueFullError:
        self.patience.note(now, taken=False)
        return self.refusal()

    def refusal(self) -> QueueFullError:
        """Return what is said to a request that is refused for what waits."""
        seconds = self._speed.time_of(self.sentences)
        return QueueFullError(max(1, min(_LONGEST_WAIT, math.ceil(seconds))))

    def _longest_wait(self, before: int) -> float:
        """Return how long a request may wait before which come so many sentences of its client.

        A client that has nothing there has no part in a flood.
        """
        return self.patience.seconds if before else self._most_seconds

    def _wait(self) -> Callable[[str, int], float]:
        """Return what says how long a request waits, of a client and so many of whose sentences come before it.

        Besides come as many and a turn more of each other client.
        """
        seconds, turn, left = self._speed.seconds, self._each_turn, sorted(self._left.values())
        sums = [0, *accumulate(left)]

        def wait(client: str, before: int) -> float:
            most = before + turn
            place = bisect(left, most)
            others = sums[place] + most * (len(left) - place) - min(most, self._left[client])
            return seconds * (before + others)

        return wait

    def add(self, request: Request) -> None:
        """Put a request in; one that goes on stands before the others of its client."""
        queue = self._clients.setdefault(request.client, deque())
        if request.resumed:
            queue.appendleft(request)
        else:
            queue.append(request)
        self.requests += 1
        self.sentences += request.left
        self._left[request.client] += request.left

    @property
    def first(self) -> Request:
        """The request whose next sentence comes next; there must be one."""
        return next(iter(self._clients.values()))[0]

    def take(self) -> None:
        """Note that the sentence that comes next has joined a search; another one's turn may come."""
        client, queue = next(iter(self._clients.items()))
        request = queue[0]
        request.taken += 1
        request.turn += 1
        self._forget_sentences(client, 1)
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

    def remove(self, request: Request) -> None:
        """Take a request out, if it still waits."""
        queue = self._clients.get(request.client)
        if queue is None or request not in queue:
            return
        queue.remove(request)
        if not queue:
            if next(iter(self._clients)) == request.client:
                self._turn = 0
            del self._clients[request.client]
        self.requests -= 1
        self._forget_sentences(request.client, request.left)

    def _forget_sentences(self, client: str, count: int) -> None:
        """Note that sentences of a client do not wait any more."""
        self.sentences -= count
        self._left[client] -= count
        if not self._left[client]:
            del self._left[client]

    def remove_late(self, now: float) -> list[Request]:
        """Take out requests that have not begun in time, or will not at the present speed, which has fallen since.

        It is looked for them some times a second.
        """
        if not self.requests or now < self._looked + min(_LOOK, self._most_seconds):
            return []
        self._looked = now
        wait, late = self._wait(), []
        for client, queue in self._clients.items():
            before = 0
            for request in queue:
                waited, still = now - request.since, wait(client, before)
                if not (request.taken or request.resumed) and (
                    waited + still > self._most_seconds or still > self._longest_wait(before)
                ):
                    late.append(request)
                else:
                    before += min(self._each_turn, request.left)
        for request in late:
            self.remove(request)
        return late

    def clear(self) -> list[Request]:
        """Take out all requests."""
        waiting = [request for queue in self._clients.values() for request in queue]
        self._clients.clear()
        self._left.clear()
        self.requests = self.sentences = self._turn = 0
        return waiting
