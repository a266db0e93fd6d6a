"""A Llama forward pass written for these tests: Hugging Face's weights, Locant's rotary positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from locant.positions import Mask, Rotary, attend_with_positions

Cache = list[tuple[Tensor, Tensor]]


def small_llama(rope_parameters: dict[str, Any], *, max_length: int, seed: int = 0) -> Any:
    """Return a random ``LlamaForCausalLM`` of two layers with grouped queries, and heads of 16 features."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=50, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=max_length, initializer_range=0.2,
        rope_parameters={"rope_theta": 10000.0, **rope_parameters},
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


@torch.no_grad()
def logits(model: Any, rope: Rotary, ids: Tensor, cache: Cache | None = None) -> Tensor:
    """Return the logits ``[B, L, V]`` of ``ids [B, L]``, which follow those in the cache."""
    weights = model.state_dict()
    heads, key_heads = model.config.num_attention_heads, model.config.num_key_value_heads
    cache = [] if cache is None else cache
    start = cache[0][0].shape[2] if cache else 0
    positions, every = torch.arange(start, start + ids.shape[1]), torch.arange(start + ids.shape[1])

    def normed(x: Tensor, name: str) -> Tensor:
        return nn.functional.rms_norm(x, x.shape[-1:], weights[name], model.config.rms_norm_eps)

    def split(x: Tensor, name: str, count: int) -> Tensor:
        return nn.functional.linear(x, weights[name]).unflatten(-1, (count, -1)).transpose(1, 2)

    x = weights["model.embed_tokens.weight"][ids]
    for layer in range(model.config.num_hidden_layers):
        at = f"model.layers.{layer}."
        y = normed(x, at + "input_layernorm.weight")
        q = split(y, at + "self_attn.q_proj.weight", heads)
        k, v = (split(y, f"{at}self_attn.{name}_proj.weight", key_heads) for name in "kv")
        if start:
            k, v = torch.cat((cache[layer][0], k), dim=2), torch.cat((cache[layer][1], v), dim=2)
            cache[layer] = (k, v)
        else:
            cache.append((k, v))
        k, v = (part.repeat_interleave(heads // key_heads, dim=1) for part in (k, v))
        context = attend_with_positions(q, k, v, rope, positions, every, Mask(causal=True))
        x = x + nn.functional.linear(context.transpose(1, 2).flatten(2), weights[at + "self_attn.o_proj.weight"])
        y = normed(x, at + "post_attention_layernorm.weight")
        gate, up = (nn.functional.linear(y, weights[f"{at}mlp.{name}_proj.weight"]) for name in ("gate", "up"))
        x = x + nn.functional.linear(nn.functional.silu(gate) * up, weights[at + "mlp.down_proj.weight"])
    return nn.functional.linear(normed(x, "model.norm.weight"), weights["lm_head.weight"])


def one_by_one(model: Any, rope: Rotary, ids: Tensor, prompt: int) -> Tensor:
    """Return the logits of a prompt in one pass and of the other tokens one after the other, with a cache."""
    cache: Cache = []
    parts = [logits(model, rope, ids[:, :prompt], cache)]
    parts += [logits(model, rope, ids[:, i : i + 1], cache) for i in range(prompt, ids.shape[1])]
    return torch.cat(parts, dim=1)
