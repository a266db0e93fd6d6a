"""Progress of preparing a text, where there is no terminal."""

import pytest

from locant.cli import progress
from locant.cli.progress import PreparationProgress


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test sets."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_nothing_is_said_of_a_short_preparation(clock, capsys):
    shown = PreparationProgress()
    for what in ("reading", "cleaning", "tokenising"):
        for share in (0.0, 0.5, 1.0):
            clock[0] += 0.2
            shown.show(what, share)
    shown.end()
    assert not capsys.readouterr().err


def test_a_long_one_says_now_and_then_how_long_it_will_take(clock, capsys):
    shown = PreparationProgress()
    for step in range(101):
        clock[0] = step
        shown.show("reading", 0.5 + step / 400)  # half of it was done by a killed process
    shown.show("learning the vocabulary", 0.0)
    shown.end()
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "Preparing text: reading",
        "reading  58%, about 3 minutes left",
        "reading  66%, about 2 minutes left",
        "reading  73%, about 2 minutes left",
        "Preparing text: learning the vocabulary",
    ]
