"""The rotary configurations of a transformers model: read, and compared with what its class computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from locant.errors import ConfigError, LocantError, nearest
from locant.positions.huggingface.forms import probe_positions, sines_and_cosines
from locant.positions.huggingface.model_parts import ModelParts, RotaryPart
from locant.positions.rotary.config import RotaryConfig
from locant.positions.rotary.rotary import Rotary
from locant.positions.scaling import DynamicNTK

ALL_LAYERS = "all"
"""The layer type of models whose layers all have the same rotary positions."""

_STEP = 256  # tokens in which lengths are counted where a model's own frequencies follow them
_AGREES = 2e-3  # a float32 angle at the farthest position that is compared is right to half of it


def rotary_configs(
    parts: ModelParts, given: RotaryConfig | Mapping[str, RotaryConfig] | None
) -> dict[str, RotaryConfig]:
    """Return the rotary configurations of a model by layer type, checked.

    Args:
        parts: Of the model.
        given: The configuration, or one for every layer type; that of the model unless given.

    Raises:
        ConfigError: They do not fit the model.
        LocantError: The model's own is read otherwise than its class computes it.
    """
    if given is None:
        configs = _read(parts.config)
    else:
        configs = {ALL_LAYERS: given} if isinstance(given, RotaryConfig) else dict(given)
    layers = {layer for part in parts.rotaries for layer in part.form.pairs}
    if given is None and len(layers - {None}) > 0 and ALL_LAYERS not in configs:
        configs = {layer: config for layer, config in configs.items() if layer in layers}
    _check_layers(configs, layers, parts.name)
    for part in parts.rotaries:
        for layer, pairs in part.form.pairs.items():
            config = config_of_layer(configs, layer)
            _check_shape(config, pairs, parts, layer)
            if given is None:
                _check_angles(config, part, layer, parts.name)
    return configs if given is not None else {layer: _in_steps(config) for layer, config in configs.items()}


def config_of_layer(configs: Mapping[str, RotaryConfig], layer: str | None) -> RotaryConfig:
    """Return the configuration of a layer type; ``None`` is that of models that know none."""
    return configs[layer] if layer is not None and layer in configs else next(iter(configs.values()))


def _read(config: Any) -> dict[str, RotaryConfig]:
    from locant.rotary_configs import read_huggingface

    return dict(read_huggingface(config.to_dict()).configs)


def _check_layers(configs: Mapping[str, RotaryConfig], layers: set[str | None], name: str) -> None:
    known = sorted(layer for layer in layers if layer is not None)
    if not configs:
        raise ConfigError(f"There is no rotary configuration for {name}.")
    if not known:
        if len(configs) > 1:
            raise ConfigError(
                f"All layers of {name} rotate alike, but there are configurations of {', '.join(configs)}."
            )
        return
    if set(configs) == {ALL_LAYERS}:
        return
    for layer in configs:
        if layer not in known:
            raise ConfigError(f"{name} has no layer type '{layer}'.{nearest(layer, known)} Known: {', '.join(known)}.")
    for layer in known:
        if layer not in configs:
            raise ConfigError(f"The rotary configuration of the layer type '{layer}' of {name} is missing.")


def _check_shape(config: RotaryConfig, pairs: int, parts: ModelParts, layer: str | None) -> None:
    where = parts.name if layer is None else f"the layer type '{layer}' of {parts.name}"
    if config.rotary_dim != 2 * pairs:
        raise ConfigError(
            f"The configuration rotates {config.rotary_dim} features of a head, but the class of {where} rotates "
            f"{2 * pairs}."
        )
    if config.layout not in parts.layouts:
        raise ConfigError(
            f"The configuration pairs features as '{config.layout}', but the class of {where} as "
            f"'{' or '.join(sorted(parts.layouts))}'."
        )


def _check_angles(config: RotaryConfig, part: RotaryPart, layer: str | None, name: str) -> None:
    """Compare cosines and sines with those of the class, at positions where float32 can still tell."""
    limit = config.scaling.trained if config.scaling.depends_on_length else None
    positions = torch.tensor(list(probe_positions(limit)))
    with torch.no_grad():
        sine, cosine = sines_and_cosines(part.fresh, positions, layer)
    ours = Rotary.from_config(config).sine_cosine(positions)
    gap = torch.maximum((ours[0] - sine).abs(), (ours[1] - cosine).abs())
    if bool((gap < _AGREES * config.attention_scale()).all()):
        return
    row, pair = divmod(int(gap.argmax()), gap.shape[-1])
    raise LocantError(
        f"Locant reads the rotary configuration of {name} otherwise than {type(part.module).__name__} computes it: at "
        f"position {int(positions[row])} the sine of pair {pair} is {float(ours[0][row, pair]):.4f} and there "
        f"{float(sine[row, pair]):.4f}. Say which is meant: install(model, RotaryConfig(...))."
    )


def _in_steps(config: RotaryConfig) -> RotaryConfig:
    """Return a configuration that counts lengths in steps where it counted every token."""
    scaling = config.scaling
    if isinstance(scaling, DynamicNTK) and scaling.depends_on_length and scaling.length_step == 1:
        return replace(config, scaling=replace(scaling, length_step=_STEP))
    return config
