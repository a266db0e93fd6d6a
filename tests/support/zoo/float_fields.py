"""Fields for which classes take numbers with a fraction and no whole ones, written to ``float_fields.json``.

Run this file after transformers was updated: ``.venv/bin/python tests/support/zoo/float_fields.py``. No model is built.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import locant
from zoo.entries import kinds_of_field

PATH = Path(locant.__file__).parent / "rotary_configs" / "classes" / "float_fields.json"


def float_fields_of_all(every: int = 1) -> dict[str, Any]:
    """Return such fields with the names of the classes, and the classes of parts that are the same in all files.

    A class has the name of its model type; one of parts alone that of the part: ``dbrx.ffn_config``.

    Args:
        every: Of so many classes one is asked.
    """
    from transformers import CONFIG_MAPPING, PreTrainedConfig

    fields: dict[str, set[str]] = {}
    parts: dict[str, dict[str, str]] = {}
    for whole in sorted(CONFIG_MAPPING.keys())[::every]:
        _collect(whole, CONFIG_MAPPING[whole], fields)
        for part, config_class in CONFIG_MAPPING[whole].sub_configs.items():
            if not issubclass(config_class, PreTrainedConfig) or config_class is PreTrainedConfig:
                continue  # looked up by the model type of the part
            name = config_class.model_type
            if name not in CONFIG_MAPPING or CONFIG_MAPPING[name] is not config_class:
                name = f"{whole}.{part}"
                _collect(name, config_class, fields)
            parts.setdefault(whole, {})[part] = name
    return {"fields": {field: sorted(names) for field, names in sorted(fields.items())}, "parts": parts}


def _collect(name: str, config_class: Any, fields: dict[str, set[str]]) -> None:
    for field in getattr(config_class, "__dataclass_fields__", {}).values():
        kinds = kinds_of_field(config_class, field)
        if "a number" in kinds and "a whole number" not in kinds:
            fields.setdefault(field.name, set()).add(name)


def main() -> None:
    """Write them."""
    parts = []
    for what, found in float_fields_of_all().items():
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items())
        parts.append(f"{json.dumps(what)}: {{\n{lines}\n}}")
    inner = ",\n".join(parts)
    PATH.write_text(f"{{\n{inner}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
