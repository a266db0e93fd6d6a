"""Entries about rotary positions in the config.json of published models, as their publishers released them.

LongRoPE's lists of factors are shortened to made-up ones of the right number: Phi-3's are 48 numbers each.
"""

from __future__ import annotations

from typing import Any

PHI3_SHORT = [1.0 + index / 100 for index in range(48)]
PHI3_LONG = [1.0 + index * 1.3 for index in range(48)]

_WIDE = {"hidden_size": 4096, "num_attention_heads": 32}

MODELS: dict[str, dict[str, Any]] = {
    "Llama 2 7B": {"model_type": "llama", **_WIDE, "max_position_embeddings": 4096, "rope_scaling": None},
    "Llama 3.1 8B": {
        "model_type": "llama",
        **_WIDE,
        "max_position_embeddings": 131072,
        "rope_theta": 500000.0,
        "rope_scaling": {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
    },
    "Code Llama 7B": {"model_type": "llama", **_WIDE, "max_position_embeddings": 16384, "rope_theta": 1000000},
    "LLaMA-2-7B-32K": {
        "model_type": "llama",
        **_WIDE,
        "max_position_embeddings": 32768,
        "rope_scaling": {"factor": 8.0, "type": "linear"},
    },
    "Mistral 7B": {
        "model_type": "mistral",
        **_WIDE,
        "max_position_embeddings": 32768,
        "rope_theta": 10000.0,
        "sliding_window": 4096,
    },
    "Qwen2.5 7B with YaRN": {
        "model_type": "qwen2",
        "hidden_size": 3584,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "max_position_embeddings": 32768,
        "rope_theta": 1000000.0,
        "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"},
    },
    "Qwen3 8B": {
        "model_type": "qwen3",
        **_WIDE,
        "head_dim": 128,
        "max_position_embeddings": 40960,
        "rope_scaling": None,
        "rope_theta": 1000000,
    },
    "Phi-3 mini 128k": {
        "model_type": "phi3",
        "hidden_size": 3072,
        "num_attention_heads": 32,
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        "rope_scaling": {"long_factor": PHI3_LONG, "short_factor": PHI3_SHORT, "type": "longrope"},
    },
    "DeepSeek-V2-Lite": {
        "model_type": "deepseek_v2",
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "num_experts_per_tok": 6,
        "max_position_embeddings": 163840,
        "rope_theta": 10000,
        "rope_scaling": {
            "beta_fast": 32,
            "beta_slow": 1,
            "factor": 40,
            "mscale": 0.707,
            "mscale_all_dim": 0.707,
            "original_max_position_embeddings": 4096,
            "type": "yarn",
        },
    },
    "DeepSeek-V3": {
        "model_type": "deepseek_v3",
        "hidden_size": 7168,
        "num_attention_heads": 128,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "max_position_embeddings": 163840,
        "rope_theta": 10000,
        "rope_scaling": {
            "beta_fast": 32,
            "beta_slow": 1,
            "factor": 40,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 4096,
            "type": "yarn",
        },
    },
    "GPT-NeoX 20B": {
        "model_type": "gpt_neox",
        "hidden_size": 6144,
        "num_attention_heads": 64,
        "max_position_embeddings": 2048,
        "rotary_emb_base": 10000,
        "rotary_pct": 0.25,
    },
    "gpt-oss 20B": {
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "num_attention_heads": 64,
        "head_dim": 64,
        "max_position_embeddings": 131072,
        "rope_theta": 150000,
        "rope_scaling": {
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "factor": 32.0,
            "original_max_position_embeddings": 4096,
            "rope_type": "yarn",
            "truncate": False,
        },
    },
}

GEMMA_3 = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
}

GPT_J = {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_positions": 2048, "rotary": True, "rotary_dim": 64}
