import json
import math
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


def test_unigram_frequencies_are_those_of_all_segmentations(models):
    """Kudo (2018), section 3.3, with all segmentations as candidates."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=models["unigram"].model)
    known = {processor.id_to_piece(i): i for i in range(4, processor.get_piece_size())}

    def segmentations(rest):
        if not rest:
            yield ()
        for end in range(1, len(rest) + 1):
            if rest[:end] in known:
                yield from ((known[rest[:end]], *tail) for tail in segmentations(rest[end:]))

    weights = {ids: math.exp(0.2 * sum(map(processor.get_score, ids))) for ids in segmentations("▁" + WORD)}
    assert len(weights) > 3
    drawn = Counter(map(tuple, models["unigram"].encode_sampled([WORD] * DRAWS, alpha=0.2, seed=5)))
    assert set(drawn) <= set(weights)
    for ids, weight in weights.items():
        share = weight / sum(weights.values())
        assert abs(drawn[ids] / DRAWS - share) <= 5 * math.sqrt(share * (1 - share) / DRAWS) + 5 / DRAWS


def test_bpe_that_drops_all_merges_spells_characters(models):
    (ids,) = models["bpe"].encode_sampled(["The kalo"], alpha=1.0, seed=0)
    assert [models["bpe"].token(i) for i in ids] == list("▁The▁kalo")


@given(text=st.text(alphabet="The kalomirü.\n", max_size=40), seed=st.integers(0, 2**64), alpha=st.floats(0, 1))
@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_every_sample_spells_the_text(models, algorithm, text, seed, alpha):
    tokenizer = models[algorithm]
    assert tokenizer.decode(tokenizer.encode_sampled([text], alpha=alpha, seed=seed)) == [tokenizer.normalize(text)]
