"""The class of a model in transformers, asked which rows of which tensors are rotated, and in which layout."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from locant.errors import ConfigError, LocantError, MissingExtraError, UsageError
from locant.extension.inspect.model_class.ask import facts_of_class
from locant.extension.inspect.model_class.compare import compare_with_class, config_of_layer, turns_back
from locant.extension.inspect.model_class.observe import ObservedLayer, observe
from locant.extension.inspect.model_class.small_model import model_class, quiet
from locant.extension.layouts.low_rank import build_low_rank, low_rank_config, tell_features_apart
from locant.extension.layouts.rows import RotatedRows, RotatingLayer, rotated_rows
from locant.extension.source import EXTRA
from locant.positions.rotary.config import RotaryLayout
from locant.rotary_configs.base import ParsedConfig, in_words
from locant.rotary_configs.classes import families
from locant.rotary_configs.huggingface.reading import read_config
from locant.rotary_configs.huggingface.text_parts import text_part, text_type

if TYPE_CHECKING:
    from torch import nn

_POSITIONS = (0, 1, 3, 17, 40, 101)
_SWITCH = "interleave"


@dataclass(frozen=True)
class AskedLayout:
    """What a class does with the rows of a model's tensors.

    Attributes:
        model: The class's model with weights of low rank.
        release: Release of transformers.
        layers: The layers that rotate.
        rows: Where rotated features stand, by the names of the class's parameters.
    """

    model: nn.Module
    release: str
    layers: tuple[RotatingLayer, ...]
    rows: Mapping[str, RotatedRows]

    @property
    def name(self) -> str:
        """Name of the class."""
        return type(self.model).__name__

    @property
    def layouts(self) -> set[RotaryLayout]:
        """The layouts that it has for weights, one as a rule."""
        return {layer.layout for layer in self.layers}


def ask_layout(content: Mapping[str, Any]) -> AskedLayout:
    """Ask the class of a model which rows of its tensors are rotated.

    Args:
        content: The object in config.json.

    Raises:
        UsageError: transformers has no class for the model type, or makes no model of the file.
        LocantError: The class rotates in a way for which rows have no order that could be changed, or otherwise than
            config.json is read.
        MissingExtraError: transformers is not installed.
    """
    if importlib.util.find_spec("transformers") is None:
        raise MissingExtraError("Asking the model's class", "transformers", EXTRA)
    import transformers

    model = class_model(content)
    with quiet():
        layers = observe(model, _POSITIONS)
    rotating = [layer for layer in layers if layer.rotation is not None]
    name = type(model).__name__
    if not rotating:
        raise UsageError(f"{name} does not rotate queries and keys, so its weights have no rotary layout.")
    strange = next((layer for layer in rotating if layer.layout is None or layer.layer is None), None)
    if strange is not None:
        raise LocantError(f"{strange.name} of {name} does not turn features in pairs of halves or neighbours.")
    if any(map(turns_back, rotating)):
        raise LocantError(f"{name} turns pairs backwards, by minus the angle: software with the other layout does not.")
    if text_type(content) in families.LEARNS_FREQUENCIES:
        raise LocantError(
            f"{name} multiplies the frequency of every pair by a number that is learned with its weights, by which "
            "Locant does not rotate: the other layout could not be tried. Nothing was converted."
        )
    parsed = _parsed(content, model, layers)
    differences = compare_with_class(parsed, layers, _POSITIONS[-1] + 1)
    if differences:
        first = differences[0]
        raise LocantError(
            f"Locant reads the rotary positions of config.json otherwise than {name} computes them in "
            f"{in_words(first.layers)}: {first.read}; the class: {first.found}. Nothing was converted."
        )
    found = tuple(_rotating(layer, parsed) for layer in rotating)
    tell_features_apart(model)
    return AskedLayout(model, transformers.__version__, found, rotated_rows(model, found))


def checkpoint_class(content: Mapping[str, Any], config: Any) -> type[Any]:
    """Return the class whose tensors a checkpoint has: the one that config.json names, or a usual one.

    Args:
        content: The object in config.json.
        config: The same as an object of transformers.

    Raises:
        UsageError: There is none.
    """
    import transformers
    from transformers.models.auto import modeling_auto as auto

    stated = content.get("architectures")
    for name in stated if isinstance(stated, list) else []:
        found = getattr(transformers, name, None) if isinstance(name, str) else None
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found
    mappings = ("CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "MASKED_LM", "IMAGE_TEXT_TO_TEXT")
    for mapping in mappings:
        known: Any = getattr(auto, f"MODEL_FOR_{mapping}_MAPPING", {})
        if type(config) in known:
            found = known[type(config)]
            return found[0] if isinstance(found, tuple) else found
    bare = model_class(type(config))
    if bare is None:
        raise UsageError(f"transformers has no model class for the model type '{content.get('model_type')}'.")
    return bare


def typed_config(content: Mapping[str, Any]) -> Any:
    """Return config.json as an object of transformers.

    Raises:
        UsageError: transformers does not know the model type, or refuses the file.
    """
    import transformers

    name = content.get("model_type")
    if not isinstance(name, str) or name not in transformers.CONFIG_MAPPING:
        own = " It brings code of its own, which is never run." if content.get("auto_map") else ""
        raise UsageError(
            f"transformers {transformers.__version__} has no class for the model type '{name}', which alone knows what "
            f"its tensors hold.{own}"
        )
    try:
        with quiet():
            return transformers.CONFIG_MAPPING[name].from_dict(_with_floats(dict(content)))
    except Exception as error:  # whatever the class raises
        raise UsageError(f"transformers refuses this config.json: {first_line(error)}") from error


def _with_floats(value: Any) -> Any:
    """Return a copy in which infinite numbers are numbers, for which transformers writes a group with one entry."""
    if isinstance(value, Mapping):
        if set(value) == {"__float__"}:
            return float(value["__float__"])
        return {key: _with_floats(each) for key, each in value.items()}
    return [_with_floats(each) for each in value] if isinstance(value, list) else copy.deepcopy(value)


def layout_switch(content: Mapping[str, Any], asked: AskedLayout, target: RotaryLayout) -> tuple[str, bool] | None:
    """Return the entry of config.json that lets the class pair features in another layout, with its value.

    The class is asked: every switch whose name speaks of interleaving is turned.

    Args:
        content: The object in config.json.
        asked: What the class does as it is.
        target: The layout.
    """
    config = typed_config(content)
    part = config.get_text_config()
    fields = getattr(type(part), "__dataclass_fields__", {})
    for name in sorted(fields):
        value = getattr(part, name, None) if _SWITCH in name else None
        if not isinstance(value, bool):
            continue
        changed = with_entry(content, name, not value)
        with quiet():
            seen = [layer for layer in observe(class_model(changed), _POSITIONS) if layer.rotation is not None]
        if len(seen) == len(asked.layers) and all(layer.layout == target for layer in seen):
            return name, not value
    return None


def with_entry(content: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Return a config.json with an entry in its text part."""
    changed = copy.deepcopy(dict(content))
    text_part_of(changed)[name] = value
    return changed


