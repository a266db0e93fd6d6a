"""Where engines read the same config.json differently, or the same text in two ways.

The facts are those of the dialects (:mod:`locant.rotary_configs`), whose modules name their sources.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from locant.errors import ConfigError
from locant.extension.inspect.diagnosis import UNREADABLE, Diagnosis
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import DynamicNTK, Llama3, LongRoPE, YaRN
from locant.rotary_configs.base import Reading, with_base_for_ntk
from locant.rotary_configs.huggingface import text_part
from locant.rotary_configs.vllm import read_vllm


def diagnose_differences(content: Mapping[str, Any], reading: Reading) -> Iterator[Diagnosis]:
    """Yield what depends on the engine that reads a config.json, and on how it generates.

    Args:
        content: The object in config.json.
        reading: What it says in Hugging Face's words.
    """
    for config in reading.configs.values():
        yield from _cached_keys(config)
        yield from _other_converters(config)
    yield from _dual_chunks(content)
    try:
        vllm = read_vllm({}, content)
    except ConfigError as error:
        yield Diagnosis("warning", f"vLLM: {error}", "Correct the entry, or do not serve the model with vLLM.")
        return
    yield from (Diagnosis.of_finding(finding) for finding in vllm.findings if finding not in reading.findings)
    for layer, config in reading.configs.items():
        yield from _vllm(config, vllm.configs[layer])


def diagnose_unread(content: Mapping[str, Any]) -> Iterator[Diagnosis]:
    """Yield what vLLM makes of a config.json that Hugging Face's words have no meaning for."""
    try:
        vllm = read_vllm({}, content)
    except UNREADABLE:
        return
    said = "; ".join(f"{layer} layers: {describe(config)}" for layer, config in vllm.configs.items())
    yield Diagnosis("warning", f"vLLM reads it all the same. {said}.", "Say it in words that all engines have.")


def describe(config: RotaryConfig) -> str:
    """Return the scaling of a configuration, its fields and attention scale in a few words."""
    options = {key: value for key, value in config.scaling.as_options().items() if value is not None}
    fields = ", ".join(f"{name} {_short(value)}" for name, value in options.items() if name != "name")
    scale = config.attention_scale(getattr(config.scaling, "target_length", None) or config.max_length)
    return f"scaling {config.scaling.name}{f' ({fields})' if fields else ''}, attention scale {scale:.6g}"


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"of {len(value)} numbers from {value[0]:g} to {value[-1]:g}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cached_keys(config: RotaryConfig) -> Iterator[Diagnosis]:
    scaling = config.scaling
    if isinstance(scaling, DynamicNTK) and scaling.target_length is None:
        assert scaling.original_length is not None
        reach = round(scaling.factor * scaling.original_length)
        fixed = with_base_for_ntk(replace(config, scaling=replace(scaling, target_length=reach), max_length=None))
        yield Diagnosis(
            "warning",
            f"transformers computes the frequencies of 'dynamic' for the length of each forward pass, and cached keys "
            f"keep older ones: beyond {scaling.original_length} tokens, generating gives other scores than reading "
            "the same text.",
            f"Fix the length: rope_theta {fixed.base:.10g} without rope_scaling is the same for {reach} tokens. Or "
            "generate with use_cache=False.",
        )
    if isinstance(scaling, LongRoPE) and scaling.final_length is None:
        yield Diagnosis(
            "warning",
            f"transformers changes from the short to the long factors when a text exceeds {scaling.original_length} "
            "tokens, and cached keys keep the short ones: generating across that border gives other scores than "
            "reading the same text.",
            "Decide before the first token: for longer texts, state the long factors as both lists.",
        )


def _other_converters(config: RotaryConfig) -> Iterator[Diagnosis]:
    scaling = config.scaling
    if isinstance(scaling, Llama3):
        yield Diagnosis(
            "note",
            f"transformers: {describe(config)}. CTranslate2 after its own converter: no scaling, because the converter "
            "leaves out factor and original length.",
            "Set the attributes that --as ctranslate2 prints in the converted layers.",
        )
    if isinstance(scaling, YaRN) and not scaling.truncate:
        rounded = replace(config, scaling=replace(scaling, truncate=True))
        pairs = zip(config.explain().pairs, rounded.explain().pairs, strict=True)
        exact, whole = max(pairs, key=lambda pair: abs(math.log(pair[0].ratio / pair[1].ratio)))
        if exact.ratio == whole.ratio:
            return
        yield Diagnosis(
            "warning",
            f"transformers: pair {exact.index} is slowed by {1 / exact.ratio:.4g}. llama.cpp, which always rounds the "
            f"corners of YaRN's ramp: by {1 / whole.ratio:.4g}; no other pair differs more.",
            "Compare the scores of the two at long texts; neither the files nor the flags of llama.cpp can say it.",
        )


def _dual_chunks(content: Mapping[str, Any]) -> Iterator[Diagnosis]:
    """Yield who heeds the attention by chunks with which Qwen 2.5 reads a million tokens."""
    part = text_part(content).get("dual_chunk_attention_config")
    if not isinstance(part, Mapping):
        return
    trained = part.get("original_max_position_embeddings") or part.get("chunk_size")
    yield Diagnosis(
        "warning",
        f"transformers passes over dual_chunk_attention_config: beyond the trained {trained} tokens, distances are as "
        "training never showed them. SGLang, and releases of vLLM with dual chunk attention: distances stay within.",
        f"Read more than {trained} tokens only with an engine that has dual chunk attention.",
    )


def _vllm(config: RotaryConfig, served: RotaryConfig) -> Iterator[Diagnosis]:
    if isinstance(config.scaling, DynamicNTK):
        yield Diagnosis(
            "warning",
            f"transformers: {describe(config)}, which follows the length of the text. vLLM: {describe(served)}, for "
            "texts of all lengths.",
            "Measure with the engine that serves the model, or fix the length for both.",
        )
    elif config.max_length and served.max_length != config.max_length:
        yield Diagnosis(
            "warning",
            f"transformers: declared for {config.max_length} tokens. vLLM: serves {served.max_length} by default, "
            f"which it derives from the factor of the scaling '{config.scaling.name}'.",
            f"Start vLLM with --max-model-len {config.max_length}, if that is the length the model was made for.",
        )
