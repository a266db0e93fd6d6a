"""Positions of several axes that a class takes: how they share out the pairs, and whether a file may have more axes."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from locant.extension.inspect.model_class.observe import ObservedLayer, observe
from locant.extension.inspect.model_class.small_model import build, quiet
from locant.extension.inspect.model_class.turning_axes import axes_of_class, turning_axes
from zoo.architectures import Architecture
from zoo.verdict import SHORT

_OTHER_AXES = 4


def axis_facts(
    found: Architecture, entries: Mapping[str, Any], layers: Sequence[ObservedLayer]
) -> dict[str, Any] | None:
    """Return what :func:`axes_of_class` does, and whether the class takes other sections than its own.

    ``any`` is there where it has as many axes as a file has sections, ``fractions`` where these may be written with one
    that is 0.

    Args:
        found: The class.
        entries: The entries of a small model that it computes.
        layers: What the layers of that do.
    """
    with quiet():
        axes = axes_of_class(build(found.config_class(**copy.deepcopy(dict(entries)))), layers)
    rotation = next((each.rotation for each in layers if each.rotation is not None and each.rotation.layout), None)
    if axes is None or "sections" not in axes or rotation is None:
        return axes
    pairs = rotation.rotary_dim // 2
    sections = [pairs // _OTHER_AXES] * _OTHER_AXES
    if _turns_by_all(found, entries, sections, pairs):
        axes["any"] = True
        axes["fractions"] = _turns_by_all(found, entries, [float(each) for each in sections], pairs)
    return {name: value for name, value in axes.items() if value}


def _turns_by_all(found: Architecture, entries: Mapping[str, Any], sections: Sequence[float], pairs: int) -> bool:
    """Whether a class turns pairs by as many axes as a file has sections."""
    group = {**(entries.get("rope_parameters") or {}), "mrope_section": list(sections)}
    try:
        with quiet():
            model = build(found.config_class(**copy.deepcopy({**entries, "rope_parameters": group})))
            layer = next(each for each in observe(model, SHORT) if each.rotation is not None and each.rotation.layout)
    except Exception:  # whatever a class raises for other sections
        return False
    seen = turning_axes(model, layer, pairs, len(sections))
    return seen is not None and set().union(*seen) == {*range(len(sections))}
