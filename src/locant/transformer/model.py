"""The encoder-decoder Transformer of *Attention Is All You Need* (Vaswani et al. 2017, Figure 1)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from locant.positions import Mask, PositionScheme
from locant.transformer.attention import CrossAttention, SelfAttention
from locant.transformer.blocks import Decoder, Encoder, FeedForward
from locant.transformer.cache import DecoderCache
from locant.transformer.config import TransformerConfig


class Transformer(nn.Module):
    """Encoder-decoder Transformer over token ids.

    Rows are padded on the right; the source carries its lengths, and the target needs none, because a causal decoder
    never looks to the right.

    Args:
        config: Dimensions and choices.

    Example:
        >>> from locant.transformer import preset
        >>> model = Transformer(preset("tiny", source_vocab_size=100, target_vocab_size=100))
        >>> logits = model(torch.ones(2, 5, dtype=torch.long), torch.tensor([5, 3]), torch.ones(2, 7, dtype=torch.long))
        >>> logits.shape
        torch.Size([2, 7, 100])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.target_embedding = nn.Embedding(config.target_vocab_size, config.d_model)
        if config.share_embeddings:
            self.source_embedding = self.target_embedding
        else:
            self.source_embedding = nn.Embedding(config.source_vocab_size, config.d_model)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output = nn.Linear(config.d_model, config.target_vocab_size, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw Xavier-uniform matrices, zero biases, and embeddings of standard deviation ``E^-0.5``.

        Every parameter is set and the output tied, so that a model built on the meta device can be filled.
        """
        if self.config.tie_output:
            self.output.weight = self.target_embedding.weight
        for module in self.modules():
            if isinstance(module, nn.Linear) and module is not self.output:
                nn.init.zeros_(module.bias)
            match module:
                case SelfAttention():
                    _xavier_blocks(module.query_key_value.weight, 3)
                    nn.init.xavier_uniform_(module.output.weight)
                case CrossAttention():
                    nn.init.xavier_uniform_(module.query.weight)
                    _xavier_blocks(module.key_value.weight, 2)
                    nn.init.xavier_uniform_(module.output.weight)
                case FeedForward():
                    _xavier_blocks(module.inner.weight, 2 if module.gated else 1)
                    nn.init.xavier_uniform_(module.outer.weight)
                case nn.LayerNorm() | PositionScheme():
                    module.reset_parameters()
                case nn.Embedding():
                    # Times sqrt(E) at the input this has unit variance; untouched, it suits the tied output.
                    nn.init.normal_(module.weight, std=self.config.d_model**-0.5)
        if not self.config.tie_output:
            nn.init.xavier_uniform_(self.output.weight)

    def encode(self, source: Tensor, source_lengths: Tensor) -> Tensor:
        """Encode source ids.

        Args:
            source: Integer ids ``[B, S]``, padded on the right.
            source_lengths: Number of real tokens of each row, ``[B]``.

        Returns:
            ``[B, S, E]``; columns beyond a row's length hold nothing of meaning.
        """
        x = self.source_embedding(source) * math.sqrt(self.config.d_model)
        positions = torch.arange(source.shape[1], device=source.device)
        return self.encoder(x, positions, Mask.from_lengths(source_lengths, source.shape[1]))

    def start(self, memory: Tensor, source_lengths: Tensor) -> DecoderCache:
        """Return the cache for decoding step by step from the encoder's output ``[B, S, E]``."""
        return self.decoder.start(memory, source_lengths)

    def step(self, target: Tensor, cache: DecoderCache) -> Tensor:
        """Decode the next target ids ``[B, T]``, append them to the cache and return logits ``[B, T, V]``."""
        return self.output(self.decoder(self._embed_target(target), cache, remember=True))

    def hidden(self, source: Tensor, source_lengths: Tensor, target: Tensor) -> Tensor:
        """Return the decoder's output ``[B, T, E]``, before the projection to the vocabulary."""
        cache = self.start(self.encode(source, source_lengths), source_lengths)
        return self.decoder(self._embed_target(target), cache, remember=False)

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
        """Longest sequence (in tokens) that the positional scheme allows, or ``None``."""
        return self.encoder.scheme(0).max_positions

    def _embed_target(self, target: Tensor) -> Tensor:
        return self.target_embedding(target) * math.sqrt(self.config.d_model)


def count_parameters(model: nn.Module) -> int:
    """Return the number of parameters, counting tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def _xavier_blocks(weight: Tensor, blocks: int) -> None:
    """Initialise the matrices stacked in one weight each for itself: Xavier's range depends on a matrix's own shape."""
    for block in weight.chunk(blocks, dim=0):
        nn.init.xavier_uniform_(block)
