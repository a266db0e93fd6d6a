import gzip
import json
from pathlib import Path

import pytest

from locant.errors import ConfigError, DataError
from locant.settings import Settings
from locant.text import (
    CorpusSettings,
    FilesCorpus,
    HuggingFaceCorpus,
    JsonlCorpus,
    TextStore,
    TsvCorpus,
    load_corpus,
)
from locant.text.readers import read_lines


class Holder(Settings):
    corpus: CorpusSettings


def write(path: Path, text: str) -> Path:
    data = text.encode("utf-8")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def files(folder: Path, **more) -> FilesCorpus:
    return FilesCorpus.parse({"kind": "files", "folder": folder, "train": {"source": "a", "target": "b"}, **more})


def lines(count: int, prefix: str = "line") -> str:
    return "".join(f"{prefix} {number}\n" for number in range(count))


def test_files_with_given_splits_are_read_as_they_are(tmp_path):
    write(tmp_path / "a1", "zero\n")
    write(tmp_path / "a.gz", "one\ntwo\u2028still two\r\n\nfour")
    write(tmp_path / "b1", "null")
    write(tmp_path / "b", "\ufeffeins\nzwei\n\nvier\n")
    write(tmp_path / "v", "valid\n")
    split = {"source": "v", "target": "v"}
    corpus = load_corpus(
        files(tmp_path, train={"source": ["a1", "a.gz"], "target": ["b1", "b"]}, valid=split, test=split)
    )
    expected = [("zero", "null"), ("one", "eins"), ("two\u2028still two", "zwei"), ("", ""), ("four", "vier")]
    assert list(corpus.train) == expected
    assert list(corpus.train) == expected, "the stream can be read again"
    assert len(corpus.train) == 5
    assert list(corpus.valid) == list(corpus.test) == [("valid", "valid")]


def test_numbers_of_files_must_agree():
    with pytest.raises(ConfigError, match=r"2 source file\(s\) but 1 target file\(s\)"):
        files(Path(), train={"source": ["a", "b"], "target": "c"})


@pytest.mark.parametrize(("source", "target"), [(5, 3), (3, 5), (1, 0)])
def test_unequal_lengths_give_both_counts(tmp_path, source, target):
    write(tmp_path / "a", lines(source))
    write(tmp_path / "b", lines(target))
    with pytest.raises(DataError, match=rf"a has {source} lines but .*b has {target}"):
        load_corpus(files(tmp_path))


def test_missing_empty_and_damaged_files(tmp_path):
    write(tmp_path / "a", lines(3))
    with pytest.raises(DataError, match="b does not exist"):
        load_corpus(files(tmp_path))
    write(tmp_path / "a", "")
    write(tmp_path / "b", "")
    with pytest.raises(DataError, match=r"'train' text .* is empty: there is no pair in .*/a, .*/b"):
        load_corpus(files(tmp_path))
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"some text\n" * 1000)[:-10])
    with pytest.raises(DataError, match=r"c\.gz cannot be read"):
        load_corpus(files(tmp_path, train={"source": "c.gz", "target": "c.gz"}))
    (tmp_path / "d.gz").write_text("plain text\n")
    with pytest.raises(DataError, match=r"d\.gz is damaged, or not gzipped.*without \.gz if it is plain text\.$"):
        load_corpus(files(tmp_path, train={"source": "d.gz", "target": "d.gz"}))
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=r"folder cannot be read: Is a directory\.$"):
        load_corpus(files(tmp_path, train={"source": "folder", "target": "folder"}))


def test_utf_16_is_named(tmp_path):
    for side in ("a", "b"):
        (tmp_path / side).write_bytes("schön\nja\n".encode("utf-16"))
    with pytest.raises(DataError, match=r"a is written in UTF-16\. Convert the text to UTF-8\."):
        load_corpus(files(tmp_path))


def test_text_whose_lines_end_in_carriage_returns_alone_is_not_one_line(tmp_path):
    said = r"has no line feeds, but carriage returns, .*tr '\\r' '\\n' < OLD > NEW\.$"
    old = "".join(f"line {number}\r" for number in range(30)).encode()
    (tmp_path / "a").write_bytes(old)
    write(tmp_path / "b", lines(30))
    for train, name in (({"source": "a", "target": "b"}, "a"), ({"source": "b", "target": "a"}, "a")):
        with pytest.raises(DataError, match=f"{name} {said}"):
            load_corpus(files(tmp_path, train=train))
    (tmp_path / "t.tsv").write_bytes(b"ja\tyes\rnein\tno\r")
    with pytest.raises(DataError, match=rf"t\.tsv {said}"):
        load_corpus(TsvCorpus(kind="tsv", folder=tmp_path, train="t.tsv"))
    with pytest.raises(DataError, match=f"a {said}"):
        list(read_lines(tmp_path / "a"))
    for one in (b"a\rb\n", b"a\r\n", b"a\r", b"a"):  # a single line
        (tmp_path / "c").write_bytes(one)
        assert len(list(read_lines(tmp_path / "c"))) == 1


def test_tsv(tmp_path):
    write(tmp_path / "t.tsv", 'id\tde\ten\n1\tja\tyes "quoted\n2\tnein\tno\n')
    settings = TsvCorpus.parse(
        {
            "kind": "tsv",
            "folder": tmp_path,
            "train": "t.tsv",
            "valid": "t.tsv",
            "source_column": 3,
            "target_column": 2,
            "header": True,
        }
    )
    assert list(load_corpus(settings).train) == [('yes "quoted', "ja"), ("no", "nein")]
    write(tmp_path / "t.tsv", "id\tde\ten\n1\tja\tyes\n2\tnein\n")
    with pytest.raises(DataError, match=r"t\.tsv, line 3: found 2 tab-separated column\(s\), but column 3"):
        load_corpus(settings)


