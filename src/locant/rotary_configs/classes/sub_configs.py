"""Parts of a config.json that transformers looks up by their own model type, which must be one that it has.

``sub_configs.json`` is generated from the classes of transformers 5.24 (``tests/support/zoo/sub_configs.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.parts import ANY_TYPE, BACKBONE, parts_of_class, stored


def is_type_of_transformers(name: Any) -> bool:
    """Whether transformers has a class of a model type, also one that is not about text."""
    return isinstance(name, str) and (families.is_in_transformers(name) or name in stored("sub_configs")["types"])


def types_of_transformers() -> list[str]:
    """Return all model types that transformers has a class of."""
    names = (name for name in families.known_model_types() if families.is_in_transformers(name))
    return [*names, *stored("sub_configs")["types"]]


def parts_of_unknown_types(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield warnings about parts whose model type transformers does not have, so that it refuses the file.

    Args:
        config: The content of config.json.
    """
    if is_type_of_transformers(config.get("model_type")) and not config.get("auto_map"):
        yield from _in_group(config, config["model_type"])


def _in_group(group: Mapping[str, Any], whole: str) -> Iterator[Finding]:
    """Yield those of a file or of a part, whose class passes over all groups that are no parts of it.

    Args:
        group: Its entries.
        whole: Its model type, or the name of the class of such a part.
    """
    for name, fixed in parts_of_class(whole).items():
        part = group.get(name)
        if not isinstance(part, Mapping):
            continue
        renamed = stored("sub_configs")["renamed"].get(whole, {}).get(name, {})
        taken = renamed.get(str(part.get("model_type")), renamed.get(ANY_TYPE))
        if fixed is not None or is_type_of_transformers(taken or part.get("model_type")):
            yield from _in_group(part, fixed or taken or part["model_type"])
        elif "model_type" in part and name != BACKBONE:
            yield Finding(
                "warning",
                f"model_type is {in_json(part['model_type'])} in '{name}', of which transformers 5 has no class: the "
                f"class of '{whole}' looks that part up by its model type, and refuses the file.",
                f"Correct the model_type of '{name}', or load the model with the code that it was published for.",
            )
