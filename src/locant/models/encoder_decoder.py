"""What training, search and model folders need of an encoder-decoder model, whatever is inside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from pydantic import Field
from torch import Tensor, nn

from locant.settings import Settings


class EncoderDecoderConfig(Settings):
    """The fields that every architecture has."""

    architecture: str
    source_vocab_size: int = Field(gt=0)
    target_vocab_size: int = Field(gt=0)
    d_model: int = Field(ge=1)
    dropout: float = Field(ge=0, lt=1)
    share_embeddings: bool
    tie_output: bool


class DecoderState(Protocol):
    """What a decoder remembers between two steps, for the rows of a batch."""

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

    def forward(self, source: Tensor, source_lengths: Tensor, target: Tensor) -> Tensor:
        """Return the logits of every next target token.

        Args:
            source: Integer ids ``[B, S]``, padded on the right.
            source_lengths: Number of real tokens of each row, ``[B]``.
            target: Integer ids ``[B, T]``, beginning with the begin-of-sentence id.

        Returns:
            Logits ``[B, T, V]``; row ``t`` scores the token after ``target[:, t]``.
        """
        return self.output(self.hidden(source, source_lengths, target))

    @property
    def max_positions(self) -> int | None:
        """Longest sequence (in tokens) that the model can take, or ``None``."""
        return None
