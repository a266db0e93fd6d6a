"""Scalings and shares of a head with which a class of transformers fails, though it rotates without them."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from locant.extension.inspect.model_class.observe import ObservedLayer, observe
from locant.extension.inspect.model_class.small_model import build, quiet
from zoo.cases import sections

Tried = Callable[..., list[ObservedLayer] | None]
"""What a small model of a class does with other entries, ``None`` where it fails."""

_NONE = "default"
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

    ``fails_with`` are types of scalings, and that of none ('default'), with which it fails where the group has all of
    their entries, whether a whole head is rotated or the share that the class has ('proportional': a half);
    ``odd_share`` is there where it rotates an
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

    found = [name for name in (_NONE, *SCALINGS) if (is_flat or name != "longrope") and fails(name)]
    if found and tried(rope_parameters=with_entries(rope, {})) is not None:
        facts["fails_with"] = found
    odd = part // 2 + 1 + part // 2 % 2
    layers = tried(rope_parameters=with_entries(rope, {"partial_rotary_factor": odd / head}))
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
    return {
        "rope_type": name,
        **SCALINGS.get(name, {}),
        **lists,
        "short_mscale": 1.0,
        "long_mscale": 1.0,
    }  # of Phi-3.5-MoE


def with_entries(rope: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group, or all groups by type, with other entries."""
    if "rope_type" in rope:
        return {**rope, **entries}
    return {name: group and {**group, **entries} for name, group in rope.items()}


def with_share(
    rope: Mapping[str, Any], entries: Mapping[str, Any], share: float, tried: Tried
) -> list[ObservedLayer] | None:
    """Return what a class does with a share of a head and no scaling, with sections of its pairs if it wants these.

    Args:
        rope: The group of the class, or one for each type of layers.
        entries: The entries of a small model that it computes.
        share: The share.
        tried: What it does with other entries.
    """
    stated = {"partial_rotary_factor": share}
    if "rope_type" not in rope:
        return tried(rope_parameters=with_entries(rope, stated))
    group = {**rope, "rope_type": "default", **stated}
    layers = tried(rope_parameters=group)
    return layers or tried(rope_parameters={**group, "mrope_section": sections(dict(entries), group, 3)})


_BORDER = 16
_LENGTHS_BESIDE = ("max_position_embeddings", "original_max_position_embeddings")
_WITHIN, _BEYOND = range(4), range(2 * _BORDER)  # also where a class counts positions itself


def keeps_short_list(config_class: Any, entries: Mapping[str, Any], pairs: int) -> bool:
    """Whether a class turns pairs by the short list of 'longrope' in texts beyond its length, too.

    Args:
        config_class: The class of its configuration.
        entries: The entries of a small model that it computes.
        pairs: How many pairs of features that rotates.
    """
    rope = entries.get("rope_parameters")
    if not rope or "rope_type" not in rope:
        return False
    group = {**with_entries(rope, complete_scaling("longrope", pairs)), "original_max_position_embeddings": _BORDER}
    lengths = {each: _BORDER for each in _LENGTHS_BESIDE if each in entries}
    changed = {**entries, **lengths, "rope_parameters": group}
    try:
        with quiet():
            within, beyond = (
                observe(build(config_class(**copy.deepcopy(changed))), positions) for positions in (_WITHIN, _BEYOND)
            )
    except Exception:  # whatever the class raises
        return False
    frequencies = [
        [each for layer in layers if layer.rotation is not None for each in layer.rotation.frequencies]
        for layers in (within, beyond)
    ]
    return bool(frequencies[0]) and all(
        abs(one - other) < 1e-4 + 1e-3 * abs(one) for one, other in itertools.zip_longest(*frequencies, fillvalue=0.0)
    )
