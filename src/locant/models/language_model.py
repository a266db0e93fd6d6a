"""The decoder-only Transformer: a language model over token ids, with any positional scheme.

It is the decoder of Vaswani et al. 2017 without the attention to an encoder (Liu et al. 2018, "Generating Wikipedia by
Summarizing Long Sequences", section 4.2.3, the first of its kind; Radford et al. 2018 and after).
"""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from locant.models.attention import StackCache
from locant.models.blocks import SelfAttentionLayer, Stack, draw_initial_weights
from locant.models.config import BlockOptions, BlockSettings, FeedForwardKind, LayerPattern, Norm, SchemeName
from locant.models.encoder_decoder import LARGEST_VOCABULARY, MOST_LAYERS, WIDEST
from locant.positions import Mask


class LanguageModelConfig(LayerPattern, BlockOptions):
    """Dimensions and choices of the decoder-only Transformer; the fields mean what they mean in TransformerConfig.

    The defaults are a model that a CPU trains in minutes: the layers, width and heads of nanoGPT's small setting.
    """

    vocab_size: int = Field(gt=0, le=LARGEST_VOCABULARY)
    layers: int = Field(4, ge=1, le=MOST_LAYERS)
    d_model: int = Field(128, ge=1, le=WIDEST)
    d_ff: int = Field(512, ge=1, le=WIDEST)
    heads: int = Field(4, ge=1, le=WIDEST)
    dropout: float = Field(0.0, ge=0, lt=1)
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    feed_forward_dropout: float = Field(0.0, ge=0, lt=1)
    norm: Norm = "pre"
    feed_forward: FeedForwardKind = "gelu"
    position: SchemeName = "rotary"
    position_options: dict[str, Any] = Field(default_factory=dict)
    parallel: bool = Field(False, description="Attention and feed-forward read the same norm, side by side (Cohere 2)")
    scale_embeddings: bool = Field(True, description="Whether embeddings are multiplied by the root of d_model")
    tie_output: bool = True

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.blocks().kinds_of_layers(self.layers, causal=True)
        return self

    def blocks(self) -> BlockSettings:
        """Return what the layers are built from."""
        return BlockSettings.of(self)


class CausalStack(Stack):
    """A stack of identical causal layers."""

    def __init__(self, config: LanguageModelConfig) -> None:
        settings = config.blocks()
        super().__init__(settings, config.layers, causal=True)
        self.layers = nn.ModuleList(SelfAttentionLayer(settings) for _ in range(config.layers))

    def forward(self, x: Tensor, positions: Tensor, mask: Mask, cache: StackCache | None = None) -> Tensor:
        """Map embeddings ``[B, L, E]`` at integer ``positions`` ``[L]`` or ``[B, L]`` to ``[B, L, E]``."""
        x, plans = self.begin(x, positions, mask, cache)
        for index, layer in enumerate(self.layers):
            x = layer(x, plans[index], None if cache is None else cache.layers[index])
        return self.norm(x)


class LanguageModel(nn.Module):
    """Decoder-only Transformer over token ids.

    Rows padded on the right need nothing, because no token sees what follows it. Rows padded on the left give their
    own ``positions`` and a ``mask`` of the keys that are real.

    Args:
        config: Dimensions and choices.

    Example:
        >>> import torch
        >>> model = LanguageModel(LanguageModelConfig(vocab_size=100))
        >>> model(torch.ones(2, 7, dtype=torch.long)).shape
        torch.Size([2, 7, 100])
    """

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.stack = CausalStack(config)
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights again, see :func:`~locant.models.blocks.draw_initial_weights`."""
        if self.config.tie_output:
            self.output.weight = self.embedding.weight
        draw_initial_weights(self, self.config.d_model, self.output, tied=self.config.tie_output)

    def hidden(self, ids: Tensor, *, positions: Tensor | None = None, mask: Mask | None = None) -> Tensor:
        """Return the output of the last layer ``[B, L, E]``, before the projection to the vocabulary.

        Args:
            ids: Integer ids ``[B, L]``.
            positions: Integer positions ``[L]`` or ``[B, L]``; from 0 on by default.
            mask: Which keys are seen, causal; only the past by default.
        """
        if positions is None:
            positions = torch.arange(ids.shape[1], device=ids.device)
        return self.stack(self._embed(ids), positions, mask or Mask(causal=True))

    def forward(self, ids: Tensor, *, positions: Tensor | None = None, mask: Mask | None = None) -> Tensor:
        """Return logits ``[B, L, V]``; row ``t`` scores the token after ``ids[:, t]``. Arguments as for :meth:`hidden`.

        Raises:
            DataError: The text is longer than the positional scheme allows.
        """
        return self.output(self.hidden(ids, positions=positions, mask=mask))

    def start(self) -> StackCache:
        """Return an empty cache for reading or generating step by step."""
        return StackCache(self.stack.caches())

    def step(self, ids: Tensor, cache: StackCache) -> Tensor:
        """Read the next ids ``[B, T]``, append them to the cache and return logits ``[B, T, V]``."""
        positions = torch.arange(cache.length, cache.length + ids.shape[1], device=ids.device)
        return self.output(self.stack(self._embed(ids), positions, Mask(causal=True), cache))

    @property
    def max_positions(self) -> int | None:
        """Longest sequence (in tokens) that the positional scheme allows, or ``None``."""
        return self.stack.max_positions

    def _embed(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        return x * math.sqrt(self.config.d_model) if self.config.scale_embeddings else x
