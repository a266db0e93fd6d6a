"""Entries of single layers in a config.json (``per_layer_config``), and which of them transformers refuses.

``transformers/integrations/heterogeneity/configuration_utils.py`` puts them in the place of the entries for all layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.base import in_words
from locant.rotary_configs.classes.entries import entries_of_class
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.layer_types import entries_by_layer
from locant.rotary_configs.usual_values import GROUPS

_EXCLUSIVE = ("sliding_window", "attention_chunk_size")


def doubts_about_single_layers(part: Mapping[str, Any], kind: ModelType, names: Sequence[str]) -> Iterator[Finding]:
    """Yield warnings about entries of single layers with which a class of transformers refuses a file.

    Args:
        part: The text part of config.json.
        kind: The facts of its class.
        names: Types of the layers.
    """
    stated = part.get("per_layer_config")
    given = entries_by_layer(stated)
    if stated is not None and (not isinstance(stated, Mapping) or len(given) != len(stated)):
        yield Finding(
            "warning",
            f"per_layer_config is {in_json(stated)} in config.json, where transformers takes an object with a group of "
            "entries for the index of each layer alone: it refuses the file.",
            'State groups by index, as {"5": {"head_dim": 256}}.',
        )
        return
    if not given or not names:
        return
    if beyond := sorted(index for index in given if index >= len(names)):
        yield Finding(
            "warning",
            f"per_layer_config of config.json has entries for {in_words(beyond)}, but there are {len(names)}, counted "
            "from 0: transformers refuses that.",
            "Leave out the entries of layers that the model does not have.",
        )
        return
    yield from _two_windows(part, kind, given, len(names))
    yield from _unlike_others_of_their_type(part, kind, given, names)


def _two_windows(
    part: Mapping[str, Any], kind: ModelType, given: Mapping[int, Mapping[str, Any]], count: int
) -> Iterator[Finding]:
    """Yield that a layer has a window as well as chunks."""
    usual = {name: part.get(name, kind.defaults.get(name)) for name in _EXCLUSIVE}
    both = [index for index in range(count) if None not in {**usual, **given.get(index, {})}.values()]
    both = [index for index in both if all(given.get(index, {}).get(name, usual[name]) for name in _EXCLUSIVE)]
    if both:
        yield Finding(
            "warning",
            f"In config.json with its per_layer_config, {in_words(both)} {'has' if len(both) == 1 else 'have'} "
            "sliding_window as well as attention_chunk_size: transformers refuses that.",
            "State null for one of them there.",
        )


def _unlike_others_of_their_type(
    part: Mapping[str, Any], kind: ModelType, given: Mapping[int, Mapping[str, Any]], names: Sequence[str]
) -> Iterator[Finding]:
    """Yield that layers of one type differ, where the class or a scaling looks for their entries by the type."""
    own = entries_of_class(kind.name)
    by_type = {*names} if own is not None and own.layers_by_type else {*_scaled_types(part)}
    firsts: dict[str, tuple[int, dict[str, Any]]] = {}
    for index, name in enumerate(names):
        if name not in by_type:
            continue
        stated = given.get(index, {})
        differing = {key: value for key, value in stated.items() if value != part.get(key, kind.defaults.get(key))}
        first, expected = firsts.setdefault(name, (index, differing))
        if differing != expected:
            yield Finding(
                "warning",
                f"per_layer_config of config.json tells layers {first} and {index} apart, both of the type '{name}': "
                f"the class of '{kind.name}' in transformers refuses that.",
                "Let layer_types and per_layer_config say the same.",
            )
            return


def _scaled_types(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types of layers with a scaling, which is computed by what the layers of the type have in common."""
    groups = (part.get(name) for name in GROUPS)
    for name, group in (each for found in groups if isinstance(found, Mapping) for each in found.items()):
        if isinstance(group, Mapping) and (group.get("rope_type") or group.get("type") or "default") != "default":
            yield name
