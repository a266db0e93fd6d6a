"""How far work is, on a terminal and elsewhere."""

import sys

from locant.cli import console
from locant.cli.console import WorkBar
from locant.cli.progress import TrainingProgress


def test_only_a_long_preparation_says_now_and_then_how_far_it_is(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    with TrainingProgress(None) as shown:
        for what in ("cleaning", "tokenising"):
            for share in (0.0, 0.5, 1.0):
                now[0] += 0.2
                shown.on_preparing(what, share)
        assert not capsys.readouterr().err
        for step in range(1001):
            now[0] += 0.1
            shown.on_preparing("reading", step / 1000)
    lines = capsys.readouterr().err.splitlines()
    assert 15 <= len(lines) <= 20
    assert lines[-1].split() == ["reading", "100%"]


def test_a_bar_on_a_terminal_has_no_number_until_one_is_known(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with WorkBar("importing"):
        sys.stdout.write("what is printed stays in its place\n")
    said = capsys.readouterr()
    assert said.out == "what is printed stays in its place\n"
    assert "importing" in said.err
    assert "%" not in said.err
    with WorkBar("reading") as bar:
        for task in ("one", "other"):
            bar.show(0.5, "half", before=task, task=task)
    last = capsys.readouterr().err.splitlines()[-3:]
    assert [word in "".join(last) for word in ("one", "other", "50%", "half", "reading")] == [True] * 4 + [False]
