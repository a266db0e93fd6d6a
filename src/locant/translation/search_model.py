"""The model of a search: the state of sentences that are being translated, from the first token on."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from locant.models.encoder_decoder import EncoderDecoder


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


class Evaluated:
    """A PyTorch model that is searched in evaluation mode, whatever its own mode is or becomes between two batches.

    Args:
        model: The model; others may use it and change its mode meanwhile.
    """

    def __init__(self, model: EncoderDecoder[Any]) -> None:
        self.model = model

    def start_search(self, source: Tensor, source_lengths: Tensor) -> SearchState:
        """Encode source ids; see :class:`SearchModel`."""
        state: SearchState = evaluated(self.model).start_search(source, source_lengths)
        return state


def evaluated(model: EncoderDecoder[Any]) -> EncoderDecoder[Any]:
    """Return a model in evaluation mode: the same one, or else a copy of its modules that shares its weights."""
    if not any(module.training for module in model.modules()):
        return model
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared).eval()


def start(model: SearchModel, source: Tensor, source_lengths: Tensor, prefix: Sequence[int]) -> SearchState:
    """Return the state in which the decoder has read all of the prefix but its last token."""
    state = model.start_search(source, source_lengths)
    for token in prefix[:-1]:
        state.best(source.new_full((len(source), 1), token), 1)
    return state
