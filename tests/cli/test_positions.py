"""``locant positions`` as a user types it."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from locant.analysis import PROPERTIES
from locant.cli import main
from locant.errors import ConfigError
from locant.models import TransformerConfig
from locant.positions import SCHEMES, option_names
from locant.positions.registry import scheme_name


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
    assert main(["positions", "sinusodal"]) == 2
    assert "'sinusoidal'" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="'rope'"):
        scheme_name("ropes")


def test_schemes_have_the_names_of_the_field() -> None:
    for name, scheme in SCHEMES.items():
        assert {scheme_name(word) for word in (name, name.upper(), scheme.title)} == {name}
    words = {"rope": "rotary", "RoPE": "rotary", "abs": "learned", "nope": "none", "sinusoid": "sinusoidal"}
    assert {word: scheme_name(word) for word in words} == words
    config = TransformerConfig(source_vocab_size=8, target_vocab_size=8, position="RoPE")
    assert config.position == "rotary"


def test_identify_names_the_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "numbers.txt"
    rows = ("0 1 0 1 0 1", ".8415 .5403 .0022 1 0 1", ".9093 -.4161 .0043 1 0 1", ".1411 -.99 .0065 1 0 1")
    path.write_text("\n".join(rows), encoding="utf-8")
    assert main(["positions", "--identify", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("WRONG ")
    assert "E4: The exponent doubled. Source: Vaswani et al. 2017, section 3.5." in out
    assert main(["positions", "--json", "--identify", str(path)]) == 0
    finding = json.loads(capsys.readouterr().out)
    assert (finding["errata"], finding["wrong"], finding["recognised"]) == (["e4"], True, True)


def test_identify_reads_arrays_and_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    angles = np.arange(1, 41)[:, None] * 10000 ** (-np.arange(0, 16, 2) / 16)
    np.save(tmp_path / "table.npy", np.stack((np.sin(angles), np.cos(angles)), -1).reshape(40, 16))
    assert main(["positions", "--identify", str(tmp_path / "table.npy")]) == 0
    assert "(E21)" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1.0 0.1 0.01 0.001")))
    assert main(["positions", "--identify", "-"]) == 0
    assert "nverse frequencies" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "name", "code", "said"),
    [
        (None, "gone.txt", 2, "There is no file"),
        (b"no numbers", "words.txt", 1, "words.txt: "),
        (b"\xff\xfe\x00", "bytes.txt", 1, "is not text in UTF-8 (byte 0)"),
        (b"not an array", "table.npy", 1, "is not an array of numbers"),
    ],
)
def test_identify_says_what_it_cannot_read(
    content: bytes | None, name: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert main(["positions", "--identify", str(tmp_path / name)]) == code
    assert said in capsys.readouterr().err


def test_identify_takes_no_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["positions", "rotary", "--identify", "x.txt"]) == 2
    assert "leave out the name of a scheme" in capsys.readouterr().err
