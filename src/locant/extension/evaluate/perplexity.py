"""Perplexity against length: three metrics, each defined by the windows that it reads and the tokens that it scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from locant.settings import Settings

_TOKENS_AT_ONCE = 512
_PROBE = 8
_TOLERANCE = 1e-3


def next_token_loss(model: Any, tokens: Tensor) -> Tensor:
    """Return the mean negative log-likelihood of all tokens but the first, in nats; it can be differentiated.

    The text is one pass without cached keys, so that scalings that follow its length are meant as they were published.
    Logits of a vocabulary of 50,000 for 32,768 tokens would take 6 GB; they are computed and forgotten in parts, for
    models whose logits are the output layer's alone. Others (with a cap or a scale behind it) are run as a whole.

    Args:
        model: A causal language model of transformers.
        tokens: Ids ``[1, L]``, with ``L`` at least 2.
    """
    inputs, targets = tokens[:, :-1], tokens[0, 1:]
    head = model.get_output_embeddings()
    if head is None or not _is_plain(model, head, tokens[:, :_PROBE]):
        logits = model(input_ids=inputs, use_cache=False).logits[0]
        return functional.cross_entropy(logits.float(), targets)
    hidden: Any = model.get_decoder()(input_ids=inputs, use_cache=False).last_hidden_state[0]
    total = hidden.new_zeros((), dtype=torch.float32)

    def part_loss(part: Tensor, wanted: Tensor) -> Tensor:
        return functional.cross_entropy(head(part).float(), wanted, reduction="sum")

    for part, wanted in zip(torch.split(hidden, _TOKENS_AT_ONCE), torch.split(targets, _TOKENS_AT_ONCE), strict=True):
        total = total + checkpoint(part_loss, part, wanted, use_reentrant=False)
    return total / len(targets)


@torch.no_grad()
def _is_plain(model: Any, head: Any, tokens: Tensor) -> bool:
    """Whether the logits of a model are what its output layer makes of the last hidden states."""
    whole = model(input_ids=tokens, use_cache=False).logits.float()
    parts = head(model.get_decoder()(input_ids=tokens, use_cache=False).last_hidden_state).float()
    return bool((whole - parts).abs().max() <= _TOLERANCE * whole.abs().max())


METRICS: Mapping[str, str] = {
    "prefix": (
        "The first L tokens of each document: exp of the mean negative log likelihood of tokens 2 to L; of several "
        "documents, the mean of their perplexities (as the evaluation code of YaRN has it)."
    ),
    "sliding": (
        "Windows of L tokens that begin S tokens apart; of the first window tokens 2 to L are scored, of each later "
        "one its last S: exp of the mean over all scored tokens of all documents (Press et al. 2021, 'Shortformer')."
    ),
    "last": (
        "The last k tokens of a window of L tokens, all windows of a document ending at the same token, so that every "
        "length is judged by the same k tokens: exp of the mean over the scored tokens of all documents."
    ),
}
"""The metrics with their definitions."""


class PerplexitySettings(Settings):
    """Metrics of perplexity, and their sizes.

    Attributes:
        metrics: Some of :data:`METRICS`.
        stride: ``S`` of ``sliding``, in tokens.
        windows: Number of windows that ``sliding`` reads of a document.
        last: ``k`` of ``last``, in tokens.
    """

    metrics: tuple[Literal["prefix", "sliding", "last"], ...] = ("prefix", "last")
    stride: PositiveInt = 256
    windows: PositiveInt = 8
    last: PositiveInt = 256


@dataclass(frozen=True, order=True)
class Window:
    """What is read of a document in one go.

    Attributes:
        start: Index of its first token in the document.
        length: Number of tokens.
        scored_from: Index in the window of the first token that is scored; the rest to its end are scored too.
    """

    start: int
    length: int
    scored_from: int


def windows_of(metric: str, length: int, longest: int, settings: PerplexitySettings) -> list[Window]:
    """Return the windows of a metric at a length.

    Args:
        metric: One of :data:`METRICS`.
        length: ``L`` in tokens.
        longest: The longest length of the evaluation, where the windows of ``last`` end.
        settings: Stride and so on.
    """
    if metric == "prefix":
        return [Window(0, length, 1)]
    if metric == "last":
        return [Window(longest - length, length, length - settings.last)]
    later = [Window(index * settings.stride, length, length - settings.stride) for index in range(1, settings.windows)]
    return [Window(0, length, 1), *later]


def perplexity(metric: str, documents: Sequence[Sequence[tuple[float, int]]]) -> float:
    """Return the perplexity of a metric.

    Args:
        metric: One of :data:`METRICS`.
        documents: For every document, the sum of the losses in nats and the number of scored tokens of each of the
            windows that :func:`windows_of` lists.

    Example:
        >>> perplexity("prefix", [[(0.0, 3)], [(0.0, 9)]])
        1.0
    """
    if metric == "prefix":
        return fmean(perplexity_of(loss / tokens) for ((loss, tokens),) in documents)
    windows = [window for document in documents for window in document]
    return perplexity_of(math.fsum(loss for loss, _ in windows) / sum(tokens for _, tokens in windows))


def perplexity_of(mean: float) -> float:
    """Return the perplexity of a mean loss in nats, which is infinite beyond any float."""
    return math.exp(mean) if mean < 700 else math.inf
