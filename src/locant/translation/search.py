"""The search for translations, in Python: beam search and sampling, batched, for every model and device.

This is the reference. :mod:`locant.translation.compiled` has the same in C++.

Notation: B sentences of the batch, N of them not yet finished, K beam, R rows, M candidates for the next token of each
hypothesis, S source tokens, T target tokens, V vocabulary.

The model's tensors are on its device; the state of the search itself is in NumPy arrays, whose operations on so few
numbers cost a fraction of PyTorch's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from locant.errors import ConfigError, LocantError
from locant.models.decoding_settings import DecodingSettings
from locant.models.encoder_decoder import EncoderDecoder
from locant.runtime import attention_of_any_shape
from locant.text.tokenizer import BOS, EOS, PAD
from locant.translation.hypotheses import NOT_A_NUMBER, Array, Hypothesis, hypothesis_of, length_penalty

# Finished sentences are dropped when fewer than this share of the batch is left: dropping copies every cache, and
# carrying a few finished sentences costs less than copying at each step.
_DENSE_ENOUGH = 0.75

# Tokens of hypotheses for which there is room at first; then twice as many, and so on.
_ROOM = 16

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
    """A model that can be searched, in evaluation mode."""

    def start_search(self, source: Tensor, source_lengths: Tensor) -> SearchState:
        """Encode source ids ``[B, S]`` with ``[B]`` real tokens each and return the state of their translations."""


@torch.inference_mode()
@attention_of_any_shape()
def ancestral_sampling(
    model: SearchModel,
    source: Tensor,
    source_lengths: Tensor,
    max_lengths: Tensor,
    draws: Array | None,
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
        draws: Random numbers, even over [0, 1), float64 ``[B, >= max_lengths.max()]``: one for each token; ``None`` if
            ``top_k`` is 1, which is greedy search.
        temperature: What logits are divided by: below 1 the probable tokens become more probable.
        top_k: How many tokens may be drawn at each step; ``None`` for all.
        alpha: Exponent of the length penalty, for the score only.
        prefix: Target ids that the decoder reads before it writes, at least one; no part of the hypothesis.

    Returns:
        A hypothesis for each row, with the log-probability that the model itself gives it, without temperature.

    Raises:
        LocantError: The model's output is not a number.
    """
    state, device = _start(model, source, source_lengths, prefix), source.device
    limits = max_lengths.cpu().numpy()
    steps = int(limits.max())
    # Filled with EOS, so that a sentence ends where its tokens end, whether or not it wrote one.
    written = np.full((len(source), steps), EOS)
    totals = np.zeros(len(source), np.float32)
    sentences = np.arange(len(source))
    done = np.zeros(len(source), np.bool_)
    last = np.full(len(source), prefix[-1])
    for step in range(steps):
        read = torch.from_numpy(last).to(device).unsqueeze(1)
        if draws is None:
            gained, tokens = state.best(read, 1)
        else:
            gains, candidates = (state.log_probabilities(read), None) if top_k is None else state.best(read, top_k)
            numbers = torch.from_numpy(draws[sentences, step]).to(device).unsqueeze(1)
            reached = (gains / temperature).softmax(-1, dtype=torch.float64).cumsum(-1)
            whole = reached[:, -1:]
            # Below the last sum whatever the rounding, so that a token with a probability is met; tokens without one
            # have the sum of those before them and are passed over.
            wanted = torch.minimum(numbers * whole, whole.nextafter(torch.zeros_like(whole)))
            picks = torch.searchsorted(reached, wanted, right=True).clamp_(max=gains.shape[1] - 1)
            gained, tokens = gains.gather(1, picks), picks if candidates is None else candidates.gather(1, picks)
        last = tokens.squeeze(1).cpu().numpy()
        written[sentences, step] = np.where(done, EOS, last)
        totals[sentences] += np.where(done, np.float32(0), gained.squeeze(1).cpu().numpy())
        done = done | (last == EOS) | (limits[sentences] <= step + 1)
        going = len(done) - np.count_nonzero(done)
        if not going:
            break
        if going < _DENSE_ENOUGH * len(done):
            rows = (~done).nonzero()[0]
            state.select(torch.from_numpy(rows).to(device))
            sentences, done, last = sentences[rows], done[rows], last[rows]
    return [
        hypothesis_of(tokens, total, limit, alpha)
        for tokens, total, limit in zip(written.tolist(), totals.tolist(), limits.tolist(), strict=True)
    ]


