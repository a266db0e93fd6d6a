"""Writing rotary positions into GGUF files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.positions.scaling import Linear, Llama3, LongRoPE, NTKByParts, Proportional, Unscaled, YaRN
from locant.rotary_configs.base import (
    as_yarn,
    by_layer,
    cannot_express,
    paper_attention_scale,
    refuse_final_length,
    with_base_for_ntk,
)
from locant.rotary_configs.gguf import (
    FREQUENCIES,
    LOCAL_BASE,
    LOG_MULTIPLIER_UNIT,
    LONG,
    SEPARATE_PART,
    SEVERAL_AXES,
    SHORT,
    factors_of,
    layout_of,
)
from locant.rotary_configs.llamacpp import check_llamacpp_yarn

_DIALECT = "GGUF"


@dataclass(frozen=True)
class GGUFRotary:
    """What a GGUF file holds about rotary positions.

    Attributes:
        metadata: Keys and values. Numbers with a fraction are float32 in the file.
        tensors: Float32 tensors of one dimension, by name.
        layout: Layout of the file's architecture. Where it is not that of the configuration, the features of queries
            and keys must be permuted in the file, as llama.cpp's converters do for Llama.
    """

    metadata: dict[str, Any]
    tensors: dict[str, tuple[float, ...]]
    layout: RotaryLayout


def write_gguf(configs: RotaryConfig | Mapping[str, RotaryConfig], architecture: str) -> GGUFRotary:
    """Return what a GGUF file must hold so that llama.cpp computes these rotary positions.

    Static NTK scalings are written as the larger base that they are.

    Args:
        configs: The configuration; for Gemma 3's architectures one of ``full_attention`` and one of
            ``sliding_attention``.
        architecture: ``general.architecture`` of the file.

    Raises:
        ConfigError: llama.cpp cannot compute it, or the architecture is unknown.

    Example:
        >>> from locant.positions import Llama3
        >>> llama = RotaryConfig(head_dim=128, base=5e5, scaling=Llama3(factor=8, original_length=8192))
        >>> written = write_gguf(llama, "llama")
        >>> written.layout, len(written.tensors["rope_freqs.weight"]), max(written.tensors["rope_freqs.weight"])
        ('interleaved', 64, 8.0)
    """
    layout = layout_of(architecture)
    if architecture in SEVERAL_AXES:
        raise ConfigError(
            f"The architecture '{architecture}' has positions of several axes, whose sections no rotary configuration "
            "holds."
        )
    given = {layer: with_base_for_ntk(config) for layer, config in by_layer(configs).items()}
    full = next(iter(given.values()))
    written: dict[str, Any] = {}
    if len(given) > 1 or architecture in LOCAL_BASE:
        full, written["rope.freq_base_swa"] = _with_sliding(given, architecture)
    length = full.max_length or getattr(full.scaling, "target_length", None)
    written |= {"rope.freq_base": full.base, "rope.dimension_count": full.rotary_dim}
    if length is not None:
        written["context_length"] = length
    if architecture not in SEPARATE_PART:
        written["attention.key_length"] = full.head_dim
    elif full.rotary_dim != full.head_dim:
        raise ConfigError(
            f"The architecture '{architecture}' rotates a separate part of the head as a whole: head_dim must be "
            f"rotary_dim, {full.rotary_dim}; got {full.head_dim}."
        )
    scaling, tensors = _scaling(full, architecture)
    written |= {f"rope.scaling.{key}": value for key, value in scaling.items()}
    metadata = {"general.architecture": architecture} | {f"{architecture}.{key}": written[key] for key in written}
    return GGUFRotary(metadata, tensors, layout)


def _with_sliding(given: dict[str, RotaryConfig], architecture: str) -> tuple[RotaryConfig, float]:
    """Return the configuration of full attention and the base of sliding attention."""
    if architecture not in LOCAL_BASE or set(given) != {"full_attention", "sliding_attention"}:
        raise ConfigError(
            f"GGUF cannot say rotary positions of {', '.join(given)} for the architecture '{architecture}': "
            f"{', '.join(sorted(LOCAL_BASE))} have those of full_attention and sliding_attention, others have one."
        )
    full, sliding = given["full_attention"], given["sliding_attention"]
    if not isinstance(full.scaling, Unscaled | Linear) or not isinstance(sliding.scaling, Unscaled):
        raise ConfigError(
            f"GGUF cannot say the scalings '{full.scaling.name}' and '{sliding.scaling.name}' of full and sliding "
            f"attention for the architecture '{architecture}': 'none' or 'linear', and 'none', can be said."
        )
    if (full.head_dim, full.rotary_dim) != (sliding.head_dim, sliding.rotary_dim):
        raise ConfigError("GGUF cannot say different heads of full and sliding attention for this architecture.")
    return full, sliding.base


def _scaling(config: RotaryConfig, architecture: str) -> tuple[dict[str, Any], dict[str, tuple[float, ...]]]:
    """Return the keys below ``rope.scaling.`` and the tensors."""
    match config.scaling:
        case Unscaled():
            return {"type": "none"}, {}
        case Linear() as scaling:
            return {"type": "linear", "factor": scaling.factor}, {}
        case NTKByParts() as scaling:
            return _write_yarn(as_yarn(scaling), architecture), {}
        case LongRoPE() as scaling:
            refuse_final_length(scaling, _DIALECT)
            keys = {
                "type": "longrope",
                "original_context_length": scaling.original_length,
                "attn_factor": scaling.attention_scale(),
            }
            return keys, {SHORT: tuple(scaling.short_factors), LONG: tuple(scaling.long_factors)}
        case Llama3() | Proportional():
            return {"type": "none"}, {FREQUENCIES: factors_of(config)}
        case scaling:
            raise cannot_express(_DIALECT, scaling, "llama.cpp has the same frequencies for texts of all lengths")


def _write_yarn(scaling: YaRN, architecture: str) -> dict[str, Any]:
    check_llamacpp_yarn(scaling, _DIALECT)
    keys: dict[str, Any] = {
        "type": "yarn",
        "factor": scaling.factor,
        "original_context_length": scaling.original_length,
        "yarn_beta_fast": scaling.beta_fast,
        "yarn_beta_slow": scaling.beta_slow,
    }
    if scaling.mscale_all_dim is not None and architecture in LOG_MULTIPLIER_UNIT:
        expected = scaling.mscale_all_dim if architecture == "deepseek2" else 1.0
        if scaling.mscale != expected:
            raise ConfigError(
                f"GGUF cannot say mscale {scaling.mscale} with mscale_all_dim {scaling.mscale_all_dim} for the "
                f"architecture '{architecture}': llama.cpp takes mscale for {expected}."
            )
        return keys | {"yarn_log_multiplier": scaling.mscale_all_dim * LOG_MULTIPLIER_UNIT[architecture]}
    relative = scaling.attention_scale() / paper_attention_scale(scaling)
    return keys if relative == 1 else keys | {"attn_factor": relative}
