"""Greedy and beam search, batched, one decoder step for every token.

Notation: B sentences of the batch, N of them not yet finished, K beam, M candidates of each hypothesis, S source
tokens, T target tokens, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload

import torch
from torch import Tensor

from locant.decoding.compiled import CompiledTransformer
from locant.errors import LocantError
from locant.text.tokenizer import BOS, EOS, PAD
from locant.transformer import EncoderDecoder

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
    steps = int(max_lengths.max())
    # Filled with end marks, so that a sentence ends where its tokens end, whether or not it wrote one.
    written = source.new_full((len(source), steps), EOS)
    totals = torch.zeros(len(source), device=source.device)
    sentences = torch.arange(len(source), device=source.device)
    done = torch.zeros_like(sentences, dtype=torch.bool)
    last = source.new_full((len(source), 1), prefix[-1])
    for step in range(1, steps + 1):
        gains, last = state.best(last, 1)
        written[sentences, step - 1] = last.squeeze(1).masked_fill(done, EOS)
        totals.index_add_(0, sentences, gains.squeeze(1).masked_fill(done, 0))
        done = done | (last.squeeze(1) == EOS) | (max_lengths[sentences] <= step)
        going = len(done) - int(done.sum())
        if not going:
            break
        if going < _DENSE_ENOUGH * len(done):
            rows = (~done).nonzero().squeeze(1)
            state.select(rows)
            sentences, done, last = sentences[rows], done[rows], last[rows]
    return [
        _hypothesis(tokens, total, limit, alpha)
        for tokens, total, limit in zip(written.tolist(), totals.tolist(), max_lengths.tolist(), strict=True)
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
    sentences = torch.arange(len(source), device=device)
    state = _begin(model, source, source_lengths, prefix)
    state.select(sentences.repeat_interleave(beam))
    steps = int(max_lengths.max())

    # Ended hypotheses of every sentence, [B, K + 1]; the last place takes what is not to be kept.
    ended_tokens = source.new_full((len(source), beam + 1, steps), EOS)
    ended_totals = torch.full((len(source), beam + 1), -torch.inf, device=device)
    ended_scores = ended_totals.clone()

    # Open hypotheses of the sentences not finished. A place without one has the log-probability -inf; at first all
    # places but one, because beams that begin alike would stay alike.
    tokens = source.new_empty((len(source), beam, 0))
    totals = torch.full((len(source), beam), -torch.inf, device=device)
    totals[:, 0] = 0
    closed_count = torch.zeros_like(sentences)
    limits = max_lengths
    last = source.new_full((len(source) * beam, 1), prefix[-1])
    places = torch.arange(beam, device=device)

    for step in range(1, steps + 1):
        gains, candidates = state.best(last, beam)
        continued = (totals.view(-1, 1) + gains).view(len(sentences), -1)
        totals, picks = continued.topk(beam)
        totals = totals.masked_fill(places >= (beam - closed_count).unsqueeze(1), -torch.inf)
        parents = picks // gains.shape[1]
        chosen = candidates.view(len(sentences), -1).gather(1, picks).unsqueeze(2)
        tokens = torch.cat((tokens.gather(1, parents.unsqueeze(2).expand(-1, -1, step - 1)), chosen), dim=2)

        closing = ((chosen.squeeze(2) == EOS) | (limits <= step).unsqueeze(1)) & (totals > -torch.inf)
        slots = (closed_count.unsqueeze(1) + closing.cumsum(1) - 1).masked_fill(~closing, beam)
        owners = sentences.unsqueeze(1)
        ended_tokens[owners, slots, :step] = tokens
        ended_totals[owners, slots] = totals
        ended_scores[owners, slots] = totals / length_penalty(step, alpha)
        closed_count = closed_count + closing.sum(1)
        totals = totals.masked_fill(closing, -torch.inf)

        attainable = totals.amax(1) / length_penalty(limits, alpha)
        done = attainable <= ended_scores[sentences, :beam].topk(n_best).values[:, -1]
        going = len(done) - int(done.sum())
        if not going:
            break
        totals = totals.masked_fill(done.unsqueeze(1), -torch.inf)
        rows = torch.arange(len(done), device=device).unsqueeze(1) * beam + parents
        if sparse := going < _DENSE_ENOUGH * len(done):
            kept = (~done).nonzero().squeeze(1)
            rows, tokens, totals = rows[kept], tokens[kept], totals[kept]
            sentences, closed_count, limits = sentences[kept], closed_count[kept], limits[kept]
        state.select(rows.flatten(), same_sources=not sparse)
        last = tokens[:, :, -1].reshape(-1, 1)

    order = ended_scores[:, :beam].topk(n_best).indices
    best_tokens = ended_tokens.gather(1, order.unsqueeze(2).expand(-1, -1, steps)).tolist()
    best_totals = ended_totals.gather(1, order).tolist()
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
        """Keep the given rows; see :meth:`locant.transformer.DecoderCache.select`."""


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
