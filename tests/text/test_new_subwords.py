"""Tokenizers with new subwords, against SentencePiece itself."""

import math
import random

import pytest
import sentencepiece

from locant.text import TokenizerPair, TokenizerSettings, train_tokenizers
from locant.text.vocabulary import extend_tokenizers, learn_subwords, with_subwords

SYLLABLES = ["ka", "lo", "mir", "ten", "bu", "shi", "gra", "no"]
NEW = ["zorflax", "kamirq", "blünt", "tenbukalo"]


def sentences(words: list[str], count: int, seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    return [(" ".join(draw.choices(words, k=5)), " ".join(draw.choices(words, k=4)) + ".") for _ in range(count)]


OLD_WORDS = ["".join(random.Random(number).choices(SYLLABLES, k=2)) for number in range(30)]
OLD, TEXT = sentences(OLD_WORDS, 200, 0), sentences(OLD_WORDS[:5] + NEW, 200, 1)


@pytest.fixture(scope="module", params=["unigram", "bpe", "bpe with bytes", "two unigram"])
def pair(request) -> TokenizerPair:
    kind = request.param.split()
    settings = TokenizerSettings(
        algorithm=kind[0] if kind[0] != "two" else "unigram",
        vocab_size=300 if "bytes" in kind else 40,
        joint=kind[0] != "two",
        byte_fallback="bytes" in kind,
    )
    return train_tokenizers(OLD, settings)


def test_new_words_become_single_subwords(pair):
    found = extend_tokenizers(pair, TEXT, 40, shared=pair.joint)
    sources = [source for source, _ in TEXT]
    before, after = pair.source.encode(sources), found.pair.source.encode(sources)
    assert sum(map(len, after)) < 0.5 * sum(map(len, before))
    assert all(len(found.pair.source.encode([word])[0]) == 1 for word in NEW)
    assert found.pair.source.decode(after) == sources
    assert found.pair.joint == pair.joint
    # The old tokens have their ids.
    size = pair.source.vocab_size
    assert [found.pair.source.token(index) for index in range(size)] == [pair.source.token(i) for i in range(size)]
    assert found.pair.source.vocab_size == size + len(found.source)


def test_what_a_subword_replaces_is_its_old_spelling(pair):
    found = extend_tokenizers(pair, TEXT, 40, shared=pair.joint)
    for index, ids in enumerate(found.source):
        piece = found.pair.source.token(pair.source.vocab_size + index)
        if piece.startswith("▁") and 1 not in ids:
            assert list(ids) == pair.source.encode([piece.removeprefix("▁")])[0]
        spelled = "".join(pair.source.token(one) for one in ids)
        assert spelled == piece or "<unk>" in spelled or "<0x" in spelled


def test_scores_are_log_probabilities_or_ranks(pair):
    new = learn_subwords(pair.source, [source for source, _ in TEXT], 40)
    processor = sentencepiece.SentencePieceProcessor(model_proto=with_subwords(pair.source, new).model)
    scores = [processor.get_score(pair.source.vocab_size + index) for index in range(len(new))]
    assert with_subwords(pair.source, new).algorithm == pair.source.algorithm
    if pair.source.algorithm == "bpe":
        lowest = min(processor.get_score(index) for index in range(pair.source.vocab_size))
        assert scores == [lowest - 1 - rank for rank in range(len(new))]
    else:
        assert all(score < 0 for score in scores)
        word = next(one for one in new if one.piece == "▁zorflax")
        tokens = sum(len(pair.source.tokens(source)) for source, _ in TEXT)
        count = " ".join(source for source, _ in TEXT).split().count("zorflax")
        # The share of the text; characters without a token count for themselves.
        assert word.score == pytest.approx(math.log(count / tokens), abs=0.3)


def test_sampling_goes_on_with_the_new_subwords(pair):
    extended = extend_tokenizers(pair, TEXT, 40, shared=pair.joint).pair.source
    texts = [source for source, _ in TEXT]
    assert extended.decode(extended.encode_sampled(texts, alpha=0.3, seed=0)) == texts


def test_shared_vocabularies_get_the_same_subwords():
    """As those of Marian: two tokenizers over one list of tokens."""
    joint = train_tokenizers(OLD, TokenizerSettings(vocab_size=40)).source
    pair = TokenizerPair(joint, type(joint)(joint.model))
    found = extend_tokenizers(pair, TEXT, 30, shared=True)
    assert found.source == found.target
    size = found.pair.source.vocab_size
    assert size == found.pair.target.vocab_size == 40 + len(found.source)
    assert [found.pair.source.token(i) for i in range(size)] == [found.pair.target.token(i) for i in range(size)]


def test_a_text_without_new_subwords_adds_none(pair):
    found = extend_tokenizers(pair, [("ka", "lo")], 40, shared=pair.joint)
    assert not found.source
    assert found.pair.source.model == pair.source.model or found.pair.source.vocab_size == pair.source.vocab_size
