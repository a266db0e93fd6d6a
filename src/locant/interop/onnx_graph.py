"""A Locant model in the operations of ONNX: its encoder, and its decoder without and with a cache.

The weights are the model's own modules; what is written anew here is the arithmetic between them, without branches on
values, and positions as tables, because a graph cannot compute exact angles. Names of inputs and outputs are those of
Hugging Face's Optimum.

Shapes: B sentences, S source tokens, T new target tokens, P target tokens in the cache, H heads, D features of a head,
E width, V vocabulary, N rows of a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.models.attention import CrossAttention, SelfAttention
from locant.models.blocks import Decoder, Encoder, FeedForward, Residual
from locant.models.transformer import Transformer
from locant.positions import PositionScheme, Rotary

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": nn.functional.gelu,
    "silu": nn.functional.silu,
    "glu": torch.sigmoid,
    "reglu": torch.relu,
    "geglu": nn.functional.gelu,
    "swiglu": nn.functional.silu,
}


class _Positions(nn.Module):
    """The tables of a scheme for positions ``0 .. N - 1``.

    Args:
        scheme: The scheme, of one layer or of the whole stack.
        name: Its name, for messages.
        rows: N.
        width: Width of the model, E.

    Raises:
        ConfigError: The scheme is not a matter of tables.
    """

    codes: Tensor | None
    gain: Tensor | None
    sine: Tensor | None
    cosine: Tensor | None
    biases: Tensor | None

    def __init__(self, scheme: PositionScheme, name: str, rows: int, width: int) -> None:
        super().__init__()
        self.rows = rows
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

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotate queries or keys ``x [B, H, L, D]`` at ``positions [L]``."""
        if self.sine is None or self.cosine is None:
            return x
        sine, cosine = self.sine[positions], self.cosine[positions]
        width = 2 * sine.shape[-1]
        turned, rest = x[..., :width], x[..., width:]
        if self.interleaved:
            a, b = turned[..., 0::2], turned[..., 1::2]
            pairs = torch.stack((a * cosine - b * sine, a * sine + b * cosine), dim=-1).flatten(-2)
        else:
            a, b = turned.chunk(2, dim=-1)
            pairs = torch.cat((a * cosine - b * sine, a * sine + b * cosine), dim=-1)
        return torch.cat((pairs, rest), dim=-1)

    def score_bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor | None:
        """Return what is added to the scaled scores, ``[H, Q, K]``."""
        if self.biases is None:
            return None
        offsets = k_positions.unsqueeze(0) - q_positions.unsqueeze(1)
        # In one dimension, which is what every runtime gathers fast.
        return self.biases[:, (offsets + (self.rows - 1)).flatten()].reshape(-1, *offsets.shape)


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


class _Stack(nn.Module):
    def __init__(self, model: Transformer, stack: Encoder | Decoder, rows: int) -> None:
        super().__init__()
        self.stack = stack
        self.scale = math.sqrt(model.config.d_model)
        self.activation = _ACTIVATIONS[model.config.feed_forward]
        self.positions = nn.ModuleList(
            _Positions(scheme, model.config.position, rows, model.config.d_model)  # type: ignore[arg-type]
            for scheme in stack.schemes
        )

    def at_layer(self, layer: int) -> _Positions:
        return self.positions[layer % len(self.positions)]  # type: ignore[return-value]

    def feed_forward(self, x: Tensor, module: FeedForward) -> Tensor:
        hidden = module.inner(x)
        if module.gated:
            gate, value = hidden.chunk(2, dim=-1)
            return module.outer(self.activation(gate) * value)
        return module.outer(self.activation(hidden))


