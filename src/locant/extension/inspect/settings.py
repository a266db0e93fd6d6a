"""Settings of engines that are equivalent to the rotary configuration of a model."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from locant.errors import ConfigError, LocantError, UsageError, nearest
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling.measured import Measured
from locant.rotary_configs.config_json import read_huggingface, write_huggingface
from locant.rotary_configs.ctranslate2 import write_ctranslate2
from locant.rotary_configs.gguf import architecture_of, write_llamacpp
from locant.rotary_configs.reading import ALL_LAYERS, UNREADABLE, ParsedConfig, turn_alike
from locant.rotary_configs.vllm import Group, write_sglang, write_vllm

if TYPE_CHECKING:
    from locant.extension.inspect.result import Inspection

ENGINES = ("vllm", "sglang", "llamacpp", "hf5", "hf4", "ctranslate2")
"""Names of the engines."""

_WITHOUT_AXES = ("llamacpp", "ctranslate2")


def to_engine_config(inspection: Inspection, engine: str) -> str | dict[str, Any]:
    """Return the setting of an engine for the rotary positions of a model.

    Entries of config.json are read back: by the model's class, where the installed transformers has it.

    Args:
        inspection: The model.
        engine: One of :data:`ENGINES`.

    Returns:
        The JSON for ``--hf-overrides`` (``vllm``) or ``--json-model-override-args`` (``sglang``), flags (``llamacpp``),
        the entries to merge into config.json or into its text config, where ``None`` removes one (``hf5``, ``hf4``), or
        the attributes of attention layers (``ctranslate2``).

    Raises:
        UsageError: The engine is unknown.
        LocantError: The engine cannot express them, or nobody can because the file contradicts itself.
    """
    if engine not in ENGINES:
        raise UsageError(f"Unknown engine '{engine}'.{nearest(engine, ENGINES)} Known: {', '.join(ENGINES)}.")
    parsed = inspection.parsed
    if parsed is None or not parsed.configs:
        why = inspection.findings[0].message if inspection.findings else "The model has no rotary positions."
        if inspection.has_errors:
            raise LocantError(f"It cannot be expressed for another engine before it is right: {why}")
        raise LocantError(f"There is nothing to express for another engine: {why}")
    if any(isinstance(config.scaling, Measured) for config in parsed.configs.values()):
        raise LocantError(
            "No named scaling makes the frequencies of this model; a GGUF file alone can hold a factor for every pair."
        )
    if parsed.multimodal and engine in _WITHOUT_AXES:
        raise LocantError(
            f"The positions of this model have several axes (M-RoPE), which the setting for {engine} loses."
        )
    try:
        if engine in ("hf5", "hf4"):
            return _for_huggingface(inspection, parsed, "5" if engine == "hf5" else "4")
        if engine == "llamacpp":
            return " ".join(write_llamacpp(parsed.configs))
        if engine == "ctranslate2":  # whose converter starts from the model of transformers
            return write_ctranslate2(_before_conversion(inspection, parsed))
        # Releases with transformers 4 leave a group of the other name in place.
        is_old = bool(inspection.content.get("rope_scaling")) and not inspection.content.get("rope_parameters")
        group: Group = "rope_scaling" if is_old and len(parsed.configs) == 1 else "rope_parameters"
        write = write_vllm if engine == "vllm" else write_sglang
        written = write(parsed.configs, group, parsed.multimodal)
    except UNREADABLE as error:
        raise LocantError(str(error)) from error
    path = inspection.text_part
    if not path and inspection.kind == "huggingface":  # the text config that the class makes of the file
        from locant.extension.asked.build import completed_config, text_of
        from locant.extension.asked.watch import heard

        with heard(), contextlib.suppress(LocantError):  # without the class nobody can tell
            whole = completed_config(inspection.content)
            text = text_of(whole)
            path = tuple(name for name in whole.sub_configs if getattr(whole, name, None) is text)[:1]
    for name in reversed(path):
        written = f"{{{json.dumps(name)}: {written}}}"
    return written


def _before_conversion(inspection: Inspection, parsed: ParsedConfig) -> dict[str, RotaryConfig]:
    """Return the configurations of the weights before a converter permuted them for a GGUF file."""
    if inspection.kind != "gguf" or not architecture_of(inspection.model_type or "").permuted:
        return parsed.configs
    return {layer: replace(config, layout="half") for layer, config in parsed.configs.items()}


def _for_huggingface(inspection: Inspection, parsed: ParsedConfig, version: Literal["4", "5"]) -> dict[str, Any]:
    from locant.extension.asked.ask import NoClassError, TooLargeError, ask_class

    wanted = replace(parsed, configs=_before_conversion(inspection, parsed))
    name, content = inspection.model_type, inspection.content
    if inspection.kind == "gguf":
        name, content, wanted = architecture_of(name or "").model_type, {}, replace(wanted, layers=())
    written = write_huggingface(wanted.configs, version, model_type=name, multimodal=wanted.multimodal)
    stated = {**content, "model_type": name, **written}
    stated = {key: value for key, value in stated.items() if value is not None}
    try:
        read = ask_class(stated).reading
    except (NoClassError, TooLargeError) as error:
        if version == "5" and "auto_map" in content:
            raise ConfigError(
                f"The code beside checkpoints of the model type '{name}' reads no rope_parameters of release 5. Take "
                "--as hf4 for rope_theta and rope_scaling, where it reads these."
            ) from error
        read = read_huggingface(stated)
    if wanted.layers and read.layers:
        indices = sorted(index for kind in wanted.layers if kind.config for index in kind.layers)
        known = {index for kind in read.layers for index in kind.layers}
        pairs = [
            (f"layer {each}", wanted.of_layer(each), read.of_layer(each) if each in known else None) for each in indices
        ]
    else:  # by layer type, where one of both does not tell its layers
        whole = read.configs.get(ALL_LAYERS)
        pairs = [(f"'{layer}' layers", each, read.configs.get(layer, whole)) for layer, each in wanted.configs.items()]
    for layer, config, found in pairs:
        if not turn_alike(found, config):
            said = "no rotation" if found is None else f"base {found.base:.10g}, {found.describe()}"
            raise ConfigError(
                f"config.json of transformers {version} cannot express this for the model type '{name}': for {layer} "
                f"it means {said}, by {read.source}, whatever these entries say."
            )
    return written
