"""Further kinds of published config.json and GGUF metadata, each with what it means in one line.

The entries are those about positions, as their publishers wrote them; lists by layer are shortened. A meaning reads
``rotated/head layout base scaling``, by layer type where there are several, then the layers that attend without
positions and those without attention; ``?`` before it stands for the warning that the model type is not known, and
``refused`` for a sentence that must be said.
"""

from __future__ import annotations

from typing import Any


def model(name: str, width: int | None, heads: int | None, **more: Any) -> dict[str, Any]:
    """Return the entries of a config.json with the width of the model and its number of heads, where there are any."""
    sizes = {"hidden_size": width, "num_attention_heads": heads}
    return {"model_type": name, **{key: value for key, value in sizes.items() if value is not None}, **more}


def lists(pairs: int) -> dict[str, Any]:
    """Return the two lists of LongRoPE for so many pairs."""
    return {"short_factor": [1.0] * pairs, "long_factor": [1.0 + pair for pair in range(pairs)]}


_DYNAMIC = {"type": "dynamic", "factor": 2.0}
_LLAMA3 = {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192}
_YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
_DEEPSEEK = {
    **{"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1},
    **{"mscale": 0.707, "mscale_all_dim": 0.707},
}

CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    # names of other codebases
    "Falcon-7B, before it was in transformers": (
        model("RefinedWebModel", 4544, None, n_head=71, n_layer=32, alibi=False, multi_query=True),
        "64/64 half 10000",
    ),
    "Falcon-RW-1B": (model("RefinedWeb", 2048, None, n_head=32, alibi=True), "refused ALiBi"),
    "Phi-1.5 as first published": (
        {"model_type": "mixformer-sequential", "n_embd": 2048, "n_head": 32, "rotary_dim": 32, "n_positions": 2048},
        "32/64 half 10000",
    ),
    "Phi-2 as first published": (
        {"model_type": "phi-msft", "n_embd": 2560, "n_head": 32, "n_layer": 32, "rotary_dim": 32, "n_positions": 2048},
        "32/80 half 10000",
    ),
    "OLMo-7B as first published": (
        {"model_type": "hf_olmo", "d_model": 4096, "n_heads": 32, "n_layers": 32, "rope": True, "alibi": False}
        | {"max_sequence_length": 2048, "rope_full_precision": True},
        "128/128 half 10000",
    ),
    "OLMo with ALiBi": (
        {"model_type": "hf_olmo", "d_model": 64, "n_heads": 2, "rope": False, "alibi": True},
        "refused",
    ),
    "LLaDA-8B": (
        {"model_type": "llada", "d_model": 4096, "n_heads": 32, "n_layers": 32, "rope": True, "rope_theta": 500000.0}
        | {"rope_full_precision": True, "alibi": False, "max_sequence_length": 4096},
        "128/128 half 500000",
    ),
    "LLaDA 1.5 without rotation": ({"model_type": "llada", "d_model": 64, "n_heads": 2, "rope": False}, "refused"),
    "MPT with rotary positions": (
        {"model_type": "mpt", "d_model": 4096, "n_heads": 32, "attn_config": {"alibi": False, "rope": True}},
        "refused attn_config",
    ),
    "MPT-7B": ({"model_type": "mpt", "d_model": 4096, "n_heads": 32, "attn_config": {"alibi": True}}, "refused ALiBi"),
    "Jais-13B": (
        {"model_type": "jais", "n_embd": 5120, "n_head": 40, "position_embedding_type": "alibi", "n_positions": 2048},
        "refused alibi",
    ),
    "BTLM-3B": (
        {"model_type": "btlm", "n_embd": 2560, "n_head": 32, "position_embedding_type": "alibi", "n_positions": 8192},
        "refused alibi",
    ),
    "a GPT of its own code with learned positions": (
        {"model_type": "gpt_of_mine", "n_embd": 64, "n_head": 2, "position_embedding_type": "learned_absolute"},
        "refused learned_absolute",
    ),
    "Refact-1.6B": ({"model_type": "gpt_refact", "n_embd": 2048, "n_head": 32, "n_positions": 4096}, "refused ALiBi"),
    "CodeShell-7B": (
        {"model_type": "codeshell", "n_embd": 4096, "n_head": 32, "n_positions": 8192}
        | {"position_embedding_type": "rope", "rope_scaling": None},
        "128/128 half 10000",
    ),
    "ChatGLM-6B": (
        model("chatglm", 4096, 32, position_encoding_2d=True, inner_hidden_size=16384, max_sequence_length=2048),
        "refused position_encoding_2d",
    ),
    "ChatGLM2-6B": (
        model("chatglm", 4096, 32, kv_channels=128, seq_length=32768, num_layers=28, original_rope=True),
        "64/128 interleaved 10000",
    ),
    "GLM-4-9B-chat-1M": (
        model("chatglm", 4096, 32, kv_channels=128, seq_length=1048576, num_layers=40, rope_ratio=10000),
        "64/128 interleaved 1e+08",
    ),
    "Skywork-13B": (model("skywork", 4608, 36, max_position_embeddings=4096), "128/128 half 10000"),
    "TeleChat-7B": (
        model("telechat", 4096, None, n_head=32, n_layer=30, seq_length=8192, training_seqlen=8192),
        "128/128 half 10000",
    ),
    "XVERSE-13B": (model("xverse", 5120, 40, max_position_embeddings=8192), "128/128 half 10000"),
    "BlueLM-7B-32K": (
        model("BlueLM", 4096, 32, max_position_embeddings=32768, rope_scaling={"type": "ntkmixed", "factor": 16.0}),
        "refused ntkmixed",
    ),
    "InternLM2-7B-200k": (
        model("internlm2", 4096, 32, rope_theta=50000000, max_position_embeddings=204800, rope_scaling=_DYNAMIC),
        "128/128 half 5e+07 dynamic x2",
    ),
    "InternLM-20B": (model("internlm", 5120, 40, max_position_embeddings=4096), "128/128 half 10000"),
    "DeepSeek-MoE-16B": (model("deepseek", 2048, 16, max_position_embeddings=4096), "128/128 half 10000"),
    "MiniCPM-2B": (model("minicpm", 2304, 36, max_position_embeddings=4096), "64/64 half 10000"),
    "Moonlight-16B": (
        model("deepseek_v3", 2048, 16, qk_rope_head_dim=64, qk_nope_head_dim=128, rope_theta=50000.0),
        "64/64 interleaved 50000",
    ),
    "Ling-lite": (model("bailing_moe", 2048, 16, head_dim=128, rope_theta=600000), "128/128 half 600000"),
    "Ling 2.0": (
        model("bailing_moe_v2", 2048, 16, head_dim=128, partial_rotary_factor=0.5, rope_theta=600000),
        "64/128 half 600000",
    ),
    "MiMo-7B": (model("mimo", 4096, 32, head_dim=128, rope_theta=640000), "128/128 half 640000"),
    "Arctic": (model("arctic", 7168, 56, rope_theta=10000), "128/128 half 10000"),
    "EXAONE-3.5-7.8B": (
        model("exaone", 4096, 32, num_layers=32, rope_theta=1000000, rope_scaling={"rope_type": "llama3", **_LLAMA3}),
        "128/128 half 1e+06 llama3 x8 of 8192",
    ),
    "Hunyuan-Large": (
        model("hunyuan", 6400, 80, attention_head_dim=128, use_cla=True, cla_share_factor=2)
        | {"rope_scaling": {"alpha": 1000.0, "factor": 1.0, "type": "dynamic"}, "rope_theta": 10000.0},
        "128/128 half 1.11588e+07",
    ),
    "Hunyuan-A13B": (
        model("hunyuan_v1_moe", 4096, 32, head_dim=128, attention_head_dim=128, rope_theta=10000.0)
        | {
            "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "type": "dynamic"}
            | {"mscale": 1.0, "mscale_all_dim": 0.0}
        },
        "128/128 half 1.11588e+07",
    ),
    "PLaMo 2": (
        model("plamo2", 4096, 32, hidden_size_per_head=128, rope_theta=10000.0, attention_window_size=2048),
        "? 128/128 half 10000",
    ),
    "PLaMo 2 with heads of a size of their own": (
        model("plamo2", 2048, 32, hidden_size_per_head=128),
        "? 128/128 half 10000",
    ),
    "DeciLM-7B": (model("deci", 4096, 32, num_key_value_heads_per_layer=[4, 2]), "128/128 half 10000"),
    "Llama-3_3-Nemotron-Super": (
        model("nemotron-nas", 8192, 64, num_hidden_layers=3, rope_theta=500000.0)
        | {
            "rope_scaling": {"rope_type": "llama3", **_LLAMA3},
            "block_configs": [{"attention": {"no_op": each}} for each in (False, True, False)],
        },
        "128/128 half 500000 llama3 x8 of 8192, no attention 1",
    ),
    "SmallThinker-4B": (
        model("smallthinker", 2048, 16, head_dim=128, rope_theta=1500000.0, num_hidden_layers=4)
        | {"rope_layout": [0, 1, 1, 1], "sliding_window_layout": [0, 1, 1, 1], "sliding_window_size": 4096},
        "128/128 half 1.5e+06, still 0",
    ),
    "MiniMax-Text-01": (
        model("minimax_text_01", 6144, 64, head_dim=128, rotary_dim=64, rope_theta=10000000, num_hidden_layers=8)
        | {"attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1]},
        "64/128 half 1e+07, no attention 0 1 2 3 4 5 6",
    ),
    "Step-3.5-Flash": (
        model("step3p5", 4096, 64, head_dim=128, num_hidden_layers=4, sliding_window=512)
        | {
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"],
            "rope_theta": [5000000.0, 10000.0, 10000.0, 10000.0],
            "partial_rotary_factors": [0.5, 1.0, 1.0, 1.0],
            "rope_scaling": {
                **{"rope_type": "llama3", "factor": 2.0, "original_max_position_embeddings": 131072},
                **{"low_freq_factor": 1.0, "high_freq_factor": 32.0},
            },
            "max_position_embeddings": 262144,
        },
        "full_attention 64/128 half 5e+06 llama3 x2 of 131072; sliding_attention 128/128 half 10000",
    ),
    "MiMo-V2-Flash": (
        model("mimo_v2_flash", 4096, 64, head_dim=192, swa_head_dim=192, v_head_dim=128, rope_theta=5000000)
        | {
            **{"swa_rope_theta": 10000, "partial_rotary_factor": 0.334, "num_hidden_layers": 3, "sliding_window": 128},
            **{"hybrid_layer_pattern": [0, 1, 1], "add_swa_attention_sink_bias": True, "sliding_window_size": 128},
        },
        "full_attention 64/192 half 5e+06; sliding_attention 64/192 half 10000",
    ),
    "gte-large-en-v1.5": (
        model("new", 1024, 16, position_embedding_type="rope", rope_theta=160000, max_position_embeddings=8192)
        | {"rope_scaling": {"factor": 2.0, "type": "ntk"}},
        "64/64 half 160000 longrope x1 of 8192",
    ),
    "jina-embeddings-v3": (
        model("xlm-roberta", 1024, 16, position_embedding_type="rotary", rotary_emb_base=20000.0)
        | {"auto_map": {"AutoModel": "jinaai/xlm-roberta-flash-implementation--modeling_lora.XLMRobertaLoRA"}},
        "? 64/64 half 20000",
    ),
    "NeoBERT": (model("neobert", 768, 12, max_length=4096, num_hidden_layers=28), "64/64 interleaved 10000"),
    "Hymba-1.5B": (
        model("hymba", 1600, 25, rope=True, rope_type="ntk", rope_theta=10000.0, max_position_embeddings=8192)
        | {"orig_max_position_embeddings": 2048},
        "refused rope_type",
    ),
    "RWKV-7": ({"model_type": "rwkv7", "hidden_size": 768, "head_dim": 64}, "refused no rotary"),
    "StripedHyena": (
        model("stripedhyena", 4096, 32, num_layers=4, attn_layer_idxs=[1, 3], rotary_emb_base=500000),
        "128/128 half 500000, no attention 0 2",
    ),
    "Phi-4-mini-flash": (model("phi4flash", 2560, 40, mb_per_layer=2, sliding_window=512), "refused no rotary"),
    # vision and sound around a text model
    "InternVL2-8B": (
        {"model_type": "internvl_chat", "vision_config": {"model_type": "intern_vit_6b", "hidden_size": 1024}}
        | {
            "llm_config": model("internlm2", 4096, 32, rope_theta=1000000, max_position_embeddings=32768)
            | {"rope_scaling": _DYNAMIC}
        },
        "128/128 half 1e+06 dynamic x2",
    ),
    "Kimi-VL-A3B": (
        {"model_type": "kimi_vl", "vision_config": {"model_type": "moonvit", "hidden_size": 1152}}
        | {"text_config": model("deepseek_v3", 2048, 16, qk_rope_head_dim=64, qk_nope_head_dim=128, rope_theta=8e5)},
        "64/64 interleaved 800000",
    ),
    "DeepSeek-OCR": (
        {"model_type": "deepseek_vl_v2", "vision_config": {"model_type": "vision"}}
        | {
            "language_config": model("deepseek_v2", 1280, 10, use_mla=False, qk_rope_head_dim=0, qk_nope_head_dim=0)
            | {"kv_lora_rank": None, "v_head_dim": 0, "max_position_embeddings": 8192, "num_hidden_layers": 12}
        },
        "128/128 half 10000",
    ),
    "DeepSeek-VL2": (
        {"model_type": "deepseek_vl_v2", "vision_config": {"model_type": "vision"}}
        | {
            "language_config": model("deepseek_v2", 2560, 32, qk_rope_head_dim=64, qk_nope_head_dim=128)
            | {"rope_theta": 10000, "max_position_embeddings": 163840, "rope_scaling": _DEEPSEEK}
        },
        "64/64 interleaved 10000 yarn x40 of 4096",
    ),
    "MiniCPM-V 2.6": (
        model("minicpmv", 3584, 28, rope_theta=1000000.0, max_position_embeddings=32768, max_window_layers=28)
        | {"use_sliding_window": False, "vision_config": {"model_type": "siglip", "hidden_size": 1152}},
        "128/128 half 1e+06",
    ),
    "Phi-3-vision": (
        model("phi3_v", 3072, 32, max_position_embeddings=131072, original_max_position_embeddings=4096)
        | {"rope_scaling": {"type": "su", **lists(48)}, "img_processor": {"name": "clip_vision_model"}},
        "96/96 half 10000 longrope x32 of 4096",
    ),
    "Phi-4-multimodal": (
        model("phi4mm", 3072, 24, max_position_embeddings=131072, original_max_position_embeddings=4096)
        | {"partial_rotary_factor": 0.75, "rope_scaling": {"type": "longrope", **lists(48)}},
        "96/128 half 10000 longrope x32 of 4096",
    ),
    "Phi-3.5-MoE": (
        model("phimoe", 4096, 32, max_position_embeddings=131072)
        | {
            "rope_scaling": {"type": "longrope", "original_max_position_embeddings": 4096, **lists(64)}
            | {"short_mscale": 1.243163121016122, "long_mscale": 1.243163121016122}
        },
        "128/128 half 1e+06 longrope x32 of 4096",
    ),
    "Qwen-VL": (
        model("qwen", 4096, 32, kv_channels=128, rotary_emb_base=10000, rotary_pct=1.0, seq_length=2048)
        | {"use_dynamic_ntk": True, "use_logn_attn": True, "visual": {"heads": 16, "width": 1664}},
        "128/128 half 10000",
    ),
    "Qwen3-VL-8B": (
        {"model_type": "qwen3_vl", "vision_config": {"model_type": "qwen3_vl", "hidden_size": 1152}}
        | {
            "text_config": model("qwen3_vl_text", 4096, 32, head_dim=128, rope_theta=5000000)
            | {"rope_scaling": {"mrope_interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default"}}
        },
        "128/128 half 5e+06",
    ),
    "GLM-4.1V-9B": (
        {"model_type": "glm4v", "vision_config": {"model_type": "glm4v", "hidden_size": 1536}}
        | {
            "text_config": model("glm4v_text", 4096, 32, partial_rotary_factor=0.5, rope_theta=10000.0)
            | {"rope_scaling": {"rope_type": "default", "mrope_section": [8, 12, 12]}}
        },
        "64/128 interleaved 10000",
    ),
    "ERNIE-4.5-VL-28B": (
        model("ernie4_5_moe_vl", 2560, 20, head_dim=128, rope_theta=500000, rope_3d=True, freq_allocation=20)
        | {"rope_scaling": {"type": "default", "mrope_section": [22, 22, 20]}},
        "128/128 interleaved 500000",
    ),
    "Pixtral-12B": (
        {"model_type": "llava", "vision_config": {"model_type": "pixtral", "head_dim": 64, "rope_theta": 10000.0}}
        | {"text_config": model("mistral", 5120, 32, head_dim=128, rope_theta=1000000000.0)},
        "128/128 half 1e+09",
    ),
    "Ultravox": (
        {"model_type": "ultravox", "audio_config": {"model_type": "whisper"}, "projector_act": "swiglu"}
        | {
            "text_config": model("llama", 4096, 32, rope_theta=500000.0, max_position_embeddings=131072)
            | {"rope_scaling": {"rope_type": "llama3", **_LLAMA3}}
        },
        "128/128 half 500000 llama3 x8 of 8192",
    ),
    "Ovis2-8B": (
        {"model_type": "ovis", "visual_tokenizer_config": {"model_type": "aimv2_visual_tokenizer"}}
        | {"llm_config": model("qwen2", 3584, 28, rope_theta=1000000.0, max_position_embeddings=32768)},
        "128/128 half 1e+06",
    ),
    # classes of transformers in the words of their publishers
    "Command A": (
        model("cohere2", 12288, 96, head_dim=128, rope_theta=50000, rotary_pct=1.0, num_hidden_layers=8)
        | {"position_embedding_type": "rope_gptj", "sliding_window": 4096, "sliding_window_pattern": 4}
        | {"layer_switch": 4, "order_of_interleaved_layers": "local_attn_first"},
        "128/128 interleaved 50000, still 3 7",
    ),
    "Granite-4.0-Micro": (
        model("granitemoehybrid", 2560, 40, position_embedding_type="rope", rope_theta=10000000, num_hidden_layers=2)
        | {"layer_types": ["attention", "attention"]},
        "64/64 half 1e+07",
    ),
    "Granite-4.0-H-Tiny": (
        model("granitemoehybrid", 1536, 12, position_embedding_type="nope", layer_types=["mamba", "attention"]),
        "refused no rotary",
    ),
    "Qwen3-Next-80B": (
        model("qwen3_next", 2048, 16, head_dim=256, partial_rotary_factor=0.25, rope_theta=10000000)
        | {"full_attention_interval": 4, "num_hidden_layers": 8},
        "64/256 half 1e+07, no attention 0 1 2 4 5 6",
    ),
    "MiniMax-M2": (
        model("minimax_m2", 3072, 48, head_dim=128, rotary_dim=64, rope_theta=5000000, attn_type_list=[1, 1])
        | {"num_hidden_layers": 2},
        "64/128 half 5e+06",
    ),
    "LongCat-Flash": (
        {"model_type": "longcat_flash", "hidden_size": 6144, "num_attention_heads": 64, "qk_rope_head_dim": 64}
        | {"qk_nope_head_dim": 128, "num_layers": 2, "rope_theta": 10000000.0, "attention_method": "MLA"},
        "64/64 interleaved 1e+07",
    ),
    "LFM2-1.2B": (
        model("lfm2", 2048, 32, full_attn_idxs=[2, 5], num_hidden_layers=6, rope_theta=1000000.0, block_dim=2048),
        "64/64 half 1e+06, no attention 0 1 3 4",
    ),
    "DeepSeek-V3.2": (
        model("deepseek_v32", 7168, 128, qk_rope_head_dim=64, qk_nope_head_dim=128, index_head_dim=128)
        | {
            "rope_theta": 10000,
            "max_position_embeddings": 163840,
            "rope_scaling": {**_DEEPSEEK, "mscale": 1.0, "mscale_all_dim": 1.0},
        },
        "64/64 interleaved 10000 yarn x40 of 4096",
    ),
    "RecurrentGemma-2B": (
        model("recurrent_gemma", 2560, 10, head_dim=256, partial_rotary_factor=0.5, rope_theta=10000.0)
        | {"_block_types": ["recurrent", "recurrent", "attention"], "attention_window_size": 2048}
        | {"num_hidden_layers": 3},
        "128/256 half 10000, no attention 0 1",
    ),
    "Trinity-Mini": (
        model("afmoe", 2048, 16, head_dim=128, rope_theta=10000, num_hidden_layers=8, sliding_window=2048)
        | {"global_attn_every_n_layers": 4},
        "128/128 half 10000, still 3 7",
    ),
    "ColPali": (
        {"model_type": "colpali", "embedding_dim": 128}
        | {"vlm_config": {"model_type": "paligemma", "text_config": model("gemma", 2048, 8, head_dim=256)}},
        "256/256 half 10000",
    ),
    "ColQwen2": (
        {"model_type": "colqwen2", "embedding_dim": 128}
        | {"vlm_config": {"model_type": "qwen2_vl", "text_config": model("qwen2_vl_text", 1536, 12, rope_theta=1e6)}},
        "128/128 half 1e+06",
    ),
    "CSM-1B": (
        model("csm", 2048, 32, head_dim=64, rope_theta=500000, max_position_embeddings=2048)
        | {
            "rope_scaling": {**_LLAMA3, "factor": 32.0, "low_freq_factor": 0.125, "high_freq_factor": 0.5}
            | {"original_max_position_embeddings": 1024, "rope_type": "llama3"},
            "depth_decoder_config": model("csm_depth_decoder_model", 1024, 8),
        },
        "64/64 half 500000 llama3 x32 of 1024",
    ),
    "Qwen3-235B at a million tokens": (
        model("qwen3_moe", 4096, 64, head_dim=128, rope_theta=5000000, max_position_embeddings=262144)
        | {"rope_scaling": None, "use_sliding_window": False, "sliding_window": None},
        "128/128 half 5e+06",
    ),
    "Qwen3-8B with YaRN by its card": (
        model("qwen3", 4096, 32, head_dim=128, rope_theta=1000000, max_position_embeddings=131072)
        | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
        "128/128 half 1e+06 yarn x4 of 32768",
    ),
    "Qwen2.5-72B, the scaling in the spelling of its card": (
        model("qwen2", 8192, 64, rope_theta=1000000.0, max_position_embeddings=32768, rope_scaling=_YARN),
        "128/128 half 1e+06 yarn x4 of 32768",
    ),
}
"""By model: the entries, and what they mean."""


def keys(architecture: str, **keys: Any) -> dict[str, Any]:
    """Return metadata of a GGUF file, whose names have a dot for every double underscore."""
    named = {key.replace("__", "."): value for key, value in keys.items()}
    return {"general.architecture": architecture} | {f"{architecture}.{key}": value for key, value in named.items()}


GGUF: dict[str, tuple[dict[str, Any], str]] = {
    "SmallThinker": (
        keys("smallthinker", block_count=8, attention__key_length=128, rope__freq_base=1.5e6)
        | {"smallthinker.attention.sliding_window": 4096},
        "128/128 half 1.5e+06, still 0 4",
    ),
    "SmallThinker without a window": (
        keys("smallthinker", block_count=8, attention__key_length=128, rope__freq_base=1.5e6),
        "128/128 half 1.5e+06",
    ),
    "Trinity (AFMoE)": (keys("afmoe", block_count=8, attention__key_length=128), "128/128 half 10000, still 3 7"),
    "K-EXAONE": (
        keys("exaone-moe", block_count=4, attention__key_length=128, rope__freq_base=1e6)
        | {"exaone-moe.attention.sliding_window": 128, "exaone-moe.attention.sliding_window_pattern": [1, 1, 1, 0]},
        "128/128 half 1e+06, still 3",
    ),
    "Baichuan2-13B": (
        keys("baichuan", block_count=40, embedding_length=5120, attention__head_count=40),
        "refused ALiBi",
    ),
    "Baichuan2-7B": (
        keys("baichuan", block_count=32, embedding_length=4096, attention__head_count=32),
        "128/128 interleaved 10000",
    ),
    "Qwen3-Next": (
        keys("qwen3next", block_count=8, attention__key_length=256, rope__dimension_count=64, rope__freq_base=1e7),
        "64/256 half 1e+07, no attention 0 1 2 4 5 6",
    ),
    "Qwen3.5 by another interval": (
        keys("qwen35", block_count=4, attention__key_length=256, rope__dimension_count=64, full_attention_interval=2)
        | {"qwen35.rope.dimension_sections": [11, 11, 10, 0]},
        "64/256 half 10000, no attention 0 2",
    ),
    "LFM2": (
        keys("lfm2", block_count=3, attention__key_length=64, rope__freq_base=1e6)
        | {"lfm2.attention.head_count_kv": [0, 0, 8]},
        "64/64 half 1e+06, no attention 0 1",
    ),
    "Llama 3.1 by a converter that writes no layers": (
        keys("llama", embedding_length=4096, attention__head_count=32, rope__freq_base=5e5),
        "128/128 interleaved 500000",
    ),
    "Phi-2": (
        keys("phi2", embedding_length=2560, attention__head_count=32, rope__dimension_count=32),
        "32/80 half 10000",
    ),
    "ChatGLM3-32k": (
        keys("chatglm", embedding_length=4096, attention__head_count=32, rope__dimension_count=64)
        | {"chatglm.rope.freq_base": 500000.0},
        "64/128 interleaved 500000",
    ),
    "GPT-OSS": (
        keys("gpt-oss", attention__key_length=64, rope__freq_base=150000.0, rope__scaling__type="yarn")
        | {"gpt-oss.rope.scaling.factor": 32.0, "gpt-oss.rope.scaling.original_context_length": 4096},
        "64/64 half 150000 yarn x32 of 4096",
    ),
    "Cohere2 MoE": (
        keys(
            "cohere2moe", block_count=8, attention__key_length=128, rope__freq_base=50000.0, leading_dense_block_count=1
        )
        | {
            "cohere2moe.attention.sliding_window": 4096,
            "cohere2moe.attention.sliding_window_pattern": [0, 1, 1, 0, 1, 1, 1, 0],
        },
        "128/128 interleaved 50000, still 3 7",
    ),
    "Gemma 3": (
        keys("gemma3", block_count=7, attention__key_length=256, rope__freq_base=1e6, attention__sliding_window=1024)
        | {"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8.0},
        "full_attention 256/256 half 1e+06 linear x8; sliding_attention 256/256 half 10000",
    ),
    "ModernBERT": (
        keys("modern-bert", block_count=6, embedding_length=768, attention__head_count=12, rope__freq_base=160000.0)
        | {"modern-bert.rope.freq_base_swa": 10000.0, "modern-bert.attention.sliding_window": 128},
        "full_attention 64/64 half 160000; sliding_attention 64/64 half 10000",
    ),
    "MiMo-V2": (
        keys("mimo2", block_count=3, attention__key_length=192, rope__dimension_count=64, rope__freq_base=5e6)
        | {"mimo2.rope.freq_base_swa": 10000.0, "mimo2.attention.sliding_window": 128}
        | {"mimo2.attention.sliding_window_pattern": [False, True, True]},
        "full_attention 64/192 half 5e+06; sliding_attention 64/192 half 10000",
    ),
    "Step-3.5, sliding layers with another part of the head": (
        keys("step35", block_count=2, attention__key_length=128, rope__freq_base=5e6)  # as conversion/step3.py has it
        | {"step35.rope.freq_base_swa": 10000.0}
        | {"step35.attention.sliding_window": 512, "step35.attention.sliding_window_pattern": [0, 1]},
        "full_attention 64/128 half 5e+06; sliding_attention 128/128 half 10000",
    ),
    "Llama with a part of the head": (
        keys("llama", embedding_length=4096, attention__head_count=32, rope__dimension_count=64),
        "refused llama.cpp refuses",
    ),
    "an architecture that nobody has": (keys("llamma", attention__key_length=64), "refused Did you mean 'llama"),
}
"""By model: metadata, and what they mean."""
