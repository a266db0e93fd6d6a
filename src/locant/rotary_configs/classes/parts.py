"""Parts of config.json that the classes of transformers read: the groups of entries that have a class of their own.

Source: ``sub_configs.json`` and ``float_fields.json``, which are generated from the classes of transformers 5.24.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BACKBONE = "backbone_config"
"""The part that may be of timm, whose model types are others."""

ANY_TYPE = "*"
"""What stands for any model type of a part, of a class that gives it one of its own."""


def parts_of_class(name: str) -> dict[str, str | None]:
    """Return the entries that hold the parts of a class, which passes over all other groups with a model type in them.

    Args:
        name: Its model type, or the name of the class of a part.

    Returns:
        For each the name of its class, ``None`` where that is looked up by the part's own model type.
    """
    types = stored("sub_configs")
    looked_up = [*types["parts"].get(name, ()), *([BACKBONE] if name in types["backbones"] else ())]
    return dict.fromkeys(looked_up) | stored("float_fields")["parts"].get(name, {})


@functools.cache
def stored(name: str) -> Mapping[str, Any]:
    """Return the stored facts of a file beside this module.

    Args:
        name: Its name, without the ending.
    """
    found: dict[str, Any] = json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))
    return found
