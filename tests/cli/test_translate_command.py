"""``locant translate``: where lines come from, where translations go, and lines that are too long."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tiny_models import tiny_model, tiny_tokenizers

from locant.cli import main
from locant.models import DecodingSettings
from locant.translation import Translator
from locant.translation.lines import LONGEST_LINE

LIMIT = 20
LINES = ["alpha beta", "mu nu xi omicron kappa", "", "gamma", "zeta eta theta iota"]
LONG = "mu nu xi omicron kappa. " * 8


@pytest.fixture(scope="module")
def translator() -> Translator:
    tokenizers = tiny_tokenizers()
    model = tiny_model(tokenizers.source.vocab_size, seed=3, sharpness=3.0, tie_output=True)
    settings = DecodingSettings(beam=3, max_length_extra=6, max_source_length=LIMIT)
    return Translator(model, tokenizers, settings)


@pytest.fixture(scope="module")
def folder(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "model"
    translator.save_pretrained(path)
    return path


@pytest.fixture
def translate(folder: Path) -> Callable[..., int]:
    return lambda *arguments: main(["translate", str(folder), "--engine", "pytorch", *map(str, arguments)])


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def expected(translator: Translator) -> list[str]:
    return translator.translate(LINES)


def test_output_goes_through_a_link_and_to_a_descriptor(translate, expected, tmp_path, capfd) -> None:
    source = write_lines(tmp_path / "in.txt", LINES)
    (tmp_path / "link").symlink_to("out.txt")
    assert translate("-i", source, "-o", tmp_path / "link") == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "out.txt").read_text().splitlines() == expected
    if Path("/dev/stdout").exists():
        assert translate("-i", source, "-o", "/dev/stdout") == 0
        assert capfd.readouterr().out.splitlines() == expected
        assert translate("-i", source, "-o", "/dev/null") == 0
        assert Path("/dev/null").is_char_device()


def test_a_file_is_translated_in_windows_and_keeps_its_order(
    translate, expected, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    chunks = Translator.translate_chunks

    def watched(self: Translator, windows, **options: object):
        def counted():
            for window in windows:
                held.append(len(window))
                yield window

        return chunks(self, counted(), **options)

    monkeypatch.setattr(Translator, "translate_chunks", watched)
    monkeypatch.setattr("locant.translation.lines._MOST_LINES", 4)
    with gzip.open(tmp_path / "in.gz", "wt") as file:
        file.writelines(f"{line}\n" for line in LINES * 3)
    assert translate("-i", tmp_path / "in.gz", "-o", tmp_path / "out.txt") == 0
    assert (tmp_path / "out.txt").read_text().splitlines() == expected * 3
    assert held == [4, 4, 4, 3]
    assert translate("-i", tmp_path / "in.gz", "-o", tmp_path / "best.txt", "--n-best", "2") == 0
    numbers = [int(line.split("\t")[0]) for line in (tmp_path / "best.txt").read_text().splitlines()]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(1, 16))


@pytest.mark.parametrize(("choice", "code"), [((), 1), (("--on-long", "empty"), 0), (("--on-long", "split"), 0)])
def test_a_line_that_is_too_long_says_so_in_its_place_and_costs_no_other(
    translate, translator, expected, tmp_path, capsys, choice, code
) -> None:
    source = write_lines(tmp_path / "in.txt", [*LINES, LONG, "alpha"])
    assert translate("-i", source, "-o", tmp_path / "out.txt", *choice) == code
    written = (tmp_path / "out.txt").read_text().splitlines()
    assert written[: len(LINES)] == expected
    assert written[-1] == translator.translate("alpha")
    assert bool(written[-2]) == ("split" in choice)
    said = capsys.readouterr().err
    assert f"at most {LIMIT} can be translated (max_source_length)." in said
    assert f"Sentence {len(LINES) + 1} has" in said


def test_a_line_of_many_bytes_is_not_held_in_memory(translate, tmp_path, capsys) -> None:
    source = tmp_path / "in.txt"
    source.write_bytes(b"alpha\n" + b"x" * (LONGEST_LINE + 70_000) + b"\nbeta")
    assert translate("-i", source, "-o", tmp_path / "out.txt") == 1
    written = (tmp_path / "out.txt").read_text().splitlines()
    assert [bool(line) for line in written] == [True, False, True]
    assert "in.txt, line 2 is longer than 1,000,000 bytes" in capsys.readouterr().err


def test_a_file_that_is_not_utf_8_is_refused_before_any_work(translate, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("locant.cli.translate.load", lambda options: pytest.fail("loaded"))
    (tmp_path / "in.txt").write_bytes(b"alpha\n" * 3 + b"\xff\n")
    assert translate("-i", tmp_path / "in.txt") == 1
    assert "in.txt, line 4: byte 1 of the line is not valid UTF-8" in capsys.readouterr().err
    assert translate("-i", tmp_path) == 2
    assert translate("-i", tmp_path / "none.txt") == 1
    assert "none.txt does not exist" in capsys.readouterr().err


def test_a_file_whose_lines_end_in_carriage_returns_is_not_one_line(translate, tmp_path, capsys, monkeypatch) -> None:
    source, line = tmp_path / "in.txt", "alpha beta"
    for content in (f"{line}\r{line}\r{line}\r", f"{line}\r" * 200_000):
        source.write_text(content, newline="")
        assert translate("-i", source) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert "in.txt has no line feeds, but carriage returns" in said.err
    source.write_text(f"{line}\r{line}\r", newline="")
    assert translate("-i", source, "--format", "text", "-o", tmp_path / "out.txt") == 0  # there they end lines
    assert (tmp_path / "out.txt").read_bytes().count(b"\r") == 2
    for content in (f"{line}\r", f"{line}\r\n"):
        source.write_text(content, newline="")
        assert translate("-i", source) == 0
        assert capsys.readouterr().out.count("\n") == 1


def test_each_line_of_a_pipe_is_answered_before_the_next_is_there(folder: Path, expected) -> None:
    command = [sys.executable, "-m", "locant", "translate", str(folder), "--engine", "pytorch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        for line, answer in zip(LINES, expected, strict=True):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().decode() == f"{answer}\n"
        process.stdin.write(LINES[0].encode())  # without a line end
        process.stdin.close()
        assert process.stdout.read().decode() == f"{expected[0]}\n"
    assert process.returncode == 0


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system has no /dev/fd")
def test_a_pipe_may_be_the_input_file(translate, expected, capsys) -> None:
    reading, writing = os.pipe()
    os.write(writing, "\r\n".join(LINES).encode())
    os.close(writing)
    assert translate("-i", f"/dev/fd/{reading}") == 0
    os.close(reading)
    assert capsys.readouterr().out.splitlines() == expected


def test_search_options_have_caps(translate, capsys) -> None:
    for option, value in (("--beam", "1000000"), ("--length-penalty", "inf"), ("--n-best", "100000")):
        assert translate("alpha", option, value) == 2
        assert "should be less than or equal to" in capsys.readouterr().err


def test_alignments_stand_after_a_tab(translate, translator, expected, tmp_path, capfd) -> None:
    source = write_lines(tmp_path / "in.txt", [*LINES, LONG])
    assert translate("-i", source, "--alignments", "--on-long", "empty") == 0
    links = [alignment.pharaoh for alignment in translator.align(LINES, expected)]
    rows = [line.split("\t") for line in capfd.readouterr().out.splitlines()]
    assert rows == [*map(list, zip(expected, links, strict=True)), ["", ""]]
    assert translate("--n-best", 2, "--alignments", *LINES) == 0
    rows = [line.split("\t") for line in capfd.readouterr().out.splitlines()]
    found = translator.translate_n_best(LINES, n_best=2)
    sources = [line for line, each in zip(LINES, found, strict=True) for _ in each]
    links = [each.pharaoh for each in translator.align(sources, [one.text for each in found for one in each])]
    assert [row[3] for row in rows] == links
