import threading
import time

import pytest

from locant.text import prefetch


def workers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("locant-prefetch")]


def test_an_exception_arrives_after_the_items_before_it():
    def failing():
        yield 1
        raise ValueError("broken")

    stream = prefetch(failing())
    assert next(stream) == 1
    with pytest.raises(ValueError, match="broken"):
        next(stream)
    assert workers() == []


def test_it_reads_ahead_but_no_further_than_the_depth():
    read = []

    def counted():
        for number in range(100):
            read.append(number)
            yield number

    stream = prefetch(counted(), depth=3)
    next(stream)
    deadline = time.monotonic() + 60
    while len(read) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(read) == 4, "one in use, three waiting"
    stream.close()


def test_the_thread_ends_when_the_consumer_stops_early():
    def endless():
        while True:
            yield 0

    stream = prefetch(endless(), depth=2)
    next(stream)
    assert len(workers()) == 1
    stream.close()
    assert workers() == []
