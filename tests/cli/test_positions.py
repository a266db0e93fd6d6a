"""``locant positions`` as a user types it."""

import json

import pytest

from locant.analysis import PROPERTIES
from locant.cli import main
from locant.positions import SCHEMES, option_names


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    # Each scheme takes its time to measure; a few stand for all.
    for name in set(SCHEMES) - {"none", "sinusoidal", "learned"}:
        monkeypatch.delitem(SCHEMES, name)


def test_the_list_fits_80_columns(narrow: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["positions"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line.split() for line in lines]
    assert ["none", "nothing", "no", "no", "yes", "yes", "yes"] in rows
    assert ["sinusoidal", "embedding", "yes", "yes", "yes", "yes", "yes"] in rows
    assert ["learned", "embedding", "yes", "no", "no", "yes", "yes"] in rows
    assert any(row[:5] == ["sinusoidal", "Vaswani", "et", "al.", "2017"] for row in rows)
    assert any(row[:5] == ["learned", "Gehring", "et", "al.", "2017"] for row in rows)


def test_one_scheme(narrow: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["positions", "sinusoidal"]) == 0
    out = capsys.readouterr().out
    assert "sin(pos / 10000^(2i/E))" in out
    assert all(option in out for option in option_names(SCHEMES["sinusoidal"]))
    assert "10000.0" in out
    assert max(len(line) for line in out.splitlines()[-14:]) <= 80


def test_json(narrow: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["positions", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert list(data) == list(SCHEMES)
    assert [entry["name"] for entry in data["learned"]["properties"]] == list(PROPERTIES)
    assert data["learned"]["options"]["max_positions"] == 1024
    assert data["learned"]["places"] == ["embedding"]
    extends = data["learned"]["properties"][2]
    assert (extends["verdict"], extends["measured"]) == ("no", 1024)


def test_an_unknown_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["positions", "sinusoid"]) == 2
    error = capsys.readouterr().err
    assert "Unknown positional scheme 'sinusoid'. Did you mean 'sinusoidal'?" in error
