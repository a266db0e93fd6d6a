"""Greedy search, beam search and sampling, batched, one decoder step for every token.

Notation: B sentences of the batch, N of them not yet finished, K beam, M candidates of each hypothesis, S source
tokens, T target tokens, V vocabulary.

The model's tensors are on its device; the state of the search itself is in NumPy arrays, whose operations on so few
numbers cost a fraction of PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from locant.errors import ConfigError, LocantError
from locant.models.decoding_settings import DecodingSettings
from locant.text.tokenizer import BOS, EOS, PAD

Array = NDArray[Any]

# Finished sentences are dropped when fewer than this share of the batch is left: dropping copies every cache, and
# carrying a few finished sentences costs less than copying at each step.
_DENSE_ENOUGH = 0.75

_NOT_A_NUMBER = (
    "The model's output is not a number, so it cannot translate: its weights are damaged, or its training diverged."
)


# Sentences shorter than this fill the budget of a batch like ones of this length: their logits take as much room.
_SHORTEST_COUNTED = 8


class SearchState(Protocol):
    """The state of a search: one row for each hypothesis that is being extended."""

    def best(self, last: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and ids ``[R, k]`` of the best tokens after ``last [R, 1]``, largest first.

        Padding and BOS are never among those that have a probability.
        """

    def log_probabilities(self, last: Tensor) -> Tensor:
        """Return the log-probabilities ``[R, V]`` of every token after ``last [R, 1]``.

        Those of padding and BOS are ``-inf``.
        """

    def select(self, rows: Tensor, *, same_sources: bool = False) -> None:
        """Keep the given rows; see :meth:`locant.models.DecoderCache.select`."""


class SearchModel(Protocol):
    """A model that can be searched: a PyTorch model in evaluation mode, or one compiled for the CPU."""

    def start_search(self, source: Tensor, source_lengths: Tensor) -> SearchState:
        """Encode source ids ``[B, S]`` with ``[B]`` real tokens each and return the state of their translations."""


@dataclass(frozen=True)
class Hypothesis:
    """An output of the model.

    Attributes:
        tokens: Target ids, without BOS and EOS.
        score: ``log_probability`` divided by the length penalty; what hypotheses are compared by.
        log_probability: Log-probability (natural) of the tokens and of EOS, if the model wrote it.
    """

    tokens: list[int]
    score: float
    log_probability: float


@overload
def length_penalty(length: int, alpha: float) -> float: ...
@overload
def length_penalty(length: Tensor, alpha: float) -> Tensor: ...
def length_penalty(length: int | Tensor, alpha: float) -> float | Tensor:
    """Return ``((5 + |Y|) / 6)^alpha`` (Wu et al. 2016, equation 14).

    Args:
        length: ``|Y|``, the number of tokens that were scored, EOS included.
        alpha: Exponent; 0 leaves log-probabilities as they are.
    """
    return ((5 + length) / 6) ** alpha


@torch.inference_mode()
def greedy_search(
    model: SearchModel,
    source: Tensor,
    source_lengths: Tensor,
    max_lengths: Tensor,
    *,
    alpha: float = 0.6,
    prefix: Sequence[int] = (BOS,),
) -> list[Hypothesis]:
    """Take the most probable token at every step.

    A hypothesis that reaches its greatest length without EOS is closed as it is.

    Args:
        model: The model, in evaluation mode.
        source: Source ids ``[B, S]``, padded on the right, on the model's device.
        source_lengths: Number of real tokens of each row, ``[B]``.
        max_lengths: Most target tokens of each row, EOS included, ``[B]``, at least 1.
        alpha: Exponent of the length penalty, for the score only.
        prefix: Target ids that the decoder reads before it writes, at least one; no part of the hypothesis.

    Returns:
        A hypothesis for each row.

    Raises:
        LocantError: The model's output is not a number.
    """
    state = _start(model, source, source_lengths, prefix)
    limits = max_lengths.cpu().numpy()
    steps = int(limits.max())
    # Filled with EOS, so that a sentence ends where its tokens end, whether or not it wrote one.
    written = np.full((len(source), steps), EOS)
    totals = np.zeros(len(source), np.float32)
    sentences = np.arange(len(source))
    done = np.zeros(len(source), np.bool_)
    last = np.full(len(source), prefix[-1])
    for step in range(1, steps + 1):
        gains, candidates = _best(state, last, 1, source.device)
        last = candidates[:, 0]
        written[sentences, step - 1] = np.where(done, EOS, last)
        totals[sentences] += np.where(done, np.float32(0), gains[:, 0])
        done = done | (last == EOS) | (limits[sentences] <= step)
        going = len(done) - np.count_nonzero(done)
        if not going:
            break
        if going < _DENSE_ENOUGH * len(done):
            rows = (~done).nonzero()[0]
            state.select(torch.from_numpy(rows).to(source.device))
            sentences, done, last = sentences[rows], done[rows], last[rows]
    return [
        _hypothesis(tokens, total, limit, alpha)
        for tokens, total, limit in zip(written.tolist(), totals.tolist(), limits.tolist(), strict=True)
    ]


