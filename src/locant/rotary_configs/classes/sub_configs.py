"""Parts of a config.json that transformers looks up by their own model type, which must be one that it has.

``sub_configs.json`` is generated from the classes of transformers 5.24 (``tests/support/zoo/sub_configs.py``).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.classes import families


def is_type_of_transformers(name: Any) -> bool:
    """Whether transformers has a class of a model type, also one that is not about text."""
    return isinstance(name, str) and (families.is_in_transformers(name) or name in _stored()["types"])


def types_of_transformers() -> list[str]:
    """Return all model types that transformers has a class of."""
    names = (name for name in families.known_model_types() if families.is_in_transformers(name))
    return [*names, *_stored()["types"]]


def parts_of_unknown_types(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield warnings about parts whose model type transformers does not have, so that it refuses the file.

    Args:
        config: The content of config.json, or a part of it.
    """
    whole = config.get("model_type")
    if not is_type_of_transformers(whole) or config.get("auto_map"):
        return
    for name in _stored()["parts"].get(whole, ()):
        part = config.get(name)
        if isinstance(part, Mapping) and "model_type" in part and not is_type_of_transformers(part["model_type"]):
            yield Finding(
                "warning",
                f"model_type is {in_json(part['model_type'])} in '{name}', of which transformers 5 has no class: the "
                f"class of '{whole}' looks that part up by its model type, and refuses the file.",
                f"Correct the model_type of '{name}', or load the model with the code that it was published for.",
            )
    for part in config.values():
        if isinstance(part, Mapping):
            yield from parts_of_unknown_types(part)


@functools.cache
def _stored() -> Mapping[str, Any]:
    stored: dict[str, Any] = json.loads((Path(__file__).parent / "sub_configs.json").read_text(encoding="utf-8"))
    return stored
