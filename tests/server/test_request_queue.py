"""The queue of a model: turns, room, and requests that would begin too late."""

from __future__ import annotations

import random

import pytest

from locant.models import DecodingSettings
from locant.server.request_queue import Patience, RequestQueue, Speed
from locant.server.tickets import QueueFullError, Sentence, Ticket

SENTENCE = Sentence([1], 5, [2], DecodingSettings())


class Queue(RequestQueue):
    """A queue with a clock that stands at 0, in which sentences take a known time."""

    def __init__(self, seconds=0.0, *, waiting_seconds=10.0, requests=400):
        self.speed = Speed()
        super().__init__(requests, 20_000, waiting_seconds, self.speed, 0.0)
        if seconds:
            self.is_known(seconds)

    def is_known(self, seconds):
        self.speed.note(64, 64 * seconds)

    def put(self, client, sentences=1, *, since=0.0, resumed=False, checked=True):
        if checked:
            self.require_room(client, sentences, since)
        ticket = Ticket(client, [SENTENCE] * sentences, lambda results: None, resumed=resumed)
        ticket.since = since
        self.add(ticket)
        return ticket

    def taken(self, count=1):
        """Let some sentences join the search and return their requests."""
        found = []
        for _ in range(count):
            found.append(self.first)
            self.take()
        return found


def test_a_request_that_would_wait_too_long_is_refused_at_once():
    queue = Queue(0.0625, waiting_seconds=1.0)
    queue.put("long", 100)
    queue.put("other", 8)
    with pytest.raises(QueueFullError) as refused:
        queue.require_room("third", 1, 0.0)  # behind turns of 16 and 8
    assert refused.value.retry_after == 7


def test_where_the_speed_is_not_known_nobody_is_refused_for_it():
    queue = Queue()
    queue.speed.note(31, 310.0)
    for _ in range(100):
        queue.put("a")
    assert queue.remove_late(1.0) == []


def test_requests_that_will_not_begin_in_time_are_refused_while_they_wait():
    """They came before the speed was known, or when it was another one."""
    queue = Queue(waiting_seconds=10.0)
    tickets = [queue.put("a") for _ in range(100)]
    queue.is_known(0.5)
    late = queue.remove_late(1.0)
    assert late == tickets[19:]  # of the others the last begins after 1 s and 18 times half a second
    assert (queue.requests, queue.sentences) == (19, 19)
    assert queue.taken(19) == tickets[:19]


def test_a_request_takes_the_place_of_one_that_is_too_late():
    queue = Queue(waiting_seconds=10.0)
    first, late, young = queue.put("a", 16), queue.put("a", since=-8.0), queue.put("a", since=0.0)
    queue.is_known(0.25)
    assert queue.remove_late(1.0) == [late]
    assert queue.taken(17) == [first] * 16 + [young]


def test_what_has_begun_or_goes_on_is_never_too_late():
    queue = Queue(waiting_seconds=1.0)
    begun = queue.put("a", 100)
    queue.taken()
    resumed = queue.put("b", 100, resumed=True)
    queue.is_known(1.0)
    assert queue.remove_late(100.0) == []
    assert set(queue.taken(100)) == {begun, resumed}


def test_who_has_waited_too_long_is_refused():
    queue = Queue(waiting_seconds=1.0)
    late, young = queue.put("a"), queue.put("b", since=1.0)
    assert queue.remove_late(1.5) == [late]
    assert queue.taken() == [young]


def test_it_is_looked_some_times_a_second():
    queue = Queue(waiting_seconds=1.0)
    assert queue.remove_late(0.0) == []
    queue.put("a")
    assert queue.remove_late(0.99) == []
    assert queue.remove_late(1.05) == []
    assert len(queue.remove_late(1.1)) == 1


def test_in_a_flood_requests_wait_for_a_second_at_most_and_longer_again_after_it():
    patience, now = Patience(15.0, 0.0), 0.0
    for _ in range(5):  # twice as many refused as taken is no flood
        patience.note(now, taken=True)
        patience.note(now, taken=False)
        patience.note(now, taken=False)
        now += 0.5
    assert patience.seconds == 15.0
    seen = []
    for _ in range(6):
        for refused in range(10):
            patience.note(now, taken=refused == 0)
        now += 0.5
        patience.note(now, taken=False)
        seen.append(patience.seconds)
    assert seen == [7.5, 3.75, 1.875, 1.0, 1.0, 1.0]
    patience.note(now + 1.0, taken=True)
    assert patience.seconds == 2.0
    patience.note(now + 60.0, taken=True)
    assert patience.seconds == 15.0


def test_in_a_flood_a_client_fills_a_second_of_the_queue_and_others_come_in():
    queue = Queue(0.125)
    queue.patience.seconds = 1.0
    for _ in range(9):
        queue.put("a")
    with pytest.raises(QueueFullError):
        queue.put("a")
    queue.put("b")


def test_in_a_flood_what_waits_already_is_cut_to_a_second_but_the_first_of_each_client():
    queue = Queue()
    many, one = [queue.put("a") for _ in range(40)], queue.put("b")
    queue.is_known(0.125)
    assert queue.remove_late(0.0) == []
    queue.patience.seconds = 1.0
    assert queue.remove_late(0.5) == many[8:]
    assert queue.taken(9) == [*many[:8], one]


@pytest.mark.parametrize("seed", range(20))
def test_a_wait_is_never_longer_than_foretold(seed):
    """With a sentence a second: foretold is the number of sentences that join the search before."""
    draw = random.Random(seed)
    queue = Queue(1.0, waiting_seconds=1e9)
    for _ in range(draw.randrange(20, 40)):
        queue.put(draw.choice("abcd"), draw.choice([1, 2, 5, 20, 60]))
    queue.taken(draw.randrange(40))
    wait, foretold = queue._wait(), {}
    for client, tickets in queue._clients.items():
        before = 0
        for ticket in tickets:
            if not ticket.taken:
                foretold[ticket] = wait(client, before)
            before += min(16, ticket.left)
    order = queue.taken(queue.sentences)
    assert foretold
    for ticket, seconds in foretold.items():
        assert order.index(ticket) <= seconds
