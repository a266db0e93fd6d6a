"""The command line as a user types it."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from locant.cli import COMMANDS, command_parser, main
from locant.version import __version__


def run(*arguments: str | Path, text: str | bytes = b"") -> subprocess.CompletedProcess[bytes]:
    data = text.encode() if isinstance(text, str) else text
    return subprocess.run([sys.executable, "-m", "locant", *map(str, arguments)], input=data, capture_output=True)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    words = ["one two three", "four five", "six one", "two six five four", "three three one"]
    (folder / "a.txt").write_text("".join(f"{words[i % 5]} {words[i % 3]} {words[i % 2]}\n" for i in range(90)))
    (folder / "b.txt").write_text("".join(f"{words[i % 5]} {words[i % 3]} {words[i % 2]}\n".upper() for i in range(90)))
    return folder


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    small = [
        "model.d_model=16",
        "model.d_ff=16",
        "model.heads=2",
        "tokenizer.vocab_size=36",
        "cleaning.duplicates=false",
    ]
    sizes = ["training.validate_every=5", "corpus.valid_size=10", "batches.tokens=512", "cleaning.overlap=false"]
    files = ["--source", str(corpus / "a.txt"), "--target", str(corpus / "b.txt"), "--output", str(folder)]
    code = main(["train", *files, "--steps", "10", "--preset", "tiny", *small, *sizes])
    assert code == 0
    return folder


def test_help_and_version_are_quick_and_complete():
    before = os.times()
    done = run("--help")
    after = os.times()
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    assert done.returncode == 0
    assert all(command in done.stdout.decode() for command in COMMANDS)
    # Of the processor, whatever else runs; importing torch alone would take longer than this.
    assert seconds < 1.0
    assert run("--version").stdout.decode().strip() == f"locant {__version__}"


def test_an_unknown_command_names_the_nearest(capsys):
    assert main(["trian"]) == 2
    assert "Unknown command 'trian'. Did you mean 'train'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["translate", "run", "--beam", "2", "one", "two"], ["one", "two"]),
        (["translate", "run", "one", "--beam", "2", "two"], ["one", "two"]),
        (["train", "--output", "run", "tiny", "--seed", "1", "seed=3"], ["tiny", "seed=3"]),
        (["compare", "a=1", "-o", "run", "b=2"], ["a=1", "b=2"]),
        (["figures", "-o", "folder", "waves", "--length", "9", "circle"], ["waves", "circle"]),
    ],
)
def test_options_stand_anywhere_between_arguments(arguments, expected):
    options = command_parser(arguments[0]).parse_intermixed_args(arguments[1:])
    assert expected in vars(options).values()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert "usage" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "Say what to train on"),
        (["train", "--tsv", "x.tsv", "--jsonl", "x.jsonl"], "--tsv and --jsonl"),
        (["train", "--output", "x"], "Say what to train on"),
        (["train", "seed=3", "--output", "x"], "Say what to train on"),
        (["train", "--source-language", "en", "--output", "x"], "Say what to train on"),
        (["train", "--tsv", "x.tsv", "--target-language", "jp", "--output", "x"], "'ja'"),
        (["train", "corpus.kind=jsonl", "corpus.trian=a.jsonl", "--output", "x"], "Did you mean 'train'?"),
        (["train", "a", "b", "--output", "x"], "Only one recipe"),
        (["train", "--source", "a", "--output", "x"], "--source and --target go together"),
        (["train", "bible-modern-english", "--resume", "x"], "leave those out"),
        (["train", "bibel-modern-english", "--output", "x"], "Did you mean 'bible-modern-english'?"),
        (["train", "bible-modern-english", "trainig.steps=3", "--output", "x"], "Did you mean 'training'?"),
        (["train", "bible-modern-english", "--device", "gpu", "--output", "x"], "The device 'gpu' cannot be used. Use"),
        (["extend", "x", "--to", "long", "--output", "y"], "'long' is no length in tokens"),
        (["translate", "x", "text", "--input", "f"], "not both"),
        (["translate", "x", "text", "--top-k", "5"], "go with --sampling"),
        (["translate", "x", "text", "--sampling", "--beam", "5"], "give one of them"),
        (["evaluate", "x", "--source", "f"], "go together"),
    ],
)
def test_wrong_usage_exits_with_2_and_one_plain_message(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert not (tmp_path / "x").exists()


def test_failures_exit_with_1(corpus, tmp_path, capsys):
    (tmp_path / "short.txt").write_text("one\ntwo\n")
    target = ["--target", str(tmp_path / "short.txt"), "--output", str(tmp_path / "run")]
    assert main(["train", "--source", str(corpus / "a.txt"), *target]) == 1
    assert "has 90 lines but" in capsys.readouterr().err
    assert main(["train", "--source", str(tmp_path / "none.txt"), *target]) == 1
    assert "none.txt does not exist" in capsys.readouterr().err
    (tmp_path / "bad.txt").write_bytes(b"one\n\xff\xfe\n")
    assert main(["train", "--source", str(tmp_path / "bad.txt"), *target]) == 1
    assert "bad.txt, line 2: byte 1 of the line is not valid UTF-8" in capsys.readouterr().err
    (tmp_path / "empty.txt").write_text("")
    empty = str(tmp_path / "empty.txt")
    assert main(["train", "--source", empty, "--target", empty, "--output", str(tmp_path / "run")]) == 1
    assert "is empty" in capsys.readouterr().err
    assert main(["translate", str(tmp_path / "nothing"), "text"]) == 1
    assert "There is no model folder" in capsys.readouterr().err


def test_translate_arguments_file_and_standard_input_agree(trained, tmp_path, capsys, monkeypatch):
    sentences = ["one two three", "", "six one"]
    assert main(["translate", str(trained), *sentences]) == 0
    expected = capsys.readouterr().out
    assert len(expected.splitlines()) == 3
    (tmp_path / "in.txt").write_text("".join(f"{sentence}\n" for sentence in sentences))
    assert main(["translate", str(trained), "--input", str(tmp_path / "in.txt"), "-o", str(tmp_path / "out.txt")]) == 0
    assert (tmp_path / "out.txt").read_text() == expected
    done = run("translate", trained, text="".join(f"{sentence}\n" for sentence in sentences))
    assert done.stdout.decode() == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n\xff\n"), encoding="utf-8"))
    assert main(["translate", str(trained)]) == 1
    assert "standard input, line 2" in capsys.readouterr().err


def test_n_best_prints_number_score_and_text(trained, capsys):
    assert main(["translate", str(trained), "one two", "six", "--beam", "3", "--n-best", "2"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "2"]
    assert float(rows[0][1]) >= float(rows[1][1])
    assert main(["translate", str(trained), "one", "--beam", "1", "--n-best", "2"]) == 2
    assert "n_best" in capsys.readouterr().err


def test_samples_depend_on_the_seed(trained, capsys):
    outputs = []
    for seed in ("1", "1", "2"):
        command = ["translate", str(trained), "one two", "six", "--sampling", "--n-best", "3", "--seed", seed]
        assert main(command) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]
    assert len(outputs[0].splitlines()) == 6


def test_a_sentence_that_is_too_long_is_named(trained, capsys):
    assert main(["translate", str(trained), "one", "two " * 2000]) == 1
    assert "Sentence 2 has" in capsys.readouterr().err


def test_evaluate_and_report(trained, corpus, tmp_path, capsys):
    shutil.copytree(trained, tmp_path / "run")
    run_folder = str(tmp_path / "run")
    assert main(["report", run_folder]) == 1
    assert "has not been evaluated" in capsys.readouterr().err
    assert main(["evaluate", run_folder, "--save", str(tmp_path / "h.txt"), "--beam", "1"]) == 0
    output = capsys.readouterr().out
    assert "copying the source" in output
    assert "BLEU signature nrefs:1" in output
    assert len((tmp_path / "h.txt").read_text().splitlines()) == 10
    assert main(["report", run_folder, "--output", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "<svg" in page
    assert "Translations" in page
    assert "10 updates" in page  # more than the last row of the training log says


def test_bleu_of_a_text_whose_language_is_not_named_follows_its_script(trained, tmp_path, capfd):
    trained = shutil.copytree(trained, tmp_path / "run")
    config = json.loads((trained / "config.json").read_text())
    (trained / "config.json").write_text(json.dumps({**config, "source_language": None, "target_language": None}))
    (tmp_path / "source").write_text("a b .\n" * 120)
    (tmp_path / "japanese").write_text("これは東京の家です。\n" * 120, encoding="utf-8")
    files = ["--source", str(tmp_path / "source"), "--target", str(tmp_path / "japanese"), "--beam", "1"]
    for arguments, tokenizer in ([], "char|ja"), (["--tokenize", "zh"], "zh"), (["--target-language", "de"], "13a"):
        assert main(["evaluate", str(trained), *files, *arguments]) == 0
        said = capfd.readouterr()
        assert re.search(rf"\|tok:({tokenizer})", said.out)
        assert "sacrebleu" not in said.err.lower()
        assert "detokenize" not in said.err
    for arguments in (["--tokenize", "moses"], ["--target-language", "jp"]):
        assert main(["evaluate", str(trained), *files, *arguments]) == 2


def test_lists(capsys):
    assert main(["recipes"]) == 0
    assert "multi30k-en-de" in capsys.readouterr().out
    assert main(["corpora"]) == 0
    assert "King James Version" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("said", "line"), [("The batch does not fit into memory.",) * 2, ("", "There is not enough memory.")]
)
def test_too_little_memory_is_one_line(
    said: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(options: object) -> int:
        raise MemoryError(said)

    monkeypatch.setattr("locant.cli.info.run", run)
    assert main(["info"]) == 1
    assert capsys.readouterr().err == f"locant: error: {line}\n"
