"""A Locant model as ONNX needs it: its encoder, and its decoder without and with a cache.

The layers and the positions are the model's own, and the cache is what goes in and comes out. Names of inputs and
outputs are those of Hugging Face's Optimum.

Shapes: B sentences, S source tokens, T new target tokens, P target tokens in the cache, H heads, D features of a head,
E width, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.models.attention import KeyValueCache, StackCache
from locant.models.transformer import Transformer
from locant.positions import Mask


def require_traceable(model: Transformer) -> None:
    """Raise ConfigError unless one graph computes the positions of a model in texts of all lengths, with two caches."""
    for scheme in (*model.encoder.schemes, *model.decoder.schemes):
        if not scheme.traceable or scheme.reads_state:
            what = "read the hidden state" if scheme.reads_state else "depend on the length of the text"
            raise ConfigError(
                f"Positions '{scheme.name}' {what} in a way that a graph of ONNX cannot follow. Train a model with "
                "model.position=rotary, sinusoidal or alibi, for instance."
            )


class EncoderGraph(nn.Module):
    """``input_ids [B, S]``, ``attention_mask [B, S]`` (1 for tokens, 0 for padding) to ``[B, S, E]``."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.embedding, self.scale = model.source_embedding, math.sqrt(model.config.d_model)
        self.stack = model.encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Encode."""
        mask = Mask(keys=(attention_mask != 0)[:, None, None, :])
        return self.stack(self.embedding(input_ids) * self.scale, torch.arange(input_ids.shape[1]), mask)


class _Cache(KeyValueCache):
    """Keys and values that grow by one tensor behind the other."""

    def __init__(self, *past: Tensor) -> None:
        super().__init__()
        self.present = past

    def append(self, *new: Tensor) -> tuple[Tensor, ...]:
        both = zip(self.present, new, strict=True)
        self.present = tuple(torch.cat(parts, dim=2) for parts in both) if self.present else new
        return self.present


class DecoderGraph(nn.Module):
    """The decoder from the first token on: ``input_ids [B, T]``, the encoder's output and its mask.

    Returns logits ``[B, T, V]`` and for each layer its keys and values ``[B, H, T, D]`` and those of the encoder's
    output ``[B, H, S, D]``, for :class:`CachedDecoderGraph`.
    """

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.embedding, self.output, self.scale = model.target_embedding, model.output, math.sqrt(model.config.d_model)
        self.stack = model.decoder

    def forward(
        self, input_ids: Tensor, encoder_hidden_states: Tensor, encoder_attention_mask: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Decode."""
        cross = self.stack.start(encoder_hidden_states, encoder_attention_mask).cross
        logits, own = self.decode(input_ids, encoder_attention_mask, cross, [_Cache() for _ in cross], None)
        return logits, [part for pair in zip(own, cross, strict=True) for kv in pair for part in kv]

    def decode(
        self,
        input_ids: Tensor,
        encoder_attention_mask: Tensor,
        cross: list[tuple[Tensor, Tensor]],
        caches: list[_Cache],
        before: Tensor | None,
    ) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """Return logits ``[B, T, V]`` and each layer's keys and values ``[B, H, P + T, D]``."""
        first = 0 if before is None else before.shape[0]
        positions = torch.arange(first, first + input_ids.shape[1])
        x, cache = self.embedding(input_ids) * self.scale, StackCache([*caches], length=first)
        if before is not None:
            cache.positions = [before] * len(caches)  # for every kind of layers
        x, plans = self.stack.begin(x, positions, Mask(causal=True), cache)
        mask = Mask(keys=(encoder_attention_mask != 0)[:, None, None, :])
        for layer, plan, memory, own in zip(self.stack.layers, plans, cross, caches, strict=True):
            x = layer(x, plan, memory, mask, own)
        return self.output(self.stack.norm(x)), [own.present for own in caches]


class CachedDecoderGraph(DecoderGraph):
    """The decoder after the first tokens: new ``input_ids [B, T]``, the encoder's mask, and the cache.

    ``past`` holds for each layer keys and values of its earlier tokens ``[B, H, P, D]`` and those of the encoder's
    output ``[B, H, S, D]``. Returns logits and each layer's keys and values ``[B, H, P + T, D]``.
    """

    def forward(  # type: ignore[override]
        self, input_ids: Tensor, encoder_attention_mask: Tensor, past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Decode."""
        caches = [_Cache(*own) for own in zip(past[0::4], past[1::4], strict=True)]
        cross = list(zip(past[2::4], past[3::4], strict=True))
        logits, present = self.decode(input_ids, encoder_attention_mask, cross, caches, torch.arange(past[0].shape[2]))
        return logits, [part for pair in present for part in pair]
