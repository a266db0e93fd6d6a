"""The tokenizer of an exported page against SentencePiece itself: the same ids and texts for any string."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from web_node import WebNode, needs_node

from locant.text.sentencepiece_model import model_proto, model_type
from locant.text.tokenizer import Tokenizer

pytestmark = needs_node

TEXT = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8").splitlines()[:80]
OTHERS = [
    "Größe und Übermaß, naïve façade, œuvre, ﬁnal.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "ΟΔΥΣΣΕΥΣ και Σίσυφος, ὁ βασιλεύς.",
    "我们昨天去了图书馆。天气很好！",
    "コンピュータで翻訳する。ｶﾀｶﾅ",
    "नमस्ते दुनिया, कैसे हैं आप?",
    "안녕하세요 세계",
    "x² + y³ = ½ · ①②③ ™ … “quoted” — 12,345.67 €",
]
KINDS = {
    "unigram": {},
    "bpe": {"model_type": "bpe"},
    "marian": {"normalization_rule_name": "nmt_nfkc", "model_type": "unigram"},
    "cased-bytes": {"normalization_rule_name": "nfkc_cf", "byte_fallback": True, "character_coverage": 0.98},
    "bpe-bytes": {"model_type": "bpe", "byte_fallback": True, "character_coverage": 0.98},
    "symbols": {"user_defined_symbols": ["<sep>", "Locant", "ß", "  "], "normalization_rule_name": "nmt_nfkc"},
    "bpe-symbols": {"user_defined_symbols": ["<sep>", "Locant", "Lo"], "model_type": "bpe"},
    "suffix": {"treat_whitespace_as_suffix": True},
    "spaces": {"remove_extra_whitespaces": False, "add_dummy_prefix": False},
}


def trained(kind: str, unused: bool = False) -> Tokenizer:
    """A tokenizer of some words; with ``unused``, every tenth subword of it has been taken out of use."""
    model = io.BytesIO()
    usual = {"normalization_rule_name": "identity", "model_type": "unigram", "vocab_size": 700}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT + 3 * OTHERS),
        model_writer=model,
        hard_vocab_limit=False,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        control_symbols=["__de__"],
        minloglevel=4,
        **{**usual, **KINDS[kind]},
    )
    if not unused:
        return Tokenizer(model.getvalue(), lowercase=kind == "unigram")
    proto = model_proto(model.getvalue())
    for piece in itertools.islice(proto.pieces, 5, None, 10):
        if piece.type == piece.NORMAL:
            piece.type = piece.UNUSED
    return Tokenizer(proto.SerializeToString())


# Of characters that are assigned: of others the editions of Unicode that programs have may know more or less.
LETTERS = st.characters(max_codepoint=0x2FFFF, exclude_categories=("Cs", "Cn", "Co"))
WORDS = st.sampled_from(
    [*" ".join([*TEXT, *OTHERS]).split(), "<sep>", "Locant", "  ", "▁", "\t", "ﬃ", "e\u0301", "\u200b"]
)
STRINGS = st.lists(st.one_of(WORDS, st.text(LETTERS, max_size=6)), max_size=8).flatmap(
    lambda words: st.sampled_from(["", " "]).map(lambda between: between.join(words))
)


@pytest.fixture(scope="module")
def node() -> Iterator[WebNode]:
    with WebNode() as process:
        yield process


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("kind", "unused"), [*((kind, False) for kind in KINDS), ("unigram", True), ("bpe", True)])
def test_ids_and_texts_are_those_of_sentencepiece(kind: str, unused: bool, node: WebNode, tmp_path: Path) -> None:
    tokenizer = trained(kind, unused)
    path = tmp_path / "tokenizer.model"
    path.write_bytes(tokenizer.model)
    node.ask("tokenizer", [str(path), tokenizer.lowercase])
    texts = [*TEXT, *OTHERS, "", " ", "\0", "▁▁ ▁", "\ufeffmark", "a" * 300, "ab " * 100, "𝔘𝔫𝔦 🎉🎉"]
    compare(tokenizer, node, texts)

    @settings(max_examples=8, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(STRINGS, min_size=30, max_size=60))
    def of_any_text(strings: list[str]) -> None:
        compare(tokenizer, node, strings)

    @settings(max_examples=8, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=12), min_size=30, max_size=60))
    def of_any_ids(ids: list[list[int]]) -> None:
        assert node.ask("decode", ids) == tokenizer.decode(ids)

    of_any_text()
    of_any_ids()


def compare(tokenizer: Tokenizer, node: WebNode, texts: list[str]) -> None:
    expected = tokenizer.encode(texts)
    found: Any = node.ask("encode", texts)
    wrong = [text for text, one, other in zip(texts, expected, found, strict=True) if one != other]
    assert not wrong
    assert node.ask("decode", expected) == tokenizer.decode(expected)


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_the_type_of_a_model_is_read(kind: str) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=model, model_type=kind, vocab_size=200, hard_vocab_limit=False,
        minloglevel=4,
    )  # fmt: skip
    assert kind in model_type(model.getvalue())
