"""Reading rotary positions from GGUF files, as llama.cpp reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.positions.scaling import SCALINGS, FrequencyScaling, Unscaled
from locant.positions.scaling.fields import Fields, Finding
from locant.positions.scaling.forms import FACTORS, GGUFContext, gguf_factors
from locant.rotary_configs.axes import several_axes
from locant.rotary_configs.base import ALL_LAYERS, ParsedConfig, declared_length
from locant.rotary_configs.doubts import with_checked_axes
from locant.rotary_configs.gguf_layers import layers_of
from locant.rotary_configs.layers import layers_without_positions
from locant.rotary_configs.usual_values import refuse_impossible, unusual_values
from locant.rotary_configs.wording import speaks_of

_INTERLEAVED = """
llama llada llama4 deci baichuan internlm2 minicpm xverse command-r cohere2 olmo arctic deepseek deepseek2
deepseek32 plm chatglm granite granitemoe granitehybrid chameleon bailingmoe neo-bert smollm3 arcee ernie4_5
ernie4_5-moe mistral3 mistral4 llama-embed maincoder glm-dsa glm4 cohere2moe deepseek2-ocr
"""
INTERLEAVED = tuple(_INTERLEAVED.split())
"""Architectures that pair neighbouring features (``LLAMA_ROPE_TYPE_NORM``)."""

_HALF = """
falcon falcon-h1 grok dbrx modern-bert nomic-bert nomic-bert-moe eurobert stablelm bitnet qwen qwen2 dream qwen2moe
qwen3 qwen3moe qwen3next olmo2 olmoe phi2 phi3 phimoe plamo plamo2 gemma gemma2 gemma3 gemma3n gemma4
gemma-embedding starcoder2 openelm gptneox codeshell orion nemotron exaone exaone4 minicpm3 bailingmoe2 dots1
hunyuan-moe hunyuan-dense hunyuan_vl gpt-oss lfm2 lfm2moe smallthinker seed_oss apertus minimax-m2 glm4moe
jina-bert-v3 plamo3 llada-moe rnd1 exaone-moe jais2 grovemoe cogvlm pangu-embedded afmoe mimo2 step35
"""
HALF = tuple(_HALF.split())
"""Architectures that pair features of the two halves (``LLAMA_ROPE_TYPE_NEOX``)."""

_NONE = """
clip gpt2 gptj mpt refact bloom starcoder bert jina-bert-v2 mamba mamba2 jamba t5 t5encoder jais rwkv6 rwkv6qwen2 rwkv7
arwkv7 wavtokenizer-dec nemotron_h nemotron_h_moe kimi-linear
"""
WITHOUT_ROTATION = tuple(_NONE.split())
"""Architectures that llama.cpp does not rotate: ``LLAMA_ROPE_TYPE_NONE``, and those whose graph only adds positions."""

SEVERAL_AXES = {
    **dict.fromkeys(("qwen2vl", "paddleocr"), False),
    **dict.fromkeys(("qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe"), True),
}
"""Architectures with positions of several axes, in halves; whether the axes' pairs alternate."""

AXES_BY_SECTIONS = frozenset(("glm4", "glm4moe", "hunyuan_vl"))
"""Architectures whose positions have several axes where the file has sections; pairs are halves then."""

SEPARATE_PART = frozenset(("deepseek2", "deepseek32", "minicpm3", "plm", "mistral4", "glm-dsa"))
"""Architectures whose rotated features are a separate part of the head, of ``rope.dimension_count`` features."""

WHOLE_HEADS = frozenset(("llama", "deci", "falcon", "llama-embed"))
"""Architectures of which llama.cpp loads no file that rotates a part of the head."""

LOG_MULTIPLIER_UNIT = {"deepseek2": 0.1, "deepseek32": 0.1, "mistral3": 1.0}
"""Unit of ``yarn_log_multiplier``, which is mscale_all_dim, by architecture."""

RAISES_BASE = frozenset(("hunyuan-dense", "hunyuan_vl"))
"""Architectures that raise the base by ``rope.scaling.alpha``."""

LOCAL_BASE = frozenset(("gemma3", "gemma3n", "gemma-embedding"))
"""Architectures whose sliding attention has base 10000 by default, and is never scaled."""


def layout_of(architecture: str, *, several_axes: bool = False) -> RotaryLayout:
    """Return the layout of an architecture, ``general.architecture`` of a file.

    Args:
        architecture: Its name.
        several_axes: Whether the file has sections of several axes.

    Raises:
        ConfigError: The architecture is unknown, or has no rotary positions.
    """
    if architecture in WITHOUT_ROTATION:
        raise ConfigError(f"llama.cpp does not rotate in the architecture '{architecture}': no rotary positions.")
    if architecture in INTERLEAVED:
        return "half" if several_axes and architecture in AXES_BY_SECTIONS else "interleaved"
    known = [*INTERLEAVED, *HALF, *SEVERAL_AXES]
    if architecture not in known:
        raise ConfigError(
            f"Unknown architecture '{architecture}' of GGUF: it decides how features are paired."
            f"{nearest(architecture, known)} Known: {', '.join(sorted(known))}."
        )
    return "half"


