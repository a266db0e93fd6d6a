"""Facts of the architectures of GGUF files: what llama.cpp does with the rotary positions of each.

Source: ``llama_model_rope_type``, and ``load_arch_hparams``, ``load_arch_tensors`` and the graphs in ``src/models`` of
llama.cpp, as llama-cpp-python 0.3.36 brings them, and what build b11739 computes (October 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryLayout
from locant.rotary_configs.base import NoRotaryPositionsError
from locant.rotary_configs.classes.families import model_type
from locant.rotary_configs.gguf.loader_facts import loader_facts

_INTERLEAVED = """
llama llada llama4 deci baichuan internlm2 minicpm xverse command-r cohere2 olmo arctic deepseek deepseek2
deepseek32 plm chatglm granite granitemoe granitehybrid chameleon bailingmoe neo-bert smollm3 arcee ernie4_5
ernie4_5-moe mistral3 mistral4 llama-embed maincoder glm-dsa glm4 cohere2moe bailingmoe3 deepseek4 dots3note eagle3
granite_swa graniteswitch hy_v4 muse-glimmer nanbeige pockettts
"""
DRAFT_OF_DEEPSEEK4 = "dflash of DeepSeek-V4"
"""What a file of the architecture 'dflash' with ``hyper_connection.count`` is: another graph, layers of DeepSeek-V4."""

INTERLEAVED = tuple(_INTERLEAVED.split())
"""Architectures that pair neighbouring features (``LLAMA_ROPE_TYPE_NORM``)."""

_HALF = """
falcon falcon-h1 grok dbrx modern-bert nomic-bert nomic-bert-moe eurobert stablelm bitnet qwen qwen2 dream qwen2moe
qwen3 qwen3moe qwen3next olmo2 olmoe phi2 phi3 phimoe plamo plamo2 gemma gemma2 gemma3 gemma3n gemma4
gemma-embedding starcoder2 openelm gptneox codeshell orion nemotron exaone exaone4 minicpm3 bailingmoe2 dots1
hunyuan-moe hunyuan-dense hunyuan_vl gpt-oss lfm2 lfm2moe smallthinker seed_oss apertus minimax-m2 glm4moe
jina-bert-v3 plamo3 llada-moe rnd1 exaone-moe jais2 grovemoe cogvlm pangu-embedded afmoe mimo2 step35
deepseek2-ocr dflash gemma4-assistant hrm_text hy_v3 laguna maple mellum minimax-01 minimax-m3 spark2_5 talkie
"""
HALF = tuple(_HALF.split())
"""Architectures that pair features of the two halves (``LLAMA_ROPE_TYPE_NEOX``, which DeepSeek-OCR's graph names)."""

BASE_OF_GRAPH = {"cogvlm": 10000.0}
"""Architectures whose graph rotates by ``ggml_rope``, which has one base whatever the file says."""

ENDS_WITH_OTHER_BASES = {"deepseek2-ocr": 10000.0}
"""Architectures whose graph ends the program where the base is not this one."""

ROTATES_WHOLE_HEADS = frozenset(("deepseek2-ocr",))
"""Architectures whose graph rotates all features of a head, whatever ``rope.dimension_count`` says."""

PASSES_OVER_SCALING = frozenset(("cogvlm", "deepseek2-ocr", DRAFT_OF_DEEPSEEK4))
"""Architectures whose graph rotates without any scaling, whatever the file says."""

PASSES_OVER_FACTORS = frozenset(("falcon-h1", "llada", "pangu-embedded"))
"""Architectures that load tensors of factors and do not divide by them."""

_LEARNED = "but learned ones, which are added to the embeddings"
_STATES = "and no others: state spaces, a recurrence or attention alone tell the order of a text"
WITHOUT_ROTATION = {
    **dict.fromkeys(("clip", "gpt2", "starcoder", "bert"), _LEARNED),
    **dict.fromkeys(("mpt", "refact", "bloom", "jina-bert-v2", "jais"), "but ALiBi (here: the scheme 'alibi')"),
    **dict.fromkeys(("t5", "t5encoder"), "but T5's biases by buckets of relative positions (here: 't5')"),
    **dict.fromkeys(("mamba", "mamba2", "jamba", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"), _STATES),
    **dict.fromkeys(
        ("wavtokenizer-dec", "nemotron_h", "nemotron_h_moe", "kimi-linear", "kimi-k3", "glm5-next"), _STATES
    ),
}
"""Architectures that llama.cpp does not rotate (``LLAMA_ROPE_TYPE_NONE``, and graphs that add positions), and what
they have instead."""

WITHOUT_ATTENTION = frozenset(name for name, instead in WITHOUT_ROTATION.items() if instead == _STATES) | {"clip"}
"""Architectures without attention in some of their layers or in all, and those of towers alone."""

WITHOUT_GRAPH = frozenset(("gptj",))
"""Architectures of which llama.cpp has the name alone: it loads no file of them (``llama_model_create``)."""

ALIBI_BY_FILE = frozenset(("jais", "mpt"))
"""Architectures with ALiBi where the file has ``attention.max_alibi_bias``, which is 0 otherwise."""

ALIBI_OF_GRAPH = dict.fromkeys(("bloom", "jina-bert-v2", "refact"), 8.0)
"""Architectures with ALiBi whose largest bias is this one, whatever the file says."""

SEVERAL_AXES = {
    **dict.fromkeys(("qwen2vl", "paddleocr"), False),
    **dict.fromkeys(("qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe", "qwen4exp", "qwen3tts"), True),
}
"""Architectures with positions of several axes, in halves; whether the axes' pairs alternate."""

KNOWN = frozenset((*INTERLEAVED, *HALF, *SEVERAL_AXES))
"""Architectures that llama.cpp rotates."""

AXES_BY_SECTIONS = frozenset(("bailingmoe3", "dflash", "glm4", "glm4moe", "hunyuan_vl"))
"""Architectures whose positions have several axes where the file has sections; pairs are halves then."""

_LATENT = ("deepseek2", "deepseek32", "mistral4", "glm-dsa", "bailingmoe3", "dots3note", "hy_v4")
SIZES_BY_LATENT = frozenset(_LATENT)
"""Architectures whose ``attention.key_length`` is that of the latent, with the rotated part."""

SEPARATE_PART = SIZES_BY_LATENT | {"deepseek4", "minicpm3", "plm", DRAFT_OF_DEEPSEEK4}
"""Architectures whose rotated features are a separate part of the head, of ``rope.dimension_count`` features."""

_WHOLE_IN_GRAPHS = """
apertus arcee arctic baichuan chameleon codeshell cogvlm cohere2moe dbrx deepseek dots1 dream ernie4_5 ernie4_5-moe
exaone exaone4 exaone-moe gpt-oss granite granite_swa graniteswitch grok grovemoe hunyuan-moe hunyuan_vl hy_v3
internlm2 jais2 llada llada-moe llama4 maincoder mellum mistral3 olmo olmo2 olmoe orion paddleocr pangu-embedded plamo
pockettts qwen2 qwen2moe qwen2vl qwen3 qwen3moe qwen3vl qwen3vlmoe rnd1 seed_oss smallthinker smollm3 starcoder2 talkie
xverse
"""
WHOLE_HEADS = frozenset(("llama", "deci", "falcon", "llama-embed", *_WHOLE_IN_GRAPHS.split()))
"""Architectures of which llama.cpp takes no file that rotates a part of the head: it refuses to load those of Llama,
DeciLM and Falcon, and the graphs of the others end the program (``GGML_ASSERT(n_embd_head == n_rot)``)."""

LOG_MULTIPLIER_UNIT = {"deepseek2": 0.1, "deepseek32": 0.1, "mistral3": 1.0, "mistral4": 0.1}
"""Unit of ``yarn_log_multiplier``, which is mscale_all_dim, by architecture; the others pass over it."""

READS_BETAS = {"grok": 8.0, "laguna": 32.0, "mistral3": 32.0}
"""Architectures that heed ``yarn_beta_fast`` and ``yarn_beta_slow``, with the first where the file has none; the others
have 32 and 1, whatever the file says."""

READS_MIX = frozenset(("grok",))
"""Architectures that heed ``yarn_ext_factor`` and ``yarn_attn_factor``."""

NEVER_MAGNIFIES = PASSES_OVER_SCALING | {"deepseek4"}
"""Architectures whose graph does not multiply cosine and sine by ``rope.scaling.attn_factor``."""

SCALES_SCORES = frozenset(("deepseek2", "deepseek32", "glm-dsa", "mistral4"))
"""Architectures whose graphs multiply all scores by a square that goes by YaRN's factor (``kq_scale``)."""

RAISES_BASE = frozenset(("hunyuan-dense", "hunyuan_vl"))
"""Architectures that raise the base by ``rope.scaling.alpha``."""

OWN_HEADS = frozenset(("gemma4", "gemma4-assistant", "step35"))
"""Architectures whose sliding attention has heads and rotated features of its own."""

FULL_AS_FIRST = frozenset(loader_facts()["full attention rotated as the first layer"])
"""Architectures whose full attention rotates as many features as the first layer, which may slide, and sliding
attention as many as it likes."""

OWN_SIZES = FULL_AS_FIRST | frozenset(loader_facts()["rotated features by layer"])
"""Architectures whose sliding attention rotates as many features as it likes; in the graphs of others all layers rotate
as many as the first."""

HALVES_FULL_ATTENTION = frozenset(("step35",))
"""Architectures whose full attention rotates half of ``rope.dimension_count`` features (llama_model_step35)."""

LOADS_LISTS = frozenset(("minicpm3", "phi3", "phimoe"))
"""Architectures that load LongRoPE's lists whatever ``rope.scaling.type`` says."""

_BY_TYPE = "apertus deci granite granite_swa granitemoe llama llama-embed minicpm mistral3 pangu-embedded step35"
LOADS_LISTS_BY_TYPE = frozenset(_BY_TYPE.split())
"""Architectures that load LongRoPE's lists with the type 'longrope', and ``rope_freqs.weight`` with any other."""

_DIVISORS = """
arcee cogvlm dflash eagle3 exaone exaone-moe exaone4 falcon-h1 gemma4 gemma4-assistant granitehybrid llada llama4
nanbeige
"""
LOADS_DIVISORS = LOADS_LISTS_BY_TYPE | frozenset(_DIVISORS.split())
"""Architectures that load ``rope_freqs.weight``."""

NEEDS_SECTIONS = frozenset(SEVERAL_AXES)
"""Architectures of which llama.cpp loads no file without ``rope.dimension_sections``, or ends (``rope_multi``)."""

_PERMUTED = """
llama llama-embed deci arctic chameleon bailingmoe deepseek internlm2 minicpm llada mistral3 granite granitemoe
granitehybrid baichuan xverse arcee smollm3 olmo granite_swa muse-glimmer
"""
CONVERTED_FROM_HALVES = frozenset(_PERMUTED.split())
"""Architectures whose converters permute queries and keys of config.json's model from halves to neighbours."""

_MODEL_TYPES = {
    "bailingmoe": "bailing_moe",
    "bailingmoe2": "bailing_moe_v2",
    "cohere2moe": "cohere2_moe",
    "command-r": "cohere",
    "deepseek2": "deepseek_v2",  # V3 and Kimi K2 as well, whose entries are the same
    "deepseek32": "deepseek_v32",
    "deepseek4": "deepseek_v4",
    "dots3note": "dots3_note_text",
    "dream": "Dream",
    "gemma-embedding": "gemma3_text",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "glm-dsa": "glm_moe_dsa",
    "glm4moe": "glm4_moe",
    "gptneox": "gpt_neox",
    "granitehybrid": "granitemoehybrid",
    "grok": "grok-1",
    "hunyuan-dense": "hunyuan_v1_dense",
    "hunyuan-moe": "hunyuan_v1_moe",
    "jina-bert-v3": "jina_embeddings_v3",
    "lfm2moe": "lfm2_moe",
    "llama-embed": "llama",
    "llama4": "llama4_text",
    "mimo2": "mimo_v2_flash",
    "minimax-01": "minimax",
    "minimax-m3": "minimax_m3_vl_text",
    "mistral3": "ministral3",
    "modern-bert": "modernbert",
    "muse-glimmer": "muse_glimmer_text",
    "neo-bert": "neobert",
    "pangu-embedded": "PanguEmbedded",
    "phi2": "phi",
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
    "qwen3next": "qwen3_next",
    "qwen4exp": "qwen4_exp_text",
    "step35": "step3p5",
}


PAIRED_OTHERWISE = frozenset(("hy_v4",))
"""Architectures that pair features otherwise than the class in transformers, although no converter permutes them."""


def graph_of(architecture: str, own: Mapping[str, Any]) -> str:
    """Return the architecture whose graph a file has: its own, or that of DeepSeek-V4's drafts.

    Args:
        architecture: ``general.architecture``.
        own: The metadata below it.
    """
    is_draft = architecture == "dflash" and own.get("hyper_connection.count")
    return DRAFT_OF_DEEPSEEK4 if is_draft else architecture


def in_keys_of_the_file(text: str) -> str:
    """Return a text for readers of a file, which knows no name of a graph but that of its architecture.

    Args:
        text: It may name what :func:`graph_of` returns.
    """
    return text.replace(f"'{DRAFT_OF_DEEPSEEK4}'", "'dflash' with hyper_connection.count")


def model_type_of(architecture: str, *, by_layer: bool = False) -> str | None:
    """Return the ``model_type`` of the config.json that an architecture is converted from, where its class is known.

    Args:
        architecture: Its name.
        by_layer: Whether layers rotate differently, by which OLMo 3 is told from OLMo 2.

    Example:
        >>> model_type_of("command-r"), model_type_of("ernie4_5-moe"), model_type_of("plamo")
        ('cohere', 'ernie4_5_moe', None)
    """
    own = "olmo3" if by_layer and architecture == "olmo2" else architecture.replace("-", "_")
    name = _MODEL_TYPES.get(architecture, own)
    return None if model_type(name) is None or architecture in PAIRED_OTHERWISE else name


def layout_of(architecture: str, *, several_axes: bool = False) -> RotaryLayout:
    """Return the layout of an architecture, ``general.architecture`` of a file.

    Args:
        architecture: Its name.
        several_axes: Whether the file has sections of several axes.

    Raises:
        ConfigError: The architecture is unknown, or has no rotary positions.
    """
    if architecture in WITHOUT_ROTATION:
        raise NoRotaryPositionsError(
            f"llama.cpp does not rotate in the architecture '{architecture}': no rotary positions, "
            f"{WITHOUT_ROTATION[architecture]}."
        )
    if architecture in WITHOUT_GRAPH:
        raise ConfigError(
            f"llama.cpp refuses the file: it has no graph for the architecture '{architecture}', of which it knows the "
            "name alone (unsupported model architecture)."
        )
    if architecture in (*INTERLEAVED, DRAFT_OF_DEEPSEEK4):
        return "half" if several_axes and architecture in AXES_BY_SECTIONS else "interleaved"
    if architecture not in KNOWN:
        raise ConfigError(
            f"Unknown architecture '{architecture}' of GGUF: it decides how features are paired."
            f"{nearest(architecture, KNOWN)} {len(KNOWN)} architectures are known."
        )
    return "half"
