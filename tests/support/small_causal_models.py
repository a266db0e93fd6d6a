"""Random causal language models of transformers, small, whose attention is far from even."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 0,
    "eos_token_id": None,
    "pad_token_id": 1,
}

LATENT = {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 16,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
WINDOWS = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {"head_dim": 16},
    "mistral": {"sliding_window": 6},
    "gemma2": {"head_dim": 16, **WINDOWS},
    "gemma3_text": {
        "head_dim": 16,
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        },
        **WINDOWS,
    },
    "cohere": {},
    "cohere2": WINDOWS,
    "glm": {"head_dim": 16},
    "phi": {"partial_rotary_factor": 0.5},
    "phi3": {},
    "gpt_neox": {},
    "stablelm": {},
    "nemotron": {},
    "olmo2": {},
    "helium": {"head_dim": 16},
    "granite": {"attention_multiplier": 0.4},
    "smollm3": {},
    "falcon": {"num_kv_heads": 2, "new_decoder_architecture": True},
    "minicpm3": LATENT,
    "deepseek_v2": LATENT,
    "deepseek_v3": LATENT,
    "llama4_text": {
        "head_dim": 16,
        "num_local_experts": 2,
        "intermediate_size_mlp": 64,
        "attention_chunk_size": 8,
        "no_rope_layers": [1, 0],
        "interleave_moe_layer_step": 2,
    },
    "gpt_oss": {"head_dim": 16, "num_local_experts": 2, "num_experts_per_tok": 1, **WINDOWS},
}
"""Entries of configurations by model type."""

LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0, 1.0, 1.05, 1.1, 1.2, 1.3, 1.4, 1.5],
    "long_factor": [1.0, 1.1, 1.3, 1.7, 2.0, 2.5, 3.0, 4.0],
    "original_max_position_embeddings": 16,
    "factor": 4.0,
}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
SHORT: dict[str, Any] = {"rope_parameters": DYNAMIC, "max_position_embeddings": 16}
"""Entries of a model whose frequencies follow the length of texts beyond 16 tokens."""


def causal_model(model_type: str, *, dtype: torch.dtype = torch.float32, **entries: Any) -> Any:
    """Return a random model for evaluation.

    Args:
        model_type: A key of :data:`FAMILIES`.
        dtype: Of its weights.
        entries: Entries of its configuration that differ.
    """
    import transformers

    config = transformers.CONFIG_MAPPING[model_type](**SIZES | FAMILIES[model_type] | entries)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() >= 2:
                parameter.normal_(std=0.2)
    return model


def some_tokens(length: int, rows: int = 1, seed: int = 1) -> Tensor:
    """Return random tokens ``[rows, length]``."""
    return torch.randint(2, 50, (rows, length), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def logits(model: Any, tokens: Tensor, **options: Any) -> Tensor:
    """Return the logits of one pass without a cache."""
    return model(tokens, use_cache=False, **options).logits


@torch.no_grad()
def logits_by_steps(model: Any, tokens: Tensor, prompt: int, **options: Any) -> Tensor:
    """Return the logits of a prompt and of every later token, read with a cache one after the other."""
    found = model(tokens[:, :prompt], use_cache=True, **options)
    parts, cache = [found.logits], found.past_key_values
    for index in range(prompt, tokens.shape[1]):
        found = model(tokens[:, index : index + 1], use_cache=True, past_key_values=cache)
        parts.append(found.logits)
    return torch.cat(parts, dim=1)
