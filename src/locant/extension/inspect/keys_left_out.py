"""Keys that a GGUF file leaves out, where llama.cpp has a value of its own and published models another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from locant.positions.scaling import YaRN
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.base import ParsedConfig
from locant.rotary_configs.classes.families import is_in_transformers, model_type
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.own_code import in_usual_names
from locant.rotary_configs.gguf.architectures import (
    BASE_OF_GRAPH,
    OWN_SIZES,
    READS_BETAS,
    ROTATES_WHOLE_HEADS,
    SEPARATE_PART,
    model_type_of,
)
from locant.rotary_configs.gguf.deviations import USUAL_BASE
from locant.rotary_configs.gguf.layers import LINEAR_BETWEEN, ROPE_PATTERN, SWITCHED, TAKES_ROPE_PATTERN
from locant.rotary_configs.gguf.sliding import SLIDING, SLIDING_ATTENTION
from locant.rotary_configs.gguf.windows import PATTERN, WINDOWS, windows_of
from locant.rotary_configs.wording import words_of_findings

_SIZE = "rope.dimension_count"


def keys_left_out(metadata: Mapping[str, Any], parsed: ParsedConfig, said: Sequence[Finding]) -> list[Finding]:
    """Return a note about the keys that a GGUF file leaves out, where what llama.cpp has for them decides its reading.

    Args:
        metadata: Of the file.
        parsed: Its reading.
        said: What was found so far; keys that a finding names are not told again.
    """
    architecture = str(metadata.get("general.architecture"))
    told = {word.removeprefix(f"{architecture}.") for word in words_of_findings(said)}
    kind = model_type(model_type_of(architecture))
    (config, *_) = parsed.configs.values()
    assert config.rotary_dim is not None

    def is_missing(key: str) -> bool:
        return metadata.get(f"{architecture}.{key}") is None and key not in told

    found = list(_bases_left_out(architecture, parsed, kind, is_missing))
    windows = sorted({layer.window for layer in parsed.layers if layer.window is not None})
    slides = kind is not None and bool(kind.defaults.get("sliding_window")) and "sliding_attention" in kind.behaviour
    # Of EXAONE 4, only the files of so many layers have windows.
    slides = slides and windows_of(architecture, metadata.get(f"{architecture}.block_count")) is not None
    if is_missing("attention.sliding_window") and windows:
        found.append(f"attention.sliding_window; {windows[0]} is taken, as llama.cpp has for '{architecture}'")
    elif is_missing("attention.sliding_window") and slides:
        found.append(
            f"attention.sliding_window: all layers look back over the whole text and have one base, where published "
            f"models of '{architecture}' have windows in some layers"
        )
    share = None if kind is None else _share_of_class(kind)
    if is_missing(_SIZE) and share is not None and share < 1 and config.rotary_dim == config.head_dim:
        found.append(
            f"{_SIZE}: all {config.head_dim} features of a head rotate, where published models of "
            f"'{architecture}' rotate {share:g} of them"
        )
    elif is_missing(_SIZE) and architecture in SEPARATE_PART:
        found.append(f"{_SIZE}: all {config.head_dim} features of a head rotate, as llama.cpp has")
    pattern = WINDOWS.get(architecture)
    if is_missing(PATTERN) and pattern is not None and pattern.period is not None and windows:
        which = "the first" if pattern.full_first else "the last"
        found.append(
            f"{PATTERN}: one layer in {pattern.period}, {which} of them, has full attention, as llama.cpp has for "
            f"'{architecture}'"
        )
    found += _sliding_keys_left_out(architecture, parsed, kind, is_missing)
    size = None if kind is None else kind.defaults.get("head_dim")
    if (
        is_missing("attention.key_length")
        and size is not None
        and size != config.head_dim
        and not (kind and kind.has_latent_heads)
    ):
        found.append(
            f"attention.key_length: a head has {config.head_dim} features, embedding_length by head_count, where "
            f"published models of '{architecture}' have {size}"
        )
    factors = (metadata.get(f"{architecture}.{name}") for name in ("rope.scaling.factor", "rope.scale_linear"))
    factor = next((each for each in factors if each is not None), None)
    if is_missing("rope.scaling.type") and factor not in (None, 0, 1):
        found.append("rope.scaling.type; 'linear' is taken, as llama.cpp has")
    if is_missing("rope.scaling.finetuned") and architecture in SWITCHED:
        found.append(
            f"rope.scaling.finetuned: it is taken for true, and the layers with attention rotate; files of models of "
            f"'{architecture}' without positions have false there"
        )
    found += _layers_left_out(metadata, architecture, parsed, is_missing)
    if not found:
        return []
    # Many converters leave it out where whole heads rotate, which is worth no note of its own.
    is_told = any(each.startswith(f"{_SIZE}:") for each in found)
    is_whole = all(each.rotary_dim == each.head_dim for each in parsed.configs.values())
    if is_missing(_SIZE) and not is_told and is_whole and architecture not in ROTATES_WHOLE_HEADS:
        found.append(f"{_SIZE}: the whole head rotates, as llama.cpp has")
    sentences = (f"{'It' if index else 'The file'} has no {each}." for index, each in enumerate(found))
    # A head of another share, or windows that are gone, make another model of a published one.
    published = f"published models of '{architecture}'"
    is_other = any(f"{published} {does}" in each for does in ("rotate", "have windows") for each in found)
    return [
        Finding(
            "warning" if is_other else "note",
            " ".join(sentences),
            "Compare with the configuration that the file was made from.",
        )
    ]


def _bases_left_out(
    architecture: str, parsed: ParsedConfig, kind: ModelType | None, is_missing: Callable[[str], bool]
) -> Iterator[str]:
    """Yield which bases are left out, where llama.cpp has one of its own for them.

    Args:
        architecture: ``general.architecture`` of the file.
        parsed: Its reading.
        kind: Facts of the class of its models.
        is_missing: Whether a key is left out, and nobody has told so.
    """
    facts = SLIDING_ATTENTION.get(architecture)
    slides = SLIDING in parsed.configs
    has_own = slides and facts is not None and facts.usual_base is not None
    inherits = slides and not has_own and is_missing("rope.freq_base_swa")
    if (
        is_missing("rope.freq_base")
        and architecture not in BASE_OF_GRAPH
        and (inherits or {*parsed.configs} - {SLIDING})
    ):
        own = (kind.rope or {}).get("rope_theta") if kind is not None else None
        models = "as llama.cpp has"
        if kind is not None and is_number(own) and own != USUAL_BASE:
            models = f"where the class of '{kind.name}' in transformers has {own:.10g}"
        yield f"rope.freq_base; {USUAL_BASE:g} is taken, {models}"
    if is_missing("rope.freq_base_swa") and has_own and facts is not None:
        yield f"rope.freq_base_swa; {facts.usual_base:.10g} is taken for layers with a window, as llama.cpp has"


def _layers_left_out(
    metadata: Mapping[str, Any], architecture: str, parsed: ParsedConfig, is_missing: Callable[[str], bool]
) -> Iterator[str]:
    """Yield which keys about the kinds of layers, and about the ramp of YaRN, are left out."""
    heads = metadata.get(f"{architecture}.attention.head_count_kv")
    lists_heads = isinstance(heads, Sequence) and 0 in heads
    names = ("full_attention_interval", "attention.recurrent_layers")
    if architecture in LINEAR_BETWEEN and all(map(is_missing, names)) and not lists_heads:
        yield (
            f"full_attention_interval: one layer in {LINEAR_BETWEEN[architecture]}, the last of them, has attention, "
            f"as llama.cpp has for '{architecture}'"
        )
    if architecture in TAKES_ROPE_PATTERN and is_missing(ROPE_PATTERN):
        yield f"{ROPE_PATTERN}: all layers rotate, as llama.cpp has"
    is_ramp = any(isinstance(config.scaling, YaRN) for config in parsed.configs.values())
    for key, usual in (("yarn_beta_fast", READS_BETAS.get(architecture)), ("yarn_beta_slow", 1.0)):
        if architecture in READS_BETAS and is_ramp and is_missing(f"rope.scaling.{key}"):
            yield f"rope.scaling.{key}; {usual:g} is taken, as llama.cpp has"


def _sliding_keys_left_out(
    architecture: str, parsed: ParsedConfig, kind: ModelType | None, is_missing: Callable[[str], bool]
) -> Iterator[str]:
    """Yield which keys about layers with a window are left out, where those rotate as all others, unlike the class's.

    Args:
        architecture: ``general.architecture`` of the file.
        parsed: Its reading.
        kind: Facts of the class of its models.
        is_missing: Whether a key is left out, and nobody has told so.
    """
    rope = kind.rope if kind is not None and kind.rope_by_layer and kind.rope is not None else {}
    own, facts = rope.get(SLIDING), SLIDING_ATTENTION.get(architecture)
    others = [group for name, group in rope.items() if name != SLIDING and isinstance(group, Mapping)]
    if not isinstance(own, Mapping) or facts is None or not any(layer.window for layer in parsed.layers):
        return
    config = parsed.configs.get(SLIDING) or next(iter(parsed.configs.values()))
    rest = [each for name, each in parsed.configs.items() if name != SLIDING] or [config]
    published = f"where published models of '{architecture}'"
    base = own.get("rope_theta")
    inherits = facts.takes_base and facts.usual_base is None
    if is_missing("rope.freq_base_swa") and inherits and is_number(base) and config.base == rest[0].base != base:
        yield (
            f"rope.freq_base_swa: layers with a window have the base {config.base:.10g} of the others, {published} "
            f"have {base:.10g} there"
        )
    share, shares = own.get("partial_rotary_factor", 1), {each.get("partial_rotary_factor", 1) for each in others}
    size, inherits = int(share * config.head_dim), architecture in OWN_SIZES and share not in shares
    if is_missing("rope.dimension_count_swa") and inherits and config.rotary_dim == rest[0].rotary_dim != size:
        yield (
            f"rope.dimension_count_swa: layers with a window rotate {config.rotary_dim} features as the others do, "
            f"{published} rotate {size} there"
        )


def _share_of_class(kind: ModelType) -> float | None:
    """Return which part of a head the class of a model type rotates by itself, or code of people's own."""
    stated = {**kind.defaults, **(kind.rope or {})}
    if not is_in_transformers(kind.name):
        stated |= in_usual_names({"model_type": kind.name}, [])
    rotated, whole, share = (stated.get(name) for name in ("rotary_dim", "head_dim", "partial_rotary_factor"))
    if share is None and is_number(rotated) and is_number(whole):
        return rotated / whole
    return float(share) if is_number(share) else None
