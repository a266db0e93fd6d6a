import pytest

from locant.errors import DataError
from locant.text import (
    BatchSettings,
    BatchStream,
    CleaningSettings,
    FilesCorpus,
    TokenizerPair,
    TokenizerSettings,
    load_corpus,
    prepare,
)

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
    assert again.train.source.tokens.tolist() == first.train.source.tokens.tolist()
    assert first.report.kept == len(first.train)
    assert first.report.removed["too many tokens"] == first.train.dropped > 0
    assert first.valid_pairs == list(corpus.valid)
    assert len(first.valid) <= 20
    assert first.test_pairs is None


def test_other_folders_get_the_same_data(corpus, tmp_path):
    one, two = (prepare(corpus, CLEANING, TOKENIZER, max_tokens=40, folder=tmp_path / name) for name in ("one", "two"))
    assert one.tokenizers.digest == two.tokenizers.digest
    assert one.train.target.tokens.tolist() == two.train.target.tokens.tolist()


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


def test_an_interrupted_preparation_is_done_again(corpus, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    whole = prepare(corpus, CLEANING, TOKENIZER, max_tokens=40, folder=folder)
    (folder / "cache" / "prepared.json").unlink()
    again = prepare(corpus, CLEANING, TOKENIZER, max_tokens=40, folder=folder, resume=True)
    assert again.tokenizers.digest == whole.tokenizers.digest
    assert again.report == whole.report


def test_sampled_epochs_feed_the_stream_and_resume(corpus, tmp_path):
    tokenizer = TokenizerSettings(vocab_size=200, sampling=0.1)
    data = prepare(corpus, CLEANING, tokenizer, max_tokens=40, folder=tmp_path / "run")
    stream = BatchStream(data.epochs(seed=1), BatchSettings(tokens=500), seed=1)
    seen = []
    for epoch, index, batch in stream.start():
        if epoch == 2:
            break
        seen.append((epoch, index, batch.source.tolist()))
    assert [entry for entry in seen if entry[0] == 0] != [(0, *entry[1:]) for entry in seen if entry[0] == 1]
    place = len(seen) - 5
    resumed = BatchStream(data.epochs(seed=1), BatchSettings(tokens=500), seed=1).start(*seen[place][:2])
    for expected in seen[place:]:
        epoch, index, batch = next(resumed)
        assert (epoch, index, batch.source.tolist()) == expected


def test_without_sampling_all_epochs_are_one(corpus, tmp_path):
    data = prepare(corpus, CLEANING, TOKENIZER, max_tokens=40, folder=tmp_path / "run")
    assert data.epochs(seed=1)(0) is data.epochs(seed=2)(7) is data.train
