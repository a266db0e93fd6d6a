"""A Locant model as ONNX needs it: its encoder, and its decoder without and with a cache.

The layers are the model's own. Positions are tables, because a graph cannot compute exact angles, and the cache is what
goes in and comes out. Names of inputs and outputs are those of Hugging Face's Optimum.

Shapes: B sentences, S source tokens, T new target tokens, P target tokens in the cache, H heads, D features of a head,
E width, V vocabulary, N rows of a table.
"""

from __future__ import annotations

import math
from copy import deepcopy
from typing import TypeVar

import torch
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.models.attention import KeyValueCache, StackCache
from locant.models.blocks import Stack
from locant.models.transformer import Transformer
from locant.positions import Mask, PositionScheme, Rotary

AnyStack = TypeVar("AnyStack", bound=Stack)


class TableScheme(PositionScheme):
    """What a scheme does at positions ``0 .. N - 1``, read off it once.

    Args:
        scheme: The scheme, of one layer or of the whole stack.
        name: Its name, for messages.
        rows: N.
        width: Width of the model, E.

    Raises:
        ConfigError: The scheme is not a matter of tables.
    """

    bias_reads_content = False
    codes: Tensor | None
    gain: Tensor | None
    sine: Tensor | None
    cosine: Tensor | None
    biases: Tensor | None

    def __init__(self, scheme: PositionScheme, name: str, rows: int, width: int) -> None:
        super().__init__()
        self.acts_on, self.rows = scheme.acts_on, rows
        positions = scheme.drawn(torch.arange(rows))
        codes = gain = sine = cosine = biases = None
        for place in sorted(scheme.acts_on):
            config = scheme.rotary_config
            if place == "embedding" and (found := _codes(scheme, positions, width)):
                codes, gain = found
            elif place == "queries+keys" and config and not scheme.caches_unrotated_keys:
                sine, cosine = Rotary.from_config(config).sine_cosine(positions)
                self.interleaved = config.layout == "interleaved"
            elif place == "scores" and (row := scheme.distance_bias(positions, positions)):
                biases = row[0].float()  # relative position r stands in column r + N - 1
            else:
                raise ConfigError(_refusal(scheme, name, place, rows))
        tables = {"codes": codes, "gain": gain, "sine": sine, "cosine": cosine, "biases": biases}
        for key, table in tables.items():
            self.register_buffer(key, None if table is None else table.detach().contiguous())

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Combine ``x [B, L, E]`` with the codes of ``positions [L]``."""
        if self.codes is None:
            return x
        return (x if self.gain is None else x * self.gain) + self.codes[positions]

    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys ``[B, H, L, D]``, both at ``q_positions [L]``."""
        assert self.sine is not None
        assert self.cosine is not None
        sine, cosine = self.sine[q_positions], self.cosine[q_positions]
        width = 2 * sine.shape[-1]

        def turned(x: Tensor) -> Tensor:
            first, rest = x[..., :width], x[..., width:]
            a, b = (first[..., 0::2], first[..., 1::2]) if self.interleaved else first.chunk(2, dim=-1)
            pair = a * cosine - b * sine, a * sine + b * cosine
            pairs = torch.stack(pair, dim=-1).flatten(-2) if self.interleaved else torch.cat(pair, dim=-1)
            return torch.cat((pairs, rest), dim=-1)

        return turned(q), turned(k)

    def score_bias(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Return what is added to the scaled scores, ``[1, H, Q, K]``."""
        assert self.biases is not None
        offsets = k_positions.unsqueeze(0) - q_positions.unsqueeze(1)
        # In one dimension, which is what every runtime gathers fast.
        return self.biases[:, (offsets + (self.rows - 1)).flatten()].reshape(1, -1, *offsets.shape)


def _codes(scheme: PositionScheme, positions: Tensor, width: int) -> tuple[Tensor, Tensor | None] | None:
    """Return the codes ``[N, E]`` that are added to embeddings, and which features of these are kept ``[E]``.

    All features are kept where the second is ``None``. The codes are read off what the scheme makes of embeddings, so
    that they may be added, also to some features alone, or take the place of features; ``None`` where it does
    something else.
    """
    with torch.no_grad():
        codes = scheme.embed(torch.zeros(1, len(positions), width), positions)[0].float()
        gain = (scheme.embed(torch.ones(1, 1, width), positions[:1])[0, 0] - codes[0]).round()
        x = torch.linspace(-1, 1, len(positions) * width).view(1, len(positions), width)
        told = scheme.embed(x, positions)[0]
    if not torch.allclose(told, x[0] * gain + codes, rtol=1e-5, atol=1e-5):
        return None
    return codes, None if bool((gain == 1).all()) else gain


def _refusal(scheme: PositionScheme, name: str, place: str, rows: int) -> str:
    reason = "are neither codes nor plain rotations nor biases of the relative position"
    if place == "queries+keys" and scheme.caches_unrotated_keys:
        reason = "rotate keys by angles that depend on the length of the text or on the query"
    elif place == "scores" and scheme.bias_reads_content:
        reason = "are biases that depend on queries and keys"
    elif place == "scores":
        reason = f"are biases that for texts of {rows} tokens depend on more than the relative position"
    return (
        f"Export to ONNX writes positions as tables, but those of '{name}' {reason}. Train a model with "
        "model.position=sinusoidal, learned, rotary, alibi or t5, for instance."
    )


def _with_tables(stack: AnyStack, model: Transformer, rows: int) -> AnyStack:
    """Return a stack of the same weights, whose positions are tables."""
    config = model.config
    copied = deepcopy(stack, {id(weight): weight for weight in stack.parameters()})
    copied.schemes = nn.ModuleList(TableScheme(each, config.position, rows, config.d_model) for each in stack.schemes)  # type: ignore[arg-type]
    return copied


class EncoderGraph(nn.Module):
    """``input_ids [B, S]``, ``attention_mask [B, S]`` (1 for tokens, 0 for padding) to ``[B, S, E]``."""

    def __init__(self, model: Transformer, rows: int) -> None:
        super().__init__()
        self.embedding, self.scale = model.source_embedding, math.sqrt(model.config.d_model)
        self.stack = _with_tables(model.encoder, model, rows)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Encode."""
        mask = Mask(keys=(attention_mask != 0)[:, None, None, :])
        return self.stack(self.embedding(input_ids) * self.scale, torch.arange(input_ids.shape[1]), mask)


class _Cache(KeyValueCache):
    """Keys and values that grow by one tensor behind the other."""

    def __init__(self, *past: Tensor) -> None:
        super().__init__()
        self.present = past

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        new = zip(self.present, (k, v), strict=True)
        self.present = tuple(torch.cat(parts, dim=2) for parts in new) if self.present else (k, v)
        return self.present[0], self.present[1]


class DecoderGraph(nn.Module):
    """The decoder from the first token on: ``input_ids [B, T]``, the encoder's output and its mask.

    Returns logits ``[B, T, V]`` and for each layer its keys and values ``[B, H, T, D]`` and those of the encoder's
    output ``[B, H, S, D]``, for :class:`CachedDecoderGraph`.
    """

    def __init__(self, model: Transformer, rows: int) -> None:
        super().__init__()
        self.embedding, self.output, self.scale = model.target_embedding, model.output, math.sqrt(model.config.d_model)
        self.stack = _with_tables(model.decoder, model, rows)

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
        first = 0 if before is None else len(before)
        positions = torch.arange(first, first + input_ids.shape[1])
        x, cache = self.embedding(input_ids) * self.scale, StackCache([*caches], before, first)
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
        logits, present = self.decode(
            input_ids, encoder_attention_mask, cross, caches, torch.arange(past[0].shape[2])
        )
        return logits, [part for pair in present for part in pair]