def text_part_of(content: dict[str, Any]) -> dict[str, Any]:
    """Return the text part of a config.json, as a part of it that can be changed."""
    part = text_part(content)
    assert isinstance(part, dict)
    return part


def class_model(content: Mapping[str, Any]) -> nn.Module:
    """Return the model of a config.json's class with random weights of low rank.

    Raises:
        UsageError: There is no such class, or it makes no model of the file.
    """
    config = typed_config(content)
    found = checkpoint_class(content, config)
    try:
        with quiet():
            return build_low_rank(found, low_rank_config(config))
    except LocantError:
        raise
    except Exception as error:  # classes raise whatever they like
        raise UsageError(
            f"{found.__name__} of transformers makes no model of this config.json: {first_line(error)}"
        ) from error


def _parsed(content: Mapping[str, Any], model: nn.Module, layers: list[ObservedLayer]) -> ParsedConfig:
    known = families.model_type(text_type(content))
    kind = None if known is not None else facts_of_class(model.config.get_text_config(), tuple(layers))  # type: ignore[union-attr, operator]
    return read_config(content, kind=kind)


def _rotating(layer: ObservedLayer, parsed: ParsedConfig) -> RotatingLayer:
    assert layer.layer is not None
    assert layer.rotation is not None
    assert layer.layout is not None
    config = config_of_layer(parsed, layer.layer)
    gathered = layer.rotation.layout
    if config is None or gathered is None:
        raise ConfigError(f"config.json does not say how {layer.name} rotates, though its class does.")
    return RotatingLayer(
        layer.name,
        replace(config, layout=layer.layout),
        layer.rotation.head_dim,
        layer.rotation.first,
        layer.layout,
        gathered,
    )


def first_line(error: Exception) -> str:
    """Return the first line of an error's message as a sentence."""
    lines = str(error).strip().splitlines()
    return f"{lines[0][:200].rstrip('.')}." if lines else f"{type(error).__name__}."
