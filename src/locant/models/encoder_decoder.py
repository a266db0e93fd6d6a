"""The interface of an encoder-decoder model for training, search and model folders, whatever is inside it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn

from locant.settings import Settings
from locant.text.tokenizer import BOS, PAD

AlignmentStep = Literal["predicts", "reads"]
"""The step of the decoder whose attention says where a token comes from: the one that predicts it or that reads it."""

MOST_LAYERS, WIDEST, LARGEST_VOCABULARY = 1000, 1_000_000, 100_000_000
"""Limits of layers, of widths and of vocabularies in a configuration: far above what any model has."""


class EncoderDecoderConfig(Settings):
    """The fields that every architecture has."""

    architecture: str
    source_vocab_size: int = Field(gt=0, le=LARGEST_VOCABULARY)
    target_vocab_size: int = Field(gt=0, le=LARGEST_VOCABULARY)
    d_model: int = Field(ge=1, le=WIDEST)
    dropout: float = Field(ge=0, lt=1)
    share_embeddings: bool
    tie_output: bool


class DecoderState(Protocol):
    """The cache of a decoder between two steps, for the rows of a batch."""

    def select(self, rows: Tensor, *, same_sources: bool = False) -> None:
        """Keep the given rows ``[N]``, in that order; see :meth:`locant.models.DecoderCache.select`."""


State = TypeVar("State", bound=DecoderState)


class EncoderDecoder(nn.Module, ABC, Generic[State]):
    """An encoder-decoder model over token ids, whose rows are padded on the right.

    Attributes:
        config: Dimensions and choices.
        target_embedding: Embeddings of the target tokens.
        output: Projection to the target vocabulary, without bias.
    """

    config: EncoderDecoderConfig
    target_embedding: nn.Embedding
    output: nn.Linear

    @abstractmethod
    def encode(self, source: Tensor, source_lengths: Tensor) -> Tensor:
        """Encode source ids ``[B, S]`` with ``[B]`` real tokens each; returns ``[B, S, M]``.

        Columns beyond a row's length hold nothing of meaning.
        """

    @abstractmethod
    def start(self, memory: Tensor, source_lengths: Tensor) -> State:
        """Return the state for decoding step by step from the encoder's output ``[B, S, M]``."""

    @abstractmethod
    def step(self, target: Tensor, cache: State) -> Tensor:
        """Decode the next target ids ``[B, T]``, append them to the state and return logits ``[B, T, V]``."""

    @abstractmethod
    def hidden(self, source: Tensor, source_lengths: Tensor, target: Tensor) -> Tensor:
        """Return the decoder's output ``[B, T, E]``, before the projection to the vocabulary."""

    @abstractmethod
    def alignment_weights(
        self,
        source: Tensor,
        source_lengths: Tensor,
        target: Tensor,
        *,
        layer: int | None = None,
        step: AlignmentStep | None = None,
    ) -> Tensor:
        """Return from which source tokens each target token comes, as the attention to the source says it.

        Args:
            source: Integer ids ``[B, S]``, padded on the right.
            source_lengths: Number of real tokens of each row, ``[B]``.
            target: Integer ids ``[B, T]``, beginning with BOS.
            layer: The decoder layer whose attention is taken, from 0; ``None`` for the one that does it best.
            step: The step whose attention is taken; ``None`` for the one that does it best.

        Returns:
            Weights ``[B, T, S]``, the mean of all heads, or of the layer with a head that has learned to align that
            head alone: row ``t`` is of ``target[:, t]`` itself, and sums to 1. At the step that predicts, the first row
            is zero: nothing predicts the first token.
        """

    def forward(self, source: Tensor, source_lengths: Tensor, target: Tensor) -> Tensor:
        """Return the logits of every next target token.

        Args:
            source: Integer ids ``[B, S]``, padded on the right.
            source_lengths: Number of real tokens of each row, ``[B]``.
            target: Integer ids ``[B, T]``, beginning with BOS.

        Returns:
            Logits ``[B, T, V]``; row ``t`` scores the token after ``target[:, t]``.
        """
        return self.output(self.hidden(source, source_lengths, target))

    def start_search(self, source: Tensor, source_lengths: Tensor) -> ModelSearchState:
        """Encode source ids ``[B, S]`` with ``[B]`` real tokens each and return the state of their translations."""
        return ModelSearchState(self, source, source_lengths)

    @property
    def max_positions(self) -> int | None:
        """Longest sequence (in tokens) that the model can take, or ``None``."""
        return None


class ModelSearchState:
    """The state of a search with a PyTorch model: one row for each hypothesis that is being extended.

    Args:
        model: In evaluation mode.
        source: Source ids ``[B, S]``, padded on the right, on the model's device.
        source_lengths: Number of real tokens of each row, ``[B]``.
    """

    def __init__(self, model: EncoderDecoder[Any], source: Tensor, source_lengths: Tensor) -> None:
        self._model = model
        self._cache = model.start(model.encode(source, source_lengths), source_lengths)

    def best(self, last: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and ids ``[R, k]`` of the best tokens after ``last [R, 1]``, largest first.

        Padding and BOS have the log-probability ``-inf``.
        """
        return top_k(self.log_probabilities(last), k)

    def log_probabilities(self, last: Tensor) -> Tensor:
        """Return the log-probabilities of every token after ``last [R, 1]``, float32 ``[R, V]``.

        Padding and BOS have the log-probability ``-inf``.
        """
        found = self._model.step(last, self._cache)[:, -1].log_softmax(-1, dtype=torch.float32)
        found[:, PAD] = -torch.inf
        found[:, BOS] = -torch.inf
        return found

    def select(self, rows: Tensor, *, same_sources: bool = False) -> None:
        """Keep the given rows ``[N]``, in that order; see :meth:`locant.models.DecoderCache.select`."""
        self._cache.select(rows, same_sources=same_sources)


def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
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
