from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locant.text import Tokenizer, TokenizerSettings, encode_with_spans, train_tokenizers, word_spans
from locant.text.tokenizer import normalize

# Composed and decomposed letters, white space of several kinds, NUL, letters whose lower case is longer.
CHARACTERS = "ab éÉe\u0301ßİ\t\u00a0\u2003\0\u200b.1中😀"


@pytest.fixture(scope="module", params=[("unigram", False), ("bpe", True), ("unigram", True)])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    algorithm, lowercase = request.param
    words = ["ab", "éab", "ba", "aß", "中ab", "b.1", "i̇ab", "abba"]
    pairs = [(" ".join(words[i % 7 : i % 7 + 3]), " ".join(words[::-1][: i % 5 + 1])) for i in range(60)]
    settings = TokenizerSettings(algorithm=algorithm, vocab_size=21, lowercase=lowercase)
    return train_tokenizers(pairs, settings).source


@given(st.text(alphabet=CHARACTERS, max_size=30))
def test_spans_are_those_of_the_text_as_it_was_given(tokenizer: Tokenizer, text: str) -> None:
    ((ids, spans),) = encode_with_spans(tokenizer, [text])
    assert ids == tokenizer.encode([text])[0]
    words = word_spans(text)
    assert [text[begin:end] for begin, end in words] == text.replace("\0", " ").split()
    covered: list[set[int]] = [set() for _ in words]
    for (begin, end), following in zip(spans, [*spans[1:], (len(text), len(text))], strict=False):
        assert 0 <= begin <= end <= len(text)
        assert begin <= following[0]
        (number,) = [n for n, (start, stop) in enumerate(words) if start <= begin < stop]
        assert end <= words[number][1]
        covered[number].update(range(begin, end))
    for (start, stop), characters in zip(words, covered, strict=True):
        assert characters == set(range(start, stop))


@given(st.text(alphabet="ab. ", min_size=1, max_size=30))
def test_a_subword_stands_where_its_span_says(tokenizer: Tokenizer, text: str) -> None:
    assert normalize(text, lowercase=True) == " ".join(text.split())
    ((ids, spans),) = encode_with_spans(tokenizer, [text])
    for index, (begin, end) in zip(ids, spans, strict=True):
        assert tokenizer.token(index).removeprefix("▁") == text[begin:end] or tokenizer.token(index) == "<unk>"


def test_words_that_normalisation_changes_are_not_divided(tokenizer: Tokenizer) -> None:
    text = "ab e\u0301ab ba"
    ((_, spans),) = encode_with_spans(tokenizer, [text])
    assert {span for span in spans if 3 <= span[0] < 7} == {(3, 7)}
