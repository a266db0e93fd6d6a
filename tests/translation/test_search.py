from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import tiny_model
from torch import Tensor

from locant.models import Transformer
from locant.text import BOS, EOS, PAD, UNK
from locant.translation import Hypothesis, ancestral_sampling, beam_search

VOCABULARY = 6
WORDS = [UNK, 4, 5]


def random_batch(rows: int, vocabulary: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 8, (rows,), generator=generator)
    source = torch.randint(4, vocabulary, (rows, int(lengths.max())), generator=generator)
    source[torch.arange(source.shape[1]) >= lengths.unsqueeze(1)] = PAD
    return source, lengths, torch.randint(1, 12, (rows,), generator=generator)


def same(one: Hypothesis, other: Hypothesis) -> bool:
    # Sums of float32 log-probabilities: another batch multiplies matrices in another order.
    return one.tokens == other.tokens and one.score == pytest.approx(other.score, rel=1e-5, abs=1e-5)


def exhaustive(model: Transformer, source: Tensor, limit: int, alpha: float) -> list[Hypothesis]:
    """Score every possible output by full forward passes, without cache or batch."""
    found = []
    for size in range(limit + 1):
        outputs = torch.tensor(list(itertools.product(WORDS, repeat=size)), dtype=torch.long)
        begin, end = outputs.new_full((len(outputs), 1), BOS), outputs.new_full((len(outputs), 1), EOS)
        written = outputs if size == limit else torch.cat((outputs, end), dim=1)
        target = torch.cat((begin, written[:, :-1]), dim=1)
        with torch.inference_mode():
            logits = model(source.expand(len(target), -1), torch.full((len(target),), len(source)), target)
        totals = logits.double().log_softmax(-1).gather(2, written.unsqueeze(2)).sum((1, 2))
        penalty = ((5 + written.shape[1]) / 6) ** alpha
        for tokens, total in zip(outputs.tolist(), totals.tolist(), strict=True):
            found.append(Hypothesis(tokens, total / penalty, total))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
def test_a_wide_beam_finds_what_exhaustive_search_finds(seed: int, alpha: float) -> None:
    model = tiny_model(VOCABULARY, seed, sharpness=2.0)
    source = torch.tensor([[4, 5, 4], [5, 5, UNK]])
    limits = torch.tensor([4, 3])
    found = beam_search(model, source, torch.tensor([3, 3]), limits, beam=121, alpha=alpha, n_best=7)
    for row in range(2):
        expected = exhaustive(model, source[row], int(limits[row]), alpha)[:7]
        assert [hypothesis.tokens for hypothesis in found[row]] == [hypothesis.tokens for hypothesis in expected]
        for one, other in zip(found[row], expected, strict=True):
            assert one.score == pytest.approx(other.score, rel=1e-5, abs=1e-5)
            assert one.log_probability == pytest.approx(other.log_probability, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("sharpness", [1.0, 6.0])
def test_a_beam_of_one_takes_the_argmax_of_full_forward_passes(sharpness: float) -> None:
    model = tiny_model(11, seed=5, sharpness=sharpness)
    source, lengths, limits = random_batch(12, 11, seed=1)
    one_token = ancestral_sampling(model, source, lengths, limits, None, top_k=1)
    for row, (found,) in enumerate(beam_search(model, source, lengths, limits, beam=1)):
        assert found == one_token[row]
        tokens: list[int] = []
        total = 0.0
        while len(tokens) < limits[row] and EOS not in tokens:
            with torch.inference_mode():
                own = source[row : row + 1, : lengths[row]]
                logits = model(own, lengths[row : row + 1], torch.tensor([[BOS, *tokens]]))[0, -1]
            table = logits.double().log_softmax(-1)
            table[[PAD, BOS]] = -math.inf
            tokens.append(int(table.argmax()))
            total += float(table.max())
        assert found.tokens == [token for token in tokens if token != EOS]
        assert found.log_probability == pytest.approx(total, rel=1e-5, abs=1e-5)
        assert found.score == pytest.approx(total / ((5 + len(tokens)) / 6) ** 0.6, rel=1e-5, abs=1e-5)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), beam=st.integers(1, 5), sharpness=st.sampled_from([1.0, 5.0]))
def test_a_sentence_is_translated_the_same_alone_and_in_any_batch(seed: int, beam: int, sharpness: float) -> None:
    """Finished sentences leave the batch and others are padded; neither may change a result."""
    model = tiny_model(12, seed, sharpness)
    source, lengths, limits = random_batch(8, 12, seed)
    together = beam_search(model, source, lengths, limits, beam=beam, n_best=beam)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(seed))
    shuffled = beam_search(model, source[order], lengths[order], limits[order], beam=beam, n_best=beam)
    for place, row in enumerate(order[:4].tolist()):
        part = slice(row, row + 1)
        own = source[part, : lengths[row]], lengths[part], limits[part]
        (alone,) = beam_search(model, *own, beam=beam, n_best=beam)
        assert len(alone) == len(together[row]) == len(shuffled[place])
        assert all(map(same, alone, together[row]))
        assert all(map(same, alone, shuffled[place]))


def test_outputs_hold_no_marks_and_respect_the_limits() -> None:
    model = tiny_model(9, seed=1)
    with torch.no_grad():  # A model that would love to write padding and begin marks.
        model.output.weight[EOS] = 0
        model.output.weight[[PAD, BOS]] = 10 * model.output.weight[4]
    source, lengths, limits = random_batch(10, 9, seed=4)
    beams = beam_search(model, source, lengths, limits, beam=3, n_best=3)
    for limit, found in zip(limits, beams, strict=True):
        for hypothesis in found:
            assert not {PAD, BOS, EOS} & set(hypothesis.tokens)
            assert len(hypothesis.tokens) <= limit
