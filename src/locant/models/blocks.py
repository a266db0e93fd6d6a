"""Layers and stacks of the encoder and the decoder (Vaswani et al. 2017, sections 3.1 and 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from locant.models.attention import CrossAttention, DecoderCache, KeyValueCache, SelfAttention, StackCache
from locant.models.config import BlockSettings, TransformerConfig
from locant.models.dropout import Dropout
from locant.models.layer_norm import add_and_norm, build_norm, layer_norm
from locant.models.stacked_linear import StackedLinear
from locant.positions import AttentionPlan, Mask, PositionScheme, build_scheme
from locant.positions.attention import cached_keys

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
    "gelu_tanh": partial(nn.functional.gelu, approximate="tanh"),
    "silu": nn.functional.silu,
    "sigmoid": lambda x: x.sigmoid(),
}
# Gated variants (Shazeer 2020, "GLU Variants Improve Transformer") and the activation of their gate.
_GATES = {"glu": "sigmoid", "reglu": "relu", "geglu": "gelu", "geglu_tanh": "gelu_tanh", "swiglu": "silu"}


class FeedForward(nn.Module):
    """Position-wise feed-forward network, ``max(0, x W1 + b1) W2 + b2`` (section 3.3, equation 2), and its variants.

    The gated kinds compute ``(activation(x W1) * (x V)) W2``, with ``W1`` and ``V`` as the two blocks of one matrix.
    """

    def __init__(self, settings: BlockSettings) -> None:
        super().__init__()
        self.gated = settings.feed_forward in _GATES
        self.activation = _ACTIVATIONS[_GATES.get(settings.feed_forward, settings.feed_forward)]
        heights = [settings.d_ff] * (2 if self.gated else 1)
        self.inner = StackedLinear(settings.d_model, heights, bias=settings.bias)
        self.dropout = Dropout(settings.feed_forward_dropout)
        self.outer = nn.Linear(settings.d_ff, settings.d_model, bias=settings.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[B, L, E]`` to ``[B, L, E]``."""
        hidden = self.inner(x)
        if self.gated:
            gate, value = hidden.chunk(2, dim=-1)
            hidden = self.activation(gate) * value
        else:
            hidden = self.activation(hidden)
        return self.outer(self.dropout(hidden))


