"""Pieces of work that threads share, and how sentences are cut into them."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import tiny_model
from with_kernels import needs_compiler

from locant.models import DecodingSettings
from locant.text import BOS, EOS
from locant.translation import CompiledEngine
from locant.translation.side_by_side import SideBySide

SETTINGS = DecodingSettings(beam=1)


def test_all_results_in_the_order_in_which_they_are_done() -> None:
    second_done = threading.Event()

    def first(_: object) -> int:
        assert second_done.wait(30)
        return 1

    def second(_: object) -> int:
        second_done.set()
        return 2

    threads = SideBySide()
    assert list(threads.run([first, second], 2)) == [2, 1]
    assert sorted(threads.run([lambda _, n=n: n for n in range(50)], 3)) == list(range(50))


def test_one_thread_and_one_piece_are_the_caller_s() -> None:
    threads, caller = SideBySide(), threading.get_ident()
    assert list(threads.run([lambda _: threading.get_ident()] * 4, 1)) == [caller] * 4
    assert list(threads.run([lambda _: threading.get_ident()], 4)) == [caller]


@pytest.mark.parametrize("stopped", ["by an error", "by the caller"])
def test_what_has_not_begun_never_does(stopped: str) -> None:
    done: list[int] = []

    def piece(number: int) -> int:
        if stopped == "by an error" and number == 0:
            raise ValueError("no")
        time.sleep(0.005)
        done.append(number)
        return number

    running = SideBySide().run([lambda _, n=n: piece(n) for n in range(400)], 2)
    if stopped == "by an error":
        with pytest.raises(ValueError, match="no"):
            list(running)
    else:
        next(running)
        running.close()
    reached = len(done)
    assert reached < 100
    time.sleep(0.03)
    assert len(done) == reached, "nothing goes on afterwards"


def test_pieces_that_have_begun_are_told_that_nobody_wants_them() -> None:
    begun, told = threading.Event(), threading.Event()

    def long(wanted: Callable[[], bool]) -> None:
        assert wanted()
        begun.set()
        while wanted():
            time.sleep(0.001)
        told.set()

    def fails(_: object) -> None:
        assert begun.wait(30)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(SideBySide().run([fails, long], 2))
    assert told.is_set()


def test_threads_that_work_for_others_are_not_waited_for() -> None:
    threads, over, busy = SideBySide(), threading.Event(), threading.Semaphore(0)

    def long(_: object) -> None:
        busy.release()
        assert over.wait(30)

    # Four callers, who with what they share keep all four threads busy besides themselves.
    others = [threading.Thread(target=lambda: list(threads.run([long, long], 2))) for _ in range(4)]
    for other in others:
        other.start()
    for _ in range(8):
        assert busy.acquire(timeout=30)
    try:
        running = threading.Thread(target=lambda: found.extend(threads.run([lambda _, n=n: n for n in range(3)], 2)))
        found: list[int] = []
        running.start()
        running.join(20)
        assert sorted(found) == [0, 1, 2]
        assert not running.is_alive()
    finally:
        over.set()
        for other in others:
            other.join()


def test_twice_as_many_threads_as_cores_share_the_pieces() -> None:
    everyone = threading.Barrier(4)

    def piece(_: object) -> int:
        everyone.wait(30)
        return threading.get_ident()

    assert len(set(SideBySide().run([piece] * 8, 2))) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_of_fork_has_threads_of_its_own() -> None:
    threads = SideBySide()
    pieces = [lambda _, n=n: n for n in range(6)]
    assert sorted(threads.run(pieces, 2)) == list(range(6))
    child = os.fork()
    if not child:
        os._exit(0 if sorted(threads.run(pieces, 2)) == list(range(6)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_where_a_program_ends_the_caller_does_all() -> None:
    """A thread may go on after the main one, when no threads are made any more."""
    code = (
        "import threading\n"
        "from locant.translation.side_by_side import SideBySide\n"
        "def late():\n"
        "    threading.main_thread().join()\n"
        "    print(sorted(SideBySide().run([lambda _, n=n: n for n in range(4)], 2)))\n"
        "threading.Thread(target=late).start()\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert (run.stdout, run.returncode) == ("[0, 1, 2, 3]\n", 0), run.stderr


@needs_compiler
@given(st.integers(1, 200), st.integers(1, 5), st.integers(1, 9))
def test_groups(size: int, rows: int, threads: int) -> None:
    engine = compiled_engine()
    least, best = engine.model.rows_of_a_thread
    groups = engine._groups(list(range(size)), rows, threads)
    assert [index for group in groups for index in group] == list(range(size))
    assert all(groups), "none is empty"
    if len(groups) == 1 < threads:
        assert size * rows < least * threads or size < threads
    else:
        assert len(groups) >= threads
        assert len(groups) >= 4 * threads or len(groups) % threads == 0 or len(groups) == size
        assert len(groups) == 1 or all(len(group) * rows > least - rows for group in groups)
        assert all(len(group) * rows < max(2 * best, 2 * least * threads) + rows for group in groups)


@needs_compiler
def test_batches_come_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, calls, plain = compiled_engine(), [], SideBySide.run

    def run(self: SideBySide, work: list, threads: int) -> object:
        calls.append(len(work))
        yield from plain(self, work, threads)

    monkeypatch.setattr(SideBySide, "run", run)
    sources = [[5, 6, EOS]] * 40
    found = dict(engine.translate(sources, [9] * 40, (BOS,), DecodingSettings(beam=1, batch_tokens=60)))
    assert sorted(found) == list(range(40))
    assert len(calls) > 1, "what does not fit into memory at once is not translated at once"


@needs_compiler
def test_sentences_of_many_groups_are_found_as_alone() -> None:
    engine = compiled_engine()
    sources = [[4 + (number * step) % 20 for step in range(1 + number % 7)] + [EOS] for number in range(70)]
    limits = [3 + number % 30 for number in range(70)]
    found = dict(engine.translate(sources, limits, (BOS,), SETTINGS))
    assert sorted(found) == list(range(70))
    for number in (0, 13, 69):
        (alone,) = engine.translate([sources[number]], [limits[number]], (BOS,), SETTINGS)
        assert [one.tokens for one in alone[1]] == [one.tokens for one in found[number]]


@functools.cache
def compiled_engine() -> CompiledEngine:
    return CompiledEngine(tiny_model(24, 1), "float32")
