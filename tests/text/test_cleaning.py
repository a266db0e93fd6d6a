from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locant.errors import DataError
from locant.text import CleaningSettings, clean
from locant.text.pairs import facts_of, folded, hashes, in_memory, split_words, utf8

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
    cleaned = clean(in_memory(pairs), [("held out", "Zurückgehalten")], settings)
    assert list(cleaned) == list(cleaned) == [pairs[0], pairs[9]]
    assert len(cleaned) == cleaned.report.kept == 2
    assert cleaned.report.removed == {
        "empty side": 2,
        "too long": 1,
        "length ratio": 1,
        "also in valid or test": 2,
        "duplicate": 2,
    }
    assert cleaned.report.total == 10
    assert cleaned.report.kept == 2
    assert cleaned.report.with_removed("too many tokens", 1).to_dict()["kept"] == 1


def test_duplicates_and_overlap_can_stay():
    pairs = [("a", "b"), ("a", "b")]
    settings = CleaningSettings(duplicates=False, overlap=False)
    assert list(clean(in_memory(pairs), [("a", "b")], settings)) == pairs


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
        cleaned = clean(in_memory(pairs), evaluation, CleaningSettings(max_length=3, max_ratio=2))
    except DataError:
        return
    kept = list(cleaned)
    assert len(kept) == len(set(kept)) == cleaned.report.kept
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