_TOLERANCE = 2e-6  # the tensor is float32


def scaling_of_factors(factors: Sequence[float], rotary_dim: int, base: float) -> FrequencyScaling:
    """Return the scaling that divides frequencies by these factors.

    Raises:
        ConfigError: There is no factor for every pair, or no scaling that GGUF files hold in this tensor has them.
    """
    if len(factors) != rotary_dim // 2:
        raise ConfigError(
            f"{FACTORS} holds {len(factors)} factors, but {rotary_dim} rotated features are {rotary_dim // 2} pairs."
        )
    plain = [float(frequency) for frequency in Unscaled().frequencies(rotary_dim, base)]
    for scaling in SCALINGS.values():
        candidate = scaling.from_gguf_factors(factors, plain)
        if candidate is None:
            continue
        found = gguf_factors(candidate, rotary_dim, base)
        if all(math.isclose(a, b, rel_tol=_TOLERANCE) for a, b in zip(found, factors, strict=True)):
            return candidate
    raise ConfigError(
        f"The factors in {FACTORS} are neither those of Llama 3's scaling nor those of 'proportional' for "
        f"{rotary_dim} features and base {base:g}; check freq_base and dimension_count."
    )


_KEYS = (
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.dimension_count",
    "rope.dimension_count_swa",
    "rope.dimension_sections",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.alpha",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_log_multiplier",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
)


