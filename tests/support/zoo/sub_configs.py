"""Parts of the classes of transformers whose own model type says what they are, written to ``sub_configs.json``.

Run this file after transformers was updated: ``.venv/bin/python tests/support/zoo/sub_configs.py``.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import locant
from locant.rotary_configs.classes.families import is_in_transformers
from locant.rotary_configs.classes.parts import ANY_TYPE, BACKBONE
from zoo.architectures import quiet

PATH = Path(locant.__file__).parent / "rotary_configs" / "classes" / "sub_configs.json"


def sub_configs() -> dict[str, Any]:
    """Return the parts of all classes that are looked up by their model type, and the types that are not known here.

    ``parts`` are the names of the parts of each class, ``backbones`` the classes whose part may be one of timm as well,
    ``types`` the model types of transformers beside those of ``model_types.json``, and ``renamed`` the model types that
    transformers does not have and the class of the whole takes for another one, by its name and that of the part;
    ``*`` stands for any.
    """
    from transformers import CONFIG_MAPPING, PreTrainedConfig

    parts: dict[str, list[str]] = {}
    renamed: dict[str, dict[str, dict[str, str]]] = {}
    backbones = []
    for name in sorted(CONFIG_MAPPING.keys()):
        specs = CONFIG_MAPPING[name].sub_configs_defaults
        looked_up = [part for part, spec in specs.items() if not issubclass(spec.config_class, PreTrainedConfig)]
        backbones += [name] if BACKBONE in looked_up else []
        if named := [part for part in looked_up if part != BACKBONE]:
            parts[name] = named
            others = {part: _renamed(CONFIG_MAPPING[name], part) for part in named}
            renamed |= {name: found} if (found := {part: each for part, each in others.items() if each}) else {}
    types = [name for name in sorted(CONFIG_MAPPING.keys()) if not is_in_transformers(name)]
    return {"types": types, "backbones": backbones, "renamed": renamed, "parts": parts}


def _renamed(config_class: Any, part: str) -> dict[str, str]:
    """Return the model types of a part that a class takes for others: texts of its code that are no types themselves.

    Args:
        config_class: The class of the whole.
        part: The name of the part.
    """
    from transformers import CONFIG_MAPPING

    nodes = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(config_class))))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    found: dict[str, str] = {}
    for name in (ANY_TYPE, *sorted(text for text in texts if text.isidentifier() and text not in CONFIG_MAPPING)):
        with contextlib.suppress(Exception), quiet():  # of another kind for every class that does not know it
            made = getattr(config_class(**{part: {"model_type": name}}), part)
            found |= {name: made.model_type} if made.model_type in CONFIG_MAPPING else {}
        if found and name == ANY_TYPE:
            return found
    return found


def main() -> None:
    """Write them."""
    found = sub_configs()
    lines = [f"{json.dumps(name)}: {json.dumps(parts)}" for name, parts in found["parts"].items()]
    text = ",\n".join(lines)
    names = "".join(f"{json.dumps(key)}: {json.dumps(found[key])},\n" for key in ("types", "backbones", "renamed"))
    PATH.write_text(f'{{\n{names}"parts": {{\n{text}\n}}\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
