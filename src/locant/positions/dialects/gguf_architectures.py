"""What llama.cpp decides by the architecture of a GGUF file."""

from __future__ import annotations

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryLayout

INTERLEAVED = [
    *("llama", "llada", "llama4", "deci", "baichuan", "internlm2", "minicpm", "xverse", "command-r", "cohere2"),
    *("olmo", "arctic", "deepseek", "deepseek2", "deepseek32", "plm", "chatglm", "granite", "granitemoe"),
    *("granitehybrid", "chameleon", "bailingmoe", "neo-bert", "smollm3", "arcee", "ernie4_5", "ernie4_5-moe"),
    *("mistral3", "mistral4", "llama-embed", "maincoder", "glm-dsa", "glm4"),
]
"""Architectures that pair neighbouring features (``LLAMA_ROPE_TYPE_NORM``)."""

HALF = [
    *("falcon", "falcon-h1", "grok", "dbrx", "modern-bert", "nomic-bert", "nomic-bert-moe", "eurobert", "stablelm"),
    *("bitnet", "qwen", "qwen2", "dream", "qwen2moe", "qwen3", "qwen3moe", "qwen3next", "olmo2", "olmoe", "phi2"),
    *("phi3", "phimoe", "plamo", "plamo2", "gemma", "gemma2", "gemma3", "gemma3n", "gemma4", "gemma-embedding"),
    *("starcoder2", "openelm", "gptneox", "codeshell", "orion", "nemotron", "exaone", "exaone4", "minicpm3"),
    *("bailingmoe2", "dots1", "hunyuan-moe", "hunyuan-dense", "gpt-oss", "lfm2", "lfm2moe", "smallthinker"),
    *("seed_oss", "apertus", "minimax-m2", "glm4moe"),
]
"""Architectures that pair features of the two halves (``LLAMA_ROPE_TYPE_NEOX``)."""

SEVERAL_AXES = {"qwen2vl": False, "qwen3vl": True, "qwen3vlmoe": True, "qwen35": True, "qwen35moe": True}
"""Architectures with positions of several axes, in halves; whether the axes' pairs alternate."""

SEPARATE_PART = frozenset(("deepseek2", "deepseek32", "minicpm3", "plm", "mistral4", "glm-dsa"))
"""Architectures whose rotated features are a separate part of the head, of ``rope.dimension_count`` features."""

LOG_MULTIPLIER_UNIT = {"deepseek2": 0.1, "deepseek32": 0.1, "mistral3": 1.0}
"""Unit of ``yarn_log_multiplier``, which is mscale_all_dim, by architecture."""

LOCAL_BASE = frozenset(("gemma3", "gemma3n", "gemma-embedding"))
"""Architectures whose sliding attention has base 10000 by default, and is never scaled."""


def layout_of(architecture: str) -> RotaryLayout:
    """Return the layout of an architecture, ``general.architecture`` of a file."""
    if architecture in INTERLEAVED:
        return "interleaved"
    known = [*INTERLEAVED, *HALF, *SEVERAL_AXES]
    if architecture not in known:
        raise ConfigError(
            f"Unknown architecture '{architecture}' of GGUF: it decides how features are paired."
            f"{nearest(architecture, known)} Known: {', '.join(sorted(known))}."
        )
    return "half"
