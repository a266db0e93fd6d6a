"""Self-attention of one layer step by step, with every intermediate result, while a model reads one sentence pair.

The steps are those of Vaswani et al. 2017, section 3.2, each as a tensor of its own; the models compute them fused.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor, nn

from locant.analysis.introspection import run_without_gradients
from locant.errors import UsageError
from locant.models.attention import SelfAttention
from locant.models.transformer import Transformer
from locant.positions import AttentionPlan, Mask, PositionScheme


@dataclass(frozen=True)
class AttentionSteps:
    """Everything between what a layer receives and what its self-attention returns; float32 on the CPU.

    Attributes:
        words: Token embeddings times ``sqrt(E)``, ``[L, E]``.
        received: What the layer receives, ``[L, E]``: in the first one the words told their positions.
        x: What its attention reads, ``[L, E]``: the same, or with pre-norm its layer norm.
        q: Queries ``x W_Q + b_Q`` by head, ``[H, L, D]``.
        k: Keys.
        v: Values.
        rotated: Queries and keys as the scheme rotates them, or ``None`` where it does not, or where one rotation does
            not serve all queries.
        products: ``q k^T``, after rotation, ``[H, L, L]``.
        scaled: The products divided by ``sqrt(D)``, where they are.
        bias: What the scheme adds to them, ``[H, L, L]``, or ``None``.
        masked: The sum, minus infinity where a key is hidden.
        weights: Softmax of ``masked`` over the keys; each row sums to 1.
        contexts: ``weights v``, ``[H, L, D]``.
        joined: The heads' contexts beside each other, ``[L, E]``.
        output_weight: ``W_O``, ``[E, E]``, to be multiplied from the right.
        output: ``joined W_O + b_O``, ``[L, E]``.
    """

    words: Tensor
    received: Tensor
    x: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    rotated: tuple[Tensor, Tensor] | None
    products: Tensor
    scaled: Tensor
    bias: Tensor | None
    masked: Tensor
    weights: Tensor
    contexts: Tensor
    joined: Tensor
    output_weight: Tensor
    output: Tensor


def attention_steps(
    model: Transformer,
    source: Sequence[int],
    target: Sequence[int],
    *,
    stack: Literal["encoder", "decoder"] = "encoder",
    layer: int = 0,
) -> AttentionSteps:
    """Run a model on one sentence pair and return every step of one layer's self-attention.

    Args:
        model: The model; runs in evaluation mode on the device where it is.
        source: Source ids ``[S]`` as the model reads them, usually closed by EOS.
        target: Target ids ``[T]`` as the decoder reads them, opened by BOS.
        stack: Whose layer.
        layer: Which, counted from 0.

    Raises:
        UsageError: The stack does not have so many layers.
        DataError: A side is empty, longer than the model's positions, or has an id outside the vocabulary.

    Example:
        >>> from locant.models import Transformer, preset
        >>> model = Transformer(preset("tiny", source_vocab_size=20, target_vocab_size=20))
        >>> steps = attention_steps(model, [5, 6, 7, 3], [2, 8, 9], stack="decoder")
        >>> steps.weights.shape
        torch.Size([4, 3, 3])
    """
    watched = model.encoder if stack == "encoder" else model.decoder
    if not 0 <= layer < len(watched.layers):
        raise UsageError(f"The {stack} has {len(watched.layers)} layers; there is no layer {layer + 1}.")
    module: Any = watched.layers[layer]
    attention: SelfAttention = module.self_attention
    seen: dict[str, Tensor] = {}
    called: dict[str, Any] = {}

    def enters(name: str, arguments: tuple[Any, ...]) -> None:
        seen[name] = arguments[0][0]

    def attends(owner: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        called.update(inspect.signature(owner.forward).bind(*arguments, **keywords).arguments)

    device = model.target_embedding.weight.device
    ids = torch.tensor([list(source)], device=device), torch.tensor([list(target)], device=device)
    with ExitStack() as hooks:
        hooks.callback(watched.register_forward_pre_hook(lambda _, given: enters("words", given)).remove)
        hooks.callback(module.register_forward_pre_hook(lambda _, given: enters("received", given)).remove)
        hooks.callback(attention.register_forward_pre_hook(attends, with_kwargs=True).remove)
        run_without_gradients(model, ids[0], torch.tensor([len(source)], device=device), ids[1])
    with torch.no_grad():
        plan: AttentionPlan = called["plan"]
        found = attend_in_steps(attention, called["x"], plan.q_positions, plan.scheme, plan.mask)
        return first_row(found, attention, called["x"], **seen)


@dataclass(frozen=True)
class Intermediates:
    """The steps of a batch, on the device of the model; attributes as of :class:`AttentionSteps`, a row each."""

    q: Tensor
    k: Tensor
    v: Tensor
    rotated: tuple[Tensor, Tensor] | None
    products: Tensor
    scaled: Tensor
    bias: Tensor | None
    masked: Tensor
    weights: Tensor
    contexts: Tensor
    joined: Tensor
    output: Tensor


def attend_in_steps(
    attention: SelfAttention,
    x: Tensor,
    positions: Tensor,
    scheme: PositionScheme,
    mask: Mask,
    *,
    heads: int | None = None,
    scaled: bool = True,
) -> Intermediates:
    """Return the steps of an attention for ``x [B, L, E]``.

    Args:
        attention: The module, in evaluation mode.
        x: What it reads.
        positions: Integer positions, ``[L]``.
        scheme: Tells queries, keys and scores where they stand.
        mask: Which keys are seen.
        heads: Number of heads among which the features are divided; the module's own unless given.
        scaled: Whether the products are divided by ``sqrt(D)``.
    """
    heads, length = heads or attention.heads, x.shape[1]
    q, k, v = (
        part.reshape(*part.shape[:2], heads, -1).transpose(1, 2)
        for part in attention.query_key_value(x).chunk(3, dim=-1)
    )
    products, biases = [], []
    runs = scheme.query_blocks(positions)
    for run in runs:
        part = q[:, :, run], k, positions[..., run], positions
        rotated = scheme.rotate(*part)
        products.append(rotated[0] @ rotated[1].mT)
        biases.append(scheme.score_bias(*part))
    rotates = "queries+keys" in scheme.acts_on and len(runs) == 1
    product = torch.cat(products, dim=2)
    quotient = product / math.sqrt(q.shape[-1]) if scaled else product
    given = [one.expand(len(x), heads, -1, length) for one in biases if one is not None]
    bias = torch.cat(given, dim=2) if given else None
    hidden = ~_visible(mask, length, x.device)
    masked = (quotient if bias is None else quotient + bias).masked_fill(hidden, float("-inf"))
    weights = masked.softmax(-1)
    contexts = weights @ v
    joined = contexts.transpose(1, 2).flatten(2)
    return Intermediates(
        q=q,
        k=k,
        v=v,
        rotated=rotated if rotates else None,
        products=product,
        scaled=quotient,
        bias=bias,
        masked=masked,
        weights=weights,
        contexts=contexts,
        joined=joined,
        output=attention.output(joined),
    )


def first_row(
    steps: Intermediates, attention: SelfAttention, x: Tensor, *, words: Tensor, received: Tensor
) -> AttentionSteps:
    """Return the steps of the first row of a batch.

    Args:
        steps: Of the batch.
        attention: The module that made them.
        x: What it read, ``[B, L, E]``.
        words: Token embeddings times ``sqrt(E)``, ``[L, E]``, to be handed on.
        received: What the layer receives, ``[L, E]``, to be handed on.
    """

    def kept(step: Tensor) -> Tensor:
        return step.detach().float().cpu()

    alone = {field.name: getattr(steps, field.name) for field in fields(steps) if field.name != "rotated"}
    return AttentionSteps(
        words=kept(words),
        received=kept(received),
        x=kept(x[0]),
        rotated=None if steps.rotated is None else (kept(steps.rotated[0][0]), kept(steps.rotated[1][0])),
        output_weight=kept(attention.output.weight.T),
        **{name: None if step is None else kept(step[0]) for name, step in alone.items()},  # type: ignore[arg-type]
    )


def _visible(mask: Mask, length: int, device: torch.device) -> Tensor:
    """Return which keys a query sees, boolean; broadcasts to ``[B, H, L, L]``."""
    visible = torch.ones(length, length, dtype=torch.bool, device=device)
    if mask.causal:
        visible = visible.tril()
    return visible if mask.keys is None else visible & mask.keys
