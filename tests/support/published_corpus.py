"""More published models: what their config.json says about rotary positions, and what it means.

``CORPUS`` holds the entries as their publishers released them, without what is not about positions; ``MEANT`` what each
means, by layer type, from the models' publications and code. LongRoPE's lists are made-up ones of the right number.
"""

from __future__ import annotations

from typing import Any

from published_models import GEMMA_3, GPT_J, MODELS, PHI3_LONG, PHI3_SHORT

from locant.positions import RotaryConfig
from locant.positions.rotary.config import RotaryLayout
from locant.positions.scaling import DynamicNTK, FrequencyScaling, Linear, Llama3, LongRoPE, Unscaled, YaRN


def _entries(model_type: str, width: int, heads: int, length: int | None, **more: Any) -> dict[str, Any]:
    sizes = {"model_type": model_type, "hidden_size": width, "num_attention_heads": heads}
    return sizes | ({} if length is None else {"max_position_embeddings": length}) | more


def _meant(
    head: int,
    length: int | None,
    base: float = 1e4,
    scaling: FrequencyScaling | None = None,
    rotated: int | None = None,
    layout: RotaryLayout = "half",
) -> dict[str, RotaryConfig]:
    config = RotaryConfig(
        head_dim=head,
        base=base,
        rotary_dim=rotated,
        layout=layout,
        scaling=scaling or Unscaled(),
        max_length=length,
    )
    return {"all": config}


def _two(head: int, length: int | None, full: RotaryConfig | float, local: float = 1e4) -> dict[str, RotaryConfig]:
    full = full if isinstance(full, RotaryConfig) else RotaryConfig(head_dim=head, base=full, max_length=length)
    return {"full_attention": full, "sliding_attention": RotaryConfig(head_dim=head, base=local, max_length=length)}


_LLAMA_32 = {
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
    "rope_type": "llama3",
}
_KIMI = {
    "beta_fast": 1.0,
    "beta_slow": 1.0,
    "factor": 32.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096,
    "type": "yarn",
}
_YARN_MISTRAL = {"factor": 16.0, "finetuned": True, "original_max_position_embeddings": 8192, "type": "yarn"}
_PHI_4_MINI = {"long_factor": PHI3_LONG, "short_factor": PHI3_SHORT, "type": "longrope"}
_GEMMA_27B = {
    "model_type": "gemma3_text",
    "head_dim": 128,
    "hidden_size": 5376,
    "num_attention_heads": 32,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "sliding_window": 1024,
}
_DUAL_CHUNKS = {"chunk_size": 262144, "local_size": 8192, "original_max_position_embeddings": 262144}
_NO_ROPE = [1, 1, 1, 0] * 9

