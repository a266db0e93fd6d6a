"""Greedy search, beam search and sampling, batched, one decoder step for every token.

Notation: B sentences of the batch, N of them not yet finished, K beam, S source tokens, V vocabulary.

The model's tensors are on its device; the state of the search itself is in NumPy arrays (see
:mod:`locant.translation.hypotheses`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.models.decoding_settings import DecodingSettings
from locant.text.tokenizer import BOS, EOS, PAD
from locant.translation.hypotheses import Array, Beams, Hypothesis, hypothesis_of

# Finished sentences are dropped when fewer than this share of the batch is left: dropping copies every cache, and
# carrying a few finished sentences costs less than copying at each step.
_DENSE_ENOUGH = 0.75

# Sentences shorter than this fill the budget of a batch like ones of this length: their logits take as much room.
_SHORTEST_COUNTED = 8


Found = TypeVar("Found")
Pausing: TypeAlias = Generator[None, None, Found]
"""Work that pauses after each token, and returns what it has found in the end."""


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
        hypothesis_of(tokens, total, limit, alpha)
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

    When a hypothesis ends and when a sentence is finished is said by :class:`~locant.translation.hypotheses.Beams`;
    a beam of 1 is greedy search.

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
    beams = Beams(beam)
    beams.join(prefix[-1], max_lengths.cpu().numpy(), alpha, n_best)
    results: list[list[Hypothesis]] = [[] for _ in sentences]
    while True:
        gains, candidates = _best(state, beams.last.ravel(), beam, device)
        shape = (len(sentences), beam, -1)
        parents = beams.advance(gains.reshape(shape), candidates.reshape(shape))
        done = beams.done
        rows = parents + np.arange(0, done.size * beam, beam)[:, None]
        going = len(done) - np.count_nonzero(done)
        if sparse := going < _DENSE_ENOUGH * len(done):
            for number in done.nonzero()[0].tolist():
                results[sentences[number]] = beams.hypotheses(number)
            if not going:
                return results
            beams.keep(~done)
            rows, sentences = rows[~done], sentences[~done]
        state.select(torch.from_numpy(rows.ravel()).to(device), same_sources=not sparse)


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
    return _end_of(_sampling(model, source, source_lengths, max_lengths, draws, temperature, top_k, alpha, prefix))


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
        yield
    return [
        hypothesis_of(tokens, total, limit, alpha)
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
    require_sentences(sources, max_lengths, prefix)
    alpha = settings.length_penalty
    for batch in batches([len(source) for source in sources], settings):
        taken = [sources[index] for index in batch], [max_lengths[index] for index in batch]
        if settings.sampling:
            drawn = _end_of(samples(model, *taken, settings, numbers=batch, prefix=prefix, device=device))
            yield from zip(batch, drawn, strict=True)
            continue
        (source, lengths), limits = padded(taken[0], device), torch.tensor(taken[1], device=device)
        if settings.beam == 1:
            greedy = greedy_search(model, source, lengths, limits, alpha=alpha, prefix=prefix)
            found = [[hypothesis] for hypothesis in greedy]
        else:
            beam, n_best = settings.beam, settings.n_best
            found = beam_search(model, source, lengths, limits, beam=beam, alpha=alpha, n_best=n_best, prefix=prefix)
        yield from zip(batch, found, strict=True)


def require_sentences(sources: Sequence[list[int]], max_lengths: Sequence[int], prefix: Sequence[int]) -> None:
    """Raise ConfigError if a sentence or the prefix is empty, or a greatest length is not positive."""
    if not prefix:
        raise ConfigError("The prefix that the decoder reads must have at least one token.")
    for number, (source, limit) in enumerate(zip(sources, max_lengths, strict=True), start=1):
        if not source:
            raise ConfigError(f"Sentence {number} has no tokens. Leave it out.")
        if limit < 1:
            raise ConfigError(f"The translation of sentence {number} must be allowed at least 1 token; got {limit}.")


def require_ids(ids: Sequence[int], vocabulary: int, side: str) -> None:
    """Raise ConfigError unless ids are in the vocabulary of the ``side`` named (``source``, ``target``)."""
    for token in ids:
        if not 0 <= token < vocabulary:
            raise ConfigError(f"Token {token} is outside the {side} vocabulary of {vocabulary} tokens.")


def padded(sources: Sequence[list[int]], device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Return sentences as ids ``[B, S]``, padded on the right, and the number of real tokens of each, ``[B]``."""
    lengths = [len(source) for source in sources]
    width = max(lengths)
    rows = [source + [PAD] * (width - length) for source, length in zip(sources, lengths, strict=True)]
    return torch.tensor(rows, device=device), torch.tensor(lengths, device=device)


def counted_tokens(length: int, settings: DecodingSettings) -> int:
    """Return the tokens that a sentence of so many source tokens takes of the budget ``settings.batch_tokens``."""
    return max(length, _SHORTEST_COUNTED) * settings.rows


def batches(lengths: list[int], settings: DecodingSettings) -> Iterator[list[int]]:
    """Yield the indices of each batch, longest sentences first."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    while order:
        size = max(1, settings.batch_tokens // counted_tokens(lengths[order[0]], settings))
        yield order[:size]
        order = order[size:]


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
    """Draw samples of sentences together, whose settings say how; see :func:`search`.

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


def _end_of(work: Pausing[Found]) -> Found:
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


def _best(state: SearchState, last: Array, k: int, device: torch.device) -> tuple[Array, Array]:
    """Return what ``state.best`` does after the tokens ``last [R]``, as arrays of the CPU."""
    values, columns = state.best(torch.from_numpy(last).to(device).unsqueeze(1), k)
    return values.cpu().numpy(), columns.cpu().numpy()


def _start(model: SearchModel, source: Tensor, source_lengths: Tensor, prefix: Sequence[int]) -> SearchState:
    """Return the state in which the decoder has read all of the prefix but its last token."""
    state = model.start_search(source, source_lengths)
    for token in prefix[:-1]:
        state.best(source.new_full((len(source), 1), token), 1)
    return state
