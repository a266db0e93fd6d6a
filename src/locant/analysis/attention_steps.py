"""Self-attention of one layer step by step, with every intermediate result, while a model reads one sentence pair.

The steps are those of Vaswani et al. 2017, section 3.2, each as a tensor of its own; the models compute them fused.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from locant.analysis.introspection import StackStates, introspect
from locant.analysis.properties import hooked
from locant.errors import UsageError
from locant.models.attention import SelfAttention
from locant.models.transformer import Transformer
from locant.positions import AttentionPlan


@dataclass(frozen=True)
class AttentionSteps:
    """Everything between what a layer receives and what its self-attention returns; float32 on the CPU.

    Attributes:
        words: Token embeddings times ``sqrt(E)``, ``[L, E]``.
        received: What the layer receives, ``[L, E]``: in the first one the words with their positions.
        x: What its attention reads, ``[L, E]``: the same, or with pre-norm its layer norm.
        q: Queries ``x W_Q + b_Q`` by head, ``[H, L, D]``.
        k: Keys.
        v: Values.
        rotated: Queries and keys as the scheme rotates them, or ``None`` where it does not, or where one rotation does
            not serve all queries.
        products: ``q k^T``, after rotation, ``[H, L, L]``.
        scaled: The products divided by ``sqrt(D)``.
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
        UsageError: The stack does not have that many layers.
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
    attention: Any = watched.layers[layer].self_attention
    called: dict[str, Any] = {}

    def attends(owner: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        called.update(inspect.signature(owner.forward).bind(*arguments, **keywords).arguments)

    hook = attention.register_forward_pre_hook(attends, with_kwargs=True)
    try:
        states: StackStates = getattr(introspect(model, source, target), stack)
    finally:
        hook.remove()
    with torch.no_grad():
        steps = _steps(attention, called["x"], called["plan"])
    kept = {name: None if step is None else step.detach().float().cpu() for name, step in steps.items()}
    q, k = kept.pop("rotated_q"), kept.pop("rotated_k")
    return AttentionSteps(
        words=states.words,
        received=states.layers[layer],
        rotated=None if q is None or k is None else (q, k),
        **kept,  # type: ignore[arg-type]
    )


def _steps(attention: SelfAttention, x: Tensor, plan: AttentionPlan) -> dict[str, Tensor | None]:
    """Return the steps of an attention for the first row of ``x [B, L, E]``, by the name of their attribute."""
    length, positions, scheme, mask = x.shape[1], plan.q_positions, plan.scheme, plan.mask
    q, k, v = attention.project(x)
    # A head of keys that serves several of queries is shown for each.
    k, v = (part.repeat_interleave(attention.heads // attention.key_heads, dim=1) for part in (k, v))
    products, biases = [], []
    state = scheme.prepare(x, positions)
    runs = scheme.query_blocks(positions)
    for run in runs:
        part = q[:, :, run], k, positions[..., run], positions
        own = None if state is None else state.part(run, slice(None))
        turned_q, turned_k, added = hooked(scheme, *part, own)
        products.append(turned_q @ turned_k.mT)
        biases.append(added)
    rotates = "queries+keys" in scheme.acts_on and len(runs) == 1
    product = torch.cat(products, dim=2)
    scaled = product / math.sqrt(turned_q.shape[-1])
    given = [one.expand(len(x), attention.heads, -1, length) for one in biases if one is not None]
    bias = torch.cat(given, dim=2)[0] if given else None
    visible = torch.ones(length, length, dtype=torch.bool, device=x.device)
    visible = visible.tril() if mask.causal else visible
    visible = visible if mask.keys is None else visible & mask.keys
    masked = (scaled if bias is None else scaled + bias).masked_fill(~visible, float("-inf"))
    weights = masked.softmax(-1)
    contexts = weights @ v
    joined = contexts.transpose(1, 2).flatten(2)
    return {
        "x": x[0],
        "q": q[0],
        "k": k[0],
        "v": v[0],
        "rotated_q": turned_q[0] if rotates else None,
        "rotated_k": turned_k[0] if rotates else None,
        "products": product[0],
        "scaled": scaled[0],
        "bias": bias,
        "masked": masked[0],
        "weights": weights[0],
        "contexts": contexts[0],
        "joined": joined[0],
        "output_weight": attention.output.weight.T,
        "output": attention.output(joined)[0],
    }
