"""Files of published models that were read for the first time as they stand here, each with what it means.

The meanings, in the words of :mod:`published_variety`, were derived from the models' classes and papers and written
down before Locant read any of these files; docs/results/unseen.md says what came of the first reading, and which two
meanings became those of a refusal after it.
"""

from __future__ import annotations

from typing import Any

from published_variety import keys, lists, model

_LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_LLAMA3_8K = {**_LLAMA3, "original_max_position_embeddings": 8192}

CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    # Llama's class with the entries of many publishers
    "Yi-34B-200K": (
        model("llama", 7168, 56, num_key_value_heads=8, rope_theta=10000000.0, max_position_embeddings=200000)
        | {"rope_scaling": None},
        "128/128 half 1e+07",
    ),
    "SmolLM2-1.7B": (
        model("llama", 2048, 32, rope_theta=130000, rope_interleaved=False, max_position_embeddings=8192)
        | {"rope_scaling": None},
        "64/64 half 130000",
    ),
    "TinyLlama-1.1B": (model("llama", 2048, 32, num_key_value_heads=4, rope_scaling=None), "64/64 half 10000"),
    "Vicuna-13B-v1.5-16k": (
        model("llama", 5120, 40, max_position_embeddings=4096, max_sequence_length=16384)
        | {"rope_scaling": {"factor": 4.0, "type": "linear"}},
        "128/128 half 10000 linear x4",
    ),
    "Yarn-Llama-2-13B-128k": (
        model("llama", 5120, 40, max_position_embeddings=131072)
        | {
            "rope_scaling": {"factor": 32.0, "original_max_position_embeddings": 4096, "type": "yarn"}
            | {"finetuned": True}
        },
        "128/128 half 10000 yarn x32 of 4096",
    ),
    "Falcon3-10B": (
        model("llama", 3072, 12, head_dim=256, rope_theta=1000042, max_position_embeddings=32768),
        "256/256 half 1.00004e+06",
    ),
    "Llama-3.2-1B": (
        model("llama", 2048, 32, head_dim=64, rope_theta=500000.0, max_position_embeddings=131072)
        | {"rope_scaling": {**_LLAMA3_8K, "factor": 32.0}},
        "64/64 half 500000 llama3 x32 of 8192",
    ),
    "Llama-3-8B-Instruct-Gradient-1048k": (
        model("llama", 4096, 32, rope_theta=3580165449.0, max_position_embeddings=1048576),
        "128/128 half 3.58017e+09",
    ),
    "DeepSeek-Coder-33B": (
        model("llama", 7168, 56, rope_theta=100000, max_position_embeddings=16384)
        | {"rope_scaling": {"factor": 4.0, "type": "linear"}},
        "128/128 half 100000 linear x4",
    ),
    "Janus-Pro-7B": (
        {"model_type": "multi_modality", "vision_config": {"model_type": "vision", "cls": "CLIPVisionTower"}}
        | {"language_config": {"model_type": "llama", "max_position_embeddings": 16384, "num_hidden_layers": 30}},
        "128/128 half 10000",
    ),
    # Mistral
    "Mixtral-8x22B": (
        model("mixtral", 6144, 48, rope_theta=1000000.0, sliding_window=None, max_position_embeddings=65536),
        "128/128 half 1e+06",
    ),
    "Yarn-Mistral-7B-128k": (
        model("mistral", 4096, 32, rope_theta=10000.0, sliding_window=131072, max_position_embeddings=32768)
        | {
            "rope_scaling": {"factor": 16.0, "finetuned": True, "original_max_position_embeddings": 8192}
            | {"type": "yarn"}
        },
        "128/128 half 10000 yarn x16 of 8192",
    ),
    "Mistral-Nemo": (
        model("mistral", 5120, 32, head_dim=128, rope_theta=1000000.0, sliding_window=None),
        "128/128 half 1e+06",
    ),
    "Ministral-8B": (
        model("mistral", 4096, 32, head_dim=128, rope_theta=100000000.0, sliding_window=32768),
        "128/128 half 1e+08",
    ),
    "Mistral-Small-3.1-24B": (
        {"model_type": "mistral3", "vision_config": {"model_type": "pixtral", "rope_theta": 10000.0, "head_dim": 64}}
        | {"text_config": model("mistral", 5120, 32, head_dim=128, rope_theta=1000000000.0, sliding_window=None)},
        "128/128 half 1e+09",
    ),
    "Devstral-2-123B": (
        model("ministral3", 12288, 96, head_dim=128, max_position_embeddings=262144)
        | {
            "rope_parameters": {"beta_fast": 4.0, "beta_slow": 1.0, "factor": 64.0, "llama_4_scaling_beta": 0}
            | {"mscale": 1.0, "mscale_all_dim": 0.0, "original_max_position_embeddings": 4096, "rope_theta": 1000000.0}
            | {"rope_type": "yarn", "type": "yarn"}
        },
        "128/128 half 1e+06 yarn x64 of 4096",
    ),
    "Ministral-3-8B-2512": (
        {"model_type": "mistral3", "vision_config": {"model_type": "pixtral", "hidden_size": 1024}}
        | {
            "text_config": model("ministral3", 4096, 32, head_dim=128, max_position_embeddings=262144)
            | {
                "rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0, "llama_4_scaling_beta": 0.1}
                | {"mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 16384}
                | {"rope_theta": 1000000.0, "rope_type": "yarn", "type": "yarn"}
            }
        },
        "128/128 half 1e+06 yarn x16 of 16384",
    ),
    # Qwen
    "Qwen1.5-0.5B": (
        model("qwen2", 1024, 16, rope_theta=1000000.0, use_sliding_window=False, max_window_layers=21)
        | {"sliding_window": 32768},
        "64/64 half 1e+06",
    ),
    "Qwen2.5-7B-Instruct-1M": (
        model("qwen2", 3584, 28, rope_theta=10000000.0, max_position_embeddings=1010000)
        | {
            "dual_chunk_attention_config": {"chunk_size": 262144, "local_size": 8192}
            | {"original_max_position_embeddings": 262144}
        },
        "128/128 half 1e+07",
    ),
    "DeepSeek-R1-Distill-Qwen-7B": (
        model("qwen2", 3584, 28, rope_theta=10000, use_mrope=False, sliding_window=4096, use_sliding_window=False)
        | {"max_window_layers": 28, "max_position_embeddings": 131072},
        "128/128 half 10000",
    ),
    "Qwen3-30B-A3B-Thinking-2507": (
        model("qwen3_moe", 2048, 32, head_dim=128, rope_theta=10000000, max_position_embeddings=262144)
        | {"rope_scaling": None, "sliding_window": None, "use_sliding_window": False},
        "128/128 half 1e+07",
    ),
    "Qwen2-VL-7B": (
        model("qwen2_vl", 3584, 28, rope_theta=1000000.0, use_sliding_window=False, sliding_window=32768)
        | {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}},
        "128/128 half 1e+06",
    ),
    "Intern-S2-Preview with YaRN by its card": (
        {"model_type": "qwen3_5", "vision_config": {"model_type": "qwen3_5", "hidden_size": 1152}}
        | {
            "text_config": model("qwen3_5_text", 4096, 16, head_dim=256, num_hidden_layers=4)
            | {
                "rope_parameters": {"mrope_interleaved": True, "mrope_section": [11, 11, 10], "rope_type": "yarn"}
                | {"rope_theta": 10000000, "partial_rotary_factor": 0.25, "factor": 4.0}
                | {"original_max_position_embeddings": 262144}
            }
        },
        "64/256 half 1e+07 yarn x4 of 262144, no attention 0 1 2",
    ),
    # Gemma
    "Gemma-2-9B": (
        model("gemma2", 3584, 16, head_dim=256, rope_theta=10000.0, sliding_window=4096, num_hidden_layers=4),
        "256/256 half 10000",
    ),
    "Gemma-3-1B": (
        model("gemma3_text", 1152, 4, head_dim=256, rope_theta=1000000, rope_local_base_freq=10000)
        | {"sliding_window": 512, "sliding_window_pattern": 6, "num_hidden_layers": 7, "rope_scaling": None},
        "full_attention 256/256 half 1e+06; sliding_attention 256/256 half 10000",
    ),
    "Gemma-3n-E2B": (
        {"model_type": "gemma3n", "audio_config": {"model_type": "gemma3n_audio"}}
        | {
            "text_config": model("gemma3n_text", 2048, 8, head_dim=256, rope_theta=1000000.0, num_hidden_layers=5)
            | {"rope_local_base_freq": 10000.0, "layer_types": ["sliding_attention"] * 4 + ["full_attention"]}
        },
        "full_attention 256/256 half 1e+06; sliding_attention 256/256 half 10000",
    ),
    "PaliGemma2-3B": (
        {"model_type": "paligemma", "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1152}}
        | {"text_config": model("gemma2", 2304, 8, head_dim=256, sliding_window=4096)},
        "256/256 half 10000",
    ),
    "VaultGemma-1B": (
        model("vaultgemma", 1152, 4, head_dim=256, rope_theta=10000.0, num_hidden_layers=2, sliding_window=512)
        | {"layer_types": ["sliding_attention", "full_attention"]},
        "256/256 half 10000",
    ),
    # Phi
    "Phi-4": (
        model("phi3", 5120, 40, rope_theta=250000, original_max_position_embeddings=16384, rope_scaling=None)
        | {"max_position_embeddings": 16384},
        "128/128 half 250000",
    ),
    "Phi-4-mini": (
        model("phi3", 3072, 24, partial_rotary_factor=0.75, rope_theta=10000.0, max_position_embeddings=131072)
        | {"original_max_position_embeddings": 4096, "rope_scaling": {"type": "longrope", **lists(48)}},
        "96/128 half 10000 longrope x32 of 4096",
    ),
    "Phi-3-medium-128k": (
        model("phi3", 5120, 40, rope_theta=10000.0, max_position_embeddings=131072)
        | {"original_max_position_embeddings": 4096, "rope_scaling": {"type": "su", **lists(64)}},
        "128/128 half 10000 longrope x32 of 4096",
    ),
    # GPT-NeoX, GPT-J and their kin
    "Pythia-6.9B as transformers 4.45 writes it": (
        model("gpt_neox", 4096, 32, partial_rotary_factor=0.25, rope_scaling=None, rope_theta=10000)
        | {"rotary_emb_base": 10000, "rotary_pct": 0.25, "max_position_embeddings": 2048},
        "32/128 half 10000",
    ),
    "RedPajama-INCITE-7B": (
        model("gpt_neox", 4096, 32, rotary_emb_base=10000, rotary_pct=1.0, max_position_embeddings=2048),
        "128/128 half 10000",
    ),
    "GPT-NeoX-Japanese-2.7B": (
        model("gpt_neox_japanese", 2560, 32, rotary_emb_base=10000, rotary_pct=1.0),
        "80/80 half 10000",
    ),
    "GPT-J-6B": (
        {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28, "n_positions": 2048, "rotary": True}
        | {"rotary_dim": 64},
        "64/256 interleaved 10000",
    ),
    "CodeGen-16B": (
        {"model_type": "codegen", "n_embd": 6144, "n_head": 24, "n_layer": 34, "n_ctx": 2048, "rotary_dim": 64},
        "64/256 interleaved 10000",
    ),
    "StableLM-2-12B": (
        model("stablelm", 5120, 32, partial_rotary_factor=0.25, rope_theta=10000, max_position_embeddings=4096),
        "40/160 half 10000",
    ),
    "Persimmon-8B": (
        model("persimmon", 4096, 64, partial_rotary_factor=0.5, rope_theta=25000.0),
        "32/64 half 25000",
    ),
    # layers that differ
    "Command-R+": (
        model("cohere", 12288, 96, rope_theta=75000000.0, max_position_embeddings=131072, model_max_length=131072),
        "128/128 interleaved 7.5e+07",
    ),
    "Command-R7B": (
        model("cohere2", 4096, 32, head_dim=128, rope_theta=50000, rotary_pct=1.0, rope_scaling=None)
        | {"sliding_window": 4096, "sliding_window_pattern": 4, "num_hidden_layers": 8},
        "128/128 interleaved 50000, still 3 7",
    ),
    "Llama-4-Maverick": (
        {"model_type": "llama4", "vision_config": {"model_type": "llama4_vision_model", "rope_theta": 10000}}
        | {
            "text_config": model("llama4_text", 5120, 40, head_dim=128, rope_theta=500000.0, rope_scaling=None)
            | {"no_rope_layers": [], "num_hidden_layers": 8, "attention_chunk_size": 8192}
        },
        "128/128 interleaved 500000, still 3 7",
    ),
    "MobileLLM-R1-950M": (
        model("llama4_text", 1536, 24, head_dim=64, rope_theta=8000000.0, rope_scaling=None, num_hidden_layers=4)
        | {"no_rope_layers": [1, 1, 1, 1]},
        "64/64 interleaved 8e+06",
    ),
    "SmolLM3-3B": (
        model("smollm3", 2048, 16, rope_theta=5000000.0, num_hidden_layers=8, no_rope_layer_interval=4)
        | {"no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0], "sliding_window": None, "use_sliding_window": False},
        "128/128 half 5e+06, still 3 7",
    ),
    "EXAONE-4.0-32B": (
        model("exaone4", 5120, 40, head_dim=128, rope_theta=1000000, sliding_window=4096, num_hidden_layers=8)
        | {"sliding_window_pattern": "LLLG", "rope_scaling": {**_LLAMA3_8K, "factor": 16.0}},
        "128/128 half 1e+06 llama3 x16 of 8192, still 3 7",
    ),
    "EXAONE-4.0-1.2B": (
        model("exaone4", 2048, 32, head_dim=64, rope_theta=1000000, sliding_window=None, num_hidden_layers=4)
        | {"sliding_window_pattern": None, "rope_scaling": {**_LLAMA3_8K, "factor": 16.0}},
        "64/64 half 1e+06 llama3 x16 of 8192",
    ),
    "ModernBERT-base": (
        model("modernbert", 768, 12, global_rope_theta=160000.0, local_rope_theta=10000.0, num_hidden_layers=6)
        | {"global_attn_every_n_layers": 3, "local_attention": 128},
        "full_attention 64/64 half 160000; sliding_attention 64/64 half 10000",
    ),
    "LFM2-8B-A1B": (
        model("lfm2_moe", 2048, 32, rope_theta=1000000.0, num_hidden_layers=3)
        | {"layer_types": ["conv", "conv", "full_attention"]},
        "64/64 half 1e+06, no attention 0 1",
    ),
    # a part of the head, and parts of their own
    "GLM-4.5": (
        model("glm4_moe", 5120, 96, head_dim=128, partial_rotary_factor=0.5, rope_theta=1000000, rope_scaling=None),
        "64/128 half 1e+06",
    ),
    "GLM-4-9B-0414": (
        model("glm4", 4096, 32, head_dim=128, partial_rotary_factor=0.5, rope_theta=10000.0),
        "64/128 interleaved 10000",
    ),
    "Minitron-4B": (
        model("nemotron", 3072, 24, head_dim=128, partial_rotary_factor=0.5, rope_theta=10000),
        "64/128 half 10000",
    ),
    "Kimi-K2": (
        model("kimi_k2", 7168, 64, qk_rope_head_dim=64, qk_nope_head_dim=128, rope_theta=50000.0)
        | {"max_position_embeddings": 131072, "kv_lora_rank": 512, "num_hidden_layers": 61}
        | {
            "rope_scaling": {"beta_fast": 1.0, "beta_slow": 1.0, "factor": 32.0, "mscale": 1.0, "mscale_all_dim": 1.0}
            | {"original_max_position_embeddings": 4096, "type": "yarn"}
        },
        "64/64 interleaved 50000 yarn x32 of 4096",
    ),
    "MiniCPM3-4B": (
        model("minicpm3", 2560, 40, qk_rope_head_dim=32, qk_nope_head_dim=64, max_position_embeddings=32768)
        | {
            "rope_scaling": {"type": "longrope", "original_max_position_embeddings": 32768, **lists(16)},
        },
        "32/32 half 10000 longrope x1 of 32768",
    ),
    # newer families of transformers
    "Seed-OSS-36B": (
        model("seed_oss", 5120, 80, head_dim=128, rope_theta=10000000.0, max_position_embeddings=524288)
        | {"rope_scaling": {"rope_type": "default"}},
        "128/128 half 1e+07",
    ),
    "Apertus-8B": (
        model("apertus", 4096, 32, rope_theta=12000000, max_position_embeddings=65536)
        | {"rope_scaling": {**_LLAMA3_8K, "factor": 8.0, "type": "llama3"}},
        "128/128 half 1.2e+07 llama3 x8 of 8192",
    ),
    "AFM-4.5B": (
        model("arcee", 2560, 20, head_dim=128, rope_theta=10000.0, max_position_embeddings=65536)
        | {"rope_scaling": {"factor": 20.0, "mscale": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"}},
        "128/128 half 10000 yarn x20 of 4096",
    ),
    "Falcon-H1-34B": (
        model("falcon_h1", 5120, 20, head_dim=128, rope_theta=100000000000.0, mamba_n_heads=32),
        "128/128 half 1e+11",
    ),
    "Helium-1-2B": (
        model("helium", 2048, 16, head_dim=128, rope_theta=20000.0, max_position_embeddings=4096),
        "128/128 interleaved 20000",
    ),
    "BitNet-b1.58-2B-4T": (
        model("bitnet", 2560, 20, rope_theta=500000.0, max_position_embeddings=4096),
        "128/128 half 500000",
    ),
    "dots.llm1": (
        model("dots1", 4096, 32, head_dim=128, rope_theta=10000000, sliding_window=None, rope_scaling=None),
        "128/128 half 1e+07",
    ),
    "ERNIE-4.5-21B-A3B": (
        model("ernie4_5_moe", 2560, 20, head_dim=128, rope_theta=500000.0, max_position_embeddings=131072),
        "128/128 interleaved 500000",
    ),
    "InternLM3-8B": (
        model("internlm3", 4096, 32, head_dim=128, rope_theta=50000000, max_position_embeddings=32768)
        | {"rope_scaling": {"factor": 6.0, "rope_type": "dynamic"}},
        "128/128 half 5e+07 dynamic x6",
    ),
    "InternVL3-8B": (
        {"model_type": "internvl_chat", "vision_config": {"model_type": "intern_vit_6b", "hidden_size": 1024}}
        | {
            "llm_config": model("qwen2", 3584, 28, rope_theta=1000000.0, max_position_embeddings=32768)
            | {"rope_scaling": {"factor": 2.0, "rope_type": "dynamic", "type": "dynamic"}}
        },
        "128/128 half 1e+06 dynamic x2",
    ),
    "Orion-14B": (
        model("orion", 5120, 40, rope_theta=10000.0, max_position_embeddings=4096, rope_scaling=None),
        "128/128 half 10000",
    ),
    # without rotary positions
    "Baichuan-13B": (
        model("baichuan", 5120, 40, model_max_length=4096, num_hidden_layers=40, gradient_checkpointing=False),
        "refused ALiBi",
    ),
    "Falcon-Mamba-7B": ({"model_type": "falcon_mamba", "hidden_size": 4096, "expand": 2}, "refused no rotary"),
    "Jamba-1.5-Mini": (model("jamba", 4096, 32, attn_layer_period=8, attn_layer_offset=4), "refused no rotary"),
    "Nemotron-H-8B": (model("nemotron_h", 4096, 32, hybrid_override_pattern="M-M*-M"), "refused no rotary"),
    "StarCoder": (
        {"model_type": "gpt_bigcode", "n_embd": 6144, "n_head": 48, "n_positions": 8192},
        "refused no rotary",
    ),
    "OPT-6.7B": (model("opt", 4096, 32, max_position_embeddings=2048), "refused no rotary"),
    "BLOOM-7B1": ({"model_type": "bloom", "n_embed": 4096, "num_attention_heads": 32, "n_layer": 30}, "refused ALiBi"),
}
"""By model: the entries, and what they mean."""

GGUF: dict[str, tuple[dict[str, Any], str]] = {
    "Pythia-2.8B": (
        keys("gptneox", context_length=2048, embedding_length=2560, block_count=32, rope__dimension_count=20)
        | {"gptneox.attention.head_count": 32, "gptneox.use_parallel_residual": True},
        "20/80 half 10000",
    ),
    "Qwen3-30B-A3B with YaRN": (
        keys("qwen3moe", attention__head_count=32, attention__key_length=128, rope__freq_base=1e6, block_count=48)
        | {"qwen3moe.rope.scaling.type": "yarn", "qwen3moe.rope.scaling.factor": 4.0}
        | {"qwen3moe.rope.scaling.original_context_length": 32768},
        "128/128 half 1e+06 yarn x4 of 32768",
    ),
    "DeepSeek-V3": (
        keys("deepseek2", block_count=61, attention__head_count=128, attention__key_length=192)
        | {"deepseek2.rope.dimension_count": 64, "deepseek2.rope.freq_base": 10000.0}
        | {"deepseek2.rope.scaling.type": "yarn", "deepseek2.rope.scaling.factor": 40.0}
        | {"deepseek2.rope.scaling.original_context_length": 4096, "deepseek2.rope.scaling.yarn_log_multiplier": 0.1},
        "64/64 interleaved 10000 yarn x40 of 4096",
    ),
    "Devstral-2-123B": (
        keys("llama", embedding_length=12288, attention__head_count=96, attention__key_length=128, block_count=88)
        | {"llama.rope.freq_base": 1000000.0, "llama.rope.dimension_count": 128, "llama.rope.scaling.type": "yarn"}
        | {"llama.rope.scaling.factor": 64.0, "llama.rope.scaling.yarn_beta_fast": 4.0}
        | {"llama.rope.scaling.yarn_beta_slow": 1.0, "llama.rope.scaling.yarn_log_multiplier": 1.0}
        | {"llama.rope.scaling.original_context_length": 4096},
        "128/128 interleaved 1e+06 yarn x64 of 4096",
    ),
    "Command-R": (
        keys("command-r", embedding_length=8192, attention__head_count=64, rope__freq_base=8e6, block_count=40)
        | {"command-r.rope.scaling.type": "none"},
        "128/128 interleaved 8e+06",
    ),
    "Falcon-7B": (
        keys("falcon", embedding_length=4544, attention__head_count=71, attention__head_count_kv=1, block_count=32),
        "64/64 half 10000",
    ),
    "StarCoder2-3B": (
        keys("starcoder2", embedding_length=3072, attention__head_count=24, rope__freq_base=999999.4375),
        "128/128 half 999999",
    ),
    "GLM-4-9B-0414": (
        keys("glm4", embedding_length=4096, attention__head_count=32, rope__dimension_count=64, block_count=40),
        "64/128 interleaved 10000",
    ),
    "OLMo-2-7B": (
        keys("olmo2", embedding_length=4096, attention__head_count=32, rope__freq_base=500000.0, block_count=32),
        "128/128 half 500000",
    ),
    "Command-R7B": (
        keys("cohere2", block_count=8, attention__key_length=128, rope__freq_base=50000.0)
        | {"cohere2.attention.sliding_window": 4096, "cohere2.rope.dimension_count": 128},
        "128/128 interleaved 50000, still 3 7",
    ),
    "SmolLM3-3B": (
        keys("smollm3", block_count=8, attention__key_length=128, rope__freq_base=5e6),
        "128/128 interleaved 5e+06, still 3 7",
    ),
    "InternLM2-7B": (
        keys("internlm2", embedding_length=4096, attention__head_count=32, rope__freq_base=1e6, block_count=32),
        "128/128 interleaved 1e+06",
    ),
    "Granite-3.1-8B": (
        keys("granite", embedding_length=4096, attention__head_count=32, rope__freq_base=1e7, block_count=40)
        | {"granite.rope.dimension_count": 128, "granite.attention.scale": 0.0078125},
        "128/128 interleaved 1e+07",
    ),
    "Qwen2-VL-7B": (
        keys("qwen2vl", embedding_length=3584, attention__head_count=28, rope__freq_base=1e6, block_count=28)
        | {"qwen2vl.rope.dimension_sections": [16, 24, 24, 0]},
        "128/128 half 1e+06",
    ),
    "BLOOM-7B1": (keys("bloom", embedding_length=4096, attention__head_count=32, block_count=30), "refused no rotary"),
    "Mamba-2.8B": (keys("mamba", embedding_length=2560, block_count=64), "refused no rotary"),
}
"""By model: metadata, and what they mean."""
