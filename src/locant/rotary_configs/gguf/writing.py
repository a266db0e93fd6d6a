"""Writing rotary positions into GGUF files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.positions.scaling import Unscaled
from locant.rotary_configs.gguf.architectures import Architecture, architecture_of
from locant.rotary_configs.gguf.layers import sliding_type
from locant.rotary_configs.gguf.scaling import SCALING, written
from locant.rotary_configs.layers import FULL
from locant.rotary_configs.reading import by_layer, with_equivalent_base

_AXES = 4


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


def write_gguf(
    configs: RotaryConfig | Mapping[str, RotaryConfig],
    architecture: str,
    *,
    multimodal: Mapping[str, Mapping[str, Any]] | None = None,
) -> GGUFRotary:
    """Return what a GGUF file must hold so that llama.cpp computes these rotary positions.

    Static NTK scalings are written as the larger base that they are.

    Args:
        configs: The configuration, or one of ``full_attention`` and one of ``sliding_attention`` for architectures
            like Gemma 3's, whose sliding attention rotates otherwise.
        architecture: ``general.architecture`` of the file.
        multimodal: Sections of the axes by layer type, as :class:`~locant.rotary_configs.ParsedConfig` has them; a file
            of an architecture with several axes keeps its own without.

    Raises:
        ConfigError: llama.cpp cannot compute it, or the architecture is unknown.

    Example:
        >>> from locant.positions import Llama3
        >>> llama = RotaryConfig(head_dim=128, base=5e5, scaling=Llama3(factor=8, original_length=8192))
        >>> made = write_gguf(llama, "llama")
        >>> made.layout, len(made.tensors["rope_freqs.weight"]), max(made.tensors["rope_freqs.weight"])
        ('interleaved', 64, 8.0)
    """
    facts = architecture_of(architecture)
    given = {layer: with_equivalent_base(config) for layer, config in by_layer(configs).items()}
    full = given.get(FULL) or next(iter(given.values()))
    assert full.rotary_dim is not None
    if facts.part not in (None, "half") and full.rotary_dim != full.head_dim:
        raise ConfigError(
            f"GGUF cannot express {full.rotary_dim} rotated features of {full.head_dim} for '{architecture}', where "
            "llama.cpp rotates a whole head, or a separate part that is the head here."
        )
    if facts.base not in (None, full.base):
        raise ConfigError(f"GGUF cannot express the base {full.base:g} for '{architecture}': it is {facts.base:g}.")
    scaling, tensors = written(full, facts)
    keys: dict[str, Any] = {} if facts.part in ("separate", "latent") else {"attention.key_length": full.head_dim}
    keys["rope.freq_base"] = full.base
    keys["rope.dimension_count"] = full.rotary_dim * (2 if facts.part == "half" else 1)
    if (length := full.max_length or full.scaling.reach) is not None:
        keys["context_length"] = length
    if len(given) > 1 or (facts.sliding is not None and facts.sliding.base is not None):
        keys |= _sliding_keys(given, facts, "attn_factor" in scaling)
    if facts.part == "half":  # whose tensors are as long as the layers with most pairs need
        pairs = max(full.rotary_dim, keys["rope.dimension_count_swa"]) // 2
        tensors = {name: values + (1.0,) * (pairs - len(values)) for name, values in tensors.items()}
    if multimodal and facts.axes is not None:
        sections = [*next(iter(multimodal.values()))["sections"]]
        keys["rope.dimension_sections"] = sections + [0] * (_AXES - len(sections))
    keys |= {f"{SCALING}{key}": value for key, value in scaling.items()}
    metadata = {"general.architecture": architecture} | {f"{architecture}.{key}": keys[key] for key in keys}
    return GGUFRotary(metadata, tensors, "half" if "rope.dimension_sections" in keys else facts.layout)


def _sliding_keys(given: Mapping[str, RotaryConfig], facts: Architecture, magnifies: bool) -> dict[str, Any]:
    """Return the keys about layers with a window, which rotate otherwise than those of full attention.

    Raises:
        ConfigError: llama.cpp rotates them otherwise, or not at all.
    """
    own, name = facts.sliding, sliding_type(facts)
    if own is None or {*given} != {FULL, name}:
        has = "one for all layers" if own is None else f"those of {FULL} and {name}"
        raise ConfigError(f"GGUF cannot express rotary positions of {', '.join(given)}: '{facts.name}' has {has}.")
    full, sliding = given[FULL], given[name]
    if (
        sliding.scaling != (full.scaling if own.scaled else Unscaled())
        or (own.magnified and magnifies)
        or (not own.reads_base and sliding.base != full.base)
        or (own.own != "heads" and sliding.head_dim != full.head_dim)
        or (own.own is None and sliding.rotary_dim != full.rotary_dim)
    ):
        raise ConfigError(
            f"GGUF cannot express this {name} of '{facts.name}' ({sliding.rotary_dim} of {sliding.head_dim} features, "
            f"base {sliding.base:g}, {sliding.describe()}): it has {'the same' if own.scaled else 'no'} scaling, "
            f"{'a' if own.reads_base else 'no'} base and {'' if own.own else 'no '}sizes of its own in llama.cpp."
        )
    keys: dict[str, Any] = {"rope.freq_base_swa": sliding.base} if own.reads_base else {}
    keys |= {"attention.key_length_swa": sliding.head_dim} if own.own == "heads" else {}
    return keys | ({"rope.dimension_count_swa": sliding.rotary_dim} if own.own else {})
