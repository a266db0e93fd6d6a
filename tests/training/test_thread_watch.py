"""Fewer threads while something else keeps cores busy; the times are made up."""

from __future__ import annotations

import pytest
import torch

from locant.training.thread_watch import ThreadWatch, WatchedThreads


def waits(watch: ThreadWatch, now: float) -> int:
    return watch.note(seconds=1.0, computed=0.2, now=now)


def computes(watch: ThreadWatch, now: float) -> int:
    return watch.note(seconds=1.0, computed=0.95, now=now)


def test_fewer_threads_until_it_is_over() -> None:
    watch = ThreadWatch(4)
    assert computes(watch, 0) == 4
    assert waits(watch, 10) == 3
    assert waits(watch, 11) == 2
    assert computes(watch, 12) == 2
    assert computes(watch, 21) == 4, "all are tried again"
    assert computes(watch, 22) == 4, "it is over"
    assert waits(watch, 30) == 3
    assert computes(watch, 34.9) == 3
    assert computes(watch, 35) == 4, "the first pause is short again"


def test_pauses_double_up_to_a_minute() -> None:
    watch, now, pauses = ThreadWatch(2), 0.0, []
    for _ in range(6):
        assert waits(watch, now) == 1
        begun = now
        while computes(watch, now) == 1:
            now += 1
        pauses.append(now - begun)
    assert pauses == [5, 10, 20, 40, 60, 60]


def test_short_updates_are_judged_together() -> None:
    watch = ThreadWatch(2)
    assert [watch.note(seconds=0.2, computed=0.1, now=i) for i in range(3)] == [2, 2, 1]
    watch = ThreadWatch(2)
    assert [watch.note(seconds=0.2, computed=0.1 * i, now=i) for i in range(3)] == [2, 2, 1]


def test_one_thread_stays_one() -> None:
    watch = ThreadWatch(1)
    assert waits(watch, 0) == waits(watch, 10) == 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Times that stand still until a test changes them."""
    times = {"perf_counter": 0.0, "thread_time": 0.0}
    for name in times:
        monkeypatch.setattr(f"locant.training.thread_watch.time.{name}", lambda name=name: times[name])
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield times
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("fixed", "device", "threads"), [(False, "cpu", 1), (True, "cpu", 2), (False, "meta", 2)], ids=str
)
def test_a_training_on_the_cpu_is_watched(
    clock: dict[str, float], monkeypatch: pytest.MonkeyPatch, fixed: bool, device: str, threads: int
) -> None:
    monkeypatch.setattr("locant.runtime._FIXED", fixed)
    with WatchedThreads(torch.device(device)) as watched:
        with watched.update():
            clock["perf_counter"] += 1.0  # and no processor time
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2
