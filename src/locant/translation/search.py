"""Greedy and beam search, batched, one decoder step for every token.

Notation: B sentences of the batch, N of them not yet finished, K beam, M candidates of each hypothesis, S source
tokens, T target tokens, V vocabulary.

The model's tensors are on its device; what a search remembers is in NumPy arrays, whose operations on so few numbers
cost a fraction of PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from locant.errors import LocantError
from locant.models.encoder_decoder import EncoderDecoder
from locant.text.tokenizer import BOS, EOS, PAD
from locant.translation.compiled import CompiledTransformer

Array = NDArray[Any]

SearchModel = EncoderDecoder[Any] | CompiledTransformer
"""What a search runs on: a PyTorch model in evaluation mode, or one compiled for the CPU."""

# Finished sentences are dropped when fewer than this share of the batch is left: dropping copies every cache, and
# carrying a few finished sentences costs less than copying at each step.
_DENSE_ENOUGH = 0.75

_NOT_A_NUMBER = (
    "The model's output is not a number, so it cannot translate: its weights are damaged, or its training diverged."
)


@dataclass(frozen=True)
class Hypothesis:
    """An output of the model.

    Attributes:
        tokens: Target ids, without begin and end marks.
        score: ``log_probability`` divided by the length penalty; what hypotheses are compared by.
        log_probability: Log-probability (natural) of the tokens and of the end mark, if the model wrote one.
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
        length: ``|Y|``, the number of tokens that were scored, the end mark included.
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

    A hypothesis that reaches its greatest length without an end mark is closed as it is.

    Args:
        model: The model, in evaluation mode.
        source: Source ids ``[B, S]``, padded on the right, on the model's device.
        source_lengths: Number of real tokens of each row, ``[B]``.
        max_lengths: Most target tokens of each row, the end mark included, ``[B]``, at least 1.
        alpha: Exponent of the length penalty, for the score only.
        prefix: Target ids that the decoder reads before it writes, at least one; no part of the hypothesis.

    Returns:
        A hypothesis for each row.

    Raises:
        LocantError: The model's output is not a number.
    """
    state = _begin(model, source, source_lengths, prefix)
    limits = max_lengths.cpu().numpy()
    steps = int(limits.max())
    # Filled with end marks, so that a sentence ends where its tokens end, whether or not it wrote one.
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
    """Keep the ``beam`` most probable beginnings at every step.

    A hypothesis that ends leaves the beam, which is then one narrower (Sutskever et al. 2014, section 3.2), so that a
    beam of 1 is greedy search. One that reaches its greatest length without an end mark is closed as it is. A
    sentence is finished when no beginning left in its beam can still beat its ``n_best``-th best hypothesis: log-
    probabilities only fall, so a beginning's score cannot exceed its present log-probability divided by the length
    penalty of the greatest length.

    Args:
        model: The model, in evaluation mode.
        source: Source ids ``[B, S]``, padded on the right, on the model's device.
        source_lengths: Number of real tokens of each row, ``[B]``.
        max_lengths: Most target tokens of each row, the end mark included, ``[B]``, at least 1.
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
    state = _begin(model, source, source_lengths, prefix)
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
    # The score that a beginning must beat.
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


class _NextTokens(Protocol):
    """Sentences that are being translated, row by row."""

    def best(self, last: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and ids ``[R, k]`` of the best tokens after ``last [R, 1]``, largest first.

        Padding and begin mark are never output.
        """

    def select(self, rows: Tensor, *, same_sources: bool = False) -> None:
        """Keep the given rows; see :meth:`locant.models.DecoderCache.select`."""


def _best(state: _NextTokens, last: Array, k: int, device: torch.device) -> tuple[Array, Array]:
    """Return what ``state.best`` does after the tokens ``last [R]``, as arrays of the CPU."""
    values, columns = state.best(torch.from_numpy(last).to(device).unsqueeze(1), k)
    return values.cpu().numpy(), columns.cpu().numpy()


def _largest(x: Array, k: int) -> Array:
    """Return the columns of the ``k`` largest of each row of ``x``, largest first; of equal ones the first.

    What is not a number counts as larger than any.
    """
    return x.shape[1] - 1 - x[:, ::-1].argsort(axis=1, kind="stable")[:, : -k - 1 : -1]


class _ModelSteps:
    """The steps of a PyTorch model."""

    def __init__(self, model: EncoderDecoder[Any], source: Tensor, source_lengths: Tensor) -> None:
        self._model = model
        self._cache = model.start(model.encode(source, source_lengths), source_lengths)

    def best(self, last: Tensor, k: int) -> tuple[Tensor, Tensor]:
        log_probabilities = self._model.step(last, self._cache)[:, -1].log_softmax(-1, dtype=torch.float32)
        log_probabilities[:, PAD] = -torch.inf
        log_probabilities[:, BOS] = -torch.inf
        return _top(log_probabilities, k)

    def select(self, rows: Tensor, *, same_sources: bool = False) -> None:
        self._cache.select(rows, same_sources=same_sources)


def _begin(model: SearchModel, source: Tensor, source_lengths: Tensor, prefix: Sequence[int]) -> _NextTokens:
    """Return the state in which the decoder has read all of the prefix but its last token."""
    state: _NextTokens
    if isinstance(model, CompiledTransformer):
        state = model.begin(source, source_lengths)
    else:
        state = _ModelSteps(model, source, source_lengths)
    for token in prefix[:-1]:
        state.best(source.new_full((len(source), 1), token), 1)
    return state


def _top(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` largest values (or all) of each row of ``x [R, V]`` and their columns, largest first.

    Equal to ``x.topk(k)``, which reads rows element by element on CPU. Here only the maxima of blocks of columns are
    taken of the whole row, at vector speed; the ``k`` largest elements lie in the ``k`` blocks of largest maximum.
    """
    width = math.isqrt(x.shape[1])
    blocks = x.shape[1] // width
    if k >= blocks:
        values, columns = x.topk(min(k, x.shape[1]))
        return values, columns
    best_blocks = x[:, : blocks * width].view(len(x), blocks, width).amax(2).topk(k, sorted=False).indices
    within = (best_blocks.unsqueeze(2) * width + torch.arange(width, device=x.device)).flatten(1)
    # The columns that fill no block are always looked at.
    rest = torch.arange(blocks * width, x.shape[1], device=x.device).expand(len(x), -1)
    columns = torch.cat((within, rest), dim=1)
    values, picks = x.gather(1, columns).topk(k)
    return values, columns.gather(1, picks)


def _hypothesis(tokens: list[int], total: float, limit: int, alpha: float) -> Hypothesis:
    """Build a hypothesis from tokens filled up with end marks, its log-probability and its greatest length."""
    if not math.isfinite(total):
        raise LocantError(_NOT_A_NUMBER)
    length = next((place for place, token in enumerate(tokens) if token == EOS), len(tokens))
    return Hypothesis(tokens[:length], total / length_penalty(min(length + 1, limit), alpha), total)
