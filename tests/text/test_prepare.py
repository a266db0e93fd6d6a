import json

import pytest

from locant.errors import DataError
from locant.text import (
    CleaningSettings,
    Corpus,
    CorpusPart,
    FilesCorpus,
    TokenizerPair,
    TokenizerSettings,
    load_corpus,
    prepare,
)
from locant.text.pairs import in_memory

CLEANING = CleaningSettings()
TOKENIZER = TokenizerSettings(vocab_size=200)


@pytest.fixture
def corpus(pairs, tmp_path):
    (tmp_path / "text").mkdir()
    write(tmp_path / "text", pairs)
    return open_corpus(tmp_path / "text")


def write(folder, pairs):
    for name, side in (("a", 0), ("b", 1)):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")


def open_corpus(folder):
    data = {"kind": "files", "folder": folder, "train": {"source": "a", "target": "b"}, "valid_size": 20}
    return load_corpus(FilesCorpus.parse(data))


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_everything_is_made_once_and_then_reused(corpus, tmp_path):
    folder = tmp_path / "run"
    first = prepare(corpus, CLEANING, TOKENIZER, max_tokens=40, folder=folder)
    before = times(folder)
    again = prepare(corpus, CLEANING, TOKENIZER, max_tokens=40, folder=folder, resume=True)
    assert times(folder) == before
    assert again.report == first.report
    assert again.fingerprint == first.fingerprint
    assert again.tokenizers.digest == first.tokenizers.digest == TokenizerPair.load(folder).digest
    assert again.train.source.tokens[:].tolist() == first.train.source.tokens[:].tolist()
    assert first.report.kept == len(first.train)
    assert first.report.removed["too many tokens"] == first.train.dropped > 0
    assert list(first.valids.values()) == [list(corpus.valid)]
    assert len(first.valid) <= 20
    assert first.tests == {}


def test_validation_pairs_that_are_too_long_are_told(corpus, tmp_path, caplog):
    longest = max(len(target) for _, target in corpus.valid)
    with caplog.at_level("WARNING", "locant"):
        prepare(corpus, CLEANING, TOKENIZER, max_tokens=10 * longest, folder=tmp_path / "all")
        assert not caplog.records
        found = prepare(corpus, CLEANING, TOKENIZER, max_tokens=20, folder=tmp_path / "some")
    assert f"{found.valid.dropped} of 20 pairs of the validation text" in caplog.text
    short = parted(("p", (None, None), [("a b", "b a"), ("b b", "a a")] * 30, [("a b " * 20, "b a")], None))
    with pytest.raises(DataError, match="validation"):
        prepare(short, CLEANING, TokenizerSettings(vocab_size=8), max_tokens=9, folder=tmp_path / "none")


def test_a_change_rebuilds_but_never_under_a_resumed_run(corpus, pairs, tmp_path):
    folder = tmp_path / "run"
    first = prepare(corpus, CLEANING, TOKENIZER, max_tokens=40, folder=folder)
    write(tmp_path / "text", [*pairs[:-1], ("The other", "rehto")])
    changed = open_corpus(tmp_path / "text")
    with pytest.raises(DataError, match="another text or with other settings"):
        prepare(changed, CLEANING, TOKENIZER, max_tokens=40, folder=folder, resume=True)
    assert TokenizerPair.load(folder).digest == first.tokenizers.digest
    for text, cleaning, tokenizer, max_tokens in (
        (changed, CLEANING, TOKENIZER, 40),
        (corpus, CleaningSettings(max_length=9), TOKENIZER, 40),
        (corpus, CLEANING, TokenizerSettings(vocab_size=201), 60),
        (corpus, CLEANING, TOKENIZER, 30),
    ):
        rebuilt = prepare(text, cleaning, tokenizer, max_tokens=max_tokens, folder=folder)
        assert rebuilt.fingerprint != first.fingerprint


