"""Translations that are drawn at random, token by token, from the model's distribution.

Notation: B sentences of the batch, R rows, S source tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from locant.models.decoding_settings import DecodingSettings
from locant.runtime import attention_of_any_shape
from locant.text.tokenizer import BOS, EOS
from locant.translation.batching import padded
from locant.translation.hypotheses import Array, Hypothesis, hypothesis_of
from locant.translation.search_model import SearchModel, start

Found = TypeVar("Found")
Pausing: TypeAlias = Generator[None, None, Found]
"""Work that pauses after each token, and returns what it has found in the end."""


@attention_of_any_shape()
def ancestral_sampling(
    model: SearchModel,
    source: Tensor,
    source_lengths: Tensor,
    max_lengths: Tensor,
    draws: Array,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    alpha: float = 0.6,
    prefix: Sequence[int] = (BOS,),
) -> list[Hypothesis]:
    """Draw every token from the model's distribution over the next one (Edunov et al. 2018, section 3).

    The distribution is ``softmax(logits / temperature)``, over the ``top_k`` most probable tokens alone where that is
    given (Fan et al. 2018). The token drawn is the first at which the cumulative probability exceeds the random
    number, so a sentence's translation depends on its own random numbers alone, not on the batch. A hypothesis that
    reaches its greatest length without EOS is closed as it is.

    Args:
        model: The model, in evaluation mode.
        source: Source ids ``[B, S]``, padded on the right, on the model's device.
        source_lengths: Number of real tokens of each row, ``[B]``.
        max_lengths: Most target tokens of each row, EOS included, ``[B]``, at least 1.
        draws: Random numbers, even over [0, 1), float64 ``[B, >= max_lengths.max()]``: one for each token.
        temperature: What logits are divided by: below 1 the probable tokens become more probable.
        top_k: How many tokens may be drawn at each step; ``None`` for all.
        alpha: Exponent of the length penalty, for the score only.
        prefix: Target ids that the decoder reads before it writes, at least one; no part of the hypothesis.

    Returns:
        A hypothesis for each row, with the log-probability that the model itself gives it, without temperature.

    Raises:
        LocantError: The model's output is not a number.
    """
    return end_of(_sampling(model, source, source_lengths, max_lengths, draws, temperature, top_k, alpha, prefix))


@torch.inference_mode()
def _sampling(
    model: SearchModel,
    source: Tensor,
    source_lengths: Tensor,
    max_lengths: Tensor,
    draws: Array,
    temperature: float,
    top_k: int | None,
    alpha: float,
    prefix: Sequence[int],
) -> Pausing[list[Hypothesis]]:
    device = source.device
    state = start(model, source, source_lengths, prefix)
    limits = max_lengths.cpu().numpy()
    steps = int(limits.max())
    written = np.full((len(source), steps), EOS)
    totals = np.zeros(len(source))
    sentences = np.arange(len(source))
    last = np.full(len(source), prefix[-1])
    for step in range(1, steps + 1):
        tokens = torch.from_numpy(last).to(device).unsqueeze(1)
        candidates = None
        if top_k is None:
            gains = state.log_probabilities(tokens)
        else:
            gains, candidates = state.best(tokens, top_k)
        picks = _drawn(gains / temperature, torch.from_numpy(draws[sentences, step - 1]).to(device))
        totals[sentences] += gains.gather(1, picks).squeeze(1).cpu().numpy()
        last = (picks if candidates is None else candidates.gather(1, picks)).squeeze(1).cpu().numpy()
        written[sentences, step - 1] = last
        going = ((last != EOS) & (limits[sentences] > step)).nonzero()[0]
        if not len(going):
            break
        if len(going) < len(sentences):
            state.select(torch.from_numpy(going).to(device))
            sentences, last = sentences[going], last[going]
        yield
    return [
        hypothesis_of(tokens, total, limit, alpha)
        for tokens, total, limit in zip(written.tolist(), totals.tolist(), limits.tolist(), strict=True)
    ]


def samples(
    model: SearchModel,
    sources: Sequence[list[int]],
    max_lengths: Sequence[int],
    settings: DecodingSettings,
    *,
    numbers: Sequence[int],
    prefix: Sequence[int],
    device: torch.device | str = "cpu",
) -> Pausing[list[list[Hypothesis]]]:
    """Draw samples of sentences together, whose settings say how; see :func:`~locant.translation.search.search`.

    Args:
        model: The model, in evaluation mode.
        sources: Source ids of each sentence.
        max_lengths: Most target tokens of each.
        settings: They sample.
        numbers: Where each sentence stands in its text, which decides what is drawn.
        prefix: Target ids that the decoder reads before it writes.
        device: Where the model is.

    Returns:
        The samples of each sentence, in the order in which they were drawn.
    """
    sampling, count, steps = settings.sampling, settings.n_best, max(max_lengths)
    assert sampling is not None
    # Random numbers of its own for each sentence, whatever batch it is in.
    draws = np.zeros((len(sources), count, steps))
    for row, (number, limit) in enumerate(zip(numbers, max_lengths, strict=True)):
        generator = np.random.Generator(np.random.Philox(key=[sampling.seed, sampling.first + number]))
        draws[row, :, :limit] = generator.random((count, limit))
    source, lengths = padded(sources, device)
    found = yield from _sampling(
        model,
        source.repeat_interleave(count, 0),
        lengths.repeat_interleave(count),
        torch.tensor(max_lengths, device=device).repeat_interleave(count),
        draws.reshape(-1, steps),
        sampling.temperature,
        sampling.top_k,
        settings.length_penalty,
        prefix,
    )
    return [found[start : start + count] for start in range(0, len(found), count)]


def end_of(work: Pausing[Found]) -> Found:
    """Return what work finds that need not pause."""
    while True:
        try:
            next(work)
        except StopIteration as ended:
            found: Found = ended.value
            return found


def _drawn(scores: Tensor, draws: Tensor) -> Tensor:
    """Return a column for each row of ``scores [R, N]``, drawn from their softmax by a number in [0, 1), ``[R, 1]``."""
    reached = scores.softmax(-1, dtype=torch.float64).cumsum(-1)
    whole = reached[:, -1:]
    # Below the last sum whatever the rounding, so that a column with a probability is met; columns without one have
    # the sum of those before them and are passed over.
    wanted = torch.minimum(draws.unsqueeze(1) * whole, whole.nextafter(torch.zeros_like(whole)))
    return torch.searchsorted(reached, wanted, right=True).clamp_(max=scores.shape[1] - 1)
