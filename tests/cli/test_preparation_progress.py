"""Progress of preparing a text, where there is no terminal."""

from locant.cli import console
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
