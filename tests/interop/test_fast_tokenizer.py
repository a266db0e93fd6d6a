"""The tokenizer that is exported, run by ``tokenizers``, against SentencePiece."""

import json

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from locant.errors import ConfigError
from locant.interop.tokenizer_json import fast_tokenizer
from locant.text import EOS, Tokenizer, TokenizerSettings, train_tokenizers
from locant.text.bible import find_version, read_version

KINDS = {
    "unigram": {},
    "bpe": {"algorithm": "bpe"},
    "unigram-bytes-lower": {"byte_fallback": True, "lowercase": True},
    "bpe-bytes-lower": {"algorithm": "bpe", "byte_fallback": True, "lowercase": True},
}


@pytest.fixture(scope="module")
def verses() -> list[tuple[str, str]]:
    english, russian = (read_version(find_version(code)) for code in ("kjv", "synodal"))
    shared = [verse for verse in english if verse in russian]
    return [(english[verse], russian[verse]) for verse in shared[::80]]


@pytest.fixture(scope="module", params=KINDS)
def both(request, verses) -> tuple[Tokenizer, tokenizers.Tokenizer]:
    own = train_tokenizers(verses, TokenizerSettings(vocab_size=600, **KINDS[request.param]), tags=["<bt>"]).source
    other = tokenizers.Tokenizer.from_str(json.dumps(fast_tokenizer(own)))
    other.encode_special_tokens = True
    return own, other


@pytest.mark.sampled(2)
def test_ids_of_real_text(both, verses):
    own, other = both
    texts = [text for pair in verses for text in pair]
    assert [found.ids for found in other.encode_batch(texts)] == [[*ids, EOS] for ids in own.encode(texts)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "</s> <unk><pad> <s> <bt> <bt>",
        "\u2329/s\u232a",
        "▁a ▁▁ b▁",
        "a\0b\u00a0c\x1f\u3000d\x85",
        "e\u0301 \u2126 \u212b \ufb01 ①",
        "☃☃ x ☃ 你好",
        "ΟΔΟΣ ΣΑΣ. Σ' Σ Ο'Σ'Α ΑΣ\u00adΑ",
        "İstanbul STRASSE ẞ",
        " ⁇ ",
    ],
)
def test_ids_of_odd_text(both, text):
    own, other = both
    assert other.encode(text, add_special_tokens=False).ids == own.encode([text])[0]


# Byte pieces are spelled with digits and an x between angle brackets; a unigram model of tokenizers takes such a text
# for the piece, which the export says.
@pytest.mark.sampled(2)
@settings(max_examples=100, deadline=None)
@given(text=st.text(st.characters(max_codepoint=0x5FF, exclude_characters="<", exclude_categories=["Cn", "Cs"])))
def test_ids_of_any_text(both, text):
    own, other = both
    assert other.encode(text, add_special_tokens=False).ids == own.encode([text])[0]


@settings(max_examples=100, deadline=None)
@given(text=st.text("ab ▁тоa", max_size=30))
def test_ids_of_repetitive_text(both, text):
    own, other = both
    assert other.encode(text, add_special_tokens=False).ids == own.encode([text])[0]


@pytest.mark.sampled(2)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_decoding(both, data):
    own, other = both
    first = next(index for index in range(5, own.vocab_size) if not own.token(index).startswith("<0x"))
    ids = data.draw(st.lists(st.integers(first, own.vocab_size - 1) | st.integers(0, 4), max_size=12))
    assert other.decode(ids, skip_special_tokens=True) == own.decode([ids])[0]


def test_decoding_of_bytes(verses):
    own = train_tokenizers(verses, TokenizerSettings(vocab_size=600, byte_fallback=True)).source
    other = tokenizers.Tokenizer.from_str(json.dumps(fast_tokenizer(own)))
    for text in ("☃ in the house", "你好"):
        ids = own.encode([text])[0]
        assert other.decode(ids) == text


def test_a_model_that_normalises_text_itself_is_refused(joint):
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    proto = ModelProto.FromString(joint.source.model)
    proto.normalizer_spec.remove_extra_whitespaces = False
    with pytest.raises(ConfigError, match="normalises text by itself"):
        fast_tokenizer(Tokenizer(proto.SerializeToString()))
