"""Layers of a GGUF file with a rotation of their own, as llama.cpp's graphs have it: sliding and compressed attention.

Source: ``get_rope_freq_base``, ``get_rope_freq_scale`` and the graphs in ``src/models`` of llama.cpp, as
llama-cpp-python 0.3.36 brings them, and what build b11739 computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import FrequencyScaling, Linear, LongRoPE, Unscaled, YaRN
from locant.positions.scaling.fields import Fields, Finding
from locant.positions.scaling.forms import gguf_factors
from locant.positions.scaling.out_of_range import LinearOfAnyFactor
from locant.rotary_configs.base import ALL_LAYERS
from locant.rotary_configs.factor_products import one_list
from locant.rotary_configs.gguf.architectures import HALVES_FULL_ATTENTION, OWN_SIZES
from locant.rotary_configs.gguf.sizes import sliding_sizes
from locant.rotary_configs.gguf.windows import window_of
from locant.rotary_configs.unusual_bases import of_small_base, with_base

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
MAIN, COMPRESSED = "main", "compress"
COMPRESS_RATIOS, _COMPRESS_BASE = "attention.compress_ratios", "attention.compress_rope_freq_base"
_BASE = "rope.freq_base_swa"


@dataclass(frozen=True)
class Sliding:
    """How the sliding attention of an architecture rotates where it has a rotation of its own.

    Attributes:
        usual_base: Base where the file has no ``rope.freq_base_swa``; ``None`` for that of the file.
        takes_base: Whether the graph takes ``rope.freq_base_swa``.
        is_scaled: Whether it has the scaling of the file.
        is_magnified: Whether it has ``rope.scaling.attn_factor`` of the file although it is not scaled.
        keeps_factor: Whether the type 'none' leaves it the factor of the file (``rope_freq_scale_train_swa``).
    """

    usual_base: float | None = None
    takes_base: bool = True
    is_scaled: bool = False
    is_magnified: bool = False
    keeps_factor: bool = True


_LOCAL = Sliding(usual_base=10000.0, is_magnified=True)
_SHARED = Sliding(is_scaled=True)
_LOCAL_NAMES = "gemma3 gemma3n gemma-embedding gemma4 gemma4-assistant mimo2 modern-bert plamo3 step35"
_SHARED_NAMES = "afmoe gemma2 gpt-oss llama4 maple smallthinker spark2_5"
SLIDING_ATTENTION = {
    **dict.fromkeys(_LOCAL_NAMES.split(), _LOCAL),
    **dict.fromkeys(_SHARED_NAMES.split(), _SHARED),
    "dots3note": Sliding(is_scaled=True, keeps_factor=False),
    "laguna": Sliding(),
    "mellum": Sliding(),
    "muse-glimmer": Sliding(is_magnified=True),
    "olmo2": Sliding(takes_base=False),
}
"""Architectures whose sliding attention may rotate otherwise than the rest."""


def by_layer_types(
    keys: Fields,
    architecture: str,
    full: RotaryConfig,
    scaling_again: Callable[[int, float], FrequencyScaling],
    findings: list[Finding],
) -> dict[str, RotaryConfig]:
    """Return the configurations of a file by layer types, ``all`` where there is one.

    Args:
        keys: The metadata of the architecture.
        architecture: ``general.architecture``.
        full: What the file says about full attention.
        scaling_again: Returns the scaling of the file for other rotated features or another base.
        findings: Where findings go.
    """
    if architecture == "deepseek4":
        findings += passes_over_base(keys, architecture, full.base)
        return _compressed(keys, full)
    base, facts = keys.number(_BASE), SLIDING_ATTENTION.get(architecture)
    has_own_sizes = states_own_sizes(keys, architecture)
    if facts is None or not (window_of(keys, architecture) or has_own_sizes or base):
        findings += passes_over_base(keys, architecture, full.base)
        return {ALL_LAYERS: full}
    if not facts.takes_base:
        findings += passes_over_base(keys, architecture, full.base)
        base = None
    base = (facts.usual_base or full.base) if base is None else base
    head_dim, rotary_dim = (full.head_dim, full.rotary_dim)
    if has_own_sizes:
        head_dim, rotary_dim = sliding_sizes(keys, architecture)
    assert rotary_dim is not None
    if base <= 1:
        findings.append(of_small_base(f"{_BASE} in {keys.where} is {base:g}", base, "llama.cpp"))
    sliding = with_base(full, base, head_dim=head_dim, rotary_dim=rotary_dim, scaling=Unscaled())
    if facts.is_scaled:
        kept = _kept_factor(keys, rotary_dim, base, findings) if facts.keeps_factor else None
        same = (base, rotary_dim) == (full.base, full.rotary_dim)
        sliding = replace(sliding, scaling=kept or (full.scaling if same else scaling_again(rotary_dim, base)))
        if sliding == full:
            return {ALL_LAYERS: full}
    else:
        sliding = replace(sliding, max_length=keys.whole("context_length"))
        if facts.is_magnified and (scale := _scale_of_cosines(keys)) != 1 and sliding.max_length:
            sliding = replace(sliding, scaling=one_list((1.0,) * (rotary_dim // 2), sliding.max_length, scale))
            findings.append(_magnified(scale, architecture))
    return {FULL: full, CHUNKED if architecture == "llama4" else SLIDING: sliding}


def states_own_sizes(keys: Fields, architecture: str) -> bool:
    """Return whether the file has heads of another size in sliding attention, and the graph as well."""
    stated = any(keys.whole(f"{name}_swa") for name in ("attention.key_length", "rope.dimension_count"))
    return architecture in HALVES_FULL_ATTENTION or (stated and architecture in OWN_SIZES)


def passes_over_base(keys: Fields, architecture: str, base: float) -> Iterator[Finding]:
    """Yield that the base of sliding attention has no effect, where the file states one."""
    stated = keys.number(_BASE)
    if stated is not None and stated != base:
        yield Finding(
            "warning",
            f"llama.cpp passes over rope.freq_base_swa {stated:g} in the architecture '{architecture}': all layers "
            f"have the base {base:g}.",
            "Compare with the model's publication.",
        )


def _kept_factor(keys: Fields, rotary_dim: int, base: float, findings: list[Finding]) -> FrequencyScaling | None:
    """Return the linear scaling that sliding layers keep beside the type 'none' (``llama_context::llama_context``)."""
    factor = keys.number("rope.scaling.factor") or keys.number("rope.scale_linear") or 1.0
    if keys.text("rope.scaling.type") != "none" or factor == 1:
        return None
    # That the factor has no effect is true of the others alone.
    findings[:] = [each for each in findings if " has no effect with rope.scaling.type 'none'" not in each.message]
    findings.append(
        Finding(
            "warning",
            f"rope.scaling.type 'none' holds for layers of full attention alone: llama.cpp divides the frequencies of "
            f"sliding layers by the factor {factor:g}.",
            "Remove the factor.",
        )
    )
    kept = Linear(factor=factor) if factor >= 1 else LinearOfAnyFactor(factor=factor)
    scale, length = _scale_of_cosines(keys), keys.whole("context_length")
    if scale == 1 or length is None:
        return kept
    return one_list(gguf_factors(kept, rotary_dim, base), length, scale)


def _scale_of_cosines(keys: Fields) -> float:
    """Return what multiplies cosine and sine where frequencies are not scaled (``yarn_attn_factor`` of the context).

    The context divides it by ``0.1 * ln(factor) + 1``, which ``rope_yarn`` multiplies by where it scales.
    """
    factor = keys.number("rope.scaling.factor") or keys.number("rope.scale_linear") or 1.0
    of_file = abs(keys.number("rope.scaling.attn_factor") or 1.0)
    is_below_1 = keys.text("rope.scaling.type") == "yarn" and 0 < factor < 1
    return of_file / (0.1 * math.log(factor) + 1) if is_below_1 else of_file


def _magnified(scale: float, architecture: str) -> Finding:
    return Finding(
        "warning",
        f"llama.cpp scales the attention of sliding layers by {scale:.6g}, too, in the architecture '{architecture}', "
        "although their frequencies are not scaled: it is shown by LongRoPE whose lists are 1.",
        "Compare with the model's publication.",
    )


def with_plain_attention(scaling: FrequencyScaling) -> FrequencyScaling:
    """Return a scaling without an attention scale, which ``dsv4_rope_attn_factor`` takes away in DeepSeek-V4."""
    if isinstance(scaling, YaRN):
        return replace(scaling, attention_factor=1.0, mscale=None, mscale_all_dim=None)
    return replace(scaling, attention_factor=1.0) if isinstance(scaling, LongRoPE) else scaling


def _compressed(keys: Fields, stated: RotaryConfig) -> dict[str, RotaryConfig]:
    """Return the rotations of DeepSeek-V4: compressed attention alone has a base of its own, and the scaling."""
    base = keys.need(keys.number(_COMPRESS_BASE), _COMPRESS_BASE, "compressed attention has no other base")
    scaling = with_plain_attention(stated.scaling)
    return {
        MAIN: replace(stated, scaling=Unscaled(), max_length=keys.whole("context_length")),
        COMPRESSED: with_base(stated, base, scaling=scaling),
    }
