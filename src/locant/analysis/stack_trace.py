"""One stack of a Transformer traced sub-layer by sub-layer, as it is or with some of its parts changed.

What is changed is changed in the computation alone: the weights stay those of the model (Vaswani et al. 2017, sections
3.1 to 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from locant.analysis.attention_steps import AttentionSteps, Intermediates, attend_in_steps, first_row
from locant.analysis.introspection import without_residual
from locant.errors import ConfigError, DataError
from locant.models.attention import CrossAttention
from locant.models.blocks import Decoder, DecoderLayer, Encoder
from locant.positions import Mask, PositionScheme

SublayerKind = Literal["self-attention", "cross-attention", "feed-forward"]


@dataclass(frozen=True, kw_only=True)
class StackChanges:
    """What is changed in a stack; nothing unless said.

    Attributes:
        schemes: Other positional schemes: one for all layers, or one for each.
        mask: Another mask; an encoder's own hides nothing, a decoder's own is causal.
        heads: Another number of heads, among which the same projections are divided.
        scaled: Whether products of queries and keys are divided by ``sqrt(D)``.
        residuals: Whether the residual connections are in place. Without them every sub-layer passes on only what it
            computes, ``LayerNorm(Sublayer(x))`` with post-norm and ``Sublayer(LayerNorm(x))`` with pre-norm.
    """

    schemes: Sequence[PositionScheme] | None = None
    mask: Mask | None = None
    heads: int | None = None
    scaled: bool = True
    residuals: bool = True


@dataclass(frozen=True)
class SublayerTrace:
    """One sub-layer of a layer; float32 on the CPU, all ``[L, E]``.

    Attributes:
        kind: Which.
        received: The residual stream before it.
        read: What it computes from: the same, or with pre-norm its layer norm.
        computed: What it computes.
        passed: The residual stream after it.
    """

    kind: SublayerKind
    received: Tensor
    read: Tensor
    computed: Tensor
    passed: Tensor


@dataclass(frozen=True)
class LayerTrace:
    """One layer.

    Attributes:
        attention: Every step of its self-attention.
        cross_weights: Attention to the encoder's output, ``[H, L, S]``; ``None`` in an encoder.
        sublayers: In the order in which they run.
    """

    attention: AttentionSteps
    cross_weights: Tensor | None
    sublayers: tuple[SublayerTrace, ...]


@dataclass(frozen=True)
class StackTrace:
    """A whole stack; float32 on the CPU.

    Attributes:
        words: Token embeddings times ``sqrt(E)``, ``[L, E]``.
        told: The words told their positions, which the first layer receives.
        layers: Every layer.
        output: What the stack returns, ``[L, E]``: of a pre-norm stack after its last norm.
    """

    words: Tensor
    told: Tensor
    layers: tuple[LayerTrace, ...]
    output: Tensor

    @property
    def states(self) -> tuple[Tensor, ...]:
        """The words, the words told their positions, then what each layer passes on, each ``[L, E]``."""
        return self.words, self.told, *(layer.sublayers[-1].passed for layer in self.layers)


def trace_stack(
    stack: Encoder | Decoder, words: Tensor, memory: Tensor | None = None, *, changes: StackChanges | None = None
) -> StackTrace:
    """Run a stack on one sequence and return everything that its sub-layers compute.

    Args:
        stack: The encoder or decoder of a model; runs in evaluation mode.
        words: Token embeddings times ``sqrt(E)``, ``[L, E]``, on the device of the stack.
        memory: The encoder's output, ``[S, E]``; needed by a decoder alone.
        changes: What is different from the stack as it is.

    Raises:
        DataError: The sequence is empty, or longer than the positions that a scheme knows; a decoder has no memory.
        ConfigError: The width is not a multiple of the number of heads.

    Example:
        >>> from locant.models import Transformer, preset
        >>> model = Transformer(preset("tiny", source_vocab_size=20, target_vocab_size=20))
        >>> words = model.source_embedding.weight[[5, 6, 7]].detach() * 128**0.5
        >>> trace = trace_stack(model.encoder, words, changes=StackChanges(mask=Mask(causal=True)))
        >>> trace.layers[0].attention.weights[0, 0].tolist()
        [1.0, 0.0, 0.0]
    """
    told, passed, output = _run(stack, words[None], memory, changes or StackChanges())
    layers = [_layer_trace(module, sublayers, words) for module, sublayers in zip(stack.layers, passed, strict=True)]
    return StackTrace(_kept(words), _kept(told[0]), tuple(layers), _kept(output[0]))


def trace_states(
    stack: Encoder | Decoder, words: Tensor, memory: Tensor | None = None, *, changes: StackChanges | None = None
) -> tuple[Tensor, ...]:
    """Run a stack on several sequences of one length and return its states alone, each ``[B, L, E]``.

    Args:
        stack: As for :func:`trace_stack`; errors likewise.
        words: Token embeddings times ``sqrt(E)``, ``[B, L, E]``.
        memory: The encoder's output for all of them, ``[S, E]``; needed by a decoder alone.
        changes: What is different from the stack as it is.

    Returns:
        Those of :attr:`StackTrace.states`.
    """
    told, passed, _ = _run(stack, words, memory, changes or StackChanges())
    return tuple(map(_kept, (words, told, *(sublayers[-1].passed for sublayers in passed))))


@dataclass(frozen=True)
class _Passed:
    """A sub-layer of a batch; ``detail`` is what attention computes on the way."""

    kind: SublayerKind
    received: Tensor
    read: Tensor
    computed: Tensor
    passed: Tensor
    detail: Intermediates | Tensor | None


def _run(
    stack: Encoder | Decoder, words: Tensor, memory: Tensor | None, changes: StackChanges
) -> tuple[Tensor, list[list[_Passed]], Tensor]:
    """Return the words told their positions, the sub-layers of every layer, and the output, for ``words [B, L, E]``."""
    length, width = words.shape[1:]
    if length == 0:
        raise DataError("The sequence is empty; there is nothing to trace.")
    if memory is None and isinstance(stack, Decoder):
        raise DataError("A decoder reads the encoder's output; give it as memory.")
    if changes.heads and width % changes.heads:
        raise ConfigError(f"{width} features cannot be divided among {changes.heads} heads.")
    schemes = changes.schemes or [stack.scheme(index) for index in range(len(stack.layers))]
    known = schemes[0].max_positions
    if known is not None and length > known:
        raise DataError(f"The sequence has {length} tokens, but the scheme knows {known} positions.")
    positions = torch.arange(length, device=words.device)
    in_training = [module for module in stack.modules() if module.training]
    if in_training:
        stack.eval()
    try:
        with torch.no_grad():
            told = x = schemes[0].embed(words, positions)
            passed = []
            for index, layer in enumerate(stack.layers):
                passed.append(_through_layer(layer, x, positions, schemes[index % len(schemes)], memory, changes))
                x = passed[-1][-1].passed
            return told, passed, stack.norm(x)
    finally:
        for module in in_training:
            module.training = True


def _through_layer(
    layer: Any, x: Tensor, positions: Tensor, scheme: PositionScheme, memory: Tensor | None, changes: StackChanges
) -> list[_Passed]:
    details: list[Intermediates | Tensor | None] = []

    def attends(y: Tensor) -> Tensor:
        mask = changes.mask or Mask(causal=isinstance(layer, DecoderLayer))
        steps = attend_in_steps(
            layer.self_attention, y, positions, scheme, mask, heads=changes.heads, scaled=changes.scaled
        )
        details.append(steps)
        return steps.output

    def reads_source(y: Tensor) -> Tensor:
        assert memory is not None
        weights, output = _cross(layer.cross_attention, y, memory[None], changes)
        details.append(weights)
        return output

    def feeds_forward(y: Tensor) -> Tensor:
        details.append(None)
        output: Tensor = layer.feed_forward(y)
        return output

    sublayers: list[tuple[SublayerKind, Callable[[Tensor], Tensor]]] = [("self-attention", attends)]
    if isinstance(layer, DecoderLayer):
        sublayers.append(("cross-attention", reads_source))
    sublayers.append(("feed-forward", feeds_forward))
    found = []
    for (kind, compute), residual in zip(sublayers, layer.residuals, strict=True):
        seen: list[Tensor] = []

        def watched(y: Tensor, compute: Callable[[Tensor], Tensor] = compute, seen: list[Tensor] = seen) -> Tensor:
            seen.extend((y, compute(y)))
            return seen[1]

        passed = residual(x, watched) if changes.residuals else without_residual(residual, x, watched)
        found.append(_Passed(kind, x, seen[0], seen[1], passed, details[-1]))
        x = passed
    return found


def _cross(module: CrossAttention, x: Tensor, memory: Tensor, changes: StackChanges) -> tuple[Tensor, Tensor]:
    """Return the weights ``[B, H, L, S]`` and what the attention of ``x [B, L, E]`` to the memory computes."""
    heads = changes.heads or module.heads
    q, k, v = (
        part.reshape(*part.shape[:2], heads, -1).transpose(1, 2)
        for part in (module.query(x), *module.key_value(memory).chunk(2, dim=-1))
    )
    products = q @ k.mT
    weights = (products / math.sqrt(q.shape[-1]) if changes.scaled else products).softmax(-1)
    return weights, module.output((weights @ v).transpose(1, 2).flatten(2))


def _layer_trace(layer: Any, sublayers: Sequence[_Passed], words: Tensor) -> LayerTrace:
    """Return what a layer did to the first row of a batch."""
    first, cross = sublayers[0], sublayers[1].detail
    assert isinstance(first.detail, Intermediates)
    attention = first_row(first.detail, layer.self_attention, first.read, words=words, received=first.received[0])
    traces = (
        SublayerTrace(one.kind, *(_kept(step[0]) for step in (one.received, one.read, one.computed, one.passed)))
        for one in sublayers
    )
    return LayerTrace(attention, _kept(cross[0]) if isinstance(cross, Tensor) else None, tuple(traces))


def _kept(x: Tensor) -> Tensor:
    return x.detach().float().cpu()
