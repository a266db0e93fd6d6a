"""The scheduler: turns, limits, cancelled requests, failures and the end."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from locant.errors import LocantError
from locant.models import DecodingSettings
from locant.server.errors import RequestError
from locant.server.scheduler import FairQueue, Scheduler, Ticket
from locant.translation import Hypothesis
from locant.translation.compiled import Searched

SETTINGS = DecodingSettings()
SENTENCE = Searched([1], 5, [2], SETTINGS)


class Search:
    """Finishes all of its sentences at each step that it is allowed."""

    def __init__(self, room: int, allowed: threading.Semaphore, order: list[int], fail: Callable[[int], bool]):
        self.room, self.allowed, self.order, self.fail = room, allowed, order, fail
        self.inside: dict[object, list[int]] = {}
        self.removed: list[object] = []
        self.sharing = self.waiting = 0

    def add(self, key, source, max_length, prefix, settings):
        self.inside[key] = source
        self.order.append(source[0])

    def remove(self, key):
        self.removed.append(self.inside.pop(key))

    def has_room(self, tokens):
        return len(self.inside) < self.room

    def step(self, sharing=1, waiting=0):
        self.sharing, self.waiting = sharing, waiting
        assert self.allowed.acquire(timeout=60)
        if any(self.fail(source[0]) for source in self.inside.values()):
            raise RuntimeError("broken")
        found = [(key, [Hypothesis([*source, 9], 0.0, 0.0)]) for key, source in self.inside.items()]
        self.inside.clear()
        return found

    @property
    def active(self):
        return len(self.inside)


class Fixture:
    def __init__(self, room=2, fail=lambda number: False, **limits):
        self.allowed, self.order = threading.Semaphore(0), []
        self.searches: list[Search] = []
        self.results: dict[int, object] = {}
        self.arrived = threading.Condition()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

        def make():
            self.searches.append(Search(room, self.allowed, self.order, fail))
            return self.searches[-1]

        limits = {"name": "lanes", "waiting_requests": 4, "waiting_sentences": 300, "waiting_seconds": 60.0, **limits}
        self.scheduler = Scheduler(make, **limits)

    def call(self, work):
        async def called():
            return work()

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(60)

    def submit(self, client, numbers, **options):
        def note(number, outcome):
            if not outcome.cancelled():
                with self.arrived:
                    self.results[number] = outcome.result()
                    self.arrived.notify_all()

        def submit():
            ticket = self.scheduler.submit(
                client, [Searched([number], 5, [2], SETTINGS) for number in numbers], **options
            )
            for number, outcome in zip(numbers, ticket.outcomes, strict=True):
                outcome.add_done_callback(partial(note, number))
            return ticket

        return self.call(submit)

    def step(self, count=1):
        for _ in range(count):
            self.allowed.release()

    def wait_for(self, *numbers):
        with self.arrived:
            assert self.arrived.wait_for(lambda: set(numbers) <= set(self.results), timeout=60), self.results

    def wait_until(self, condition):
        done = threading.Event()
        for _ in range(12_000):
            if condition():
                return
            done.wait(0.005)
        raise AssertionError("it did not come to that")


@pytest.fixture
def make():
    made = []

    def build(**options):
        made.append(Fixture(**options))
        return made[-1]

    yield build
    for each in made:
        each.step(1000)
        each.scheduler.end()


def test_a_short_request_does_not_wait_for_a_long_one(make):
    found = make(room=2)
    found.submit("long", list(range(100, 250)))
    found.wait_until(lambda: len(found.order) == 2)
    found.submit("short", [1])
    found.step(9)
    found.wait_for(1)
    assert len(found.results) <= 18  # a turn of the long one


def test_what_is_asked_for_again_comes_first_and_is_not_refused(make):
    found = make(room=1, waiting_requests=2)
    found.submit("a", [1])
    found.wait_until(lambda: found.order == [1])
    found.submit("a", [2])
    found.submit("b", [3])
    with pytest.raises(RequestError):
        found.submit("a", [4])
    found.submit("a", [4], resumed=True)
    found.step(4)
    found.wait_for(1, 2, 3, 4)
    assert found.order.index(4) < found.order.index(2)


def test_a_request_that_has_waited_too_long_is_refused_while_a_step_lasts(make):
    found = make(room=1, waiting_seconds=0.05)
    found.submit("a", [1, 2, 3], resumed=True)
    found.wait_until(lambda: found.order == [1])
    found.submit("b", [4])
    found.wait_for(4)
    assert isinstance(found.results[4], RequestError)
    found.step(3)
    found.wait_for(1, 2, 3)
    assert found.order == [1, 2, 3]
    assert not isinstance(found.results[3], LocantError)


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 40)), min_size=1, max_size=12))
def test_every_client_has_its_turn(requests):
    """Until a client is done, no other one has had more than a turn more than it."""
    queue = FairQueue(1000, 10_000)
    for client, count in requests:
        queue.add(Ticket(client, [SENTENCE] * count))
    left = Counter({client: 0 for client, _ in requests})
    for client, count in requests:
        left[client] += count
    taken = Counter()
    while (entry := queue.first()) is not None:
        queue.take()
        taken[entry.client] += 1
        left[entry.client] -= 1
        assert all(taken[entry.client] - taken[other] <= 16 for other in left if left[other])
    assert not +left
    assert queue.requests == queue.sentences == 0


def order_of(queue):
    """Return the requests in the order in which their sentences have their turns."""
    found = []
    while (entry := queue.first()) is not None:
        queue.take()
        found.append(entry)
    return found


def test_requests_of_a_client_take_turns_too():
    queue, long, other = FairQueue(9, 99), Ticket("a", [SENTENCE] * 40), Ticket("a", [SENTENCE] * 20)
    queue.add(long)
    queue.add(other)
    assert order_of(queue) == [long] * 16 + [other] * 16 + [long] * 16 + [other] * 4 + [long] * 8


def test_the_sentences_of_a_short_request_do_not_wait_for_those_of_others():
    queue = FairQueue(99, 999)
    for number in range(10):
        queue.add(Ticket(f"client {number % 3}", [SENTENCE] * 4))
    order = order_of(queue)
    assert all(len(set(order[first : first + 4])) == 1 for first in range(0, 40, 4))


@pytest.mark.parametrize(
    ("there", "client", "sentences", "is_taken"),
    [
        ([("a", 1), ("b", 1)], "c", 2, True),
        ([("a", 1), ("b", 1), ("c", 1), ("d", 1)], "e", 1, False),
        ([("a", 1), ("a", 1), ("a", 1)], "a", 1, False),
        ([("a", 1), ("a", 1), ("a", 1)], "b", 1, True),
        ([("a", 3)], "b", 1, True),
        ([("a", 3)], "b", 2, False),
        ([("a", 2)], "a", 2, False),
    ],
)
def test_a_queue_is_full_of_requests_or_sentences_or_of_one_clients(there, client, sentences, is_taken):
    queue = FairQueue(4, 4)
    for name, count in there:
        queue.add(Ticket(name, [SENTENCE] * count))
    if is_taken:
        queue.require_room(client, sentences)
    else:
        with pytest.raises(RequestError) as refused:
            queue.require_room(client, sentences)
        assert refused.value.status == 503
    with pytest.raises(RequestError) as refused:
        queue.require_room(client, 4)
    assert refused.value.status == 400


def test_results_are_those_of_the_sentences(make):
    found = make(room=3)
    found.step(10)
    found.submit("a", [1, 2, 3, 4, 5])
    found.wait_for(1, 2, 3, 4, 5)
    assert [found.results[number][0].tokens[0] for number in (1, 2, 3, 4, 5)] == [1, 2, 3, 4, 5]
    found.wait_until(lambda: found.scheduler.is_idle)
    assert REGISTRY.get_sample_value("locant_waiting_sentences", {"model": "lanes"}) == 0


def test_a_full_queue_refuses_and_says_when_to_come_back(make):
    found = make(room=1, waiting_requests=2)
    found.submit("a", [1, 2])
    found.wait_until(lambda: found.order == [1])
    found.submit("b", [3])
    with pytest.raises(RequestError):
        found.scheduler.check_room("c")
    with pytest.raises(RequestError) as refused:
        found.submit("c", [4])
    assert (refused.value.status, refused.value.retry_after) == (503, 2)
    found.step(3)
    found.wait_for(1, 2, 3)
    found.scheduler.check_room("c")
    found.submit("c", [4])
    found.step()
    found.wait_for(4)


def test_a_cancelled_request_leaves_its_places(make):
    found = make(room=2)
    ticket = found.submit("a", [1, 2, 3, 4])
    found.wait_until(lambda: found.order == [1, 2])
    found.call(lambda: found.scheduler.release(ticket))
    found.submit("b", [5])
    found.step(2)
    found.wait_for(5)
    found.wait_until(lambda: found.scheduler.is_idle)
    assert not {1, 2, 3, 4} & set(found.results)
    assert 3 not in found.order


def test_a_search_that_breaks_fails_its_sentences_and_is_replaced(make):
    found = make(room=2, fail=lambda number: number == 1)
    found.submit("a", [1])
    found.step()
    found.wait_for(1)
    assert isinstance(found.results[1], LocantError)
    found.submit("b", [2])
    found.step()
    found.wait_for(2)
    assert found.results[2][0].tokens == [2, 9]
    assert len(found.searches) == 2


def test_what_is_there_at_the_end_fails(make):
    found = make(room=1)
    found.submit("a", [1, 2, 3])
    found.wait_until(lambda: found.order == [1])
    found.step()
    found.scheduler.end()
    found.wait_for(3)
    assert isinstance(found.results[3], RequestError)
    with pytest.raises(RequestError):
        found.submit("b", [3])
    found.wait_until(lambda: not any(thread.name.startswith("model lanes ") for thread in threading.enumerate()))


def test_many_sentences_are_shared_by_two_lanes(make):
    found = make(room=100, lanes=2)
    found.submit("a", list(range(20)))
    found.wait_until(lambda: len(found.order) == 20 and len(found.searches) == 2)
    found.wait_until(lambda: all(search.sharing == 2 for search in found.searches))
    assert [len(search.inside) for search in found.searches] == [10, 10]
    found.step(2)
    found.wait_for(*range(20))
    assert all(found.results[number][0].tokens == [number, 9] for number in range(20))
    found.wait_until(lambda: found.scheduler.is_idle)


def test_a_few_sentences_are_in_one_lane_with_all_threads(make):
    found = make(room=100, lanes=2)
    found.submit("a", list(range(15)))
    found.wait_until(lambda: len(found.order) == 15)
    found.wait_until(lambda: found.searches[0].sharing == 1)
    assert len(found.searches) == 1


def test_a_sentence_that_nobody_awaits_any_more_leaves_its_place(make):
    found = make(room=1)
    running, waiting = found.submit("a", [1]), found.submit("b", [2])
    found.wait_until(lambda: found.order == [1])
    for ticket in (running, waiting):
        found.call(lambda ticket=ticket: (ticket.outcomes[0].cancel(), found.scheduler.release(ticket)))
    found.step()
    found.wait_until(lambda: found.scheduler.is_idle)
    assert found.order == [1]
