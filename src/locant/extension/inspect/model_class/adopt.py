"""The reading of a config.json in which what the class of the model does stands in the place of what was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from locant.errors import ConfigError
from locant.extension.inspect.model_class.ask import AskedClass
from locant.extension.inspect.model_class.compare import (
    Difference,
    config_of_layer,
    differences_of_layer,
    forwards,
    windows_are_told,
)
from locant.extension.inspect.model_class.observe import ObservedLayer
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Unscaled
from locant.rotary_configs.base import ALL_LAYERS, LayerType, ParsedConfig
from locant.rotary_configs.huggingface.layer_windows import WINDOW_ENTRIES
from locant.rotary_configs.huggingface.layers import layers_without_positions
from locant.rotary_configs.identify import identify

_ABOUT_LAYERS = ("layer_types", "layers_block_type", "no_rope_layers", "layer_rope_theta", "use_sliding_window")
_ABOUT_BASES = ("rope_theta", "rotary_emb_base", "rope_scaling", "rope_local_base_freq")
_ABOUT_SHARES = ("partial_rotary_factor", "rotary_dim", "rotary_pct", "head_dim", "qk_rope_head_dim")
_ENTRIES = {
    "rotation": _ABOUT_LAYERS,
    "window": (*_ABOUT_LAYERS, *WINDOW_ENTRIES),
    "frequencies": _ABOUT_BASES,
    "features": _ABOUT_SHARES,
}


def is_stated(subject: str, part: Mapping[str, Any]) -> bool:
    """Whether a text part says itself what the class does otherwise; without that the class alone decides.

    Args:
        subject: What differs, as :class:`~locant.extension.inspect.model_class.compare.Difference` names it.
        part: The text part of config.json.
    """
    names = _ENTRIES.get(subject)
    groups = (part, *(each for each in part.values() if isinstance(each, Mapping)))
    return names is None or any(group.get(name) is not None for group in groups for name in names)


def by_another_type(parsed: ParsedConfig, types: Sequence[str], difference: Difference) -> bool:
    """Whether layers differ because the class takes them for layers of another type than the reading does.

    Args:
        parsed: The reading of the file alone.
        types: The types that the class gives all of its layers; empty where it has none.
        difference: What differs.
    """
    read = {index: kind.type_name for kind in parsed.layers for index in kind.layers}
    return all(index < len(types) and read.get(index) not in (types[index], None) for index in difference.layers)


def reading_of_class(parsed: ParsedConfig, asked: AskedClass) -> ParsedConfig | None:
    """Return the reading with the layers as the class was seen to compute them.

    Args:
        parsed: The reading of the file alone.
        asked: What the class did.

    Returns:
        The reading; ``None`` where a layer does what no configuration of the file's scaling expresses, or where it is
        not clear which of the file's layers were seen.
    """
    layers, types = asked.layers, asked.types
    count = sum(len(kind.layers) for kind in parsed.layers)
    seen = {layer.layer: layer for layer in layers if layer.layer is not None}
    if not count or len(seen) < len(layers) or max(seen, default=0) >= count:
        return None
    read = {index: kind for kind in parsed.layers for index in kind.layers}
    told = windows_are_told(layers)
    usual = next((kind.window for kind in parsed.layers if kind.window), None)
    attending = {types[index] for index in seen if index < len(types)}
    by_type: dict[str, tuple[str | None, int | None, bool]] = {}
    configs: dict[str, RotaryConfig] = dict(parsed.configs)
    found: dict[tuple[str, str | None, int | None, bool], list[int]] = {}
    for index in range(count):
        kind, layer = read[index], seen.get(index)
        name = types[index] if index < len(types) else kind.name
        if layer is not None:
            if layer.rotation is None:
                key = None
            elif (key := _key(parsed, configs, layer, name, asked)) is None:
                return None
            window = kind.window
            if layer.mask is not None and layer.mask.window != 0:
                window = layer.mask.window
            elif layer.mask is None and told:
                window = kind.window or usual or layer.window if layer.window else None
            does = (key, window, True)
            by_type.setdefault(name, does)
        elif index < len(types) and name not in attending:
            does = (None, None, False)
        elif index in asked.built:  # with an attention to something else than the text
            does = (None, kind.window, True)
        else:  # one that was not built
            does = by_type.get(name, (kind.config, kind.window, kind.attends)) if types else _as_read(kind)
        found.setdefault((name, *does), []).append(index)
    return _with_layers(parsed, configs, found)


def _as_read(kind: LayerType) -> tuple[str | None, int | None, bool]:
    return kind.config, kind.window, kind.attends


def _key(
    parsed: ParsedConfig, configs: dict[str, RotaryConfig], layer: ObservedLayer, name: str, asked: AskedClass
) -> str | None:
    """Return the key of the configuration of a layer, which is added where none of the others is its."""
    assert layer.layer is not None
    own = config_of_layer(parsed, layer.layer)
    keys = sorted(configs, key=lambda key: (configs[key] is not own, key != name))
    for key in keys:
        if _agrees(configs[key], layer, asked.length) and _head(layer) in (None, configs[key].head_dim):
            return key
    for candidate in _candidates([own] if own else list(parsed.configs.values()), layer, asked.bases):
        if _agrees(candidate, layer, asked.length):
            key = next(
                free
                for free in (name, *(f"{name} {number}" for number in range(2, len(configs) + 3)))
                if free not in configs
            )
            configs[key] = candidate
            return key
    return None


def _head(layer: ObservedLayer) -> int | None:
    """Return the size of a head whose first features are rotated; the last ones are a head of their own here."""
    rotation = layer.rotation
    return None if rotation is None or rotation.first else rotation.head_dim


def _agrees(config: RotaryConfig, layer: ObservedLayer, length: int) -> bool:
    return next(differences_of_layer(config, layer, length), None) is None


def _candidates(
    configs: Sequence[RotaryConfig], layer: ObservedLayer, known: Sequence[float]
) -> Iterator[RotaryConfig]:
    rotation = forwards(layer).rotation
    assert rotation is not None
    bases = [*(config.base for config in configs), *known]
    fitted = identify(torch.tensor(rotation.frequencies, dtype=torch.float64))
    if fitted.base is not None:
        bases.append(fitted.base)
    head = rotation.rotary_dim if rotation.first else rotation.head_dim
    for config in configs:
        for base in dict.fromkeys(bases):
            for scaling in (config.scaling, Unscaled()):
                try:
                    yield replace(config, head_dim=head, rotary_dim=rotation.rotary_dim, base=base, scaling=scaling)
                except ConfigError:  # a scaling for another number of pairs
                    continue


def _with_layers(
    parsed: ParsedConfig,
    configs: Mapping[str, RotaryConfig],
    found: Mapping[tuple[str, str | None, int | None, bool], Sequence[int]],
) -> ParsedConfig:
    """Return a reading with other layers, and the findings that are true of them."""
    used = {key for _, key, _, _ in found if key is not None}
    # What stood under a type's own name may be what no layer does.
    own = {
        key: name for name, key, _, _ in found if key is not None and name not in used and key.startswith(f"{name} ")
    }
    configs = {own.get(key, key): config for key, config in configs.items() if key in used}
    names = [name for name, *_ in found]
    layers = [
        LayerType(
            f"{name} without positions" if key is None and attends and names.count(name) > 1 else name,
            tuple(indices),
            None if key is None else own.get(key, key),
            window,
            attends,
        )
        for (name, key, window, attends), indices in found.items()
    ]
    if len(configs) == 1 and set(parsed.configs) == {ALL_LAYERS}:
        configs = {ALL_LAYERS: next(iter(configs.values()))}
        layers = [replace(each, config=ALL_LAYERS) if each.config else each for each in layers]
    bases = {config.base for config in configs.values()} == {config.base for config in parsed.configs.values()}
    findings = [
        finding
        for finding in parsed.findings
        if finding.code != "layers without positions" and (bases or finding.code != "base of the class")
    ]
    findings += layers_without_positions(layers)
    multimodal = {key: axes for key, axes in parsed.multimodal.items() if key in configs}
    return replace(parsed, configs=dict(configs), findings=tuple(findings), multimodal=multimodal, layers=tuple(layers))
