"""The class that a config.json names in ``architectures``, where its model type does not tell what is meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.families import ModelType
from locant.rotary_configs.classes.without_rotation import has_rotary_code, speaks_of_rotation
from locant.rotary_configs.huggingface.text_parts import text_part, text_type


def class_in_architectures(config: Mapping[str, Any]) -> ModelType | None:
    """Return the facts of the class that ``architectures`` names, or ends with, where it is known and rotates."""
    for each in (text_part(config), config):
        names = each.get("architectures")
        if isinstance(names, list) and names and isinstance(names[0], str):
            kind = families.type_at_the_end(names[0])
            if kind is not None and kind.rotates and not kind.text_part:
                return kind
    return None


def other_type_in_architectures(config: Mapping[str, Any]) -> ModelType | None:
    """Return the facts of the class that ``architectures`` names, where the one of the model type cannot be meant.

    Grok-2 has the model type of a model of images, GIT, which has no rotary positions; its entries are about them.
    """
    part = text_part(config)
    kind = families.model_type(text_type(config))
    if kind is None or kind.rotates or has_rotary_code(part, config) or not speaks_of_rotation(part):
        return None
    names = next((each["architectures"] for each in (part, config) if each.get("architectures")), None)
    if not isinstance(names, list) or not isinstance(names[0], str):
        return None
    named = families.type_of_class(names[0])
    return named if named is not None and named.rotates and not named.text_part else None
