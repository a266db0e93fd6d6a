"""Large texts, read once and kept while they are prepared."""

import errno
import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from locant.errors import CheckpointError, DataError
from locant.settings import Settings
from locant.text import (
    CleaningSettings,
    CorpusSettings,
    TextStore,
    TokenizerPair,
    TokenizerSettings,
    load_corpus,
    prepare,
)
from locant.text.samples import text_statistics
from locant.text.workers import in_order

TOKENIZER = TokenizerSettings(vocab_size=200)


class Holder(Settings):
    corpus: CorpusSettings


@pytest.fixture
def odd_pairs(pairs):
    """Pairs of which cleaning removes some for each of its reasons, and others that are hard to keep as they are."""
    return [
        *pairs[:300],
        ("x" * 1000, "a\rb"),
        ("", "leer"),
        (" \t", "blank"),
        ("we " * 300, "wir " * 300),
        ("one", "eins zwei drei vier fünf sechs sieben"),
        *pairs[100:150],
        (f"  {pairs[7][0]} ", pairs[7][1]),
        ("\u2028a\u00a0b 猫が好き", "\u0000 x\x1cy 🙂 e\u0301"),
        *pairs[300:],
        (pairs[5][0].upper(), "something else"),
    ]


def write(folder, pairs, kind="files"):
    folder.mkdir(exist_ok=True)
    if kind == "files":
        for name, side in (("a", 0), ("b", 1)):
            (folder / name).write_text("".join(f"{pair[side]}\r\n" for pair in pairs), "utf-8", newline="")
        return {"kind": "files", "train": {"source": "a", "target": "b"}}
    if kind == "tsv":
        rows = "".join(f"x\t{target.replace(chr(9), ' ')}\t{source.replace(chr(9), ' ')}\n" for source, target in pairs)
        (folder / "t.tsv.gz").write_bytes(gzip.compress(f"\ufeffid\tde\ten\n{rows}".encode()))
        return {"kind": "tsv", "train": "t.tsv.gz", "source_column": 3, "target_column": 2, "header": True}
    lines = [json.dumps({"source": source + "\nmore", "target": target}) + "\n" for source, target in pairs]
    (folder / "j").write_text("\n".join(lines), "utf-8")
    return {"kind": "jsonl", "train": "j"}


def opened(folder, settings, store=None, **more):
    return load_corpus(Holder.parse({"corpus": {"folder": folder, "valid_size": 20, **settings, **more}}).corpus, store)


def small_blocks(monkeypatch):
    monkeypatch.setattr("locant.text.readers._LINES", 64)


def same_columns(one, other):
    assert one.parts == other.parts
    for side in ("source", "target"):
        ours, theirs = getattr(one, side), getattr(other, side)
        assert ours.tokens[:].tolist() == theirs.tokens[:].tolist()
        assert ours.all_offsets.tolist() == theirs.all_offsets.tolist()
        assert ours.lengths.tolist() == theirs.lengths.tolist()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["files", "tsv", "jsonl"])
def test_a_stored_text_is_the_text(odd_pairs, tmp_path, monkeypatch, kind):
    settings = write(tmp_path / "text", odd_pairs, kind)
    small_blocks(monkeypatch)
    plain = opened(tmp_path / "text", settings)
    stored = opened(tmp_path / "text", settings, TextStore(tmp_path / "store", processes=1, large=0))
    assert stored.digest == plain.digest
    assert list(stored.train) == list(plain.train)
    assert list(stored.valid) == list(plain.valid)
    assert len(stored.train) == len(list(plain.train))
    assert text_statistics(stored.train) == text_statistics(plain.train)
    monkeypatch.setattr("locant.text.samples._SAMPLE", 50)
    ours, theirs = text_statistics(stored.train), text_statistics(plain.train)
    assert ours == theirs
    assert ours.words < 20 * theirs.pairs


def test_numbers_of_processes_and_ways_of_reading_prepare_the_same(odd_pairs, tmp_path, monkeypatch):
    settings = write(tmp_path / "text", odd_pairs)
    plain = prepare(opened(tmp_path / "text", settings), CleaningSettings(), TOKENIZER, max_tokens=40, folder=tmp_path)
    assert all(plain.report.removed.values())
    monkeypatch.setattr("locant.text.readers._LINES", 64)
    told = []
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        store = TextStore(folder / "cache" / "text", processes, 0, lambda what, share: told.append((what, share)))
        corpus = opened(tmp_path / "text", settings, store)
        prepared = prepare(
            corpus,
            CleaningSettings(),
            TOKENIZER,
            max_tokens=40,
            folder=folder,
            processes=processes,
            progress=store.progress,
        )
        assert prepared.fingerprint == plain.fingerprint
        assert prepared.report == plain.report
        assert prepared.tokenizers.digest == plain.tokenizers.digest
        same_columns(prepared.train, plain.train)
        assert not list(folder.rglob("facts.bin")), "nothing large is left of the text"
        assert list(corpus.train) == list(opened(tmp_path / "text", settings).train), "which is read again"
    assert {what for what, _ in told} == {"reading", "cleaning", "learning the vocabulary", "tokenising"}
    assert ("reading", 1.0) in told
    assert ("tokenising", 1.0) in told


