"""Settings of engines that are equivalent to the rotary configuration of a model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from locant.errors import ConfigError, LocantError, UsageError, nearest
from locant.extension.inspect.result import Inspection
from locant.positions.rotary.config import RotaryConfig
from locant.rotary_configs.base import ALL_LAYERS, UNREADABLE, error_finding, only_config
from locant.rotary_configs.classes import families
from locant.rotary_configs.engines.ctranslate2 import write_ctranslate2
from locant.rotary_configs.engines.vllm import FORMAT as VLLM
from locant.rotary_configs.engines.vllm import write_vllm
from locant.rotary_configs.engines.vllm_overrides import part_of_the_class
from locant.rotary_configs.gguf.architectures import CONVERTED_FROM_HALVES, layout_of, model_type_of
from locant.rotary_configs.gguf.llamacpp import write_llamacpp
from locant.rotary_configs.huggingface.reading import read_huggingface
from locant.rotary_configs.huggingface.writing import write_huggingface
from locant.rotary_configs.wording import in_words_of


def to_engine_config(inspection: Inspection, engine: str) -> str | dict[str, Any]:
    """Return the setting of an engine for the rotary positions of a model.

    Args:
        inspection: The model.
        engine: One of :data:`ENGINES`.

    Returns:
        The JSON for ``--hf-overrides`` (``vllm``), flags (``llamacpp``), the entries to merge into config.json or into
        its text part, where ``None`` removes one (``hf5``, ``hf4``), or the attributes of attention layers
        (``ctranslate2``).

    Raises:
        UsageError: The engine is unknown.
        LocantError: The engine cannot express them, or nobody can because the file contradicts itself.
    """
    if engine not in ENGINES:
        raise UsageError(f"Unknown engine '{engine}'.{nearest(engine, ENGINES)} Known: {', '.join(ENGINES)}.")
    parsed = inspection.parsed
    if parsed is None:
        message = inspection.findings[0].message
        if not inspection.has_errors:
            raise LocantError(f"There is nothing to express for another engine: {message}")
        raise LocantError(f"It cannot be expressed for another engine before it is right: {message}")
    if parsed.multimodal:
        sections = next(iter(parsed.multimodal.values()))["sections"]
        raise LocantError(
            f"The positions of this model have several axes (sections {', '.join(map(str, sections))}), which the "
            f"setting for {engine} would lose. Keep the model's own entries."
        )
    try:
        return ENGINES[engine](inspection, parsed.configs)
    except UNREADABLE as error:
        message = in_words_of(inspection.kind, error_finding(error, inspection.path.name).message)
        raise LocantError(message) from error


def _vllm(inspection: Inspection, configs: dict[str, RotaryConfig]) -> str:
    part = inspection.content if inspection.kind == "huggingface" else {}
    if len(configs) > 1 and not _has_groups_for(configs, _class_name(inspection)):
        only_config(configs, VLLM)
    # Releases with transformers 4 leave the file's own in place where the override has the other name.
    old = len(configs) == 1 and not part.get("rope_parameters") and bool(part.get("rope_scaling"))
    written = write_vllm(configs, "rope_scaling" if old else "rope_parameters")
    own_part = part_of_the_class(part)
    for name in reversed((*inspection.text_part, *(() if own_part is None else (own_part,)))):
        written = f'{{"{name}": {written}}}'
    return written


def _has_groups_for(configs: dict[str, RotaryConfig], name: str | None) -> bool:
    """Whether a class keeps a group for each of these layer types."""
    kind = families.model_type(name)
    return kind is not None and kind.rope is not None and {*configs} <= {*kind.rope}


def _llamacpp(inspection: Inspection, configs: dict[str, RotaryConfig]) -> str:
    del inspection
    return " ".join(write_llamacpp(configs))


def _hf5(inspection: Inspection, configs: dict[str, RotaryConfig]) -> dict[str, Any]:
    return _for_huggingface(inspection, configs, "5")


def _hf4(inspection: Inspection, configs: dict[str, RotaryConfig]) -> dict[str, Any]:
    return _for_huggingface(inspection, configs, "4")


def _for_huggingface(
    inspection: Inspection, configs: dict[str, RotaryConfig], version: Literal["4", "5"]
) -> dict[str, Any]:
    """Return the entries for a release, after they were read back: some classes pass over entries that others read."""
    wanted, name = _in_halves(inspection, configs), _huggingface_type(inspection)
    if version == "5" and families.model_type(name) is not None and not families.is_in_transformers(name):
        raise ConfigError(
            f"transformers has no class for the model type '{name}', and the code that comes with such models does not "
            "read rope_parameters of release 5. --as hf4 writes rope_theta and rope_scaling, where it reads these."
        )
    written = write_huggingface(wanted, version, model_type=name)
    part = inspection.content if inspection.kind == "huggingface" else {}
    stated = {key: value for key, value in {**part, "model_type": name, **written}.items() if value is not None}
    whose = f"config.json of transformers {version} cannot express this for the model type '{name}'"
    try:
        parsed = read_huggingface(stated)
    except UNREADABLE as error:
        raise ConfigError(f"{whose}: {error_finding(error, 'config.json').message}") from error
    already = {each.message for each in inspection.findings}  # of entries that stay as they are
    if wrong := next(
        (each for each in parsed.findings if each.severity == "error" and each.message not in already), None
    ):
        raise ConfigError(f"{whose}: {wrong.message}")
    read = parsed.configs
    for layer, config in wanted.items():
        found = read.get(layer, read.get(ALL_LAYERS))
        if found is None or not _turn_alike(found, config):
            said = "no rotation" if found is None else f"base {found.base:.10g}, {found.describe()}"
            raise ConfigError(f"{whose}, whose code reads {said}, for '{layer}' layers whatever these entries say.")
    return written


def _turn_alike(first: RotaryConfig, second: RotaryConfig) -> bool:
    """Whether two configurations compute the same for short texts and for long ones."""
    if (first.rotary_dim, first.layout) != (second.rotary_dim, second.layout):
        return False
    return all(
        math.isclose(ours, theirs, rel_tol=1e-6)
        for length in (None, 1, 1 << 30)
        for ours, theirs in zip(_hands(first, length), _hands(second, length), strict=True)
    )


def _hands(config: RotaryConfig, length: int | None) -> list[float]:
    """Return the frequencies and the attention scale of texts of a length."""
    return [*map(float, config.frequencies(length)), config.attention_scale(length)]


def _ctranslate2(inspection: Inspection, configs: dict[str, RotaryConfig]) -> dict[str, Any]:
    return write_ctranslate2(_in_halves(inspection, configs))  # converted from the model of transformers as well


def _class_name(inspection: Inspection) -> str | None:
    """Return the model type in transformers, also of a GGUF file."""
    if inspection.kind != "gguf" or inspection.model_type is None or inspection.parsed is None:
        return inspection.model_type
    return model_type_of(inspection.model_type, by_layer=len(inspection.parsed.configs) > 1)


def _huggingface_type(inspection: Inspection) -> str | None:
    name = _class_name(inspection)
    if inspection.kind != "gguf" or inspection.model_type is None:
        return name
    layout = layout_of(inspection.model_type)
    if name is None and layout != "half" and inspection.model_type not in CONVERTED_FROM_HALVES:
        raise ConfigError(
            f"config.json cannot express layout '{layout}' for the architecture '{inspection.model_type}': the class "
            "of a model type decides, and none is known for it."
        )
    return name


def _in_halves(inspection: Inspection, configs: dict[str, RotaryConfig]) -> dict[str, RotaryConfig]:
    """Return the configurations of the weights before a converter permuted them for a GGUF file."""
    if inspection.kind != "gguf" or inspection.model_type not in CONVERTED_FROM_HALVES:
        return configs
    return {layer: replace(config, layout="half") for layer, config in configs.items()}


ENGINES: dict[str, Callable[[Inspection, dict[str, RotaryConfig]], str | dict[str, Any]]] = {
    "vllm": _vllm,
    "llamacpp": _llamacpp,
    "hf5": _hf5,
    "hf4": _hf4,
    "ctranslate2": _ctranslate2,
}
"""Functions that return the setting of an engine, by the engine's name."""
