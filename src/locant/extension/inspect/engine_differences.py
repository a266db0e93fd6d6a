"""Differences between engines that read the same config.json.

The facts are those of the formats (:mod:`locant.rotary_configs`) and of the scalings, whose modules name their sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Llama3, LongRoPE, Proportional, Unscaled
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.base import UNREADABLE, ParsedConfig, error_finding
from locant.rotary_configs.classes import families
from locant.rotary_configs.engines.vllm import read_vllm
from locant.rotary_configs.huggingface.engine_classes import (
    ctranslate2_base,
    ctranslate2_factor_types,
    ctranslate2_fails,
    ctranslate2_fails_with_shared_keys,
    ctranslate2_fails_with_two_sizes,
    ctranslate2_reads_scaling,
    ctranslate2_reads_share,
    ctranslate2_refuses,
    ctranslate2_sets_corners,
    ctranslate2_writes_size_of_heads,
    llamacpp_converts,
    vllm_has_class,
    vllm_has_no_class,
)
from locant.rotary_configs.huggingface.groups_by_layer_type import FAILS_WITH_GROUPS
from locant.rotary_configs.huggingface.text_parts import text_part, text_type
from locant.rotary_configs.reach import REACH
from locant.rotary_configs.spellings import is_count
from locant.rotary_configs.wording import words_of_findings


def engine_differences(content: Mapping[str, Any], parsed: ParsedConfig | None) -> Iterator[Finding]:
    """Yield what depends on the engine that reads a config.json, and on how it generates.

    Args:
        content: The object in config.json.
        parsed: Its meaning in transformers; ``None`` where it has none there.
    """
    if parsed is None:
        yield from _only_vllm(content)
        return
    kind = families.model_type(text_type(content))
    has_one_list = kind is not None and kind.keeps_short_list  # of which the reading tells
    for config in () if has_one_list else parsed.configs.values():
        try:
            yield from config.scaling.engine_findings(config)
            yield from config.scaling.llamacpp_findings(config) if llamacpp_converts(content) else ()
        except UNREADABLE as error:
            yield replace(error_finding(error, "config.json"), severity="warning")
    yield from _converted(content, parsed)
    yield from _dual_chunks(content)
    is_own = vllm_has_class(content)
    try:
        vllm = read_vllm({}, content)
    except UNREADABLE as error:
        message = error_finding(error, "config.json").message
        said = message if message.startswith("vLLM") else f"vLLM: {message}"
        if is_own:
            yield Finding("warning", said, "Correct the entry, or do not serve the model with vLLM.")
        return
    # What the class of transformers decides.
    of_layers: tuple[str, ...] = ("layers without positions", "base of the class", REACH)
    of_layers += () if parsed.multimodal else ("several axes",)
    is_run = families.is_in_transformers(text_type(content)) and not vllm_has_no_class(content)
    if not is_own and not is_run:
        return  # nor does it run the class of transformers
    told = words_of_findings(parsed.findings)
    fails = any(each.code == FAILS_WITH_GROUPS for each in parsed.findings)
    for finding in vllm.findings if is_own else ():
        if fails and "vLLM" not in finding.message:
            continue  # of the class of transformers, which takes nothing of such a file
        is_of_nobody = finding.code == "read by nobody"
        is_told = finding in parsed.findings or (is_of_nobody and finding.message.split("'")[1] in told)
        is_told |= finding.code == "null entry" and finding.message.split(" ")[0] in told
        if not is_told and finding.code not in of_layers:
            yield _by_scaling_of_vllm_alone(finding, parsed)
    for layer, config in parsed.configs.items():
        if layer in vllm.configs:  # otherwise the class of transformers alone tells such layers apart
            yield from _rotated_otherwise(config, vllm.configs[layer]) if is_own else ()
            yield from _served_otherwise(config, vllm.configs[layer])


def _by_scaling_of_vllm_alone(finding: Finding, parsed: ParsedConfig) -> Finding:
    """Return a finding about a scaling that vLLM reads, with what transformers has where its class passes over it."""
    follows = any(config.scaling.depends_on_length for config in parsed.configs.values())
    if finding.code != "follows the length in transformers" or follows:
        return finding
    described = "; ".join(dict.fromkeys(config.describe() for config in parsed.configs.values()))
    return replace(finding, message=f"transformers: {described}. {finding.message.partition('. ')[2]}")


def _only_vllm(content: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what vLLM makes of a config.json that has no meaning in transformers."""
    if not vllm_has_class(content):
        return
    try:
        name, vllm = text_type(content), read_vllm({}, content)
    except UNREADABLE:
        return
    if families.model_type(name) is None:
        return  # what its class does is not known here
    described = "; ".join(f"{layer} layers: {config.describe()}" for layer, config in vllm.configs.items())
    yield Finding(
        "warning",
        f"vLLM's own class for '{name}' reads it all the same. {described}.",
        "Use entries that all engines have.",
    )


