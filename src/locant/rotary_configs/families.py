"""Facts of Hugging Face's model classes that config.json does not state, by ``model_type``.

Read from transformers 5.23; the tests compare these tables with the version that is installed.
"""

from __future__ import annotations

from locant.positions.rotary.config import RotaryLayout

_INTERLEAVED = """
axk1 axk2 bailing_hybrid blt codegen cohere cohere2 cohere2_moe deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4
dots3_note ernie4_5 ernie4_5_moe ernie4_5_vl_moe_text glm glm4 glm4_moe_lite glm4v_text glm_moe_dsa glm_ocr_text
gptj helium kimi_k2 llama4_text longcat_flash mistral4 mistral_large4 moonshine openai_privacy_filter roformer youtu
"""
INTERLEAVED = frozenset(_INTERLEAVED.split())
"""Model types whose classes pair neighbouring features."""

SWITCHED = frozenset(["axk1", "deepseek_v3", "glm4_moe_lite", "kimi_k2", "mistral4", "youtu"])
"""Those of :data:`INTERLEAVED` that ``rope_interleave: false`` turns to halves."""

_HALF = """
apertus arcee bitnet cwm diffllama exaone4 falcon falcon_h1 gemma gemma2 gemma3 gemma3_text gemma3n_text gemma4_text
glm4_moe gpt_neox gpt_neox_japanese gpt_oss granite granitemoe hunyuan_v1_dense internlm3 jamba lfm2 llama minimax
minimax_m2 ministral ministral3 mistral mixtral modernbert nanochat nemotron olmo olmo2 olmo3 olmoe persimmon phi
phi3 phimoe qwen2 qwen2_5_vl qwen2_5_vl_text qwen2_moe qwen2_vl qwen2_vl_text qwen3 qwen3_5_text qwen3_moe
qwen3_next qwen3_vl_moe_text qwen3_vl_text recurrent_gemma seed_oss smollm3 stablelm starcoder2 zamba2
"""
HALF = frozenset(_HALF.split())
"""Model types known to pair features of the two halves; others are taken to do so, with a finding."""

YARN_IS_LONGROPE = frozenset(["phi3", "phi4_multimodal"])
"""Model types whose classes take the type 'yarn' for LongRoPE."""

LOCAL_AND_GLOBAL: dict[str, tuple[float, float]] = {
    "gemma3": (10_000.0, 1_000_000.0),
    "gemma3_text": (10_000.0, 1_000_000.0),
    "gemma3n_text": (10_000.0, 1_000_000.0),
    "modernbert": (10_000.0, 160_000.0),
    "modernbert-decoder": (10_000.0, 160_000.0),
}
"""Bases of sliding and of full attention where the file leaves them out."""

BASES: dict[str, float] = {
    "apertus": 12_000_000.0,
    "bitnet": 500_000.0,
    "cohere": 500_000.0,
    "cwm": 1_000_000.0,
    "ernie4_5": 500_000.0,
    "ernie4_5_moe": 500_000.0,
    "gpt_oss": 150_000.0,
    "helium": 100_000.0,
    "llama4_text": 500_000.0,
    "longcat_flash": 10_000_000.0,
    "minimax": 1_000_000.0,
    "minimax_m2": 5_000_000.0,
    "mixtral": 1_000_000.0,
    "olmo3": 500_000.0,
    "phimoe": 1_000_000.0,
    "qwen2_5_vl_text": 1_000_000.0,
    "qwen2_vl_text": 1_000_000.0,
    "qwen3_vl_moe_text": 500_000.0,
    "qwen3_vl_text": 500_000.0,
    "smollm3": 2_000_000.0,
}
"""Base where the file leaves it out and the class does not take 10000."""

ROTATED_FRACTIONS: dict[str, float] = {
    "glm": 0.5,
    "glm4": 0.5,
    "glm4_moe": 0.5,
    "gpt_neox": 0.25,
    "moonshine": 0.9,
    "nemotron": 0.5,
    "persimmon": 0.5,
    "phi": 0.5,
    "qwen3_5_text": 0.25,
    "qwen3_next": 0.25,
    "recurrent_gemma": 0.5,
    "stablelm": 0.25,
}
"""Fraction of the head's features that are rotated, where the file leaves it out and it is not all."""

HEAD_DIMS: dict[str, int] = {
    "cwm": 128,
    "ernie4_5": 128,
    "gemma": 256,
    "gemma2": 256,
    "gemma3_text": 256,
    "gemma3n_text": 256,
    "gemma4_text": 256,
    "glm": 128,
    "glm4": 128,
    "gpt_oss": 64,
    "helium": 128,
    "internlm3": 128,
    "llama4_text": 128,
    "minimax_m2": 128,
    "ministral3": 128,
    "qwen3": 128,
    "qwen3_5_text": 256,
    "qwen3_next": 256,
    "qwen3_vl_text": 128,
    "seed_oss": 128,
}
"""Features of a head where the file leaves them out and the class does not divide the width by the heads."""


def layout_of(model_type: str | None, interleave: bool | None) -> RotaryLayout:
    """Return the layout of a model type.

    Args:
        model_type: ``model_type`` of config.json.
        interleave: ``rope_interleave`` of config.json.
    """
    if model_type in SWITCHED and interleave is False:
        return "half"
    return "interleaved" if model_type in INTERLEAVED else "half"