class EncoderGraph(_Stack):
    """``input_ids [B, S]``, ``attention_mask [B, S]`` (1 for tokens, 0 for padding) to ``[B, S, E]``."""

    def __init__(self, model: Transformer, rows: int) -> None:
        super().__init__(model, model.encoder, rows)
        self.embedding = model.source_embedding

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Encode."""
        positions = torch.arange(input_ids.shape[1])
        x = self.at_layer(0).embed(self.embedding(input_ids) * self.scale, positions)
        hidden = (attention_mask == 0)[:, None, None, :]
        for index, layer in enumerate(self.stack.layers):
            at = self.at_layer(index)

            def attend(x: Tensor, module: SelfAttention = layer.self_attention, at: _Positions = at) -> Tensor:  # type: ignore[assignment]
                q, k, v = module.project(x)
                q, k = at.rotate(q, positions), at.rotate(k, positions)
                return module.output(_attend(q, k, v, hidden, at.score_bias(positions, positions)))

            x = _residual(layer.residuals[0], x, attend)  # type: ignore[arg-type,index]
            x = _residual(layer.residuals[1], x, lambda x, module=layer.feed_forward: self.feed_forward(x, module))  # type: ignore[arg-type,index,misc]
        return self.stack.norm(x)


class DecoderGraph(_Stack):
    """The decoder from the first token on: ``input_ids [B, T]``, the encoder's output and its mask.

    Returns logits ``[B, T, V]`` and for each layer its keys and values ``[B, H, T, D]`` and those of the encoder's
    output ``[B, H, S, D]``, for :class:`CachedDecoderGraph`.
    """

    def __init__(self, model: Transformer, rows: int) -> None:
        super().__init__(model, model.decoder, rows)
        self.embedding = model.target_embedding
        self.output = model.output

    def forward(
        self, input_ids: Tensor, encoder_hidden_states: Tensor, encoder_attention_mask: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Decode."""
        cross = [layer.cross_attention.keys_and_values(encoder_hidden_states) for layer in self.stack.layers]  # type: ignore[operator,union-attr]
        logits, own = self.decode(input_ids, encoder_attention_mask, cross, None)
        return logits, [part for pair in zip(own, cross, strict=True) for kv in pair for part in kv]

    def decode(
        self,
        input_ids: Tensor,
        encoder_attention_mask: Tensor,
        cross: list[tuple[Tensor, Tensor]],
        past: list[tuple[Tensor, Tensor]] | None,
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Return logits ``[B, T, V]`` and each layer's keys and values ``[B, H, P + T, D]``."""
        before = past[0][0].shape[2] if past else 0
        k_positions = torch.arange(before + input_ids.shape[1])
        q_positions = k_positions[before:]
        later = k_positions.unsqueeze(0) > q_positions.unsqueeze(1)
        padding = (encoder_attention_mask == 0)[:, None, None, :]
        x = self.at_layer(0).embed(self.embedding(input_ids) * self.scale, q_positions)
        present: list[tuple[Tensor, Tensor]] = []
        for index, layer in enumerate(self.stack.layers):

            def attend(x: Tensor, index: int = index, module: SelfAttention = layer.self_attention) -> Tensor:  # type: ignore[assignment]
                at = self.at_layer(index)
                q, k, v = module.project(x)
                q, k = at.rotate(q, q_positions), at.rotate(k, q_positions)
                if past:
                    k, v = torch.cat((past[index][0], k), dim=2), torch.cat((past[index][1], v), dim=2)
                present.append((k, v))
                return module.output(_attend(q, k, v, later, at.score_bias(q_positions, k_positions)))

            def look(x: Tensor, index: int = index, module: CrossAttention = layer.cross_attention) -> Tensor:  # type: ignore[assignment]
                return module.output(_attend(module.queries(x), *cross[index], padding, None))

            x = _residual(layer.residuals[0], x, attend)  # type: ignore[arg-type,index]
            x = _residual(layer.residuals[1], x, look)  # type: ignore[arg-type,index]
            x = _residual(layer.residuals[2], x, lambda x, module=layer.feed_forward: self.feed_forward(x, module))  # type: ignore[arg-type,index,misc]
        return self.output(self.stack.norm(x)), present


class CachedDecoderGraph(DecoderGraph):
    """The decoder after the first tokens: new ``input_ids [B, T]``, the encoder's mask, and the cache.

    ``past`` holds for each layer keys and values of its earlier tokens ``[B, H, P, D]`` and those of the encoder's
    output ``[B, H, S, D]``. Returns logits and each layer's keys and values ``[B, H, P + T, D]``.
    """

    def forward(  # type: ignore[override]
        self, input_ids: Tensor, encoder_attention_mask: Tensor, past: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Decode."""
        own = list(zip(past[0::4], past[1::4], strict=True))
        cross = list(zip(past[2::4], past[3::4], strict=True))
        logits, present = self.decode(input_ids, encoder_attention_mask, cross, own)
        return logits, [part for pair in present for part in pair]


def _residual(module: Residual, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
    if module.pre:
        return x + sublayer(module.norm(x))
    return module.norm(x + sublayer(x))


def _attend(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``[B, Q, E]``; ``hidden`` is true where a key is not seen and broadcasts to ``[B, H, Q, K]``."""
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + bias
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2)
