"""Greedy search and beam search, batched, one decoder step for every token; and search for any number of sentences.

Notation: B sentences of the batch, N of them not yet finished, K beam, S source tokens, V vocabulary.

The model's tensors are on its device; the state of the search itself is in NumPy arrays (see
:mod:`locant.translation.hypotheses`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from locant.models.decoding_settings import DecodingSettings
from locant.runtime import attention_of_any_shape
from locant.text.tokenizer import BOS, EOS
from locant.translation.batching import batches, padded, require_sentences
from locant.translation.hypotheses import Array, Beams, Hypothesis, hypothesis_of
from locant.translation.sampling import end_of, samples
from locant.translation.search_model import SearchModel, SearchState, start

# Finished sentences are dropped when fewer than this share of the batch is left: dropping copies every cache, and
# carrying a few finished sentences costs less than copying at each step.
_DENSE_ENOUGH = 0.75


@torch.inference_mode()
@attention_of_any_shape()
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
    state = start(model, source, source_lengths, prefix)
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
    state = start(model, source, source_lengths, prefix)
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
            drawn = end_of(samples(model, *taken, settings, numbers=batch, prefix=prefix, device=device))
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


def _best(state: SearchState, last: Array, k: int, device: torch.device) -> tuple[Array, Array]:
    """Return what ``state.best`` does after the tokens ``last [R]``, as arrays of the CPU."""
    values, columns = state.best(torch.from_numpy(last).to(device).unsqueeze(1), k)
    return values.cpu().numpy(), columns.cpu().numpy()
