"""Tables of positions with an end in the classes of transformers, written to ``position_tables.json``.

Run this file after transformers was updated: ``.venv/bin/python tests/support/zoo/position_tables.py``. Small
models with weights are given longer and longer texts, until one fails.
"""

from __future__ import annotations

import copy
import inspect
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import nn

import locant
from locant.extension.inspect.model_class.small_model import build, quiet, reduced_entries
from locant.rotary_configs.classes.families import known_model_types, model_type
from locant.rotary_configs.classes.other_positions import LENGTHS
from zoo.cases import usual_entries

PATH = Path(locant.__file__).parent / "rotary_configs" / "classes" / "position_tables.json"

_STATED = (37, 45)
_TOKEN, _PAD, _BESIDE = 9, 2, 4


def table_of(config_class: Any) -> list[Any] | None:
    """Return the entry that says where the table of positions of a class ends, and how many tokens more texts may have.

    A third item is there where they have as many less as ``pad_token_id`` is large: positions are counted from it.

    Args:
        config_class: The class of the configuration, whose switches of positions are as it has them.
    """
    for name in LENGTHS:
        if name not in getattr(config_class, "__dataclass_fields__", {}):
            continue
        more = {_more_than(config_class, {"pad_token_id": 0, name: stated}, stated) for stated in _STATED}
        if len(more) == 1 and (found := more.pop()) is not None:
            moved = _more_than(config_class, {"pad_token_id": _PAD, name: _STATED[0]}, _STATED[0])
            return [name, found, "pad_token_id"] if moved == found - _PAD else [name, found]
    return None


def _more_than(config_class: Any, entries: dict[str, Any], stated: int) -> int | None:
    """Return how many tokens more than a length the longest text has that a model computes.

    ``None`` stands for a model that computes texts far beyond the length, or fails with all about it.
    """
    model = _built(config_class, entries, 2) or _built(config_class, entries, None)
    if model is None:
        return None
    lengths = range(stated - _BESIDE, stated + _BESIDE + 1)
    computed = [length for length in lengths if _computes(model, length)]
    ends = computed and computed == [*range(lengths[0], computed[-1] + 1)] and computed[-1] < lengths[-1]
    return computed[-1] - stated if ends and not _computes(model, 3 * stated) else None


def _built(config_class: Any, entries: dict[str, Any], layers: int | None) -> nn.Module | None:
    """Return a small model with weights, ``None`` where the class makes none of so many layers."""
    try:
        given = {**reduced_entries(usual_entries(config_class), layers), **entries}
        with quiet(), torch.random.fork_rng():
            return build(config_class(**copy.deepcopy(given))).eval()
    except Exception:  # whatever the class raises
        return None


def _computes(model: nn.Module, length: int) -> bool:
    taken = inspect.signature(model.forward).parameters
    names = [name for name in ("input_ids", "decoder_input_ids") if name in taken]
    texts = {name: torch.full((1, length), _TOKEN) for name in names}
    try:
        with quiet(), torch.no_grad():
            model(**texts)
    except Exception:  # of a table that has ended, or a class that wants more than a text
        return False
    return bool(texts)


def tables_of_all() -> dict[str, Any]:
    """Return the tables of all classes."""
    from transformers import CONFIG_MAPPING

    found: dict[str, Any] = {}
    for name in sorted(CONFIG_MAPPING.keys()):
        known = model_type(name)
        if name not in known_model_types() or known is None or known.text_part:
            continue
        if (table := table_of(CONFIG_MAPPING[name])) is not None:
            found[name] = table
    return found


def main(names: list[str]) -> None:
    """Write the tables of all classes, or show those of some."""
    from transformers import CONFIG_MAPPING

    if names:
        sys.stdout.write("".join(f"{name}: {table_of(CONFIG_MAPPING[name])}\n" for name in names))
        return
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(table)}" for name, table in tables_of_all().items())
    PATH.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
