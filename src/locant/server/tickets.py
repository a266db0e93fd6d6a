"""Requests on their way through a scheduler, the lanes on which they go, and what is said to those that are refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from locant.errors import LocantError
from locant.models.decoding_settings import DecodingSettings
from locant.translation.compiled import Outcome

Deliver = Callable[[Sequence[tuple[int, Outcome]]], None]


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
        since: When it came, by the monotonic clock.
        taken: How many turns it has had.
        turn: Those that it had without others of its client between them.
    """

    def __init__(self, client: str, count: int, *, resumed: bool) -> None:
        self.client, self.count, self.resumed = client, count, resumed
        self.since = time.monotonic()
        self.taken = self.turn = 0

    @property
    def left(self) -> int:
        """Number of turns for which it waits."""
        return self.count - self.taken


class Ticket(Waiting):
    """The sentences of a request in a scheduler; made by :meth:`Scheduler.submit`.

    Attributes:
        sentences: All of them; ``taken`` is how many have joined a search.
        deliver: Called with what has become of some of them.
        dropped: Whether nobody waits for it any more.
        active: The keys of those that are being translated, and the lane that each is in.
    """

    def __init__(self, client: str, sentences: Sequence[Sentence], deliver: Deliver, *, resumed: bool) -> None:
        super().__init__(client, len(sentences), resumed=resumed)
        self.sentences, self.deliver = sentences, deliver
        self.dropped = False
        self.active: dict[Hashable, Lane] = {}


class Lane:
    """A thread of a scheduler, with a search of its own.

    Args:
        lock: Of the scheduler.

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