class Residual(nn.Module):
    """The residual connection, dropout and norm around one sub-layer (sections 3.1 and 5.4).

    Post-norm is the paper's ``Norm(x + Dropout(Sublayer(x)))``; pre-norm is ``x + Dropout(Sublayer(Norm(x)))``; a norm
    of the output is ``x + Dropout(Norm(Sublayer(x)))`` (OLMo 2 and 3), and Gemma 3 has both of the last two.
    """

    def __init__(self, settings: BlockSettings) -> None:
        super().__init__()
        self.post, self.pre = settings.norm == "post", settings.norm in ("pre", "both")
        self.norm = build_norm(settings, settings.d_model)
        self.output_norm = build_norm(settings, settings.d_model) if settings.norm == "both" else None
        self.dropout = Dropout(settings.dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply ``sublayer`` to ``x [B, L, E]`` with its residual; returns ``[B, L, E]``."""
        if self.post:
            return add_and_norm(sublayer(x), x, self.dropout, self.norm)
        return self.dropout(self.branch(x, sublayer), x)

    def branch(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Return what the sub-layer and its norms make of ``x [B, L, E]``, without the residual connection."""
        x = sublayer(self.given(x))
        norm = self.output_norm if self.pre else self.norm
        return x if norm is None else layer_norm(x, norm)

    def given(self, x: Tensor) -> Tensor:
        """Return what the sub-layer is given of ``x [B, L, E]``."""
        return layer_norm(x, self.norm) if self.pre else x


class SelfAttentionLayer(nn.Module):
    """Self-attention, then feed-forward: a layer of an encoder or, with a causal mask, of a decoder-only model."""

    def __init__(self, settings: BlockSettings) -> None:
        super().__init__()
        self.self_attention = SelfAttention(settings)
        self.feed_forward = FeedForward(settings)
        self.parallel = settings.parallel
        self.residuals = nn.ModuleList(Residual(settings) for _ in range(1 if settings.parallel else 2))

    def forward(self, x: Tensor, plan: AttentionPlan, cache: KeyValueCache | None = None) -> Tensor:
        """Map ``[B, L, E]`` to ``[B, L, E]``; with a cache, ``x`` holds the new tokens alone."""
        if self.parallel:
            return self.residuals[0](x, lambda y: self.self_attention(y, plan, cache) + self.feed_forward(y))
        x = self.residuals[0](x, lambda y: self.self_attention(y, plan, cache))
        return self.residuals[1](x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder's output, then feed-forward."""

    def __init__(self, settings: BlockSettings) -> None:
        super().__init__()
        self.self_attention = SelfAttention(settings)
        self.cross_attention = CrossAttention(settings)
        self.feed_forward = FeedForward(settings)
        self.residuals = nn.ModuleList(Residual(settings) for _ in range(3))

    def forward(
        self,
        x: Tensor,
        plan: AttentionPlan,
        memory: tuple[Tensor, Tensor],
        memory_mask: Mask,
        cache: KeyValueCache | None = None,
        *,
        aligned: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Map ``[B, L, E]`` to ``[B, L, E]``; ``memory`` holds this layer's keys and values of the encoder's output.

        With ``aligned`` the logarithms of the weights ``[B, L, S]`` with which the first head attends to the encoder's
        output are returned as well.
        """
        x = self.residuals[0](x, lambda y: self.self_attention(y, plan, cache))
        found: list[Tensor] = []

        def attend(y: Tensor) -> Tensor:
            if not aligned:
                return self.cross_attention(y, memory, memory_mask)
            context, weights = self.cross_attention(y, memory, memory_mask, aligned=True)
            found.append(weights)
            return context

        x = self.residuals[1](x, attend)
        x = self.residuals[2](x, self.feed_forward)
        return (x, *found) if found else x  # type: ignore[return-value]

    def cross_attention_weights(self, x: Tensor, plan: AttentionPlan, keys: Tensor, memory_mask: Mask) -> Tensor:
        """Return how much each token of ``x [B, T, E]`` attends to those of the source, ``[B, H, T, S]``.

        Args:
            x: What the layer receives, from the first token on.
            plan: Where its tokens are.
            keys: This layer's keys of the encoder's output, ``[B, H, S, D]``.
            memory_mask: Which of them are real tokens.
        """
        x = self.residuals[0](x, lambda y: self.self_attention(y, plan))
        residual: Residual = self.residuals[1]  # type: ignore[assignment]
        return self.cross_attention.weights(residual.given(x), keys, memory_mask)


class Stack(nn.Module):
    """The base of encoder and decoder: the positional schemes, the dropout on the embeddings and the final norm."""

    layers: nn.ModuleList

    def __init__(self, settings: BlockSettings, layers: int, *, causal: bool) -> None:
        super().__init__()
        shape = settings.attention_shape(causal=causal)
        self.schemes = nn.ModuleList()
        kinds = settings.kinds_of_layers(layers, causal=causal)
        self.windows = [kind.window for kind in kinds]
        # What a plan is made for: the places of its scheme and of the one that draws its positions, and its window.
        plans: dict[tuple[int, int, int | None], int] = {}
        first: dict[int, int] = {}
        self._plan_of_layer: list[int] = []
        for kind in kinds:
            place = first.get(id(kind))
            if place is None or self.schemes[place].per_layer:
                place = self._add(build_scheme(kind.position, shape, kind.position_options))
            plan = (place, first.setdefault(id(kind), place), kind.window)
            self._plan_of_layer.append(plans.setdefault(plan, len(plans)))
        self._plans = list(plans)
        self._embeds = next((place for place in first.values() if _embeds(self.schemes[place])), 0)
        self.like = settings.heads, settings.head_features
        self.post_norm = settings.norm == "post"
        self.dropout = Dropout(settings.dropout)
        # The paper's post-norm layers end in a norm of their own; others need one at the end of the stack.
        self.norm = nn.Identity() if self.post_norm else build_norm(settings, settings.d_model)

    def _add(self, scheme: PositionScheme) -> int:
        """Return the place of a scheme; there is one embedding, and so one scheme for it whatever kinds have it."""
        same = [place for place, one in enumerate(self.schemes) if _embeds(one) and _embeds(scheme)]
        if same and not scheme.per_layer:
            return same[0]
        self.schemes.append(scheme)
        return len(self.schemes) - 1

    def scheme(self, layer: int) -> PositionScheme:
        """Return the positional scheme of a layer."""
        return self.schemes[self._plans[self._plan_of_layer[layer]][0]]  # type: ignore[return-value]

    def caches(self) -> list[KeyValueCache]:
        """Return an empty cache for each layer."""
        schemes = [self.scheme(layer) for layer in range(len(self.windows))]
        kept = zip(schemes, self.windows, strict=True)
        return [KeyValueCache(None if window is None else cached_keys(scheme, window)) for scheme, window in kept]

    @property
    def max_positions(self) -> int | None:
        """Longest sequence (in tokens) that the positional schemes allow, or ``None``."""
        limits: list[Any] = [scheme.max_positions for scheme in self.schemes]
        return min((limit for limit in limits if limit is not None), default=None)

    def begin(
        self, x: Tensor, positions: Tensor, mask: Mask, cache: StackCache | None = None
    ) -> tuple[Tensor, list[AttentionPlan]]:
        """Tell embeddings their positions and apply dropout, and plan the self-attention of the layers.

        Under autocast the result of a post-norm stack is of the lower precision, and with it all that flows along the
        residual connections: a norm ends every sub-layer, so no rounding adds up. Pre-norm stacks keep sums of all
        their sub-layers, in float32.

        Args:
            x: Embeddings ``[B, L, E]``; with a cache, only those of new tokens.
            positions: Integer positions ``[L]`` or ``[B, L]``.
            mask: Which keys are seen.
            cache: Receives the positions of the new tokens.

        Returns:
            ``[B, L, E]``, and a plan for each layer.
        """
        drawn = {place: self.schemes[place].drawn(positions) for _, place, _ in self._plans}  # type: ignore[operator]
        x = self.dropout(self.schemes[self._embeds].embed(x, drawn[self._embeds]))  # type: ignore[operator]
        device = x.device.type
        lower = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
        x = x.to(lower) if self.post_norm else x
        heads, size = self.like
        like = x.new_zeros((), dtype=lower).expand(x.shape[0], heads, x.shape[1], size)
        plans = []
        for number, (place, first, window) in enumerate(self._plans):
            cached = cache.positions[number] if cache is not None and cache.positions else None
            seen = mask if window is None else Mask(mask.causal, mask.keys, window)
            plans.append(AttentionPlan(self.schemes[place], drawn[first], seen, like=like, cached=cached))  # type: ignore[arg-type]
        if cache is not None:
            cache.positions = [plan.k_positions for plan in plans]
            cache.length += x.shape[1]
        return x, [plans[number] for number in self._plan_of_layer]


class Encoder(Stack):
    """A stack of identical encoder layers (section 3.1)."""

    def __init__(self, config: TransformerConfig) -> None:
        settings = config.blocks()
        super().__init__(settings, config.encoder_layers, causal=False)
        self.layers = nn.ModuleList(SelfAttentionLayer(settings) for _ in range(config.encoder_layers))

    def forward(self, x: Tensor, positions: Tensor, mask: Mask) -> Tensor:
        """Encode embeddings ``[B, S, E]`` at integer ``positions`` ``[S]`` or ``[B, S]``; returns ``[B, S, E]``."""
        x, plans = self.begin(x, positions, mask)
        for layer, plan in zip(self.layers, plans, strict=True):
            x = layer(x, plan)
        return self.norm(x)


class Decoder(Stack):
    """A stack of identical decoder layers (section 3.1)."""

    def __init__(self, config: TransformerConfig) -> None:
        settings = config.blocks()
        super().__init__(settings, config.decoder_layers, causal=True)
        self.layers = nn.ModuleList(DecoderLayer(settings) for _ in range(config.decoder_layers))

    def start(self, memory: Tensor, source_lengths: Tensor) -> DecoderCache:
        """Return an empty cache for the encoder's output ``[B, S, E]``, with its keys and values of every layer."""
        cross = [layer.cross_attention.keys_and_values(memory) for layer in self.layers]  # type: ignore[operator, union-attr]
        return DecoderCache(cross, source_lengths)

    def forward(
        self, x: Tensor, cache: DecoderCache, *, use_cache: bool, aligned: int | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Decode embeddings ``[B, T, E]`` of the tokens that follow those in the cache.

        Args:
            x: Token embeddings ``[B, T, E]``.
            cache: From :meth:`start`; says how many tokens came before.
            use_cache: Whether to append these tokens to the cache; without it the cache must be empty.
            aligned: A layer whose attention to the source is wanted as well.

        Returns:
            ``[B, T, E]``; with ``aligned`` also the logarithms of the weights of that layer's first head
            ``[B, T, S]``.
        """
        positions = torch.arange(cache.length, cache.length + x.shape[1], device=x.device)
        mask = Mask.from_lengths(cache.source_lengths, cache.cross[0][0].shape[2])
        x, plans = self.begin(x, positions, Mask(causal=True), cache if use_cache else None)
        weights = None
        for index, layer in enumerate(self.layers):
            own = cache.layers[index] if use_cache else None
            given = (x, plans[index], cache.cross[index], mask, own)
            if index == aligned:
                x, weights = layer(*given, aligned=True)
            else:
                x = layer(*given)
        x = self.norm(x)
        return x if weights is None else (x, weights)

    def cross_attention_weights(self, x: Tensor, cache: DecoderCache, number: int) -> Tensor:
        """Return how much each token attends to those of the source in a layer, ``[B, H, T, S]``.

        Args:
            x: Token embeddings ``[B, T, E]``, from the first token on.
            cache: From :meth:`start`; stays empty.
            number: The layer, from 0; those above it are not computed.
        """
        positions = torch.arange(x.shape[1], device=x.device)
        mask = Mask.from_lengths(cache.source_lengths, cache.cross[0][0].shape[2])
        x, plans = self.begin(x, positions, Mask(causal=True))
        for index in range(number):
            x = self.layers[index](x, plans[index], cache.cross[index], mask)
        layer: DecoderLayer = self.layers[number]  # type: ignore[assignment]
        return layer.cross_attention_weights(x, plans[number], cache.cross[number][0], mask)


def _embeds(scheme: nn.Module) -> bool:
    return "embedding" in scheme.acts_on  # type: ignore[operator]


def draw_initial_weights(model: nn.Module, d_model: int, output: nn.Linear, *, tied: bool) -> None:
    """Draw Xavier-uniform matrices, zero biases, and embeddings of standard deviation ``E^-0.5``.

    Every parameter is set, so that a model built on the meta device can be filled.

    Args:
        model: Whose parameters are drawn, in the order of its modules.
        d_model: Width of the model, ``E``.
        output: Its projection to the vocabulary.
        tied: Whether ``output`` has the matrix of an embedding, which is then left as it was drawn there.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear) and module is not output and module.bias is not None:
            nn.init.zeros_(module.bias)
        match module:
            case SelfAttention():
                _xavier_blocks(module.query_key_value)
                nn.init.xavier_uniform_(module.output.weight)
            case CrossAttention():
                nn.init.xavier_uniform_(module.query.weight)
                _xavier_blocks(module.key_value)
                nn.init.xavier_uniform_(module.output.weight)
            case FeedForward():
                _xavier_blocks(module.inner)
                nn.init.xavier_uniform_(module.outer.weight)
            case nn.LayerNorm() | nn.RMSNorm() | PositionScheme():
                module.reset_parameters()
            case nn.Embedding():
                # Times sqrt(E) at the input this has unit variance; untouched, it suits the tied output.
                nn.init.normal_(module.weight, std=d_model**-0.5)
    if not tied:
        nn.init.xavier_uniform_(output.weight)


def _xavier_blocks(linear: StackedLinear) -> None:
    """Initialise the matrices stacked in one weight each for itself: Xavier's range depends on a matrix's own shape."""
    for block in torch.split(linear.weight, list(linear.heights)):
        nn.init.xavier_uniform_(block)
