"""Windows, metrics and documents against a literal re-computation."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locant.errors import DataError
from locant.extension.evaluate.documents import LongText, cut_documents, read_texts
from locant.extension.evaluate.perplexity import PerplexitySettings, Window, perplexity, windows_of


class _Letters:
    """A tokenizer of letters, with a start token where one is asked for."""

    bos_token_id = 1

    def __init__(self, *, starts: bool = False) -> None:
        self.starts = starts

    def __call__(self, text: str, *, add_special_tokens: bool = True, verbose: bool = True) -> Any:
        start = [1] if self.starts and add_special_tokens else []
        return SimpleNamespace(input_ids=start + [ord(letter) for letter in text])


LETTERS: Any = _Letters()


@settings(deadline=None, max_examples=40)
@given(length=st.integers(2, 60), stride=st.integers(1, 20), windows=st.integers(1, 6), longest=st.integers(0, 40))
def test_sliding_is_the_loop_of_press(length: int, stride: int, windows: int, longest: int) -> None:
    # The loop of transformers' documentation ("Perplexity of fixed-length models"), over a text of that many tokens.
    stride = min(stride, length - 1)
    settings = PerplexitySettings(metrics=("sliding",), stride=stride, windows=windows)
    found = windows_of("sliding", length, length + longest, settings)
    text = length + (windows - 1) * stride
    expected, previous = [], 0
    for begin in range(0, text, stride):
        end = min(begin + length, text)
        expected.append(Window(begin, end - begin, max(length - (end - previous), 1)))
        previous = end
        if end == text:
            break
    assert found == expected
    scored = [window.start + index for window in found for index in range(window.scored_from, window.length)]
    assert scored == list(range(1, text))  # every token but the first, once


def test_what_the_numbers_mean() -> None:
    # Two documents, of two nats a token over 3 tokens and one nat over 9.
    documents = [[(6.0, 3)], [(9.0, 9)]]
    assert perplexity("prefix", documents) == pytest.approx((math.e**2 + math.e) / 2)  # YaRN: np.mean(ppls)
    assert perplexity("last", documents) == pytest.approx(math.exp(15 / 12))
    assert perplexity("sliding", [[(6.0, 3), (9.0, 9)]]) == pytest.approx(math.exp(15 / 12))
    assert perplexity("last", [[(1e6, 1)]]) == math.inf


def test_a_book_is_cut_at_even_distances() -> None:
    text = LongText("book", "".join(chr(100 + index) for index in range(100)))
    documents = cut_documents([text], LETTERS, length=20, count=4)
    assert [document.tokens.tolist() for document in documents] == [
        list(range(100 + start, 120 + start)) for start in (0, 25, 50, 75)
    ]
    assert len(cut_documents([text], LETTERS, length=40, count=4)) == 2


def test_a_start_token_begins_documents_and_windows() -> None:
    tokenizer: Any = _Letters(starts=True)
    (document,) = cut_documents([LongText("book", "abcdefgh")], tokenizer, length=8, count=1)
    assert document.tokens.tolist() == [1, *b"abcdefg"]
    assert document.window(2, 4).tolist() == [1, *b"cde"]
    assert document.tokens[2] == ord("b")  # a window is a copy


def test_texts_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(DataError):
        cut_documents([LongText("book", "abc")], LETTERS, length=9, count=1)
    for name in ("empty.txt", "none.txt"):
        with pytest.raises(DataError, match=name):
            read_texts([tmp_path / name])