def test_a_text_is_read_once_until_its_files_change(pairs, tmp_path):
    settings = write(tmp_path / "text", pairs)
    read = []
    store = TextStore(tmp_path / "store", 1, 0, lambda *told: read.append(told))
    first = opened(tmp_path / "text", settings, store)
    assert read
    read.clear()
    assert opened(tmp_path / "text", settings, store).digest == first.digest
    (first.train.folder / "facts.bin").unlink()
    again = opened(tmp_path / "text", settings, store)
    assert not read
    assert (again.digest, len(again.train), list(again.valid)) == (first.digest, len(first.train), list(first.valid))
    other_size = opened(tmp_path / "text", settings, store, valid_size=5)
    assert list(other_size.valid) == list(opened(tmp_path / "text", settings, valid_size=5).valid)
    write(tmp_path / "text", [*pairs[:-1], ("The other", "rehto")])
    changed = opened(tmp_path / "text", settings, store)
    assert read
    assert changed.digest == opened(tmp_path / "text", settings).digest != first.digest


@pytest.mark.sampled(1)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_reading_goes_on_where_a_kill_ended_it(odd_pairs, tmp_path, monkeypatch, suffix):
    small_blocks(monkeypatch)
    folder = tmp_path / "text"
    write(folder, odd_pairs)
    for name in ("a", "b"):
        data = (folder / name).read_bytes()
        (folder / f"{name}{suffix}").write_bytes(gzip.compress(data) if suffix else data)
    both = {"source": [f"a{suffix}"] * 2, "target": [f"b{suffix}"] * 2}
    settings = {"kind": "files", "train": both, "valid": {"source": "a", "target": "b"}}
    whole = opened(folder, settings)

    class Killed(BaseException):
        pass

    def kill(what, share):
        told.append(share)
        if len(told) == 15:
            raise Killed

    told = []
    opened(folder, settings, TextStore(tmp_path / "whole", 1, 0, lambda what, share: told.append(share)))
    blocks = len(told)
    told.clear()
    with pytest.raises(Killed):
        opened(folder, settings, TextStore(tmp_path / "store", 1, 0, kill))
    (columns,) = (path.parent for path in (tmp_path / "store").rglob("facts.bin"))
    with (columns / "facts.bin").open("ab") as file:
        file.write(b"what a kill may leave")
    told.clear()
    resumed = opened(folder, settings, TextStore(tmp_path / "store", 1, 0, lambda what, share: told.append(share)))
    assert len(told) < blocks - 12
    assert resumed.digest == whole.digest
    assert list(resumed.train) == list(whole.train)


def test_tokenising_goes_on_where_a_kill_ended_it(pairs, tmp_path, monkeypatch):
    monkeypatch.setattr("locant.text.readers._LINES", 64)
    settings = write(tmp_path / "text", pairs)

    def run(name, progress):
        folder = tmp_path / name
        corpus = opened(tmp_path / "text", settings, TextStore(folder / "cache" / "text", 1, 0))
        tokenizer = TokenizerSettings(vocab_size=200, sampling=0.1)
        return prepare(corpus, CleaningSettings(), tokenizer, max_tokens=40, folder=folder, progress=progress)

    class Killed(BaseException):
        pass

    def kill(what, share):
        if what == "tokenising" and share > 0.5:
            raise Killed

    whole = run("whole", lambda *told: None)
    with pytest.raises(Killed):
        run("killed", kill)
    told = []
    resumed = run("killed", lambda what, share: told.append((what, share)))
    assert min(share for what, share in told if what == "tokenising") > 0.5
    assert TokenizerPair.load(tmp_path / "killed").digest == whole.tokenizers.digest
    same_columns(resumed.train, whole.train)
    assert resumed.report == whole.report


