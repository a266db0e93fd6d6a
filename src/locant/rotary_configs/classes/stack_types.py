"""Groups of a config.json that are stacks of layers which rotate, beside the text part of a class.

``stacks.json`` is generated from the classes of transformers 5.24 (``tests/support/zoo/stacks.py``): decoders of depth,
encoders and codecs, by the names of the groups that lead to each. Vision towers are told apart
(:mod:`locant.rotary_configs.vision`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def stacks_of_type(name: str | None) -> Mapping[str, Mapping[str, Any]]:
    """Return the stacks of a model type's class by their way in the file, such as ``talker_config.text_config``.

    Each has its model ``type``; ``alone``, what the class gives a group that the file leaves out otherwise than the
    stack's own class has it; and ``facts``, where that type is not among those of ``model_types.json``.

    Args:
        name: The model type.
    """
    return _stored().get(name or "", {})


@functools.cache
def facts_of_stack(name: str) -> Mapping[str, Any] | None:
    """Return the facts of a model type that is a stack of other models and a class of its own, such as ``mimi``.

    Args:
        name: The model type.

    Returns:
        They, or ``None`` where there are none, or not how the class pairs features.
    """
    stacks = (facts for by_way in _stored().values() for facts in by_way.values())
    found = (facts["facts"] for facts in stacks if facts["type"] == name and "facts" in facts)
    return next((facts for facts in found if "layout" in facts), None)


@functools.cache
def _stored() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    stored: dict[str, dict[str, dict[str, Any]]] = json.loads(
        (Path(__file__).parent / "stacks.json").read_text(encoding="utf-8")
    )
    return stored
