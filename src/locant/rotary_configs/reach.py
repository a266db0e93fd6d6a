"""Layers that a scaling reaches which a file states once, for all of them: in some models those of one kind alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import FrequencyScaling, LongRoPE, Unscaled
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.base import LayerType, in_words
from locant.rotary_configs.layer_types import SCALED
from locant.rotary_configs.usual_values import GROUPS

REACH: Final = "reach of the scaling"
"""Code of the note on the layers that a scaling reaches."""

_MOST_LAYERS = 4


def reach_of_scaling(
    configs: Mapping[str, RotaryConfig], layers: Sequence[LayerType], where: str, remedy: str
) -> Iterator[Finding]:
    """Yield the note on a scaling that some layers alone have, or layers with a window as well.

    Args:
        configs: The rotations by type of layer; those of one rotation need no note.
        layers: The layers.
        where: Where the file states the scaling for all of them: "of the file", "in rope_scaling of config.json".
        remedy: What to do about it.
    """
    scaled = {name for name, each in configs.items() if _is_scaled(each.scaling)}
    if len(configs) == 1 and scaled:
        yield from _windows_alone(configs, layers, where, remedy)
    if len(configs) == 1 or not scaled or SCALED in configs:  # which the file lists
        return
    said = f"The scaling '{configs[min(scaled)].scaling.name}' {where} acts on"
    rotating = [each for each in layers if each.config is not None]
    if scaled != {*configs}:
        own = [index for each in rotating if each.config in scaled for index in each.layers]
        which = f" ({in_words(own, _MOST_LAYERS)})" if own else ""
        others = _types({*configs} - scaled, rotating)
        yield Finding(
            "note",
            f"{said} {_types(scaled, rotating)} layers alone{which}: {others} layers have none.",
            remedy,
            REACH,
        )
        return
    with_window = {each.type_name for each in rotating if each.window}
    if with_window and {each.type_name for each in rotating} - with_window:
        yield Finding(
            "note",
            f"{said} layers with a window, too: {' and '.join(sorted(with_window))} layers are scaled as the others "
            "are.",
            remedy,
            REACH,
        )


def _windows_alone(
    configs: Mapping[str, RotaryConfig], layers: Sequence[LayerType], where: str, remedy: str
) -> Iterator[Finding]:
    """Yield the note on a scaling of layers with a window alone, as those that see the whole text do not rotate."""
    attending = [each for each in layers if each.attends]
    rotating = [each for each in attending if each.config is not None]
    if {each.config is not None for each in attending if not each.window} != {False}:
        return
    if rotating and all(each.window for each in rotating):
        name = next(iter(configs.values())).scaling.name
        which = in_words([index for each in rotating for index in each.layers], _MOST_LAYERS)
        yield Finding(
            "note",
            f"The scaling '{name}' {where} acts on layers with a window alone ({which}): those that see the whole text "
            "do not rotate.",
            remedy,
            REACH,
        )


def scaling_for_all_layers(part: Mapping[str, Any]) -> str | None:
    """Return the entry of a config.json with a scaling that is for no type of layers by itself, if there is one.

    Args:
        part: The text part.
    """
    groups = {name: group for name in GROUPS if isinstance(group := part.get(name), Mapping)}
    if any(isinstance(each, Mapping) for group in groups.values() for each in group.values()):
        return None
    types = {name: group.get("rope_type", group.get("type", "default")) for name, group in groups.items()}
    return next((name for name, kind in types.items() if kind != "default"), None)


def _is_scaled(scaling: FrequencyScaling) -> bool:
    """Whether frequencies are scaled, and not cosines and sines alone, as lists of 1 say it."""
    if isinstance(scaling, LongRoPE):
        return {*scaling.short_factors, *scaling.long_factors} != {1.0}
    return not isinstance(scaling, Unscaled)


def _types(configs: set[str], rotating: Sequence[LayerType]) -> str:
    """Return the types of the layers with some rotations, by the names of these where no layers are known."""
    names = dict.fromkeys(each.type_name for each in rotating if each.config in configs)
    return " and ".join(names or sorted(configs))