def _dual_chunks(content: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield which engines compute the attention by chunks with which Qwen 2.5 reads a million tokens."""
    part = text_part(content).get("dual_chunk_attention_config")
    if not isinstance(part, Mapping):
        return
    stated = part.get("original_max_position_embeddings") or part.get("chunk_size")
    trained = f"{stated} tokens" if is_count(stated) else "length"
    yield Finding(
        "warning",
        f"transformers passes over dual_chunk_attention_config: beyond the trained {trained}, distances are as "
        "training never showed them. SGLang, and releases of vLLM with dual chunk attention: distances stay within.",
        f"Read texts beyond the trained {trained} only with an engine that has dual chunk attention.",
    )


def _converted(content: Mapping[str, Any], parsed: ParsedConfig) -> Iterator[Finding]:
    """Yield what CTranslate2's converter loses of bases and scalings, where it has one for the model."""
    if ctranslate2_fails(content):
        yield Finding(
            "note",
            "CTranslate2's converter for this model fails with transformers 5, whose configuration does not have what "
            "it looks for: it converts no model of this type.",
            "Run the model with another engine.",
        )
        return
    yield from _sizes_not_converted(content, parsed)
    reads = ctranslate2_reads_scaling(content)
    for layer, config in parsed.configs.items():
        base = ctranslate2_base(content, layer)
        if base not in (None, config.base):
            of_layers = "" if len(parsed.configs) == 1 else f" for '{layer}'"
            yield Finding(
                "note",
                f"transformers: base {config.base:.10g}{of_layers}. CTranslate2 after its own converter, run with "
                f"transformers 5: {base:.10g}, whatever the file has.",
                f"Set rotary_base {config.base:.10g} in the converted layers.",
            )
    for layer, config in parsed.configs.items() if reads is not None else ():
        if reads and isinstance(config.scaling, Llama3) and not ctranslate2_sets_corners(content):
            yield Finding(
                "note",
                "CTranslate2's converter for this model sets no low_freq_factor and no high_freq_factor, which its "
                "engine needs for the scaling 'llama3': it converts no model with it.",
                "Run the model with another engine.",
            )
        elif refused := [kind for kind in config.scaling.rope_types if kind in ctranslate2_refuses(content)]:
            yield Finding(
                "note",
                f"CTranslate2's converter for this model refuses the scaling '{refused[0]}'.",
                "Run the model with another engine.",
            )
        elif reads:
            yield from config.scaling.ctranslate2_findings(config)
        elif ctranslate2_factor_types(content, layer) & {*config.scaling.rope_types}:
            pass  # its factor is all that such a scaling has
        elif isinstance(config.scaling, Proportional) and ctranslate2_reads_share(content, layer):
            yield from _factor_not_converted(config.scaling.factor)
        elif not isinstance(config.scaling, Unscaled):
            yield Finding(
                "note",
                f"transformers: {config.describe()}. CTranslate2 after its own converter: no scaling, which the "
                "converter does not read for this model.",
                "Set the attributes that --as ctranslate2 prints in the converted layers, where it has the scaling.",
            )


def _sizes_not_converted(content: Mapping[str, Any], parsed: ParsedConfig) -> Iterator[Finding]:
    """Yield that CTranslate2's converter takes no model with such heads, or leaves their size out."""
    sizes = sorted({config.head_dim for config in parsed.configs.values()})
    if len(sizes) > 1 and ctranslate2_fails_with_two_sizes(content):
        yield Finding(
            "note",
            f"Heads have {' and '.join(map(str, sizes))} features: CTranslate2's converter for this model asks for one "
            "head_dim of all layers, and fails with transformers 5.24.",
            "Run the model with another engine.",
        )
    part = text_part(content)
    shared, width, heads = (part.get(name) for name in ("num_kv_shared_layers", "hidden_size", "num_attention_heads"))
    if is_count(shared) and ctranslate2_fails_with_shared_keys(content):
        yield Finding(
            "note",
            f"num_kv_shared_layers is {shared}: CTranslate2's converter for this model refuses layers that have the "
            "keys of others.",
            "Run the model with another engine.",
        )
    if (
        isinstance(width, int)
        and isinstance(heads, int)
        and heads > 0
        and not ctranslate2_writes_size_of_heads(content)
    ):
        usual = width // heads
        if sizes and sizes != [usual]:
            yield Finding(
                "note",
                f"Heads have {sizes[0]} features, where hidden_size / num_attention_heads is {usual}: CTranslate2's "
                "converter for this model writes no size of heads, and its engine takes the latter and fails.",
                "Run the model with another engine.",
            )


def _factor_not_converted(factor: float) -> Iterator[Finding]:
    """Yield that CTranslate2's converter leaves out the factor of p-RoPE, whose pairs that turn it writes."""
    if factor != 1:
        yield Finding(
            "note",
            f"transformers: frequencies divided by factor {factor:g} of 'proportional'. CTranslate2 after its own "
            "converter: by none; it reads partial_rotary_factor alone.",
            "Run the model with an engine that has the factor, or leave it out.",
        )


def _rotated_otherwise(config: RotaryConfig, served: RotaryConfig) -> Iterator[Finding]:
    """Yield where vLLM pairs features otherwise or rotates another part."""
    if (config.layout, config.rotary_dim) != (served.layout, served.rotary_dim):
        yield Finding(
            "warning",
            f"transformers: {config.rotary_dim} features rotated, layout '{config.layout}'. vLLM: {served.rotary_dim} "
            f"features, layout '{served.layout}'.",
            "Find out which of them the weights were trained with, and serve the model with an engine that does that.",
        )


def _served_otherwise(config: RotaryConfig, served: RotaryConfig) -> Iterator[Finding]:
    """Yield where vLLM serves another length than the declared one."""
    told = config.scaling.depends_on_length and not served.scaling.depends_on_length  # by the scaling itself
    by = next((each.scaling for each in (config, served) if not isinstance(each.scaling, Unscaled)), None)
    if config.max_length and served.max_length not in (None, config.max_length) and not told and by is not None:
        why = f"which it derives from the factor of the scaling '{by.name}'"
        if isinstance(by, LongRoPE):
            why = "the original length of the scaling 'longrope'"
        yield Finding(
            "warning",
            f"transformers: declared for {config.max_length} tokens. vLLM: serves {served.max_length} by default, "
            f"{why}.",
            f"Start vLLM with --max-model-len {config.max_length}, if that is the length the model was made for.",
        )