CORPUS: dict[str, dict[str, Any]] = {
    **MODELS,
    "Gemma 3 4B": GEMMA_3,
    "GPT-J 6B": GPT_J,
    "Llama 3 8B": _entries("llama", 4096, 32, 8192, rope_theta=500000.0, rope_scaling=None),
    "Llama 3.2 1B": _entries("llama", 2048, 32, 131072, head_dim=64, rope_theta=500000.0, rope_scaling=_LLAMA_32),
    "Llama 3.2 3B": _entries("llama", 3072, 24, 131072, head_dim=128, rope_theta=500000.0, rope_scaling=_LLAMA_32),
    "TinyLlama 1.1B": _entries("llama", 2048, 32, 2048, rope_scaling=None),
    "Yi 6B": _entries("llama", 4096, 32, 4096, rope_theta=5000000.0, rope_scaling=None),
    "DeepSeek Coder 6.7B": _entries(
        "llama", 4096, 32, 16384, rope_theta=100000, rope_scaling={"factor": 4.0, "type": "linear"}
    ),
    "Vicuna 7B v1.5 16k": _entries("llama", 4096, 32, 4096, rope_scaling={"factor": 4.0, "type": "linear"}),
    "SmolLM2 135M": _entries("llama", 576, 9, 8192, rope_interleaved=False, rope_scaling=None, rope_theta=100000),
    "SmolLM3 3B": _entries(
        "smollm3", 2048, 16, 65536, no_rope_layer_interval=4, no_rope_layers=_NO_ROPE, rope_theta=5000000.0
    ),
    "Mixtral 8x7B": _entries("mixtral", 4096, 32, 32768, rope_theta=1000000.0, sliding_window=None),
    "Mistral Small 24B": _entries("mistral", 5120, 32, 32768, head_dim=128, rope_theta=100000000.0),
    "Yarn-Mistral 7B 128k": _entries("mistral", 4096, 32, 32768, rope_theta=10000.0, rope_scaling=_YARN_MISTRAL),
    "Qwen2 7B": _entries("qwen2", 3584, 28, 131072, num_key_value_heads=4, rope_theta=1000000.0, sliding_window=131072),
    "Qwen2.5 0.5B": _entries("qwen2", 896, 14, 32768, num_key_value_heads=2, rope_theta=1000000.0),
    "Qwen2.5 7B 1M": _entries(
        "qwen2",
        3584,
        28,
        1010000,
        num_key_value_heads=4,
        rope_theta=10000000.0,
        rope_scaling=None,
        dual_chunk_attention_config=_DUAL_CHUNKS,
    ),
    "Qwen2-VL 7B": _entries(
        "qwen2_vl",
        3584,
        28,
        32768,
        num_key_value_heads=4,
        rope_theta=1000000.0,
        rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]},
    ),
    "Qwen3 30B A3B": _entries("qwen3_moe", 2048, 32, 40960, head_dim=128, rope_theta=1000000.0),
    "Qwen3 4B 2507": _entries("qwen3", 2560, 32, 262144, head_dim=128, rope_theta=5000000),
    "Phi-2": _entries("phi", 2560, 32, 2048, partial_rotary_factor=0.4, rope_theta=10000.0),
    "Phi-3 mini 4k": _entries("phi3", 3072, 32, 4096, original_max_position_embeddings=4096, rope_theta=10000.0),
    "Phi-4": _entries("phi3", 5120, 40, 16384, original_max_position_embeddings=16384, rope_theta=250000),
    "Phi-4 mini": _entries(
        "phi3",
        3072,
        24,
        131072,
        original_max_position_embeddings=4096,
        partial_rotary_factor=0.75,
        rope_theta=10000.0,
        rope_scaling=_PHI_4_MINI,
    ),
    "Gemma 7B": _entries("gemma", 3072, 16, 8192, head_dim=256, rope_theta=10000.0),
    "Gemma 2 9B": _entries("gemma2", 3584, 16, 8192, head_dim=256, rope_theta=10000.0, sliding_window=4096),
    "Gemma 3 1B": _entries(
        "gemma3_text", 1152, 4, 32768, head_dim=256, rope_local_base_freq=10000, rope_theta=1000000, sliding_window=512
    ),
    "Gemma 3 27B": {"model_type": "gemma3", "text_config": _GEMMA_27B},
    "Pythia 410M": _entries("gpt_neox", 1024, 16, 2048, rotary_emb_base=10000, rotary_pct=0.25),
    "CodeGen 350M": {"model_type": "codegen", "n_embd": 1024, "n_head": 16, "n_positions": 2048, "rotary_dim": 32},
    "Falcon 7B": _entries("falcon", 4544, 71, None, alibi=False),
    "StableLM 3B": _entries("stablelm", 2560, 32, 4096, partial_rotary_factor=0.25, rope_theta=10000),
    "StableLM 2 1.6B": _entries("stablelm", 2048, 32, 4096, partial_rotary_factor=0.25, rope_theta=10000),
    "Persimmon 8B": _entries("persimmon", 4096, 64, 16384, rope_theta=25000.0, rope_scaling=None),
    "InternLM3 8B": _entries(
        "internlm3",
        4096,
        32,
        32768,
        head_dim=128,
        rope_theta=50000000,
        rope_scaling={"factor": 6.0, "rope_type": "dynamic"},
    ),
    "OLMo 7B": _entries("olmo", 4096, 32, 2048, rope_theta=10000.0),
    "OLMo 2 7B": _entries("olmo2", 4096, 32, 4096, rope_theta=500000, rope_scaling=None),
    "Command R": _entries("cohere", 8192, 64, 8192, rope_theta=8000000.0),
    "GLM-4 9B chat": _entries("glm", 4096, 32, 131072, head_dim=128, partial_rotary_factor=0.5, rope_theta=5000000.0),
    "Granite 3.1 8B": _entries("granite", 4096, 32, 131072, rope_theta=10000000.0, rope_scaling=None),
    "StarCoder2 3B": _entries("starcoder2", 3072, 24, 16384, rope_theta=999999.4420358813, sliding_window=4096),
    "Seed-OSS 36B": _entries(
        "seed_oss", 5120, 80, 524288, head_dim=128, rope_theta=10000000.0, rope_scaling={"rope_type": "default"}
    ),
    "ModernBERT base": _entries("modernbert", 768, 12, 8192, global_rope_theta=160000.0, local_rope_theta=10000.0),
    "Kimi K2": _entries(
        "kimi_k2",
        7168,
        64,
        131072,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        rope_theta=50000.0,
        rope_scaling=_KIMI,
        auto_map={"AutoConfig": "configuration_deepseek.DeepseekV3Config"},
    ),
}

_DEEPSEEK_V2 = YaRN(factor=40, original_length=4096, mscale=0.707, mscale_all_dim=0.707)
_DEEPSEEK_V3 = YaRN(factor=40, original_length=4096, mscale=1.0, mscale_all_dim=1.0)
_KIMI_K2 = YaRN(factor=32.0, original_length=4096, beta_fast=1.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0)
_PHI = LongRoPE(short_factors=PHI3_SHORT, long_factors=PHI3_LONG, original_length=4096, target_length=131072)
_LLAMA_1B = Llama3(factor=32.0, original_length=8192)