def jsonl(folder: Path) -> JsonlCorpus:
    return JsonlCorpus.parse(
        {
            "kind": "jsonl",
            "folder": folder,
            "train": "t.jsonl.gz",
            "valid": "t.jsonl.gz",
            "source_field": "translation.en",
            "target_field": "translation.de",
        }
    )


def test_jsonl_with_dotted_fields(tmp_path):
    rows = [{"translation": {"en": f"e{i}\nx", "de": f"d{i}"}} for i in range(3)]
    write(tmp_path / "t.jsonl.gz", "\n".join(map(json.dumps, rows)) + "\n\n")
    assert list(load_corpus(jsonl(tmp_path)).train) == [(f"e{i}\nx", f"d{i}") for i in range(3)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{oops", "line 2: this is not JSON"),
        ('{"translation": {"en": "x", "fr": "y"}}', r"line 2: there is no field 'translation.de'.*translation.fr"),
        ('{"translation": "x"}', r"line 2: there is no field 'translation.en'.*found: translation\."),
        ('{"translation": {"en": 3, "de": "y"}}', "line 2: the field 'translation.en' holds int, not text"),
        ("[1]", r"line 2: there is no field .*found: none"),
    ],
)
def test_jsonl_mistakes_name_line_and_fields(tmp_path, line, message):
    write(tmp_path / "t.jsonl.gz", '{"translation": {"en": "a", "de": "b"}}\n' + line + "\n")
    with pytest.raises(DataError, match=message):
        load_corpus(jsonl(tmp_path))


def test_held_out_pairs_are_the_same_every_time_and_leave_no_copy_in_train(tmp_path):
    write(tmp_path / "a", lines(200) * 2)
    write(tmp_path / "b", lines(200, "zeile") * 2)
    first, second = (load_corpus(files(tmp_path, valid_size=10)) for _ in range(2))
    assert list(first.valid) == list(second.valid)
    assert len(first.valid) == len(set(first.valid)) == 10
    assert not set(first.valid) & set(first.train)
    assert len(list(first.train)) == len(first.train) == 400 - 20
    assert first.digest == second.digest
    assert first.digest != load_corpus(files(tmp_path, valid_size=11)).digest
    assert len(load_corpus(files(tmp_path)).valid) == 20, "5 % by default"


def test_too_few_pairs_to_hold_out(tmp_path):
    write(tmp_path / "a", lines(3))
    write(tmp_path / "b", lines(3))
    with pytest.raises(DataError, match=r"3 different pair\(s\), too few to hold out 3"):
        load_corpus(files(tmp_path, valid_size=3))
    write(tmp_path / "a", "same\n" * 9)
    write(tmp_path / "b", "same\n" * 9)
    with pytest.raises(DataError, match=r"1 different pair\(s\), too few to hold out 3"):
        load_corpus(files(tmp_path, valid_size=3))


def test_of_a_text_that_repeats_itself_a_twentieth_of_what_is_different_is_held_out(tmp_path):
    write(tmp_path / "a", lines(100) * 30)
    write(tmp_path / "b", lines(100) * 30)
    corpus = load_corpus(files(tmp_path))
    assert (len(corpus.valid), len(corpus.train)) == (5, 30 * 95)
    with pytest.raises(DataError, match=r"100 different pair\(s\), too few to hold out 150"):
        load_corpus(files(tmp_path, valid_size=150))


def test_the_kind_selects_the_settings_and_survives_a_round_trip():
    data = {"corpus": {"kind": "files", "folder": "x", "train": {"source": "a", "target": "b"}}}
    settings = Holder.parse(data)
    assert isinstance(settings.corpus, FilesCorpus)
    assert Holder.parse(settings.to_dict()) == settings
    with pytest.raises(ConfigError, match=r"unknown key 'corpus.train.sorce'. Did you mean 'source'"):
        Holder.parse({"corpus": {"kind": "files", "train": {"sorce": "a", "target": "b"}}})
    with pytest.raises(ConfigError, match="bible"):
        Holder.parse({"corpus": {"kind": "fils"}})


def test_huggingface_from_a_local_folder(tmp_path):
    pytest.importorskip("datasets")
    folder = tmp_path / "set"
    folder.mkdir()
    for split, count in {"train": 30, "test": 2}.items():
        rows = [{"id": i, "translation": {"en": f"e{i}", "de": f"{split}{i}"}} for i in range(count)]
        write(folder / f"{split}.jsonl", "\n".join(map(json.dumps, rows)))
    settings = {
        "kind": "huggingface",
        "folder": tmp_path,
        "dataset": "set",
        "test": "test",
        "source_field": "translation.en",
        "target_field": "translation.de",
    }
    corpus = load_corpus(HuggingFaceCorpus.parse(settings))
    assert list(corpus.test) == [("e0", "test0"), ("e1", "test1")]
    assert len(corpus.train) == 29
    assert len(corpus.valid) == 1
    kept = load_corpus(HuggingFaceCorpus.parse(settings), TextStore(tmp_path / "store", 1, 0))
    assert list(kept.train) == list(corpus.train)
    assert kept.digest == corpus.digest
    assert list((tmp_path / "store").glob("*/facts.bin"))
    with pytest.raises(DataError, match=r"no field 'translaton.en'. Did you mean 'translation.en'"):
        load_corpus(HuggingFaceCorpus.parse({**settings, "source_field": "translaton.en"}))
    with pytest.raises(DataError, match=r"no field 'translation\.fr'"):
        load_corpus(HuggingFaceCorpus.parse({**settings, "source_field": "translation.fr"}))
    with pytest.raises(DataError, match="cannot be loaded"):
        load_corpus(HuggingFaceCorpus.parse({**settings, "valid": "nowhere"}))
