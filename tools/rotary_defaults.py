"""Make the table of what model types assume about rotary positions where their files say nothing.

Run it as ``.venv/bin/python tools/rotary_defaults.py``: it asks the classes of the installed transformers, some minutes
long, and writes ``defaults.json`` beside the reader. The entries are those of config.json; ``interleaved`` says that
neighbours are paired, ``without_rope`` which layer types attend without RoPE, ``pattern`` which types of layers follow
each other, ``sizes`` width, heads and layers, ``text`` the type of the text config. A model type without rotary
positions has an empty group.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import re
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from locant.errors import LocantError
from locant.extension.asked.ask import ask_class
from locant.extension.asked.build import completed_config, model_class, text_of
from locant.extension.asked.watch import heard
from locant.rotary_configs import config_json

TABLE = Path(config_json.__file__).with_name("defaults.json")
_LONGEST_ROUND = 12
_SECONDS = 60  # the slowest class has a linear attention in Python
_SIZES = ("hidden_size", "num_attention_heads", "num_hidden_layers")
_KEPT = (
    "qk_rope_head_dim",
    "rotary_dim",
    "global_head_dim",
    "swa_head_dim",
    "no_rope_layer_interval",
    "rope_interleave",
)
_NEIGHBOURS = re.compile(
    r"apply_rotary_pos_emb_interleave|rotate_every_two|view_as_complex|\[\.\.\., (0::2|::2)\]", re.IGNORECASE
)


class _TooSlowError(BaseException):
    """A class takes too long; no class can take it for an error of its own."""


def defaults_of(model_type: str) -> dict[str, Any] | None:
    """Return what a model type assumes; an empty group where it has no rotary positions, ``None`` if it has no text.

    Args:
        model_type: A model type of transformers.
    """
    content = {"model_type": model_type}
    with heard():
        try:
            text = text_of(completed_config(content))
        except LocantError:
            return None
    if text.model_type != model_type:
        return {"text": text.model_type}
    entries, code = text.to_dict(), _code(text)
    if not code or ("vocab_size" not in entries and "rope_parameters" not in entries):
        return None
    if not re.search("rope|rotary", code, re.IGNORECASE):
        return {}
    reading = None
    try:
        reading = ask_class(content).reading
    except (LocantError, _TooSlowError) as error:  # the class makes no model of its defaults
        sys.stderr.write(f"{model_type}: {type(error).__name__} {error!s:.90}\n")
    if reading and not any(each.attends for each in reading.layers):
        reading = None
    rotates = reading.configs if reading else entries.get("rope_parameters")
    if not rotates:
        return None if re.search(r"class \w*(Rotary|Rope|RoPE)\w*\(", code) else {}  # it may rotate by an entry
    configs = [*reading.configs.values()] if reading else []
    interleaved = any(each.layout == "interleaved" for each in configs) if reading else bool(_NEIGHBOURS.search(code))
    head = configs[0].head_dim if configs else _value(text, "head_dim")
    found: dict[str, Any] = {name: value for name in _KEPT if (value := _value(text, name))}
    sizes = [_value(text, name) for name in _SIZES]
    if all(isinstance(each, int) and each for each in sizes):
        found["sizes"] = sizes
    if head and "qk_rope_head_dim" not in found and ("sizes" not in found or sizes[0] // sizes[1] != head):
        found["head_dim"] = head
    if interleaved:
        found["interleaved"] = True
    found |= _rotation(text)
    if "partial_rotary_factor" in code and "rope_parameters" not in found:
        found.setdefault("partial_rotary_factor", 1.0)  # which its class reads
    types = tuple(_value(text, "layer_types") or _value(text, "layers_block_type") or ())
    if set(types) - {"full_attention"} and len(_round(types)) <= _LONGEST_ROUND:
        found["pattern"] = _round(types)
    idle = reading and _value(text, "sliding_window") and not any(each.window for each in reading.layers)
    if idle or _value(text, "use_sliding_window") is False:
        found["use_sliding_window"] = False
    layers = reading.layers if reading else ()
    still = {each.name for each in layers if each.attends and each.config is None and each.name in types}
    still -= {each.name for each in layers if each.config is not None}
    return found | ({"without_rope": sorted(still)} if still else {})


def _value(text: Any, name: str) -> Any:
    """Return an entry of a configuration by its usual name, also where single layers have another."""
    try:
        return getattr(text, name, None)
    except Exception:
        return text.to_dict().get(name)


def _rotation(text: Any) -> dict[str, Any]:
    """Return base, partial rotary factor and scaling of a configuration, so far as they are not the usual ones."""
    rope = getattr(text, "rope_parameters", None) or {}
    groups = {key: value for key, value in rope.items() if isinstance(value, Mapping)}
    if groups:
        return {"rope_parameters": {key: _unusual(group) for key, group in groups.items()}}
    rope = {key: value for key, value in rope.items() if value is not None}
    partial = rope.pop("partial_rotary_factor", getattr(text, "partial_rotary_factor", None))
    found = {} if partial in (None, 1, getattr(text, "rotary_dim", None)) else {"partial_rotary_factor": partial}
    base = rope.pop("rope_theta", None) or 10000.0
    found |= {} if base == 10000 else {"rope_theta": base}
    return found if rope.get("rope_type", "default") == "default" else found | {"rope_parameters": rope}


def _unusual(group: Mapping[str, Any]) -> dict[str, Any]:
    usual = {"rope_type": "default", "rope_theta": 10000.0}
    return {key: value for key, value in group.items() if value is not None and value != usual.get(key)}


def _round(types: tuple[str, ...]) -> list[str]:
    """Return the shortest round of layer types that makes them all."""
    for length in range(1, len(types)):
        if all(types[index] == types[index % length] for index in range(len(types))):
            return list(types[:length])
    return list(types)


def _code(text: Any) -> str:
    """Return the code of the model of a configuration, an empty string where there is none."""
    with contextlib.suppress(ImportError):
        if (found := model_class(type(text))) is not None:
            return inspect.getsource(importlib.import_module(found.__module__))
    return ""


def table_of(model_types: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the entries of model types; those that are not about text, or do not rotate, have none."""

    def stop(*_: object) -> None:
        raise _TooSlowError(f"more than {_SECONDS} s")

    signal.signal(signal.SIGALRM, stop)
    table: dict[str, dict[str, Any]] = {}
    for name in sorted(model_types):
        signal.alarm(_SECONDS)
        found = defaults_of(name)
        signal.alarm(0)
        if found is not None:
            table[name] = found
    # A whole whose text config has its name and "_text", or no rotation, needs no entry.
    return {
        name: found
        for name, found in table.items()
        if "text" not in found or (table.get(found["text"]) and found["text"] != f"{name}_text")
    }


def main() -> None:
    """Write the table."""
    from transformers import CONFIG_MAPPING

    table = table_of(CONFIG_MAPPING)
    lines = (f"{json.dumps(name)}:{json.dumps(found, separators=(',', ':'))}" for name, found in table.items())
    TABLE.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    sys.stderr.write(f"{len(table)} model types, {TABLE.stat().st_size} bytes in {TABLE}\n")


if __name__ == "__main__":
    main()
