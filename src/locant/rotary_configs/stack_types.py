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
def _stored() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    stored: dict[str, dict[str, dict[str, Any]]] = json.loads(
        (Path(__file__).parent / "stacks.json").read_text(encoding="utf-8")
    )
    return stored