def test_what_an_earlier_version_prepared_is_used_again(corpus, tmp_path):
    folder = tmp_path / "run"
    first = prepare(corpus, CLEANING, TOKENIZER, max_tokens=40, folder=folder)
    # As earlier versions named the text and the settings, and wrote down what it had made of them.
    assert first.fingerprint == "2d15348546f1b6502d778d27f0d02907a99203da3a272e5bd843ef4e5b721293"
    cleaning = first.report.to_dict()
    (folder / "cache" / "prepared.json").write_text(
        json.dumps({"fingerprint": first.fingerprint, "cleaning": cleaning})
    )
    for split, cache in (("train", first.train), ("valid", first.valid)):
        about = {"pairs": len(cache), "dropped": cache.dropped, "max_tokens": 40}
        about |= {"source_dtype": "uint16", "target_dtype": "uint16"}
        (folder / "cache" / split / "cache.json").write_text(json.dumps(about))
    before = times(folder)
    again = prepare(corpus, CLEANING, TOKENIZER, max_tokens=40, folder=folder, resume=True)
    assert times(folder) == before
    assert again.report == first.report
    assert again.train.parts == first.train.parts


def parted(*parts):
    """A corpus of parts given by name, languages and the pairs of the three splits."""
    made = [
        CorpusPart(name, *languages, *(None if split is None else in_memory(split) for split in splits))
        for name, languages, *splits in parts
    ]
    return Corpus("mixed", "Made for a test.", tuple(made))


def test_the_parts_of_a_corpus_follow_one_another(pairs, tmp_path):
    one, other = pairs[:200], [(target, source) for source, target in pairs[200:500]]
    corpus = parted(
        ("one", ("en", "de"), one, pairs[500:520], pairs[540:560]), ("other", ("de", "en"), other, None, pairs[520:540])
    )
    assert (corpus.source_language, corpus.target_language) == (None, None)
    assert list(corpus.train) == [*one, *other]
    assert len(corpus.train) == 500
    assert list(corpus.valid) == pairs[500:520]
    assert list(corpus.tests["other"]) == pairs[520:540]
    data = prepare(corpus, CLEANING, TOKENIZER, max_tokens=60, folder=tmp_path / "run")
    assert [part.pairs + part.dropped for part in data.train.parts] == [
        report.total - sum(count for reason, count in report.removed.items() if reason != "too many tokens")
        for report in data.reports.values()
    ]
    assert len(data.train) == sum(part.pairs for part in data.train.parts) == data.report.kept
    assert [part.pairs for part in data.valid.parts] == [len(data.valid), 0]
    first = data.train.parts[0].pairs
    sources = data.tokenizers.source.decode([data.train.source[index].tolist() for index in range(len(data.train))])
    assert set(sources[:first]) <= {source for source, _ in one}
    assert set(sources[first:]) <= {source for source, _ in other}
    assert prepare(corpus, CLEANING, TOKENIZER, max_tokens=60, folder=tmp_path / "run").reports == data.reports


def test_no_part_repeats_the_held_out_text_of_another_whatever_its_side(pairs, tmp_path):
    held, free = pairs[:30], pairs[100:200]
    swapped = [(target, source) for source, target in held]
    corpus = parted(
        ("there", ("en", "de"), free, held, None),
        ("again", ("en", "de"), [*free, *held], None, None),
        ("back", ("de", "en"), [*((target, source) for source, target in free), *swapped], None, None),
        ("elsewhere", ("fr", "de"), [(f"le {source}", target) for source, target in [*free, *held]], None, None),
    )
    data = prepare(corpus, CleaningSettings(max_ratio=99, duplicates=False), TOKENIZER, max_tokens=200, folder=tmp_path)
    reason = "also in valid or test"
    removed = {name: report.removed[reason] for name, report in data.reports.items()}
    assert removed == {
        "there": removed["there"],
        **dict.fromkeys(("again", "back", "elsewhere"), removed["there"] + 30),
    }


def test_a_part_of_which_nothing_is_left_is_named(pairs, tmp_path):
    good = ("good", ("en", "de"), pairs[:100], pairs[100:110], None)
    for name, pair, message in (
        ("long", ("The kalo. " * 60, "lo. " * 60), r"All 1 pairs of 'long' have 40 tokens or more"),
        ("empty", ("", ""), r"removed all 1 training pairs of 'empty': 1 empty side"),
    ):
        corpus = parted(good, (name, ("en", "de"), [pair], None, None))
        with pytest.raises(DataError, match=message):
            prepare(corpus, CLEANING, TOKENIZER, max_tokens=40, folder=tmp_path)
