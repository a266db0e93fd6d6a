"""Reading rotary positions from GGUF files, as llama.cpp reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.positions.scaling import FrequencyScaling, Linear, Llama3, LongRoPE, Proportional, Unscaled, YaRN
from locant.rotary_configs.base import ALL_LAYERS, Fields, Finding, Reading, declared_length, paper_attention_scale

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


STANDING = 1e30
"""Factor of a pair that does not turn: its angle is below any rounding."""

_TOLERANCE = 2e-6  # the tensor is float32


def factors_of(config: RotaryConfig) -> tuple[float, ...]:
    """Return by what the scaling of a configuration divides the frequency of every pair."""
    assert config.rotary_dim is not None
    plain = Unscaled().frequencies(config.rotary_dim, config.base)
    return tuple(
        float(whole / scaled) if scaled else STANDING for whole, scaled in zip(plain, config.frequencies(), strict=True)
    )


def scaling_of(factors: Sequence[float], rotary_dim: int, base: float) -> FrequencyScaling:
    """Return the scaling that divides frequencies by these factors.

    Raises:
        ConfigError: There is no factor for every pair, or no scaling that GGUF files hold in this tensor has them.
    """
    if len(factors) != rotary_dim // 2:
        raise ConfigError(
            f"rope_freqs.weight holds {len(factors)} factors, but {rotary_dim} rotated features are "
            f"{rotary_dim // 2} pairs."
        )
    plain = [float(frequency) for frequency in Unscaled().frequencies(rotary_dim, base)]
    for candidate in (_proportional(factors), _llama3(factors, plain)):
        if candidate is None:
            continue
        found = factors_of(RotaryConfig(head_dim=rotary_dim, base=base, scaling=candidate))
        if all(math.isclose(a, b, rel_tol=_TOLERANCE) for a, b in zip(found, factors, strict=True)):
            return candidate
    raise ConfigError(
        "The factors in rope_freqs.weight are neither those of Llama 3's scaling nor those of 'proportional' for "
        f"{rotary_dim} features and base {base:g}; check freq_base and dimension_count."
    )


def _proportional(factors: Sequence[float]) -> FrequencyScaling | None:
    """Return the scaling that turns the first pairs alike and not the others, if the factors look like one."""
    turning = sum(factor < math.sqrt(STANDING) for factor in factors)
    factor = factors[0] if turning else 1.0
    if factor < 1 or max(factors[:turning], default=factor) != min(factors[:turning], default=factor):
        return None
    if turning == len(factors) and factor == 1:
        return Unscaled()
    return Proportional(rotary_fraction=turning / len(factors), factor=factor)


def _llama3(factors: Sequence[float], plain: Sequence[float]) -> FrequencyScaling | None:
    """Return the scaling whose blend meets two of the blended pairs, if there are two.

    The blend is linear in the frequency: ``share = (L * f / 2 pi - low) / (high - low)``. Multiplying ``L``, ``low``
    and ``high`` by the same number changes nothing, so ``low`` is 1 wherever that makes ``L`` a whole number.
    """
    largest = max(factors)
    blended = [index for index, factor in enumerate(factors) if 1 + 1e-5 < factor < largest * (1 - 1e-5)]
    if len(blended) < 2 or largest >= STANDING:
        return None
    turns = [plain[index] / (2 * math.pi) for index in (blended[0], blended[-1])]
    shares = [(1 / factors[index] - 1 / largest) / (1 - 1 / largest) for index in (blended[0], blended[-1])]
    slope = (shares[0] - shares[1]) / (turns[0] - turns[1])
    offset = shares[0] - slope * turns[0]
    if slope <= 0 or offset >= 0:
        return None
    high = 1 - 1 / offset
    length = slope * (high - 1)
    whole = max(round(length), 1)
    low = whole / length
    if abs(low - 1) < 1e-4:
        low = 1.0
    return Llama3(
        original_length=whole, factor=largest, low_frequency_factor=low, high_frequency_factor=round(high * low, 3)
    )


SHORT, LONG, FREQUENCIES = "rope_factors_short.weight", "rope_factors_long.weight", "rope_freqs.weight"
TYPES = ("none", "linear", "yarn", "longrope")
_KEYS = [
    *("rope.freq_base", "rope.freq_base_swa", "rope.dimension_count", "rope.dimension_count_swa"),
    *("rope.dimension_sections", "rope.scale_linear", "rope.scaling.type", "rope.scaling.factor"),
    *("rope.scaling.original_context_length", "rope.scaling.finetuned", "rope.scaling.attn_factor"),
    *("rope.scaling.yarn_log_multiplier", "rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor"),
    *("rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"),
]


def read_gguf(metadata: Mapping[str, Any], tensors: Mapping[str, Sequence[float]] | None = None) -> Reading:
    """Read the rotary positions of a GGUF file.

    Args:
        metadata: The file's keys and values.
        tensors: Its tensors of factors: ``rope_freqs.weight`` (Llama 3's scaling and 'proportional'), or
            ``rope_factors_short.weight`` and ``rope_factors_long.weight`` (LongRoPE), where it has them.

    Returns:
        The configurations, with the layout that the file's projections have.

    Raises:
        ConfigError: The architecture, a type or a key is unknown, a value is missing or out of range, or llama.cpp
            would compute what a rotary configuration cannot say.

    Example:
        >>> reading = read_gguf({
        ...     "general.architecture": "llama", "llama.context_length": 16384, "llama.attention.key_length": 128,
        ...     "llama.rope.freq_base": 1e6, "llama.rope.scaling.type": "none"})
        >>> reading.config.layout, reading.config.base
        ('interleaved', 1000000.0)
    """
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise ConfigError("The GGUF metadata has no general.architecture, which all other keys begin with.")
    prefix = f"{architecture}."
    own = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    keys = Fields(own, f"the GGUF metadata of '{architecture}'")
    findings: list[Finding] = []
    layout = layout_of(architecture)
    head_dim, rotary_dim = _dims(keys, architecture)
    base = keys.number("rope.freq_base") or 10000.0
    length = keys.whole("context_length")
    given = {name.removesuffix(".weight") + ".weight": tuple(values) for name, values in (tensors or {}).items()}
    scaling = _scaling(keys, architecture, given, rotary_dim, base, findings)
    config = RotaryConfig(
        head_dim=head_dim,
        base=base,
        rotary_dim=rotary_dim,
        layout=layout,
        scaling=scaling,
        max_length=declared_length(scaling, length, findings),
    )
    configs = _with_sliding(keys, architecture, config, length)
    sections = [int(size) for size in keys.numbers("rope.dimension_sections") or () if size]
    keys.refuse_rest(_KEYS, [key for key in own if key.startswith("rope.")])
    if not sections:
        return Reading(configs, tuple(findings))
    several = {"sections": tuple(sections), "interleaved": SEVERAL_AXES.get(architecture, False)}
    note = "Positions have several axes; the configuration holds the frequencies, and is exact for text alone."
    findings.append(Finding("note", note, "Use MultimodalRotary with the sections for images and video."))
    return Reading(configs, tuple(findings), dict.fromkeys(configs, several))


def _dims(keys: Fields, architecture: str, of: str = "") -> tuple[int, int]:
    rotary_dim, head_dim = keys.whole(f"rope.dimension_count{of}"), keys.whole(f"attention.key_length{of}")
    width, heads = keys.whole("embedding_length"), keys.whole("attention.head_count")
    if architecture in SEPARATE_PART:
        head_dim = int(keys.need(rotary_dim, "rope.dimension_count", "the rotated part of the head has no other size"))
    elif head_dim is None:
        if width is None or heads is None or width % heads:
            raise ConfigError(
                f"{keys.where} has neither attention.key_length nor an embedding_length ({width}) that "
                f"attention.head_count ({heads}) divides."
            )
        head_dim = width // heads
    return head_dim, rotary_dim or head_dim


def _scaling(
    keys: Fields,
    architecture: str,
    tensors: Mapping[str, tuple[float, ...]],
    rotary_dim: int,
    base: float,
    findings: list[Finding],
) -> FrequencyScaling:
    # llama.cpp takes a file without a type for linear, and one without a factor for unscaled.
    kind = keys.text("rope.scaling.type") or "linear"
    factor = keys.number("rope.scaling.factor") or keys.number("rope.scale_linear") or 1.0
    keys.flag("rope.scaling.finetuned")
    if kind not in TYPES:
        raise ConfigError(f"Unknown rope.scaling.type '{kind}'.{nearest(kind, TYPES)} Known: {', '.join(TYPES)}.")
    if kind == "none" and factor != 1:
        raise ConfigError(f"rope.scaling.factor {factor:g} has no effect with rope.scaling.type 'none'.")
    original = keys.whole("rope.scaling.original_context_length")
    attention = keys.number("rope.scaling.attn_factor") or 1.0
    if kind == "yarn":
        return _yarn(keys, architecture, factor, original, attention, findings)
    if kind == "longrope":
        return _longrope(keys, tensors, factor, original, attention, findings)
    if attention != 1:
        raise ConfigError(
            f"rope.scaling.attn_factor {attention:g} with rope.scaling.type '{kind}' scales scores, which only YaRN "
            "and LongRoPE do here."
        )
    if FREQUENCIES not in tensors:
        return Unscaled() if factor == 1 else Linear(factor=factor, original_length=original)
    if factor != 1:
        raise ConfigError(f"{FREQUENCIES} comes on top of rope.scaling.factor {factor:g}; no scaling here does both.")
    return scaling_of(tensors[FREQUENCIES], rotary_dim, base)


def _yarn(
    keys: Fields,
    architecture: str,
    factor: float,
    original: int | None,
    attention: float,
    findings: list[Finding],
) -> FrequencyScaling:
    if original is None:
        original = keys.whole("context_length")
        findings.append(
            Finding(
                "warning",
                f"rope.scaling.original_context_length is missing; llama.cpp takes context_length, {original}.",
                "Write down the length that the model was trained for before the extension.",
            )
        )
    mix = keys.number("rope.scaling.yarn_ext_factor")
    if mix is not None and mix not in (1, -1):
        raise ConfigError(
            f"rope.scaling.yarn_ext_factor {mix:g} mixes YaRN with linear interpolation; 1 is known here."
        )
    if keys.number("rope.scaling.yarn_attn_factor") not in (None, 1, -1):
        findings.append(
            Finding(
                "warning",
                "rope.scaling.yarn_attn_factor has no effect since December 2025, and multiplies the attention scale "
                "before.",
                "Write rope.scaling.attn_factor, the attention scale divided by 0.1 * ln(factor) + 1.",
            )
        )
    multiplier = keys.number("rope.scaling.yarn_log_multiplier")
    pair = _pair(architecture, multiplier)
    scaling = YaRN(
        factor=factor,
        original_length=original,
        beta_fast=keys.number("rope.scaling.yarn_beta_fast") or 32.0,
        beta_slow=keys.number("rope.scaling.yarn_beta_slow") or 1.0,
        mscale=pair[0] if pair else None,
        mscale_all_dim=pair[1] if pair else None,
    )
    if attention == 1:
        return scaling
    if pair:
        raise ConfigError("rope.scaling.attn_factor and yarn_log_multiplier both scale scores; one is known here.")
    absolute = attention * paper_attention_scale(scaling)
    # The file's float32 keeps 1 from coming back exactly.
    return replace(scaling, attention_factor=1.0 if math.isclose(absolute, 1, rel_tol=1e-6) else absolute)


def _pair(architecture: str, multiplier: float | None) -> tuple[float, float] | None:
    """Return mscale and mscale_all_dim."""
    if not multiplier:
        return None
    if architecture not in LOG_MULTIPLIER_UNIT:
        raise ConfigError(
            f"rope.scaling.yarn_log_multiplier is not known for the architecture '{architecture}'; its unit differs "
            f"between architectures. Known: {', '.join(LOG_MULTIPLIER_UNIT)}."
        )
    # A float32 of 0.1 * 0.707 must come back as 0.707.
    mscale_all_dim = float(f"{multiplier / LOG_MULTIPLIER_UNIT[architecture]:.6g}")
    return (mscale_all_dim if architecture == "deepseek2" else 1.0), mscale_all_dim


def _longrope(
    keys: Fields,
    tensors: Mapping[str, tuple[float, ...]],
    factor: float,
    original: int | None,
    attention: float,
    findings: list[Finding],
) -> FrequencyScaling:
    if SHORT not in tensors or LONG not in tensors:
        raise ConfigError(f"rope.scaling.type 'longrope' needs the tensors {SHORT} and {LONG}.")
    if factor != 1:
        raise ConfigError(
            f"llama.cpp divides LongRoPE's frequencies by rope.scaling.factor {factor:g} as well. Remove it."
        )
    findings.append(
        Finding(
            "note",
            "llama.cpp takes the long factors for all texts once the context exceeds the original length.",
            "State final_length in the configuration to do the same.",
        )
    )
    why = "llama.cpp takes context_length, and never the long factors"
    original = int(keys.need(original, "rope.scaling.original_context_length", why))
    length = keys.need(keys.whole("context_length"), "context_length", "it tells how far the model is extended")
    return LongRoPE(
        original_length=original,
        target_length=int(length),
        short_factors=tensors[SHORT],
        long_factors=tensors[LONG],
        attention_factor=attention,
    )


def _with_sliding(keys: Fields, architecture: str, full: RotaryConfig, length: int | None) -> dict[str, RotaryConfig]:
    """Return the configuration of the file by layer types: sliding attention has a base of its own in some."""
    base = keys.number("rope.freq_base_swa") or (10000.0 if architecture in LOCAL_BASE else None)
    if base is None:
        return {ALL_LAYERS: full}
    if architecture not in LOCAL_BASE and not isinstance(full.scaling, Unscaled):
        raise ConfigError(
            f"The architecture '{architecture}' scales sliding attention by '{full.scaling.name}' and "
            f"rope.freq_base_swa {base:g} together; write the configurations by hand."
        )
    head_dim, rotary_dim = full.head_dim, full.rotary_dim
    if keys.whole("attention.key_length_swa") or keys.whole("rope.dimension_count_swa"):
        head_dim, rotary_dim = _dims(keys, architecture, "_swa")
    sliding = RotaryConfig(head_dim=head_dim, base=base, rotary_dim=rotary_dim, layout=full.layout, max_length=length)
    return {"full_attention": full, "sliding_attention": sliding}
