"""``locant figures`` as a user types it."""

from pathlib import Path

import pytest

from locant.cli import main
from locant.figures import FIGURES


def test_one_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["figures", "heatmap", "--scheme", "binary", "--d-model", "8", "--length", "16", "--format", "svg"]
    assert main([*arguments, "-o", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"Wrote {tmp_path / 'heatmap.svg'}.\n"
    assert (tmp_path / "heatmap.svg").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.slow
def test_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in set(FIGURES) - {"circle", "waves"}:
        monkeypatch.delitem(FIGURES, name)
    assert main(["figures", "--all", "--output", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["circle.png", "errata.html", "index.html", "waves.png"]


def test_errata(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures", "errata", "-o", str(tmp_path)]) == 0
    assert 'id="e31"' in (tmp_path / "errata.html").read_text(encoding="utf-8")
    assert main(["figures", "errata", "--format", "md", "-o", str(tmp_path)]) == 0
    assert "\n### E31\n" in (tmp_path / "errata.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out == f"Wrote {tmp_path / 'errata.html'}.\nWrote {tmp_path / 'errata.md'}.\n"


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["figures"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in FIGURES)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["heatmp", "-o", "x"], "Did you mean 'heatmap'?"),
        (["--all", "heatmap", "-o", "x"], "--all draws every figure"),
        (["--all", "--length", "5", "-o", "x"], "--all draws every figure"),
        (["--all", "--text", "a", "-o", "x"], "--text belongs to the figures of a trained model"),
        (["errata", "waves", "-o", "x"], "The errata are a page of their own"),
        (["errata", "--length", "5", "-o", "x"], "The errata are a page of their own"),
        (["errata", "--format", "png", "-o", "x"], "Known: html, md."),
        (["heatmap", "--length", "1000000", "-o", "x"], "must be 2 to 4,096; got 1,000,000"),
    ],
)
def test_wrong_usage(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["figures", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