@torch.inference_mode()
@attention_of_any_shape()
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
    beam of 1 is greedy search. One that reaches its greatest length without EOS is closed as it is. A sentence is done
    when no partial hypothesis left in its beam can still beat its ``n_best``-th best one: log-probabilities only fall,
    so the score of a partial hypothesis cannot exceed its present log-probability divided by the length penalty of the
    greatest length.

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
    beams = _Beams(beam, n_best, alpha, max_lengths.cpu().numpy(), prefix[-1])
    results: list[list[Hypothesis]] = [[] for _ in sentences]
    while True:
        values, columns = state.best(torch.from_numpy(beams.last.ravel()).to(device).unsqueeze(1), beam)
        shape = (len(sentences), beam, -1)
        parents = beams.advance(values.cpu().numpy().reshape(shape), columns.cpu().numpy().reshape(shape))
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


class _Beams:
    """The hypotheses of sentences in a beam search.

    Attributes:
        last: The last token of each hypothesis, int64 ``[N, K]``; of no meaning where there is none.
        done: Whether nothing can change the best hypotheses of a sentence any more, boolean ``[N]``.
    """

    def __init__(self, beam: int, n_best: int, alpha: float, limits: Array, first: int) -> None:
        self._beam, self._n_best, self._alpha = beam, n_best, alpha
        count = len(limits)
        self._limits, self._penalties = limits, length_penalty(limits, alpha).astype(np.float32)
        self.last, self.done = np.full((count, beam), first), np.zeros(count, np.bool_)
        # Log-probabilities of partial hypotheses and scores of those that have ended, -inf where there are none; at
        # first each sentence has one hypothesis, because beams that begin alike would stay alike.
        self._totals, self._scores = (np.full((count, beam), -np.inf, np.float32) for _ in range(2))
        self._totals[:, 0] = 0
        self._length, self._tokens = 0, np.empty((count, beam, _ROOM), np.int32)
        # Tokens and log-probability of the hypotheses of each sentence that have ended, in the order in which they did.
        self._ended: list[list[tuple[list[int], float]]] = [[] for _ in range(count)]

    def keep(self, kept: Array) -> None:
        """Keep some sentences, boolean ``[N]``, in their order."""
        self._limits, self._penalties, self.last = self._limits[kept], self._penalties[kept], self.last[kept]
        self._totals, self._scores, self._tokens = self._totals[kept], self._scores[kept], self._tokens[kept]
        self.done = self.done[kept]
        self._ended = [ended for ended, stays in zip(self._ended, kept.tolist(), strict=True) if stays]

    def advance(self, gains: Array, candidates: Array) -> Array:
        """Take a step in all sentences, by candidates for the next token of each hypothesis, largest first.

        Their log-probabilities are float32 ``[N, K, M]``, which count for nothing where there is no hypothesis, and
        their ids int64 ``[N, K, M]``. Returns the place in its sentence's beam that each hypothesis goes on from, int64
        ``[N, K]``.
        """
        first = np.arange(len(self.last))
        if self._length == self._tokens.shape[2]:
            self._tokens = np.concatenate((self._tokens, np.empty_like(self._tokens)), axis=2)
        continued = (self._totals[:, :, None] + gains).reshape(len(first), -1)
        picks = _largest(continued, self._beam)
        parents = picks // gains.shape[2]
        picks += first[:, None] * continued.shape[1]  # places in all candidates of all sentences
        totals, self.last = continued.take(picks), candidates.take(picks)
        ended = np.array([len(each) for each in self._ended])
        totals[np.arange(self._beam) >= (self._beam - ended)[:, None]] = -np.inf
        self._tokens = self._tokens[first[:, None], parents]
        self._tokens[:, :, self._length] = self.last
        self._length += 1
        at_limit = self._limits <= self._length
        closing = ((self.last == EOS) | at_limit[:, None]) & (totals > -np.inf)
        penalty = np.float32(length_penalty(self._length, self._alpha))
        for owner, place in zip(*(each.tolist() for each in closing.nonzero()), strict=True):
            total = totals[owner, place]
            self._scores[owner, len(self._ended[owner])] = total / penalty
            self._ended[owner].append((self._tokens[owner, place, : self._length].tolist(), float(total)))
        totals[closing] = -np.inf
        bars = np.sort(self._scores, axis=1)[:, self._beam - self._n_best]
        # At its limit a sentence is done even where its log-probabilities are not numbers.
        self.done = (totals.max(1) / self._penalties <= bars) | at_limit
        totals[self.done] = -np.inf
        self._totals = totals
        return parents

    def hypotheses(self, number: int) -> list[Hypothesis]:
        """Return the hypotheses of a sentence that is done, best first; fewer than wanted only when no more exist.

        Raises:
            LocantError: The model's output is not a number.
        """
        ended = self._ended[number]
        if not ended:  # Only what is not a number never ends.
            raise LocantError(NOT_A_NUMBER)
        order = _largest(self._scores[number][None], self._n_best)[0, : len(ended)].tolist()
        limit = int(self._limits[number])
        return [hypothesis_of(tokens, total, limit, self._alpha) for tokens, total in map(ended.__getitem__, order)]


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
        settings: Beam, length penalty, number of hypotheses and size of a batch; or how to sample.
        prefix: Target ids that the decoder reads before it writes.
        device: Where the model is.

    Yields:
        The index of each source, in any order, and its hypotheses: best first, or samples in the order in which they
        were drawn.

    Raises:
        ConfigError: A sentence or the prefix is empty, or a greatest length is not positive.
        LocantError: The model's output is not a number.
    """
    require_sentences(sources, max_lengths, prefix)
    alpha, n_best, sampling = settings.length_penalty, settings.n_best, settings.sampling
    for batch in batches([len(source) for source in sources], settings):
        source, lengths = padded([sources[index] for index in batch], device)
        limits = torch.tensor([max_lengths[index] for index in batch], device=device)
        if sampling:
            # Random numbers of its own for each sentence, whatever batch it is in.
            draws = np.zeros((len(batch), n_best, int(limits.max())))
            for row, (index, limit) in enumerate(zip(batch, limits.tolist(), strict=True)):
                key = np.array([sampling.seed, sampling.first + index], np.uint64)
                generator = np.random.Generator(np.random.Philox(key=key))
                draws[row, :, :limit] = generator.random((n_best, limit))
            samples = ancestral_sampling(
                model,
                source.repeat_interleave(n_best, 0),
                lengths.repeat_interleave(n_best),
                limits.repeat_interleave(n_best),
                draws.reshape(-1, draws.shape[2]),
                temperature=sampling.temperature,
                top_k=sampling.top_k,
                alpha=alpha,
                prefix=prefix,
            )
            found = [samples[first : first + n_best] for first in range(0, len(samples), n_best)]
        elif settings.beam == 1:
            greedy = ancestral_sampling(model, source, lengths, limits, None, top_k=1, alpha=alpha, prefix=prefix)
            found = [[hypothesis] for hypothesis in greedy]
        else:
            beam = settings.beam
            found = beam_search(model, source, lengths, limits, beam=beam, alpha=alpha, n_best=n_best, prefix=prefix)
        yield from zip(batch, found, strict=True)


def evaluated(model: EncoderDecoder[Any]) -> EncoderDecoder[Any]:
    """Return a model in evaluation mode: the same one, or else a copy of its modules that shares its weights."""
    if not any(module.training for module in model.modules()):
        return model
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared).eval()


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
    """Return the tokens that a sentence of that many source tokens takes of the budget ``settings.batch_tokens``."""
    return max(length, _SHORTEST_COUNTED) * settings.rows


def batches(lengths: list[int], settings: DecodingSettings) -> Iterator[list[int]]:
    """Yield the indices of each batch, longest sentences first."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    while order:
        size = max(1, settings.batch_tokens // counted_tokens(lengths[order[0]], settings))
        yield order[:size]
        order = order[size:]


def _start(model: SearchModel, source: Tensor, source_lengths: Tensor, prefix: Sequence[int]) -> SearchState:
    """Return the state in which the decoder has read all of the prefix but its last token."""
    state = model.start_search(source, source_lengths)
    for token in prefix[:-1]:
        state.best(source.new_full((len(source), 1), token), 1)
    return state


def _largest(x: Array, k: int) -> Array:
    """Return the columns of the ``k`` largest of each row of ``x``, largest first; of equal ones the first.

    What is not a number counts as larger than any.
    """
    return x.shape[1] - 1 - x[:, ::-1].argsort(axis=1, kind="stable")[:, : -k - 1 : -1]
