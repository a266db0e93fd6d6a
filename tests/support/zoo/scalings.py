"""Scalings and shares of a head with which a class of transformers fails, though it rotates without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from locant.extension.inspect.model_class.observe import ObservedLayer

Tried = Callable[..., list[ObservedLayer] | None]
"""What a small model of a class does with other entries, ``None`` where it fails."""

_LENGTHS = {"factor": 4.0, "original_max_position_embeddings": 64}
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": _LENGTHS,
    "llama3": {**_LENGTHS, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "longrope": _LENGTHS,
    "proportional": {},
}


def scaling_facts(rope: Mapping[str, Any], usual: Sequence[ObservedLayer], tried: Tried) -> dict[str, Any]:
    """Return what a class makes of the scalings of transformers, of an odd share of a head, and without sections.

    ``fails_with`` are types of scalings with which it fails where the group has all of their entries, whether a whole
    head is rotated or the share that the class has ('proportional': a half); ``odd_share`` is there where it rotates an
    odd number of features, and one more; ``needs_sections`` where its group must have an ``mrope_section``.

    Args:
        rope: The group of the class, or one for each type of layers.
        usual: What the layers do with it.
        tried: What they do with other entries.
    """
    facts: dict[str, Any] = {}
    rotation = next((layer.rotation for layer in usual if layer.rotation is not None), None)
    if rotation is None:
        return facts
    head, part = rotation.head_dim, rotation.rotary_dim
    is_flat = "rope_type" in rope

    def fails(name: str) -> bool:
        whole = {"partial_rotary_factor": 0.5 if name == "proportional" else 1.0}
        forms = (complete_scaling(name, part // 2), {**complete_scaling(name, head // 2), **whole})
        return all(tried(rope_parameters=with_entries(rope, each)) is None for each in forms)

    found = [name for name in SCALINGS if (is_flat or name != "longrope") and fails(name)]
    if found and tried(rope_parameters=with_entries(rope, {})) is not None:
        facts["fails_with"] = found
    odd = part // 2 + 1
    layers = tried(rope_parameters=with_entries(rope, {"partial_rotary_factor": odd / head})) if odd % 2 else None
    changed = next((each.rotation for each in layers or () if each.rotation is not None), None)
    if changed is not None and changed.rotary_dim == odd + 1:
        facts["odd_share"] = True
    if "mrope_section" in rope:
        rest = {name: value for name, value in rope.items() if name != "mrope_section"}
        facts["needs_sections"] = tried(rope_parameters=rest) is None
    return facts


def complete_scaling(name: str, pairs: int) -> dict[str, Any]:
    """Return a complete group of a type of scaling, for so many pairs."""
    lists = {"short_factor": [1.0] * pairs, "long_factor": [2.0] * pairs} if name == "longrope" else {}
    return {"rope_type": name, **SCALINGS[name], **lists, "short_mscale": 1.0, "long_mscale": 1.0}  # of Phi-3.5-MoE


def with_entries(rope: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group, or all groups by type, with other entries."""
    if "rope_type" in rope:
        return {**rope, **entries}
    return {name: group and {**group, **entries} for name, group in rope.items()}
