"""Writing rotary positions into GGUF files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.positions.scaling import Unscaled
from locant.positions.scaling.contexts import FACTORS, GGUFForm
from locant.rotary_configs.base import by_layer, cannot_express, with_equivalent_base
from locant.rotary_configs.gguf.architectures import (
    HALVES_FULL_ATTENTION,
    LOADS_DIVISORS,
    LOADS_LISTS,
    LOADS_LISTS_BY_TYPE,
    LOG_MULTIPLIER_UNIT,
    OWN_HEADS,
    OWN_SIZES,
    READS_BETAS,
    SEPARATE_PART,
    SEVERAL_AXES,
    WHOLE_HEADS,
    layout_of,
)
from locant.rotary_configs.gguf.sliding import FULL, SLIDING, SLIDING_ATTENTION

_FORMAT = "GGUF"


@dataclass(frozen=True)
class GGUFRotary:
    """The rotary positions of a GGUF file.

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
        configs: The configuration, or one of ``full_attention`` and one of ``sliding_attention`` for architectures
            like Gemma 3's, whose sliding attention rotates otherwise.
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
    given = {layer: with_equivalent_base(config) for layer, config in by_layer(configs).items()}
    full = next(iter(given.values()))
    written: dict[str, Any] = {}
    if len(given) > 1 or _has_local_base(architecture):
        full, written = _with_sliding(given, architecture)
    length = full.max_length or full.scaling.reach
    assert full.rotary_dim is not None
    rotary_dim = full.rotary_dim * (2 if architecture in HALVES_FULL_ATTENTION else 1)
    written |= {"rope.freq_base": full.base, "rope.dimension_count": rotary_dim}
    if length is not None:
        written["context_length"] = length
    if architecture not in SEPARATE_PART:
        written["attention.key_length"] = full.head_dim
    elif full.rotary_dim != full.head_dim:
        raise ConfigError(
            f"The architecture '{architecture}' rotates a separate part of the head as a whole: head_dim must be "
            f"rotary_dim, {full.rotary_dim}; got {full.head_dim}."
        )
    if architecture in WHOLE_HEADS and full.rotary_dim != full.head_dim:
        raise ConfigError(
            f"GGUF cannot express {full.rotary_dim} rotated features of {full.head_dim} for the architecture "
            f"'{architecture}': llama.cpp loads no such file."
        )
    scaling, tensors = _scaling(full, architecture)
    if architecture in HALVES_FULL_ATTENTION:  # whose tensors are as long as the attention with most pairs needs
        pairs = max(full.rotary_dim, written["rope.dimension_count_swa"]) // 2
        tensors = {name: values + (1.0,) * (pairs - len(values)) for name, values in tensors.items()}
    written |= {f"rope.scaling.{key}": value for key, value in scaling.items()}
    metadata = {"general.architecture": architecture} | {f"{architecture}.{key}": written[key] for key in written}
    return GGUFRotary(metadata, tensors, layout)


def _has_local_base(architecture: str) -> bool:
    """Return whether sliding attention has a base of its own, although the file states none."""
    facts = SLIDING_ATTENTION.get(architecture)
    return facts is not None and facts.usual_base is not None


def _with_sliding(given: dict[str, RotaryConfig], architecture: str) -> tuple[RotaryConfig, dict[str, Any]]:
    """Return the configuration of full attention and the keys about sliding attention."""
    facts = SLIDING_ATTENTION.get(architecture)
    if facts is None or set(given) != {FULL, SLIDING}:
        raise ConfigError(
            f"GGUF cannot express rotary positions of {', '.join(given)} for the architecture '{architecture}': "
            f"{', '.join(sorted(SLIDING_ATTENTION))} have those of {FULL} and {SLIDING}, others have one."
        )
    full, sliding = given[FULL], given[SLIDING]
    expected = full.scaling if facts.is_scaled else Unscaled()
    magnified = facts.is_magnified and "attn_factor" in _form(full).keys
    if sliding.scaling != expected or magnified or (not facts.takes_base and sliding.base != full.base):
        raise ConfigError(
            f"GGUF cannot express this sliding attention (base {sliding.base:g}, {sliding.describe()}) beside full "
            f"attention with the base {full.base:g} and {full.describe()} for the architecture '{architecture}': "
            f"llama.cpp computes it with {'the same scaling' if facts.is_scaled else 'no scaling'}"
            f"{'' if facts.takes_base else ' and the same base'}."
        )
    written: dict[str, Any] = {"rope.freq_base_swa": sliding.base} if facts.takes_base else {}
    if architecture in OWN_HEADS:
        written["attention.key_length_swa"] = sliding.head_dim
    if architecture in OWN_SIZES:
        written["rope.dimension_count_swa"] = sliding.rotary_dim
    has_heads, has_sizes = architecture in OWN_HEADS, architecture in OWN_SIZES
    if (full.head_dim != sliding.head_dim and not has_heads) or (
        full.rotary_dim != sliding.rotary_dim and not has_sizes
    ):
        raise ConfigError("GGUF cannot express different heads of full and sliding attention for this architecture.")
    return full, written


def _scaling(config: RotaryConfig, architecture: str) -> tuple[dict[str, Any], dict[str, tuple[float, ...]]]:
    """Return the keys below ``rope.scaling.`` and the tensors."""
    form = _form(config)
    keys = dict(form.keys)
    takers = LOADS_DIVISORS if FACTORS in form.tensors else LOADS_LISTS | LOADS_LISTS_BY_TYPE
    if form.tensors and architecture not in takers:
        raise ConfigError(
            f"{_FORMAT} cannot express the scaling '{config.scaling.name}' for the architecture '{architecture}': "
            f"llama.cpp does not load {' and '.join(form.tensors)} for it."
        )
    betas = keys.get("yarn_beta_fast", 32.0), keys.get("yarn_beta_slow", 1.0)
    if betas != (32.0, 1.0) and architecture not in READS_BETAS:
        raise ConfigError(
            f"{_FORMAT} cannot express beta_fast {betas[0]:g} and beta_slow {betas[1]:g} for the architecture "
            f"'{architecture}': llama.cpp has 32 and 1 there."
        )
    if form.mscale is not None and architecture in LOG_MULTIPLIER_UNIT:
        mscale, mscale_all_dim = form.mscale
        expected = mscale_all_dim if architecture == "deepseek2" else 1.0
        if mscale != expected:
            raise ConfigError(
                f"{_FORMAT} cannot express mscale {mscale} with mscale_all_dim {mscale_all_dim} for the "
                f"architecture '{architecture}': llama.cpp takes mscale for {expected}."
            )
        keys.pop("attn_factor", None)
        keys["yarn_log_multiplier"] = mscale_all_dim * LOG_MULTIPLIER_UNIT[architecture]
    return keys, dict(form.tensors)


def _form(config: RotaryConfig) -> GGUFForm:
    assert config.rotary_dim is not None
    form = config.scaling.gguf_form(config.rotary_dim, config.base, _FORMAT)
    if form is None:
        raise cannot_express(_FORMAT, config.scaling, "llama.cpp has the same frequencies for texts of all lengths")
    return form
