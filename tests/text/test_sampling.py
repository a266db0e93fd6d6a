import json
import math
import random
import subprocess
import sys
from collections import Counter

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from locant.text import Tokenizer, TokenizerSettings, train_tokenizers

DRAWS = 20_000
WORD = "kalo"
SCRIPT = """
import json, sys
from pathlib import Path
from locant.text import Tokenizer
tokenizer = Tokenizer(Path(sys.argv[1]).read_bytes())
print(json.dumps(tokenizer.encode_sampled(json.loads(sys.argv[2]), alpha=0.2, seed=7)))
"""


@pytest.fixture(scope="module")
def models(pairs) -> dict[str, Tokenizer]:
    return {
        algorithm: train_tokenizers(pairs, TokenizerSettings(algorithm=algorithm, vocab_size=200)).source
        for algorithm in ("unigram", "bpe")
    }


def frequencies(segmentations) -> dict[tuple[int, ...], float]:
    counts = Counter(tuple(ids) for ids in segmentations)
    return {ids: count / counts.total() for ids, count in counts.items()}


def assert_close(one, other):
    """Two sets of frequencies, each of ``DRAWS`` draws at least, differ by no more than 5 standard errors."""
    for ids in one.keys() | other.keys():
        first, second = one.get(ids, 0.0), other.get(ids, 0.0)
        mean = (first + second) / 2
        assert abs(first - second) <= 5 * math.sqrt(2 * mean * (1 - mean) / DRAWS) + 5 / DRAWS


def pieces_of(processor) -> dict[str, int]:
    return {processor.id_to_piece(i): i for i in range(4, processor.get_piece_size())}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_another_process_draws_the_same(models, pairs, tmp_path, algorithm):
    texts = [source for source, _ in pairs[:20]]
    (tmp_path / "model").write_bytes(models[algorithm].model)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "model"), json.dumps(texts)]
    first, second = (json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(2))
    assert first == second == models[algorithm].encode_sampled(texts, alpha=0.2, seed=7)


@pytest.mark.parametrize(("algorithm", "alpha"), [("unigram", 1e4), ("bpe", 0.0)])
def test_without_randomness_it_is_the_usual_segmentation(models, pairs, algorithm, alpha):
    texts = [text for pair in pairs for text in pair]
    texts += ["", "▁", "The ▁ ka▁lo ▁", "▁▁kalo", "猫 kalo猫猫 猫"]
    assert models[algorithm].encode_sampled(texts, alpha=alpha, seed=3) == models[algorithm].encode(texts)


def test_byte_fallback_keeps_the_usual_segmentation_of_the_word(pairs):
    settings = TokenizerSettings(vocab_size=330, algorithm="bpe", byte_fallback=True)
    tokenizer = train_tokenizers(pairs, settings).source
    text = "kalo猫 猫"
    assert tokenizer.encode_sampled([text], alpha=1.0, seed=0) == tokenizer.encode([text])
    assert tokenizer.decode(tokenizer.encode_sampled(["kalo 猫 ka"], alpha=1.0, seed=0)) == ["kalo 猫 ka"]
    assert tokenizer.encode_sampled(["The kalo ka猫"], alpha=0.0, seed=0) == tokenizer.encode(["The kalo ka猫"])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_unigram_frequencies_are_those_of_all_segmentations_and_of_sentencepiece(alpha):
    # Words of two letters, so that many pieces overlap.
    draw = random.Random(0)
    texts = [" ".join("".join(draw.choices("ab", k=draw.randint(2, 7))) for _ in range(6)) for _ in range(300)]
    tokenizer = train_tokenizers([(text, text) for text in texts], TokenizerSettings(vocab_size=24)).source
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    known = pieces_of(processor)

    def segmentations(rest):
        if not rest:
            yield ()
        for end in range(1, len(rest) + 1):
            if rest[:end] in known:
                yield from ((known[rest[:end]], *tail) for tail in segmentations(rest[end:]))

    word = "abbab"
    weights = {ids: math.exp(alpha * sum(map(processor.get_score, ids))) for ids in segmentations("▁" + word)}
    assert len(weights) > 5
    exact = {ids: weight / sum(weights.values()) for ids, weight in weights.items()}
    drawn = frequencies(tokenizer.encode_sampled([word] * DRAWS, alpha=alpha, seed=5))
    theirs = frequencies(processor.encode(word, enable_sampling=True, alpha=alpha, nbest_size=-1) for _ in range(DRAWS))
    assert_close(drawn, exact)
    assert_close(drawn, theirs)


def test_bpe_frequencies_are_those_of_algorithm_1(models):
    tokenizer, dropout = models["bpe"], 0.3
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    known = pieces_of(processor)
    exact: Counter[tuple[int, ...]] = Counter()

    def follow(symbols, probability):
        """Try every subset of the merges that a step can keep."""
        merges = [i for i in range(len(symbols) - 1) if symbols[i] + symbols[i + 1] in known]
        for kept in range(1 << len(merges)):
            left = [place for bit, place in enumerate(merges) if kept >> bit & 1]
            share = probability * (1 - dropout) ** len(left) * dropout ** (len(merges) - len(left))
            if not left:
                exact[tuple(known[symbol] for symbol in symbols)] += share
                continue
            best = max(left, key=lambda i: (processor.get_score(known[symbols[i] + symbols[i + 1]]), -i))
            follow([*symbols[:best], symbols[best] + symbols[best + 1], *symbols[best + 2 :]], share)

    follow(list("▁" + WORD), 1.0)
    assert len(exact) > 3
    assert math.isclose(exact.total(), 1.0)
    assert_close(frequencies(tokenizer.encode_sampled([WORD] * DRAWS, alpha=dropout, seed=5)), exact)


def test_bpe_that_drops_all_merges_spells_characters(models):
    (ids,) = models["bpe"].encode_sampled(["The kalo"], alpha=1.0, seed=0)
    assert [models["bpe"].token(i) for i in ids] == list("▁The▁kalo")


@given(text=st.text(alphabet="The kalomirü.\n", max_size=40), seed=st.integers(0, 2**64), alpha=st.floats(0, 1))
@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_every_sample_spells_the_text(models, algorithm, text, seed, alpha):
    tokenizer = models[algorithm]
    assert tokenizer.decode(tokenizer.encode_sampled([text], alpha=alpha, seed=seed)) == [tokenizer.normalize(text)]