MEANT: dict[str, dict[str, RotaryConfig]] = {
    "Llama 2 7B": _meant(128, 4096),
    "Llama 3.1 8B": _meant(128, 131072, 5e5, Llama3(factor=8.0, original_length=8192)),
    "Code Llama 7B": _meant(128, 16384, 1e6),
    "LLaMA-2-7B-32K": _meant(128, 32768, scaling=Linear(factor=8.0)),
    "Mistral 7B": _meant(128, 32768),
    "Qwen2.5 7B with YaRN": _meant(128, 32768, 1e6, YaRN(factor=4.0, original_length=32768)),
    "Qwen3 8B": _meant(128, 40960, 1e6),
    "Phi-3 mini 128k": _meant(96, 131072, scaling=_PHI),
    "DeepSeek-V2-Lite": _meant(64, 163840, scaling=_DEEPSEEK_V2, layout="interleaved"),
    "DeepSeek-V3": _meant(64, 163840, scaling=_DEEPSEEK_V3, layout="interleaved"),
    "GPT-NeoX 20B": _meant(96, 2048, rotated=24),
    "gpt-oss 20B": _meant(64, 131072, 1.5e5, YaRN(factor=32.0, original_length=4096, truncate=False)),
    "Gemma 3 4B": _two(256, None, RotaryConfig(head_dim=256, base=1e6, scaling=Linear(factor=8.0))),
    "GPT-J 6B": _meant(256, 2048, rotated=64, layout="interleaved"),
    "Llama 3 8B": _meant(128, 8192, 5e5),
    "Llama 3.2 1B": _meant(64, 131072, 5e5, _LLAMA_1B),
    "Llama 3.2 3B": _meant(128, 131072, 5e5, _LLAMA_1B),
    "TinyLlama 1.1B": _meant(64, 2048),
    "Yi 6B": _meant(128, 4096, 5e6),
    "DeepSeek Coder 6.7B": _meant(128, 16384, 1e5, Linear(factor=4.0)),
    "Vicuna 7B v1.5 16k": _meant(128, 4096, scaling=Linear(factor=4.0)),
    "SmolLM2 135M": _meant(64, 8192, 1e5),
    "SmolLM3 3B": _meant(128, 65536, 5e6),
    "Mixtral 8x7B": _meant(128, 32768, 1e6),
    "Mistral Small 24B": _meant(128, 32768, 1e8),
    "Yarn-Mistral 7B 128k": _meant(128, 32768, scaling=YaRN(factor=16.0, original_length=8192)),
    "Qwen2 7B": _meant(128, 131072, 1e6),
    "Qwen2.5 0.5B": _meant(64, 32768, 1e6),
    "Qwen2.5 7B 1M": _meant(128, 1010000, 1e7),
    "Qwen2-VL 7B": _meant(128, 32768, 1e6),
    "Qwen3 30B A3B": _meant(128, 40960, 1e6),
    "Qwen3 4B 2507": _meant(128, 262144, 5e6),
    "Phi-2": _meant(80, 2048, rotated=32),
    "Phi-3 mini 4k": _meant(96, 4096),
    "Phi-4": _meant(128, 16384, 2.5e5),
    "Phi-4 mini": _meant(128, 131072, scaling=_PHI, rotated=96),
    "Gemma 7B": _meant(256, 8192),
    "Gemma 2 9B": _meant(256, 8192),
    "Gemma 3 1B": _two(256, 32768, 1e6),
    "Gemma 3 27B": _two(128, None, RotaryConfig(head_dim=128, base=1e6, scaling=Linear(factor=8.0))),
    "Pythia 410M": _meant(64, 2048, rotated=16),
    "CodeGen 350M": _meant(64, 2048, rotated=32, layout="interleaved"),
    "Falcon 7B": _meant(64, None),
    "StableLM 3B": _meant(80, 4096, rotated=20),
    "StableLM 2 1.6B": _meant(64, 4096, rotated=16),
    "Persimmon 8B": _meant(64, 16384, 25000.0, rotated=32),
    "InternLM3 8B": _meant(128, 32768, 5e7, DynamicNTK(factor=6.0, original_length=32768, length_step=1)),
    "OLMo 7B": _meant(128, 2048),
    "OLMo 2 7B": _meant(128, 4096, 5e5),
    "Command R": _meant(128, 8192, 8e6, layout="interleaved"),
    "GLM-4 9B chat": _meant(128, 131072, 5e6, rotated=64, layout="interleaved"),
    "Granite 3.1 8B": _meant(128, 131072, 1e7),
    "StarCoder2 3B": _meant(128, 16384, 999999.4420358813),
    "Seed-OSS 36B": _meant(128, 524288, 1e7),
    "ModernBERT base": _two(64, 8192, 1.6e5),
    "Kimi K2": _meant(64, 131072, 5e4, _KIMI_K2, layout="interleaved"),
}