@torch.inference_mode()
def beam_search(
    model: SearchModel,
    source: Tensor,
    source_lengths: Tensor,
    max_lengths: Tensor,
    *,
    beam: int,
    alpha: float = 0.6,
    n_best: int = 1,
    prefix: Sequence[int] = (BOS,),
) -> list[list[Hypothesis]]:
    """Keep the ``beam`` most probable partial hypotheses at every step.

    A hypothesis that ends leaves the beam, which is then one narrower (Sutskever et al. 2014, section 3.2), so that a
    beam of 1 is greedy search. One that reaches its greatest length without EOS is closed as it is. A sentence is
    finished when no partial hypothesis left in its beam can still beat its ``n_best``-th best hypothesis:
    log-probabilities only fall, so the score of a partial hypothesis cannot exceed its present log-probability divided
    by the length penalty of the greatest length.

    Args:
        model: The model, in evaluation mode.
        source: Source ids ``[B, S]``, padded on the right, on the model's device.
        source_lengths: Number of real tokens of each row, ``[B]``.
        max_lengths: Most target tokens of each row, EOS included, ``[B]``, at least 1.
        beam: Hypotheses kept, at least 1.
        alpha: Exponent of the length penalty, not negative.
        n_best: Hypotheses returned for each row, at most ``beam``.
        prefix: Target ids that the decoder reads before it writes, at least one; no part of the hypotheses.

    Returns:
        For each row its hypotheses, best score first; fewer than ``n_best`` only when no more exist.

    Raises:
        LocantError: The model's output is not a number.
    """
    device = source.device
    sentences = np.arange(len(source))
    state = _start(model, source, source_lengths, prefix)
    state.select(torch.from_numpy(sentences.repeat(beam)).to(device))
    limits = max_lengths.cpu().numpy()
    penalties = length_penalty(max_lengths, alpha).cpu().numpy()
    steps = int(limits.max())

    # Ended hypotheses of every sentence, [B, K].
    ended_tokens = np.full((len(source), beam, steps), EOS)
    ended_totals = np.full((len(source), beam), -np.inf, np.float32)
    ended_scores = ended_totals.copy()

    # Open hypotheses of the sentences not finished: tokens [N * K, T], log-probabilities [N, K]. A place without one
    # has the log-probability -inf; at first all places but one, because beams that begin alike would stay alike.
    tokens = np.empty((len(source) * beam, steps), np.int64)
    totals = np.full((len(source), beam), -np.inf, np.float32)
    totals[:, 0] = 0
    closed_count = np.zeros(len(source), np.int64)
    # The score that a partial hypothesis must beat.
    bars = np.full(len(source), -np.inf, np.float32)
    last = np.full(len(source) * beam, prefix[-1])
    places = np.arange(beam)

    for step in range(1, steps + 1):
        gains, candidates = _best(state, last, beam, device)
        continued = (totals.reshape(-1, 1) + gains).reshape(len(sentences), -1)
        # Places in all candidates of the batch.
        picks = _largest(continued, beam) + np.arange(len(sentences))[:, None] * continued.shape[1]
        totals = continued.take(picks)
        totals[places >= (beam - closed_count)[:, None]] = -np.inf
        chosen = candidates.take(picks)
        rows = (picks // gains.shape[1]).ravel()
        tokens = tokens.take(rows, axis=0)
        tokens[:, step - 1] = chosen.ravel()

        closing = ((chosen == EOS) | (limits <= step)[:, None]) & (totals > -np.inf)
        if closing.any():
            slots = (closed_count[:, None] + closing.cumsum(1) - 1)[closing]
            owners = sentences[closing.nonzero()[0]]
            ended_tokens[owners, slots, :step] = tokens[closing.ravel(), :step]
            ended_totals[owners, slots] = totals[closing]
            ended_scores[owners, slots] = totals[closing] / length_penalty(step, alpha)
            closed_count += closing.sum(1)
            totals[closing] = -np.inf
            bars = np.sort(ended_scores[sentences], axis=1)[:, -n_best]

        done = totals.max(1) / penalties <= bars
        going = len(done) - np.count_nonzero(done)
        if not going:
            break
        totals[done] = -np.inf
        if sparse := going < _DENSE_ENOUGH * len(done):
            kept = ~done
            open_rows = kept.repeat(beam)
            rows, tokens, totals, chosen = rows[open_rows], tokens[open_rows], totals[kept], chosen[kept]
            sentences, closed_count, bars = sentences[kept], closed_count[kept], bars[kept]
            limits, penalties = limits[kept], penalties[kept]
        state.select(torch.from_numpy(rows).to(device), same_sources=not sparse)
        last = chosen.ravel()

    order = _largest(ended_scores, n_best) + np.arange(len(source))[:, None] * beam
    best_tokens = ended_tokens.reshape(-1, steps)[order].tolist()
    best_totals = ended_totals.take(order).tolist()
    results = []
    for all_tokens, all_totals, limit in zip(best_tokens, best_totals, max_lengths.tolist(), strict=True):
        found = [pair for pair in zip(all_tokens, all_totals, strict=True) if pair[1] > -torch.inf]
        if not found:  # Only what is not a number never ends.
            raise LocantError(_NOT_A_NUMBER)
        results.append([_hypothesis(written, total, limit, alpha) for written, total in found])
    return results


@torch.inference_mode()
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
    device = source.device
    state = _start(model, source, source_lengths, prefix)
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
    return [
        _hypothesis(tokens, total, limit, alpha)
        for tokens, total, limit in zip(written.tolist(), totals.tolist(), limits.tolist(), strict=True)
    ]


def search(
    model: SearchModel,
    sources: Sequence[list[int]],
    max_lengths: Sequence[int],
    settings: DecodingSettings,
    *,
    prefix: Sequence[int] = (BOS,),
    device: torch.device | str = "cpu",
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Search for translations of any number of sentences, in batches of similar length.

    Args:
        model: The model, in evaluation mode.
        sources: Source ids of each sentence as the encoder reads them, EOS included.
        max_lengths: Most target tokens of each, EOS included.
        settings: Beam, length penalty, number of hypotheses and size of a batch.
        prefix: Target ids that the decoder reads before it writes.
        device: Where the model is.

    Yields:
        The index of each source, in any order, and its hypotheses, best first.

    Raises:
        ConfigError: A sentence or the prefix is empty, or a greatest length is not positive.
        LocantError: The model's output is not a number.
    """
    _require_sentences(sources, max_lengths, prefix)
    alpha = settings.length_penalty
    for batch in _batches([len(source) for source in sources], settings):
        lengths = torch.tensor([len(sources[index]) for index in batch], device=device)
        width = len(sources[batch[0]])
        rows = [sources[index] + [PAD] * (width - len(sources[index])) for index in batch]
        source = torch.tensor(rows, device=device)
        limits = torch.tensor([max_lengths[index] for index in batch], device=device)
        if settings.sampling:
            yield from zip(batch, _samples(model, source, lengths, limits, batch, settings, prefix), strict=True)
            continue
        if settings.beam == 1:
            greedy = greedy_search(model, source, lengths, limits, alpha=alpha, prefix=prefix)
            found = [[hypothesis] for hypothesis in greedy]
        else:
            beam, n_best = settings.beam, settings.n_best
            found = beam_search(model, source, lengths, limits, beam=beam, alpha=alpha, n_best=n_best, prefix=prefix)
        yield from zip(batch, found, strict=True)


def _require_sentences(sources: Sequence[list[int]], max_lengths: Sequence[int], prefix: Sequence[int]) -> None:
    if not prefix:
        raise ConfigError("The prefix that the decoder reads must have at least one token.")
    for number, (source, limit) in enumerate(zip(sources, max_lengths, strict=True), start=1):
        if not source:
            raise ConfigError(f"Sentence {number} has no tokens. Leave it out.")
        if limit < 1:
            raise ConfigError(f"The translation of sentence {number} must be allowed at least 1 token; got {limit}.")


def _batches(lengths: list[int], settings: DecodingSettings) -> Iterator[list[int]]:
    """Yield the indices of each batch, longest sentences first."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    while order:
        width = max(lengths[order[0]], _SHORTEST_COUNTED)
        size = max(1, settings.batch_tokens // (width * settings.rows))
        yield order[:size]
        order = order[size:]


def _samples(
    model: SearchModel,
    source: Tensor,
    source_lengths: Tensor,
    max_lengths: Tensor,
    batch: list[int],
    settings: DecodingSettings,
    prefix: Sequence[int],
) -> list[list[Hypothesis]]:
    """Return the samples of each row, in the order in which they were drawn."""
    sampling, count = settings.sampling, settings.n_best
    assert sampling is not None
    steps = int(max_lengths.max())
    # Random numbers of its own for each sentence, whatever batch it is in.
    draws = np.zeros((len(batch), count, steps))
    for row, (index, limit) in enumerate(zip(batch, max_lengths.tolist(), strict=True)):
        generator = np.random.Generator(np.random.Philox(key=[sampling.seed, sampling.first + index]))
        draws[row, :, :limit] = generator.random((count, limit))
    found = ancestral_sampling(
        model,
        source.repeat_interleave(count, 0),
        source_lengths.repeat_interleave(count),
        max_lengths.repeat_interleave(count),
        draws.reshape(-1, steps),
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        alpha=settings.length_penalty,
        prefix=prefix,
    )
    return [found[start : start + count] for start in range(0, len(found), count)]


def _drawn(scores: Tensor, draws: Tensor) -> Tensor:
    """Return a column for each row of ``scores [R, N]``, drawn from their softmax by a number in [0, 1), ``[R, 1]``."""
    reached = scores.softmax(-1, dtype=torch.float64).cumsum(-1)
    whole = reached[:, -1:]
    # Below the last sum whatever the rounding, so that a column with a probability is met; columns without one have
    # the sum of those before them and are passed over.
    wanted = torch.minimum(draws.unsqueeze(1) * whole, whole.nextafter(torch.zeros_like(whole)))
    return torch.searchsorted(reached, wanted, right=True).clamp_(max=scores.shape[1] - 1)


def _best(state: SearchState, last: Array, k: int, device: torch.device) -> tuple[Array, Array]:
    """Return what ``state.best`` does after the tokens ``last [R]``, as arrays of the CPU."""
    values, columns = state.best(torch.from_numpy(last).to(device).unsqueeze(1), k)
    return values.cpu().numpy(), columns.cpu().numpy()


def _largest(x: Array, k: int) -> Array:
    """Return the columns of the ``k`` largest of each row of ``x``, largest first; of equal ones the first.

    What is not a number counts as larger than any.
    """
    return x.shape[1] - 1 - x[:, ::-1].argsort(axis=1, kind="stable")[:, : -k - 1 : -1]


def _start(model: SearchModel, source: Tensor, source_lengths: Tensor, prefix: Sequence[int]) -> SearchState:
    """Return the state in which the decoder has read all of the prefix but its last token."""
    state = model.start_search(source, source_lengths)
    for token in prefix[:-1]:
        state.best(source.new_full((len(source), 1), token), 1)
    return state


def _hypothesis(tokens: list[int], total: float, limit: int, alpha: float) -> Hypothesis:
    """Build a hypothesis from tokens filled up with EOS, its log-probability and its greatest length."""
    if not math.isfinite(total):
        raise LocantError(_NOT_A_NUMBER)
    length = next((place for place, token in enumerate(tokens) if token == EOS), len(tokens))
    return Hypothesis(tokens[:length], total / length_penalty(min(length + 1, limit), alpha), total)
