"""Entries of a config.json that ``--hf-overrides`` of vLLM replace, and those that go with a group replaced whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.classes.reads import is_of_positions
from locant.rotary_configs.engines.override_words import OPTION
from locant.rotary_configs.spellings import LENGTHS
from locant.rotary_configs.usual_values import GROUPS
from locant.rotary_configs.wording import words_of_findings

_TYPE, _OLD_TYPE = "rope_type", "type"
_GONE = object()


def replaced_entries(given: Mapping[str, Any], config: Mapping[str, Any], said: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the note on what of a file does not count under overrides, and what counts in its place.

    Args:
        given: The overrides.
        config: The content of config.json.
        said: What was found so far; errors tell of entries without effect, and of those that are missing.
    """
    errors = [each for each in said if each.severity == "error"]
    told = words_of_findings(errors)
    replaced, dropped = list[str](), list[str]()
    for name, old, new in _changes(given, config, _without_effect(errors), is_whole=True):
        if new is _GONE and name not in told:
            dropped.append(f"{name} {in_json(old)}")
        elif new is not _GONE and new != old and name not in told:
            replaced.append(f"{name} {in_json(old)} by {in_json(new)}")
    parts = [f"replaces {', '.join(dict.fromkeys(replaced))}"] if replaced else []
    parts += [f"drops {', '.join(dict.fromkeys(dropped))} with the group that it replaces"] if dropped else []
    if parts:
        yield Finding(
            "note",
            f"Of the entries of config.json, {OPTION} {', and '.join(parts)}.",
            "Nothing has to be done, if that is meant.",
        )


def _without_effect(errors: Sequence[Finding]) -> set[str]:
    """Return the entries of overrides that errors call without effect."""
    return {each.message.split()[0] for each in errors if " has no effect: " in each.message}


def _changes(
    given: Mapping[str, Any], config: Mapping[str, Any], idle: set[str], *, is_whole: bool
) -> Iterator[tuple[str, Any, Any]]:
    """Yield entries about positions that overrides change: the name, the value of the file and that of the override.

    Args:
        given: The overrides of the file, or of a part of it.
        config: The entries there.
        idle: Entries without effect.
        is_whole: Whether they are the file itself, in which a group is replaced and not merged.
    """
    for name, value in given.items():
        if name in idle:
            continue
        if name in GROUPS:
            group = value if isinstance(value, Mapping) else {}
            yield from _of_groups(group, config, is_replaced=is_whole or value is None)
        elif isinstance(value, Mapping):
            part = config.get(name)
            yield from _changes(value, part, idle, is_whole=False) if isinstance(part, Mapping) else ()
        elif config.get(name) is not None and (is_of_positions(name) or name in LENGTHS):
            yield name, config[name], value


def _of_groups(
    given: Mapping[str, Any], text: Mapping[str, Any], *, is_replaced: bool
) -> Iterator[tuple[str, Any, Any]]:
    """Yield those of a group of rotary parameters, which stand beside it as well.

    Args:
        given: The group of the overrides.
        text: The text part.
        is_replaced: Whether the group of the file goes as a whole; those of parts are merged.
    """
    own = {key: value for name in GROUPS for key, value in _entries(text.get(name)).items()}
    beside = {key: text[key] for key in ("rope_theta", "partial_rotary_factor") if text.get(key) is not None}
    layers = {name for name, value in {**own, **given}.items() if isinstance(value, Mapping)}
    for layer in sorted(layers):
        stated = {**beside, **_entries(own.get(layer, {} if layers & {*own} else own))}
        yield from _of_group(_entries(given.get(layer, {} if layers & {*given} else given)), stated, is_replaced)
    if not layers:
        yield from _of_group(_entries(given), {**beside, **own}, is_replaced)


def _of_group(given: Mapping[str, Any], stated: Mapping[str, Any], is_replaced: bool) -> Iterator[tuple[str, Any, Any]]:
    for name, value in stated.items():
        if name in given:
            yield name, value, given[name]
        elif is_replaced and value is not None:
            yield name, value, _GONE


def _entries(group: Any) -> dict[str, Any]:
    """Return the entries of a group, with its type under one name."""
    entries = dict(group) if isinstance(group, Mapping) else {}
    if _OLD_TYPE in entries:
        entries.setdefault(_TYPE, entries.pop(_OLD_TYPE))
    return entries
