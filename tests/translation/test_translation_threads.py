"""Threads follow what the system grants, and share pieces of work; how sentences are cut into these."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import tiny_model
from with_kernels import needs_compiler

from locant.models import DecodingSettings
from locant.text import BOS, EOS, TokenizerPair
from locant.translation import CompiledEngine, Translator, threads
from locant.translation.threads import side_by_side, useful_threads


def test_threads_follow_what_the_system_grants(monkeypatch: pytest.MonkeyPatch) -> None:
    system = SimpleNamespace(seconds=0.0, cores=8)
    monkeypatch.setattr("locant.runtime._FIXED", False)
    monkeypatch.setattr(threads, "granted_cores", lambda: system.cores)
    monkeypatch.setattr(threads, "time", SimpleNamespace(monotonic=lambda: system.seconds))
    for number, (cores, granted) in enumerate(((8, 8), (3, 3), (20, 8)), start=1):
        system.seconds, system.cores = 3.0 * number, cores
        assert [useful_threads(count) for count in (1, 8)] == [1, granted]
    system.cores = 1
    assert useful_threads(8) == 8, "it does not look at every call"
    system.seconds += 3
    assert useful_threads(8) == 1
    monkeypatch.setattr("locant.runtime._FIXED", True)
    assert useful_threads(8) == 8, "the user has said how many there are"


def test_results_come_while_an_earlier_piece_still_runs() -> None:
    released = threading.Event()
    running = side_by_side([lambda _: released.wait(30), *([lambda _: "quick"] * 50)], 2)
    assert next(running) == "quick"
    released.set()
    assert sorted(map(str, running)) == ["True", *(["quick"] * 49)]


def test_threads_stay_from_call_to_call() -> None:
    seen = {thread for _ in range(9) for thread in side_by_side([lambda _: threading.current_thread()] * 12, 2)}
    assert len(seen) <= 4, "twice as many as cores"


@pytest.mark.parametrize("stopped", ["by an error", "by the caller"])
def test_what_has_not_begun_never_does(stopped: str) -> None:
    done: list[int] = []

    def piece(number: int) -> int:
        if stopped == "by an error" and number == 0:
            raise ValueError("no")
        time.sleep(0.005)
        done.append(number)
        return number

    running = side_by_side([lambda _, n=n: piece(n) for n in range(400)], 2)
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
        list(side_by_side([fails, long], 2))
    assert told.is_set()


@needs_compiler
@given(st.integers(1, 200), st.integers(1, 5), st.integers(1, 9))
def test_groups(size: int, rows: int, threads: int) -> None:
    engine = compiled_engine()
    least, best = engine.rows_of_a_thread
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
def test_sentences_of_many_groups_are_found_as_alone() -> None:
    engine = compiled_engine()
    sources = [[4 + (number * step) % 20 for step in range(1 + number % 7)] + [EOS] for number in range(70)]
    limits = [3 + number % 30 for number in range(70)]
    found = dict(engine.translate(sources, limits, (BOS,), DecodingSettings(beam=1)))
    assert sorted(found) == list(range(70))
    for number in (0, 13, 69):
        (alone,) = engine.translate([sources[number]], [limits[number]], (BOS,), DecodingSettings(beam=1))
        assert [one.tokens for one in alone[1]] == [one.tokens for one in found[number]]


@needs_compiler
def test_sixteen_threads_on_one_translator(tokenizers: TokenizerPair) -> None:
    """Sentences of other lengths need position tables of other lengths, none of which may take another's place."""
    model = tiny_model(tokenizers.source.vocab_size, seed=3, sharpness=3.0, tie_output=True)
    settings = DecodingSettings(beam=2, max_length_extra=6)
    texts = [("ab" * 200)[: 1 + 11 * index] for index in range(16)]
    expected = Translator(model, tokenizers, settings, engine=CompiledEngine(model)).translate(texts)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns as often as they can
    try:
        for _ in range(4):
            one = Translator(model, tokenizers, settings, engine=CompiledEngine(model))
            with ThreadPoolExecutor(16) as pool:
                assert list(pool.map(one.translate, texts)) == expected
    finally:
        sys.setswitchinterval(before)


@functools.cache
def compiled_engine() -> CompiledEngine:
    return CompiledEngine(tiny_model(24, 1), "float32")
