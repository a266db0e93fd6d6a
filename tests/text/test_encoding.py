"""Texts encoded word by word have the ids that SentencePiece gives them."""

from __future__ import annotations

import io
from itertools import chain

import numpy as np
import pytest
import sentencepiece
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from locant.text import Tokenizer, TokenizerSettings, train_tokenizers
from locant.text import tokenizer as module
from locant.text.tokenizer import WordTable

ODD = [
    "猫",
    "▁",
    "a▁b",
    "▁▁",
    "\u0000",
    "e\u0301",
    "\u0301",
    "🙂🙃",
    "ſ",
    "\u2028",
    "x\u00a0y",
    "\u00ad",
    "…",
    "I",
    "Σ",
    "\x01",
    "a\x01",
]


@pytest.fixture(scope="module", params=["unigram", "bpe", "bytes", "lowercase"])
def tokenizer(request: pytest.FixtureRequest, pairs: list[tuple[str, str]]) -> Tokenizer:
    kind = request.param
    made = TokenizerSettings(
        vocab_size=500 if kind == "bytes" else 200,
        algorithm="bpe" if kind == "bpe" else "unigram",
        byte_fallback=kind == "bytes",
        lowercase=kind == "lowercase",
    )
    return train_tokenizers(pairs, made).source


def in_lists(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    flat = tokenizer.encode_flat(texts)
    assert flat.lengths.sum() == len(flat.ids)
    return [part.tolist() for part in np.split(flat.ids, np.cumsum(flat.lengths)[:-1])] if texts else []


@pytest.mark.sampled(2)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_texts(data: st.DataObject, tokenizer: Tokenizer, pairs: list[tuple[str, str]]) -> None:
    assert WordTable.suits(tokenizer._processor)
    known = sorted({word for pair in pairs[:50] for word in " ".join(pair).split()})
    word = st.one_of(st.sampled_from(known), st.sampled_from(ODD), st.text(max_size=6))
    drawn = st.lists(st.lists(word, max_size=8).map(" ".join), max_size=6)
    texts = [text.encode("utf-8", "ignore").decode() for text in data.draw(drawn)]
    assert in_lists(tokenizer, texts) == tokenizer.encode(texts)


def test_all_of_a_text_with_few_words_kept(
    tokenizer: Tokenizer, pairs: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST", 20)
    texts = list(chain.from_iterable(pairs))
    for start in range(0, len(texts), 50):
        some = texts[start : start + 50]
        assert in_lists(tokenizer, some) == tokenizer.encode(some)


@pytest.mark.parametrize(
    "options", [{"normalization_rule_name": "nmt_nfkc"}, {"split_by_whitespace": False}], ids=["rules", "across spaces"]
)
def test_models_that_do_not_cut_at_spaces_first_are_left_alone(
    pairs: list[tuple[str, str]], options: dict[str, object]
) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(source for source, _ in pairs),
        model_writer=model,
        vocab_size=120,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=4,
        **{"normalization_rule_name": "identity", **options},
    )
    tokenizer = Tokenizer(model.getvalue())
    assert not WordTable.suits(tokenizer._processor)
    texts = [*(source for source, _ in pairs[:50]), "ﬁve ½ x\u00a0y", ""]
    assert in_lists(tokenizer, texts) == tokenizer.encode(texts)
