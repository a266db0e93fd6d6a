import tracemalloc
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locant.errors import DataError
from locant.text import CleaningSettings, ParallelText, TranslationFilters, clean
from locant.text.pairs import FACTS, MemoryBlock, facts_of, folded, hashes, in_memory, split_words, utf8

# White space of every kind, scripts without spaces, letters that case folding makes longer.
SENTENCES = st.one_of(
    st.text(alphabet="ab ß\n\t\r\x1f\x85\xa0\u2003\u2028\u3000ไเ猫Σ\u200b", max_size=12), st.text(max_size=8)
)


def test_each_reason_removes_its_pairs_and_is_counted():
    pairs = [
        ("keep me", "behalte mich"),
        ("", "leer"),
        ("blank", " \t"),
        ("a b c d e f", "a b c d e f"),
        ("one", "eins zwei drei vier fünf"),
        ("Held  OUT", "anders"),
        ("different", "zurückgehalten"),
        ("keep me", "behalte mich"),
        (" keep me ", "behalte mich"),
        ("keep me", "nimm mich"),
    ]
    settings = CleaningSettings(max_length=5, max_ratio=4)
    cleaned, report = clean(in_memory(pairs), [("held out", "Zurückgehalten")], settings)
    assert list(cleaned) == list(cleaned) == [pairs[0], pairs[9]]
    assert len(cleaned) == report.kept == 2
    assert report.removed == {
        "empty side": 2,
        "too long": 1,
        "length ratio": 1,
        "also in valid or test": 2,
        "duplicate": 2,
    }
    assert report.total == 10
    assert report.kept == 2


def test_duplicates_and_overlap_can_stay():
    pairs = [("a", "b"), ("a", "b")]
    settings = CleaningSettings(duplicates=False, overlap=False)
    assert list(clean(in_memory(pairs), [("a", "b")], settings)[0]) == pairs


@pytest.mark.parametrize(
    ("text", "words"),
    [("", 0), ("a b", 2), ("don't stop", 2), ("我喜欢猫", 4), ("猫が好き", 4), ("GPU 很快", 3), ("สวัสดี", 6)],
)
def test_words_of_scripts_without_spaces_are_characters(text, words):
    assert len(split_words(text)) == words


def test_everything_removed_is_an_error_that_counts_the_reasons():
    with pytest.raises(DataError, match=r"all 2 training pairs: 1 empty side, 1 also in valid or test"):
        clean(in_memory([("", "x"), ("a", "b")]), [("a", "c")], CleaningSettings())


words = st.text(alphabet="ab ", max_size=4)


@given(st.lists(st.tuples(words, words), max_size=30), st.lists(st.tuples(words, words), max_size=5))
def test_what_is_kept_is_clean_and_what_is_removed_is_counted(pairs, evaluation):
    try:
        cleaned, report = clean(in_memory(pairs), evaluation, CleaningSettings(max_length=3, max_ratio=2))
    except DataError:
        return
    kept = list(cleaned)
    assert len(kept) == len(set(kept)) == report.kept
    assert set(kept) <= set(pairs)
    for side in (0, 1):
        reserved = {" ".join(pair[side].split()) for pair in evaluation}
        assert not {" ".join(pair[side].split()) for pair in kept} & reserved
        assert all(1 <= len(pair[side].split()) <= 3 for pair in kept)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(SENTENCES, SENTENCES), max_size=8))
def test_facts_of_many_are_those_of_each(pairs):
    facts = facts_of(pairs)
    sentences = [sentence for pair in pairs for sentence in pair]
    assert facts["words"].ravel().tolist() == [len(split_words(sentence)) for sentence in sentences]
    plain = [folded(sentence).encode("utf-8", "surrogatepass") for sentence in sentences]
    assert facts["folded"].ravel().tolist() == [crc32(each) for each in plain]
    bare = [f"{source.strip()}\n{target.strip()}" for source, target in pairs]
    assert facts["stripped"].tolist() == hashes(utf8(bare)).tolist()
    assert facts["pair"].tolist() == hashes(utf8(f"{source}\n{target}" for source, target in pairs)).tolist()


@pytest.mark.parametrize(
    ("filters", "sentence", "translation", "score", "reason"),
    [
        ({}, "one two", " ", -0.1, "empty translation"),
        ({}, "one two", "one two", -9.0, None),
        ({"min_score": -1.0}, "one two", "eins zwei", -1.0, None),
        ({"min_score": -1.0}, "one two", "eins zwei", -1.01, "low score"),
        ({"min_score": -1.0}, "one two", "eins zwei", float("nan"), "low score"),
        ({"max_ratio": 2.0}, "one two", "eins zwei drei vier", -0.1, None),
        ({"max_ratio": 2.0}, "one two", "eins zwei drei vier fünf", -0.1, "length ratio"),
        ({"max_ratio": 2.0}, "one two three", "eins", -0.1, "length ratio"),
        ({"max_ratio": 2.0}, "four words are here", "两只狗在跑", -0.1, None),  # each character is a word
        ({"copies": True}, "One  two", "one TWO ", -0.1, "copy"),
        ({"copies": True}, "one two", "one two.", -0.1, None),
        ({"max_repetitions": 2}, "go", "geh geh geh", -0.1, "repetition"),
        ({"max_repetitions": 2}, "go", "geh geh", -0.1, None),
        ({"max_repetitions": 2}, "Holy, holy, holy", "Heilig, heilig, heilig,", -0.1, "repetition"),
        ({"max_repetitions": 2}, "Holy, holy, holy,", "Heilig, heilig, heilig,", -0.1, None),
        ({"max_repetitions": 2}, "he went", "er ging und ging und ging und ging", -0.1, "repetition"),
        ({"max_repetitions": 2, "max_ratio": 1.5}, "go", "geh geh geh", -0.1, "length ratio"),  # the first that applies
    ],
)
def test_the_first_reason_that_applies(filters, sentence, translation, score, reason):
    assert TranslationFilters.parse(filters).reason_to_remove(sentence, translation, score) == reason


def test_cleaning_takes_some_ten_bytes_a_pair():
    size, count = 8192, 100

    def facts():
        for number in range(count):
            found = np.zeros(size, FACTS)
            found["words"] = 3
            found["stripped"] = np.random.default_rng(number % 99).integers(1 << 60, size=size)  # one comes again
            yield found

    text = ParallelText(lambda: iter([MemoryBlock([])] * count), [size] * count, "", facts)
    tracemalloc.start()
    try:
        report = clean(text, [], CleaningSettings())[1]
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert report.removed["duplicate"] == size
    assert most < 13 * size * count
