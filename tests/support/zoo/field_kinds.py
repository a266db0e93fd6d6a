"""Kinds of values that classes without rotary positions, and stacks, take, written to ``field_kinds.json``.

Run this file after transformers was updated: ``.venv/bin/python tests/support/zoo/field_kinds.py``. For the widths
that heads must divide, models without numbers are built.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import locant
from locant.extension.inspect.model_class.small_model import quiet
from locant.rotary_configs.classes.families import model_type
from locant.rotary_configs.classes.stack_types import facts_of_stack
from zoo.entries import kinds_of_fields
from zoo.whole_heads import whole_heads

PATH = Path(locant.__file__).parent / "rotary_configs" / "classes" / "field_kinds.json"

_VALUES = (8, ["full_attention"], "rope", {}, None)


def _cannot_be_set(config_class: Any) -> list[str]:
    """Return the properties of a class with which it cannot be made, whatever their value is.

    Those of ``PreTrainedConfig`` are left out: they are no entries of files, and the same in all classes.
    """
    from transformers import PreTrainedConfig

    def is_made(**entries: Any) -> bool:
        try:
            with quiet():
                return config_class(**entries) is not None
        except Exception:  # whatever a class raises
            return False

    fields = getattr(config_class, "__dataclass_fields__", {})
    own = [name for name in dir(config_class) if not name.startswith("_") and not hasattr(PreTrainedConfig, name)]
    others = [name for name in own if isinstance(inspect.getattr_static(config_class, name), property)]
    others = [name for name in others if name not in fields and name not in config_class.attribute_map]
    return [name for name in others if not any(is_made(**{name: value}) for value in _VALUES)] if is_made() else []


def kinds_of_all(every: int = 1) -> dict[str, list[dict[str, Any]]]:
    """Return the kinds of values that classes take, and which entries cannot be set, each with the model types.

    Args:
        every: Of so many classes one is asked.
    """
    from transformers import CONFIG_MAPPING

    found: dict[str, dict[str, tuple[Any, list[str]]]] = {"takes": {}, "fixed": {}}
    for name in sorted(CONFIG_MAPPING.keys())[::every]:
        kind = model_type(name)
        if (kind is None and facts_of_stack(name) is None) or (kind is not None and kind.text_part):
            continue
        facts = {"takes": {} if kind is not None and kind.rotates else kinds_of_fields(CONFIG_MAPPING[name])}
        for what, value in (*facts.items(), ("fixed", _cannot_be_set(CONFIG_MAPPING[name]))):
            if value:
                found[what].setdefault(json.dumps(value), (value, []))[1].append(name)
    return {what: [{"of": names, what: value} for value, names in each.values()] for what, each in found.items()}


def heads_of_all() -> list[dict[str, Any]]:
    """Return the widths that heads must divide in classes without rotary positions, each with the model types."""
    from transformers import CONFIG_MAPPING

    found: dict[str, tuple[Any, list[str]]] = {}
    for name in sorted(CONFIG_MAPPING.keys()):
        kind = model_type(name)
        if (
            kind is not None
            and not kind.rotates
            and not kind.text_part
            and (value := whole_heads(CONFIG_MAPPING[name]))
        ):
            found.setdefault(json.dumps(value), (value, []))[1].append(name)
    return [{"of": names, "heads": value} for value, names in found.values()]


def main() -> None:
    """Write them."""
    parts = []
    for what, each in {**kinds_of_all(), "heads": heads_of_all()}.items():
        lines = ",\n".join(map(json.dumps, each))
        parts.append(f"{json.dumps(what)}: [\n{lines}\n]")
    inner = ",\n".join(parts)
    PATH.write_text(f"{{\n{inner}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
