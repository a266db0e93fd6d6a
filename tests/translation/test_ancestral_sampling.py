"""Sampling of translations: the distribution, the seeds, and what does not change them."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from tiny_models import tiny_model

from locant.errors import ConfigError
from locant.models import DecodingSettings, SamplingSettings, Transformer
from locant.text import BOS, EOS, PAD, UNK
from locant.translation import CompiledEngine, PyTorchEngine, Translator, ancestral_sampling

VOCABULARY = 6
WORDS = [UNK, 4, 5]
SOURCE = [4, 5, 4]


def probabilities(model: Transformer, limit: int, temperature: float, top_k: int) -> dict[tuple[int, ...], float]:
    """Return the probability of every output, by full forward passes and the definition."""
    found = {}

    def extend(tokens: tuple[int, ...], probability: float) -> None:
        if len(tokens) == limit:
            found[tokens] = probability
            return
        with torch.no_grad():
            logits = model(torch.tensor([SOURCE]), torch.tensor([3]), torch.tensor([[BOS, *tokens]]))[0, -1].double()
        logits[[PAD, BOS]] = -math.inf
        logits[logits < logits.topk(top_k).values[-1]] = -math.inf
        shares = (logits / temperature).softmax(-1).tolist()
        found[tokens] = probability * shares[EOS]
        for word in WORDS:
            extend((*tokens, word), probability * shares[word])

    extend((), 1.0)
    return found


def draw(model: Transformer, count: int, limit: int, seed: int = 0, **options: float) -> list:
    rows = torch.tensor([SOURCE]).repeat(count, 1), torch.full((count,), 3), torch.full((count,), limit)
    return ancestral_sampling(model, *rows, np.random.default_rng(seed).random((count, limit)), **options)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, None), (0.5, None), (2.0, None), (1.0, 2), (0.7, 3)])
def test_samples_follow_the_distribution(temperature: float, top_k: int | None) -> None:
    """Pearson's chi-squared test of all outputs with up to three tokens."""
    model = tiny_model(VOCABULARY, seed=1, sharpness=0.4)
    expected = probabilities(model, 3, temperature, top_k or VOCABULARY)
    assert sum(expected.values()) == pytest.approx(1)
    count = 6000
    found = Counter(tuple(each.tokens) for each in draw(model, count, 3, temperature=temperature, top_k=top_k))
    assert all(expected[tokens] > 0 for tokens in found)
    likely = {tokens: count * share for tokens, share in expected.items() if count * share >= 5}
    rest = count - sum(likely.values())
    pairs = [(found[tokens], mean) for tokens, mean in likely.items()]
    if rest > 5:
        pairs.append((sum(number for tokens, number in found.items() if tokens not in likely), rest))
    statistic = sum((number - mean) ** 2 / mean for number, mean in pairs)
    freedom = len(pairs) - 1
    # The distribution of chi-squared has this mean and standard deviation; beyond four of them lies one in 10,000.
    assert statistic < freedom + 4 * math.sqrt(2 * freedom)
    assert len(pairs) > 4


def test_the_smallest_and_the_largest_random_number_draw_a_token_that_may_be_written() -> None:
    model = tiny_model(VOCABULARY, sharpness=9.0)
    rows = torch.tensor([SOURCE] * 2), torch.tensor([3, 3]), torch.tensor([4, 4])
    for top_k in (None, 2, 50):
        found = ancestral_sampling(model, *rows, np.array([[0.0] * 4, [np.nextafter(1, 0)] * 4]), top_k=top_k)
        assert all({*each.tokens} <= {*WORDS} and math.isfinite(each.log_probability) for each in found)


def test_log_probabilities_are_the_model_s_own_whatever_the_temperature() -> None:
    model = tiny_model(VOCABULARY, seed=1, sharpness=2.0)
    for each in draw(model, 20, 3, temperature=0.3):
        target = torch.tensor([[BOS, *each.tokens]])
        with torch.no_grad():
            table = model(torch.tensor([SOURCE]), torch.tensor([3]), target)[0].double().log_softmax(-1)
        written = [*each.tokens, EOS][:3]
        total = sum(float(table[i, token]) for i, token in enumerate(written))
        assert each.log_probability == pytest.approx(total, abs=1e-4)
        assert each.score == pytest.approx(total / ((5 + len(written)) / 6) ** 0.6, abs=1e-4)


def test_a_sentence_is_drawn_the_same_in_any_batch() -> None:
    model = tiny_model(30, seed=4)
    sources = [[4 + (7 * i + j) % 26 for j in range(1 + i % 5)] + [EOS] for i in range(20)]
    limits = [3 + i % 7 for i in range(20)]
    wide = DecodingSettings(sampling=SamplingSettings(seed=5), n_best=3)
    narrow = wide.model_copy(update={"batch_tokens": 1})
    engine = PyTorchEngine(model)
    together = dict(engine.translate(sources, limits, [BOS], wide))
    alone = dict(engine.translate(sources, limits, [BOS], narrow))
    for index in range(20):
        assert [each.tokens for each in together[index]] == [each.tokens for each in alone[index]]
    assert any(len({tuple(each.tokens) for each in found}) == 3 for found in together.values())


def test_seeds_decide_and_parts_of_a_text_have_their_own(translator: Translator) -> None:
    texts = ["alpha beta gamma"] * 6
    first = translator.translate(texts, sampling={"seed": 1})
    assert first == translator.translate(texts, sampling={"seed": 1})
    assert first != translator.translate(texts, sampling={"seed": 2})
    assert len(set(first)) > 1
    streamed = list(translator.stream(texts, chunk=3, sampling={"seed": 1}))
    assert streamed[:3] == first[:3]
    assert streamed[3:] != streamed[:3]


def test_the_compiled_engine_draws_what_pytorch_draws() -> None:
    model = tiny_model(64, seed=6, sharpness=2.0)
    try:
        compiled = CompiledEngine(model)
    except ConfigError as error:
        pytest.skip(str(error))
    sources = [[4 + (5 * i + j) % 60 for j in range(1 + i % 4)] + [EOS] for i in range(24)]
    for sampling in (SamplingSettings(seed=2**64 - 1, first=5), SamplingSettings(temperature=0.7, top_k=8)):
        settings = DecodingSettings(sampling=sampling, n_best=2)
        ours = dict(compiled.translate(sources, [12] * 24, [BOS], settings))
        theirs = dict(PyTorchEngine(model).translate(sources, [12] * 24, [BOS], settings))
        same = [[o.tokens for o in ours[index]] == [o.tokens for o in theirs[index]] for index in range(24)]
        assert sum(same) >= 22  # a random number may lie between the two engines' sums
        for index in range(24):
            if same[index]:
                expected = [one.log_probability for one in theirs[index]]
                assert [one.log_probability for one in ours[index]] == pytest.approx(expected, rel=1e-4, abs=1e-4)
