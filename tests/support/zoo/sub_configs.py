"""Parts of the classes of transformers whose own model type says what they are, written to ``sub_configs.json``.

Run this file after transformers was updated: ``.venv/bin/python tests/support/zoo/sub_configs.py``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import locant
from locant.rotary_configs.classes.families import is_in_transformers
from locant.rotary_configs.classes.parts import BACKBONE

PATH = Path(locant.__file__).parent / "rotary_configs" / "classes" / "sub_configs.json"


def sub_configs() -> dict[str, Any]:
    """Return the parts of all classes that are looked up by their model type, and the types that are not known here.

    ``parts`` are the names of the parts of each class, ``backbones`` the classes whose part may be one of timm as well,
    ``types`` the model types of transformers beside those of
    ``model_types.json``.
    """
    from transformers import CONFIG_MAPPING, PreTrainedConfig

    parts: dict[str, list[str]] = {}
    backbones = []
    for name in sorted(CONFIG_MAPPING.keys()):
        specs = CONFIG_MAPPING[name].sub_configs_defaults
        looked_up = [part for part, spec in specs.items() if not issubclass(spec.config_class, PreTrainedConfig)]
        backbones += [name] if BACKBONE in looked_up else []
        if named := [part for part in looked_up if part != BACKBONE]:
            parts[name] = named
    types = [name for name in sorted(CONFIG_MAPPING.keys()) if not is_in_transformers(name)]
    return {"types": types, "backbones": backbones, "parts": parts}


def main() -> None:
    """Write them."""
    found = sub_configs()
    lines = [f"{json.dumps(name)}: {json.dumps(parts)}" for name, parts in found["parts"].items()]
    text = ",\n".join(lines)
    names = "".join(f"{json.dumps(key)}: {json.dumps(found[key])},\n" for key in ("types", "backbones"))
    PATH.write_text(f'{{\n{names}"parts": {{\n{text}\n}}\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
