"""The encoder-decoder Transformer of *Attention Is All You Need* (Vaswani et al. 2017, Figure 1)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from locant.models.attention import DecoderCache
from locant.models.blocks import Decoder, Encoder, draw_initial_weights
from locant.models.config import TransformerConfig
from locant.models.encoder_decoder import AlignmentStep, EncoderDecoder
from locant.positions import Mask

_DEEP = 5  # decoder layers


class Transformer(EncoderDecoder[DecoderCache]):
    """Encoder-decoder Transformer over token ids.

    Rows are padded on the right; the source carries its lengths, and the target needs none, because a causal decoder
    never looks to the right.

    Args:
        config: Dimensions and choices.

    Example:
        >>> from locant.models import preset
        >>> model = Transformer(preset("tiny", source_vocab_size=100, target_vocab_size=100))
        >>> logits = model(torch.ones(2, 5, dtype=torch.long), torch.tensor([5, 3]), torch.ones(2, 7, dtype=torch.long))
        >>> logits.shape
        torch.Size([2, 7, 100])
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config: TransformerConfig = config
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
        draw_initial_weights(self, self.config.d_model, self.output, tied=self.config.tie_output)

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
        return self.output(self.decoder(self._embed_target(target), cache, use_cache=True))

    def hidden(self, source: Tensor, source_lengths: Tensor, target: Tensor) -> Tensor:
        """Return the decoder's output ``[B, T, E]``, before the projection to the vocabulary."""
        cache = self.start(self.encode(source, source_lengths), source_lengths)
        return self.decoder(self._embed_target(target), cache, use_cache=False)

    def hidden_and_alignment(self, source: Tensor, source_lengths: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the decoder's output, and what the head that learns to align attends to.

        Args:
            source: Integer ids ``[B, S]``, padded on the right.
            source_lengths: Number of real tokens of each row, ``[B]``.
            target: Integer ids ``[B, T]``, beginning with BOS.

        Returns:
            The output ``[B, T, E]`` before the projection to the vocabulary, and the logarithms of the weights
            ``[B, T, S]``, float32.
        """
        cache = self.start(self.encode(source, source_lengths), source_lengths)
        return self.decoder(self._embed_target(target), cache, use_cache=False, aligned=self._guided_layer)

    def alignment_weights(
        self,
        source: Tensor,
        source_lengths: Tensor,
        target: Tensor,
        *,
        layer: int | None = None,
        step: AlignmentStep | None = None,
    ) -> Tensor:
        """Return from which source tokens each target token comes, ``[B, T, S]``, see the base class."""
        cache = self.start(self.encode(source, source_lengths), source_lengths)
        usual_layer, usual_step = self.alignment_attention
        chosen = usual_layer if layer is None else layer
        heads = self.decoder.cross_attention_weights(self._embed_target(target), cache, chosen)
        weights = heads[:, 0] if self.config.alignment_head and chosen == self._guided_layer else heads.mean(1)
        if (step or usual_step) == "reads":
            return weights
        return torch.cat((torch.zeros_like(weights[:, :1]), weights[:, :-1]), dim=1)

    @property
    def alignment_attention(self) -> tuple[int, AlignmentStep]:
        """The decoder layer, from 0, and the step whose attention to the source says best which word comes from which.

        Where a head has learned it, it is that of the step that reads the word. Else, of deep decoders it is the third
        layer at the step that reads the word (Chen et al. 2020, "Accurate Word Alignment Induction from Neural Machine
        Translation", Shift-Att). Shallow ones, whose every layer has to predict, say it at the step that predicts the
        word, in the middle layer (docs/results/alignments.md).
        """
        layers = self.config.decoder_layers
        if self.config.alignment_head:
            return self._guided_layer, "reads"
        return (2, "reads") if layers >= _DEEP else (layers // 2, "predicts")

    @property
    def _guided_layer(self) -> int:
        # As in Garg et al. 2019, section 3.3.
        return max(0, self.config.decoder_layers - 2)

    @property
    def max_positions(self) -> int | None:
        """Longest sequence (in tokens) that the positional scheme allows, or ``None``."""
        return self.encoder.max_positions

    def _embed_target(self, target: Tensor) -> Tensor:
        return self.target_embedding(target) * math.sqrt(self.config.d_model)


def count_parameters(model: nn.Module) -> int:
    """Return the number of parameters, counting tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters())
