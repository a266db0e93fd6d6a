"""Entries without effect: the class of a model is asked again, without each of them and with another value."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from locant.errors import LocantError
from locant.extension.asked.ask import AskedClass, ask_class
from locant.extension.asked.build import build
from locant.extension.asked.name import tables_of
from locant.extension.asked.watch import heard
from locant.positions.scaling.checks import is_number
from locant.rotary_configs.case import Idle
from locant.rotary_configs.reading import ParsedConfig
from locant.rotary_configs.vocabulary import GROUPS, LAYERS, PARTIAL_FACTORS, with_entry

_ABOUT_POSITIONS = re.compile(
    "^(?!_).*(rope|rotary|theta|partial|window|yarn|ntk|layer_types|position_emb.*_t|original_max)"
)
_ABOUT_LAYERS = re.compile("layer|interval|period|pattern|offset")
_FAR = 64  # times the declared length: beyond every extension
_MOST_ENTRIES = 40
_Path = tuple[str, ...]


def idle_entries(
    content: Mapping[str, Any], path: _Path, asked: AskedClass, *, seconds: float = 2.5
) -> tuple[tuple[Idle, ...], tuple[str, ...]]:
    """Find the entries about positions with which a class does the same as without them, and as with other values.

    An entry that states what the class takes anyway, or does anyway, is none of them.

    Args:
        content: The object in config.json.
        path: Names of the groups that lead to its text config.
        asked: What the class makes of it.
        seconds: Processor time to spend.

    Returns:
        The entries without effect, and the names of those that there was no time for.
    """
    end = time.process_time() + seconds
    content = _shortened(content, path, asked)
    entries = list(dict.fromkeys(_entries(content, path)))
    found: dict[_Path, Idle] = {}
    with heard():
        tables, answer = _tables(content), behaviour(ask_class(content).reading)

        def changes(entry: _Path, value: Any) -> bool:
            changed = with_entry(content, entry, value)
            try:  # frequencies tell without a text being read
                return _tables(changed) != tables or behaviour(ask_class(changed).reading) != answer
            except LocantError:  # the class refuses it, and so has read it
                return True

        for number, entry in enumerate(entries):
            if time.process_time() > end or number >= _MOST_ENTRIES:
                return tuple(found.values()), tuple(".".join(each) for each in entries[number:])
            value = _value(content, entry)
            other = None if _is_so(entry[-1], value, asked.reading) else _other_value(value)
            is_within_idle = any(entry[:length] in found for length in range(1, len(entry)))
            if other is None or is_within_idle or changes(entry, None) or changes(entry, other):
                continue
            is_known = hasattr(type(asked.config), entry[-1]) and entry[:-1] == path and entry[-1] not in GROUPS
            if value is not False or not is_known:
                found[entry] = Idle(".".join(entry), value, is_known)
    return tuple(found.values()), ()


def _tables(content: Mapping[str, Any]) -> list[Any]:
    return [(each.kind, each.frequencies, each.scale) for each in tables_of(build(content).model)]


def _is_so(name: str, value: Any, reading: ParsedConfig) -> bool:
    """Whether an entry states what is done anyway: how pairs are, or which part of a head is rotated."""
    configs = reading.configs.values()
    if isinstance(value, bool) and "interleave" in name:
        if name.startswith("mrope"):
            return all(each["interleaved"] == value for each in reading.multimodal.values())
        return all((each.layout == "interleaved") == value for each in configs)
    if name == "mrope_section":
        return bool(reading.multimodal)
    if isinstance(value, str):
        return re.search("rop|rotary", value) is not None and bool(configs)
    factors = [(each.rotary_dim or 0) / each.head_dim for each in configs]
    return name in PARTIAL_FACTORS and all(each == value for each in factors)


def _entries(content: Mapping[str, Any], path: _Path) -> Iterator[_Path]:
    """Yield the entries to try: of the text config and around it, and all within groups of a scaling."""

    def within(group: Any, place: _Path) -> Iterator[_Path]:
        for name, value in group.items() if isinstance(group, Mapping) else ():
            yield from within(value, (*place, name))
            if value is not None and not isinstance(value, Mapping) and name not in ("type", "rope_type"):
                yield (*place, name)

    part = _value(content, path)
    for place in (path[:depth] for depth in range(len(path), -1, -1)):
        for name, value in _value(content, place).items():
            is_copy = place != path and value == part.get(name)
            if value is not None and _ABOUT_POSITIONS.search(name) and not is_copy:
                yield (*place, name)
                yield from within(value, (*place, name))


def _value(content: Any, path: _Path) -> Any:
    for name in path:
        content = content[name]
    return content


def _other_value(value: Any) -> Any:
    """Return a value of the same kind, ``None`` where none comes to mind."""
    if isinstance(value, bool):
        return not value
    if is_number(value):
        return value / 2 if value and isinstance(value, float) else value // 2 + 1 if value != 1 else 2
    if isinstance(value, list | str):
        return value[::-1] if value[::-1] != value else None
    return {"rope_type": "linear", "factor": 2.0} if isinstance(value, Mapping) else None


def _shortened(content: Mapping[str, Any], path: _Path, asked: AskedClass) -> Mapping[str, Any]:
    """Return the file of a model of fewer layers; the same where entries speak of single layers."""
    part, count = _value(content, path), getattr(asked.config, "num_hidden_layers", None)
    few = 2 if len(asked.reading.layers) == 1 else 8
    if not isinstance(count, int) or count <= few or any(part.get(name) for name in LAYERS[1:]):
        return content
    for name, value in part.items():
        has_one_each = isinstance(value, list | str) and len(value) == count
        if has_one_each or (_ABOUT_LAYERS.search(name) and isinstance(value, int) and few < value < count):
            return content
    shorter = with_entry(content, (*path, "num_hidden_layers"), few)
    with contextlib.suppress(LocantError):
        ask_class(shorter)
        return shorter
    return content


def behaviour(reading: ParsedConfig) -> Any:
    """Return what a model computes by its rotary positions, in short texts and far ones, layer by layer."""
    configs = {}
    for name, config in reading.configs.items():
        lengths = (None, _FAR * (config.max_length or 1 << 15))
        turns = [tuple(f"{float(each):.6g}" for each in config.frequencies(length)) for length in lengths]
        scales = [f"{config.scaling.attention_scale(length):.6g}" for length in lengths]
        configs[name] = (config.head_dim, config.rotary_dim, config.layout, turns, scales)
    layers = {
        index: (configs.get(each.config or ""), each.window, each.attends)
        for each in reading.layers
        for index in each.layers
    }
    axes = {name: tuple(each.get("axis_of_pair", ())) for name, each in reading.multimodal.items()}
    return list(configs.values()), layers, axes
