"""Names and texts that a terminal, rich or HTML would obey, and text that is none."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.table import Table
from tiny_models import tiny_model, tiny_tokenizers

import locant
from locant.cli import main
from locant.cli.console import PlainConsole
from locant.cli.messages import printable
from locant.errors import DataError
from locant.translation import Translator

STRANGE = ["[bold]x", "[/bold]", "[/]", "[link=file:///]y[/link]", ":warning:", "\x1b[2J", "a\ud800b", "\u202e", "<b>"]


@pytest.mark.parametrize("name", STRANGE)
def test_a_console_prints_names_as_they_are(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    console = PlainConsole(soft_wrap=True)
    console.print(f"{name} is 5", style="bold")
    table = Table(name, "value")
    table.add_row(name, "1")
    console.print(table)
    written = capsys.readouterr().out
    assert written.startswith(f"{printable(name)} is 5\n")
    assert written.count(printable(name)) == 3
    assert "\x1b" not in written
    written.encode()


def test_commands_print_on_such_consoles_alone() -> None:
    folder = Path(locant.__file__).parent / "cli"
    wrong = [
        f"{path.name}:{node.lineno}"
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and node.module in ("rich", "rich.console")
        and {name.name for name in node.names} & {"Console", "print", "get_console"}
        and path.name != "console.py"
    ]
    assert not wrong


@pytest.mark.parametrize("command", ["inspect", "translate", "evaluate", "report", "info", "figures"])
def test_names_in_errors_are_printed_as_they_are(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "[/bold]\x1b[2J", "--nothing"][: 2 if command != "info" else 1]) in (0, 1, 2)
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="arguments are Unicode there")
@pytest.mark.parametrize("arguments", [["translate", "x", b"a\xff"], [b"\xff"], ["train", b"\xe9=1"]])
def test_arguments_that_are_not_utf_8_are_one_sentence(arguments: list[str | bytes]) -> None:
    done = subprocess.run([sys.executable, "-m", "locant", *arguments], capture_output=True)
    said = done.stderr.decode()
    assert done.returncode == 2
    assert said.startswith("locant: error: Argument ")
    assert "is not valid UTF-8" in said
    assert said.count("\n") == 1


def test_output_that_an_encoding_lacks_is_written_anyway(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "locant", "inspect", "Ω\u202e"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 2
    assert b"There is no" in done.stderr
    assert b"Traceback" not in done.stderr


def test_half_a_character_cannot_be_translated() -> None:
    tokenizers = tiny_tokenizers()
    translator = Translator(tiny_model(tokenizers.source.vocab_size), tokenizers)
    with pytest.raises(DataError, match="Sentence 2 has half of a character"):
        translator.translate(["alpha", "be\ud800ta"])


def test_too_little_memory_of_a_gpu_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(options: object) -> int:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore lines.")

    monkeypatch.setattr("locant.cli.info.run", run)
    assert main(["info"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("locant: error: The memory of the GPU does not suffice. Take smaller batches")
    assert said.count("\n") == 1


def test_too_little_memory_of_a_gpu_when_translating(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizers = tiny_tokenizers()
    translator = Translator(tiny_model(tokenizers.source.vocab_size), tokenizers)

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(translator.model, "encode", full)
    with pytest.raises(
        locant.errors.LocantError, match=r"Lower --batch-tokens \(batch_tokens\), now 8192, or the beam"
    ):
        translator.translate("alpha")


@pytest.mark.parametrize("name", ["it's.tsv", 'a"b.tsv', "a: b.tsv", "x\\ny.tsv", "[a].tsv", "#.tsv", "ü😀.tsv"])
def test_names_of_files_may_hold_signs_of_yaml(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--tsv", str(tmp_path / name), "--output", str(tmp_path / "run")]) == 1
    assert f"{name} does not exist" in capsys.readouterr().err


def test_what_the_system_says_of_a_path_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "x" * 1000
    for arguments in (
        ["translate", name, "text"],
        ["export", name, "--to", "onnx", "--output", "x"],
    ):
        assert main(arguments) == 1
        assert re.fullmatch(r"locant: error: .*x+ cannot be used: \S.*\.\n", capsys.readouterr().err)
    assert main(["inspect", name]) == 2
    assert re.fullmatch(r"locant: error: .*\n", capsys.readouterr().err)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs a shell of Unix")
def test_closed_streams_are_no_place_for_other_files() -> None:
    def locant(*, arguments: str) -> tuple[int, str, str]:
        run = subprocess.run(f"{sys.executable} -m locant {arguments}", shell=True, capture_output=True, text=True)
        return run.returncode, run.stdout, run.stderr

    assert locant(arguments="nothing 2>&-") == (2, "", ""), "an error must not stand in the output"
    assert locant(arguments="recipes >&-") == (0, "", "")
    assert locant(arguments="recipes <&-")[0] == 0
