"""Sentences that are searched for together: what they must be, and batches of similar length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.models.decoding_settings import DecodingSettings
from locant.text.tokenizer import PAD

# Sentences shorter than this fill the budget of a batch like ones of this length: their logits take as much room.
_SHORTEST_COUNTED = 8


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
