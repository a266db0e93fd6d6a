import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locant.app.word_differences import compare


def shown(first: str, second: str) -> list[str]:
    """Both sentences, with what is marked in brackets."""
    return ["".join(f"[{s.text}]" if s.differs else s.text for s in spans) for spans in compare(first, second)]


@pytest.mark.parametrize(
    ("first", "second", "marked"),
    [
        ("a b c", "a b c", ["a b c", "a b c"]),
        ("a b c", "a x c", ["a [b] c", "a [x] c"]),
        ("a b c d", "a d", ["a [b c] d", "a d"]),
        ("Hut, der", "Hut", ["Hut[, der]", "Hut"]),
        ("The end.", "the end", ["[The] end[.]", "[the] end"]),
        ("I don't know", "I don’t know", ["I [don't] know", "I [don’t] know"]),
        ("'a'", "a", ["[']a[']", "a"]),
        ("", "a", ["", "[a]"]),
        ("神创造天地", "神造了天地", ["神[创]造天地", "神造[了]天地"]),
        ("ไปกิน", "ไปดิน", ["ไป[กิ]น", "ไป[ดิ]น"]),
        ("नमस्ते दुनिया", "नमस्ते जगत", ["नमस्ते [दुनिया]", "नमस्ते [जगत]"]),
        ("cafe\u0301 x", "cafe x", ["[cafe\u0301] x", "[cafe] x"]),
        ("  a", "a ", ["  a", "a "]),
    ],
)
def test_what_is_marked(first: str, second: str, marked: list[str]) -> None:
    assert shown(first, second) == marked


@settings(deadline=None)
@given(st.text(), st.text())
def test_nothing_is_lost(first: str, second: str) -> None:
    a, b = compare(first, second)
    assert "".join(span.text for span in a) == first
    assert "".join(span.text for span in b) == second
    assert all(span.text for span in (*a, *b))
    assert not any(span.differs for spans in compare(first, first) for span in spans)


def test_frequent_words_of_a_long_sentence_are_words_too() -> None:
    assert shown("x" + " la" * 250, "y" + " la" * 250) == ["[x]" + " la" * 250, "[y]" + " la" * 250]