@pytest.mark.sampled(1)
@pytest.mark.parametrize("processes", [1, 2])
def test_mistakes_name_file_and_line_and_leave_nothing(pairs, tmp_path, monkeypatch, processes):
    small_blocks(monkeypatch)
    settings = write(tmp_path / "text", pairs)
    store = TextStore(tmp_path / "store", processes, 0)
    lines = (tmp_path / "text" / "b").read_bytes().split(b"\r\n")
    for found, message in (
        ([*lines[:399], b"sch\xf6n", *lines[400:]], r"b, line 400: byte 4 of the line is not valid UTF-8"),
        (lines[:-3], r"a has 600 lines but .*b has 598"),
    ):
        (tmp_path / "text" / "b").write_bytes(b"\r\n".join(found))
        with pytest.raises(DataError, match=message):
            opened(tmp_path / "text", settings, store)
        assert not list((tmp_path / "store").iterdir())


def test_texts_in_a_mixture_and_in_both_directions(odd_pairs, pairs, tmp_path, monkeypatch):
    small_blocks(monkeypatch)
    settings = write(tmp_path / "one", odd_pairs) | {"folder": tmp_path / "one", "valid_size": 20}
    other = write(tmp_path / "two", pairs[:200], "jsonl") | {"folder": tmp_path / "two"}
    languages = {"source_language": "en", "target_language": "de"}
    mixture = {
        "kind": "mixture",
        "sources": {"one": {"corpus": settings | languages}, "two": {"corpus": other, "tag": "<bt>"}},
    }
    both = Holder.parse({"corpus": {"kind": "languages", "pairs": [mixture]}}).corpus
    prepared = []
    for name, store in (("plain", None), ("stored", TextStore(tmp_path / "store", 1, 0))):
        corpus = load_corpus(both, store)
        folder = tmp_path / name
        tokenizer = TokenizerSettings(vocab_size=230)
        prepared.append(prepare(corpus, CleaningSettings(), tokenizer, max_tokens=60, folder=folder))
    plain, stored = prepared
    assert len(plain.train.parts) == 3
    assert stored.fingerprint == plain.fingerprint
    assert stored.reports == plain.reports
    same_columns(stored.train, plain.train)


def test_processes_end_with_a_caller_that_is_killed(tmp_path):
    script = "import time; from locant.text.workers import in_order; " + (
        "results = in_order(time.sleep, [0] * 9, 2); next(results); print('ready', flush=True); time.sleep(99)"
    )
    (tmp_path / "script.py").write_text(script)  # which is not run again by the processes
    with subprocess.Popen([sys.executable, tmp_path / "script.py"], stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout.readline() == "ready\n"
        caller.kill()
        assert caller.stdout.read() == "", "whoever has it open as well has ended"


def test_processes_give_results_in_order_and_end_with_the_caller():
    class BrokenError(Exception):
        pass

    def numbers():
        yield from range(7)
        raise BrokenError

    for processes in (1, 3):
        assert list(in_order(np.square, range(20), processes)) == [number**2 for number in range(20)]
        with pytest.raises(BrokenError):
            list(in_order(np.square, numbers(), processes))


def test_a_full_disk_is_said_and_what_is_finished_is_kept(pairs, tmp_path, monkeypatch):
    small_blocks(monkeypatch)
    settings = write(tmp_path / "text", pairs)
    whole = prepare(opened(tmp_path / "text", settings), CleaningSettings(), TOKENIZER, max_tokens=40, folder=tmp_path)
    written, whole_array, room = [], np.ascontiguousarray, [0]

    def full(values):
        written.append(values)
        if len(written) > room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole_array(values)

    def run():
        corpus = opened(tmp_path / "text", settings, TextStore(folder / "cache" / "text", 1, 0))
        return prepare(corpus, CleaningSettings(), TOKENIZER, max_tokens=40, folder=folder)

    def what_is_said():
        written.clear()
        room[0] += 10
        try:
            run()
        except CheckpointError as error:
            return f"{error} {[path.name for path in (folder / 'cache').iterdir()]}"
        return ""

    folder = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr("locant.text.store.np.ascontiguousarray", full)
        said = list(iter(what_is_said, ""))
    assert len(said) > 2, "it was full in different places"
    assert all("The disk is full" in one and "'prepared.json'" not in one for one in said)
    prepared = run()
    same_columns(prepared.train, whole.train)
    assert prepared.report == whole.report


@pytest.mark.parametrize("count", [300, 590, 700])
@pytest.mark.parametrize("large", [0, 1 << 30])
def test_a_text_that_changes_meanwhile_is_no_traceback(pairs, tmp_path, monkeypatch, count, large):
    small_blocks(monkeypatch)
    settings = write(tmp_path / "text", pairs)
    corpus = opened(tmp_path / "text", settings, TextStore(tmp_path / "store", 1, large))
    write(tmp_path / "text", [*pairs, *pairs][:count])
    with pytest.raises(DataError):
        prepare(corpus, CleaningSettings(), TOKENIZER, max_tokens=40, folder=tmp_path / "run")