@speaks_of("gguf", "The GGUF file")
def read_gguf(metadata: Mapping[str, Any], tensors: Mapping[str, Sequence[float]] | None = None) -> ParsedConfig:
    """Read the rotary positions of a GGUF file.

    Args:
        metadata: The file's keys and values.
        tensors: Its tensors of factors: ``rope_freqs.weight`` (Llama 3's scaling and 'proportional'), or
            ``rope_factors_short.weight`` and ``rope_factors_long.weight`` (LongRoPE), where it has them.

    Returns:
        The configurations, with the layout that the file's projections have.

    Raises:
        ConfigError: The architecture, a type or a key is unknown, a value is missing or out of range, or llama.cpp
            would compute what no rotary configuration expresses.

    Example:
        >>> parsed = read_gguf({
        ...     "general.architecture": "llama", "llama.context_length": 16384, "llama.attention.key_length": 128,
        ...     "llama.rope.freq_base": 1e6, "llama.rope.scaling.type": "none"})
        >>> parsed.config.layout, parsed.config.base
        ('interleaved', 1000000.0)
    """
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise ConfigError("The GGUF metadata has no general.architecture, which all other keys begin with.")
    prefix = f"{architecture}."
    own = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    keys = Fields(own, f"the GGUF metadata of '{architecture}'")
    refuse_impossible(own, keys.where)
    findings = list(unusual_values(own, keys.where))
    sections = [int(size) for size in keys.numbers("rope.dimension_sections") or () if size]
    layout = layout_of(architecture, several_axes=bool(sections))
    head_dim, rotary_dim = _dims(keys, architecture)
    base = keys.number("rope.freq_base")
    base = _with_alpha(keys, architecture, 10000.0 if base is None else base, head_dim)
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
    configs, layers = layers_of(keys, architecture, _with_sliding(keys, architecture, config, length))
    findings += layers_without_positions(layers, "llama.cpp does not rotate queries and keys there")
    keys.refuse_rest(_KEYS, [key for key in own if key.startswith("rope.")])
    if not sections:
        return ParsedConfig(configs, tuple(findings), layers=layers)
    several = several_axes(sections, "alternating" if SEVERAL_AXES.get(architecture) else "sections", rotary_dim // 2)
    note = "Positions have several axes; the configuration holds the frequencies, and is exact for text alone."
    findings.append(Finding("note", note, "Use MultimodalRotary with the sections for images and video."))
    parsed = ParsedConfig(configs, tuple(findings), dict.fromkeys(configs, several), layers)
    return with_checked_axes(parsed, "rope.dimension_sections", splits=False)


def _with_alpha(keys: Fields, architecture: str, base: float, head_dim: int) -> float:
    """Return the base, which Hunyuan's classes raise to base * alpha^(d / (d - 2))."""
    alpha = keys.number("rope.scaling.alpha")  # others pass over it
    if architecture not in RAISES_BASE or not alpha or alpha < 0 or head_dim < 3:
        return base
    return float(base * alpha ** (head_dim / (head_dim - 2)))


def _dims(keys: Fields, architecture: str, of: str = "") -> tuple[int, int]:
    rotary_dim, head_dim = keys.whole(f"rope.dimension_count{of}"), keys.whole(f"attention.key_length{of}")
    if of:  # those of the other layers, where sliding ones have none of their own
        rotary_dim = rotary_dim or keys.whole("rope.dimension_count")
        head_dim = head_dim or keys.whole("attention.key_length")
    width = keys.whole("embedding_length")
    heads = keys.get("attention.head_count")
    heads = None if isinstance(heads, Sequence) else keys.whole("attention.head_count")  # OpenELM has a list, by layer
    if architecture in SEPARATE_PART:
        head_dim = int(keys.need(rotary_dim, "rope.dimension_count", "the rotated part of the head has no other size"))
    elif head_dim is None:
        if width is None or heads is None or width % heads:
            raise ConfigError(
                f"{keys.where} has neither attention.key_length nor an embedding_length ({width}) that "
                f"attention.head_count ({heads}) divides."
            )
        head_dim = width // heads
    if architecture in WHOLE_HEADS and rotary_dim not in (None, head_dim):
        raise ConfigError(
            f"rope.dimension_count in {keys.where} is {rotary_dim}, but a head has {head_dim} features; llama.cpp "
            f"refuses a file of the architecture '{architecture}' where they differ."
        )
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
    keys.flag("rope.scaling.finetuned")
    types = {scaling.gguf_type: scaling for scaling in SCALINGS.values() if scaling.gguf_type}
    if kind not in types:
        raise ConfigError(f"Unknown rope.scaling.type '{kind}'.{nearest(kind, types)} Known: {', '.join(types)}.")
    attention = keys.number("rope.scaling.attn_factor")
    if attention is not None and attention <= 0:
        raise ConfigError(f"rope.scaling.attn_factor {attention:g} in {keys.where} must be above 0: scores go by it.")
    context = GGUFContext(
        tensors=tensors,
        factor=keys.number("rope.scaling.factor") or keys.number("rope.scale_linear") or 1.0,
        original_length=keys.whole("rope.scaling.original_context_length"),
        attention_factor=1.0 if attention is None else attention,
        mscale_of=partial(_mscale, architecture, findings),
        findings=findings,
    )
    scaling = types[kind].from_gguf(keys, context)
    if FACTORS not in tensors:
        return scaling
    if scaling != Unscaled():
        raise ConfigError(
            f"{FACTORS} comes on top of rope.scaling.factor {context.factor:g} of the type '{kind}'; no scaling here "
            "does both."
        )
    return scaling_of_factors(tensors[FACTORS], rotary_dim, base)


def _mscale(architecture: str, findings: list[Finding], multiplier: float) -> tuple[float, float] | None:
    """Return mscale and mscale_all_dim that an architecture means by ``yarn_log_multiplier``; ``None`` for nothing.

    Source: ``load_arch_hparams`` in llama.cpp's ``src/models``, where each architecture reads it or does not.
    """
    if architecture in LOG_MULTIPLIER_UNIT:
        # A float32 of 0.1 * 0.707 must come back as 0.707.
        mscale_all_dim = float(f"{multiplier / LOG_MULTIPLIER_UNIT[architecture]:.6g}")
        return (mscale_all_dim if architecture == "deepseek2" else 1.0), mscale_all_dim
    if architecture in SEPARATE_PART:
        raise ConfigError(
            f"rope.scaling.yarn_log_multiplier is not known for the architecture '{architecture}'; its unit differs "
            f"between architectures. Known: {', '.join(LOG_MULTIPLIER_UNIT)}."
        )
    findings.append(
        Finding(
            "warning",
            f"llama.cpp passes over rope.scaling.yarn_log_multiplier {multiplier:g} in the architecture "
            f"'{architecture}': attention is scaled by 0.1 * ln(factor) + 1, as in files without it.",
            "Convert the model to the architecture 'mistral3' where that is meant, or state rope.scaling.attn_factor.",
        )
    )
    return None


def _with_sliding(keys: Fields, architecture: str, full: RotaryConfig, length: int | None) -> dict[str, RotaryConfig]:
    """Return the configuration of the file by layer types: sliding attention has a base of its own in some."""
    base = keys.number("rope.freq_base_swa")
    if base is None and architecture in LOCAL_BASE:
        base = 10000.0
    has_own_heads = keys.whole("attention.key_length_swa") or keys.whole("rope.dimension_count_swa")
    if base is None and not has_own_heads:
        return {ALL_LAYERS: full}
    if base is None:
        own_head, own_part = _dims(keys, architecture, "_swa")
        sliding = replace(full, head_dim=own_head, rotary_dim=own_part)  # base and scaling are those of all layers
        return {ALL_LAYERS: full} if sliding == full else {"full_attention": full, "sliding_attention": sliding}
    if architecture not in LOCAL_BASE and full.scaling != Unscaled():
        raise ConfigError(
            f"The architecture '{architecture}' scales sliding attention by '{full.scaling.name}' and "
            f"rope.freq_base_swa {base:g} together; write the configurations by hand."
        )
    head_dim, rotary_dim = full.head_dim, full.rotary_dim
    if has_own_heads:
        head_dim, rotary_dim = _dims(keys, architecture, "_swa")
    sliding = RotaryConfig(head_dim=head_dim, base=base, rotary_dim=rotary_dim, layout=full.layout, max_length=length)
    return {"full_attention": full, "sliding_attention": sliding}
