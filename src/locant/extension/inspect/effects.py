"""Effects of the entries of a file on its reading: those without any, and values of the class for those left out.

An entry is tried: the file is read again without it and with another value. Where the positions stay the same in every
case, the entry says nothing, and whoever wrote it may believe otherwise.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from locant.extension.inspect.keys_left_out import keys_left_out
from locant.extension.source import Source
from locant.positions.scaling import Unscaled
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.base import UNREADABLE, ParsedConfig
from locant.rotary_configs.class_entries import entries_of_class
from locant.rotary_configs.families import ModelType, is_in_transformers, model_type
from locant.rotary_configs.gguf import read_gguf
from locant.rotary_configs.huggingface import read_config
from locant.rotary_configs.spellings import head_size, is_about_positions
from locant.rotary_configs.text_parts import text_part, text_part_names, text_type
from locant.rotary_configs.usual_values import GROUPS
from locant.rotary_configs.wording import words_of_findings

Read = Callable[[Mapping[str, Any]], ParsedConfig]
"""Reads the content of a file."""

_Path = tuple[str, ...]

# Parts of names: of entries that are tried, beside the groups of rotary parameters, in them and in a GGUF file; and of
# entries that are about something else all the same, or whose number no other one can stand for.
_ABOUT_ROTATION = re.compile(r"rope|rotary|theta|mscale|partial")
_OF_GROUPS = re.compile(r"rope|theta|factor|mscale|beta|length|position|truncate")
_IN_GGUF = re.compile(r"\.rope\.|\.attention\.sliding_window")
_OTHERS = re.compile(r"index|linear|vision|audio|mamba|ssm|conv|v_head|nope_head|relative|^_|layers$|type")
# Entries of which a class has values of its own where a file leaves them out.
_FILLED_IN = (
    *("sliding_window", "attention_chunk_size", "head_dim", "global_head_dim"),
    *("partial_rotary_factor", "rotary_dim", "rotary_pct"),
)
_SHARE_OF_NEOX = "rotary_pct"  # which classes read that keep their share whatever partial_rotary_factor says
_SHARES = ("partial_rotary_factor", "rotary_dim")
_OF_A_SHARE = re.compile(r"rotary|partial")
_SWITCH_OF_WINDOWS = "use_sliding_window"
_NEUTRAL = 1  # of a factor, a share or a scale
_SMALL = 2


def effects_of_entries(
    source: Source, parsed: ParsedConfig, kind: ModelType | None, said: Sequence[Finding]
) -> list[Finding]:
    """Return notes on what the entries of a file do to its reading, and those left out, where nobody has told of it.

    Args:
        source: The file.
        parsed: Its reading, by the file alone.
        kind: Facts of a class that is not known here, where it was asked.
        said: What was found so far.
    """
    content = source.content
    if source.kind == "gguf":
        read_keys = functools.partial(read_gguf, tensors=source.tensors)
        return [*entries_without_effect(content, parsed, read_keys, said), *keys_left_out(content, parsed, said)]
    known = model_type(text_type(content))
    kind = known or kind
    if kind is None or "auto_map" in content:  # code of its own may read more
        return []
    read = functools.partial(read_config, kind=None if known is not None else kind)
    found = values_of_the_class(content, parsed, read, kind, said)
    return [*found, *(entries_without_effect(content, parsed, read, said) if is_in_transformers(kind.name) else ())]


def entries_without_effect(
    content: Mapping[str, Any], parsed: ParsedConfig, read: Read, said: Sequence[Finding]
) -> list[Finding]:
    """Return notes about entries of a file which change nothing, whatever they say, and of which nobody has told.

    Args:
        content: A config.json, or the metadata of a GGUF file.
        parsed: Its reading.
        read: How it was read.
        said: What was found so far; entries that a finding names are not told again.
    """
    told = words_of_findings(said)
    names: list[str] = []
    by_being_there: list[str] = []
    by_zero: list[str] = []
    for path, value in _entries(content):
        name = path[-1].split(".", 1)[-1]
        if _is_shown(value, parsed) or {name, name.rsplit(".", 1)[-1]} & told:
            continue
        others = [_with(content, path, other) for other in _other_values(value)]
        if not all(_is_same(parsed, other, read) for other in others):
            continue
        told_of = names if _is_same(parsed, _without(content, path), read) else by_being_there
        if told_of is names and "window" in name and not _is_same(parsed, _with(content, path, 0), read):
            told_of = by_zero  # which switches windows off, whatever any other size does
        told_of.append(f"{name} {in_json(value):.40}")
    return [
        *_passed_over(names, "no effect", "the same with any other value above 0, and without"),
        *_passed_over(by_being_there, "an effect by being there alone", "the same with any other value above 0"),
        *_passed_over(by_zero, "no effect unless 0", "the same with any other value but 0, and without"),
    ]


def _passed_over(names: Sequence[str], effect: str, same: str) -> Iterator[Finding]:
    if names:
        *first, last = dict.fromkeys(names)
        subject = f"{', '.join(first)} and {last} have" if first else f"{last} has"
        yield Finding(
            "note",
            f"{subject} {effect}: positions are {same}.",
            "Nothing has to be done, unless they were meant to change.",
        )


def _is_shown(value: float, parsed: ParsedConfig) -> bool:
    """Whether a number is one of the reading: an entry that states what another one decides misleads nobody."""
    numbers: set[Any] = {layer.window for layer in parsed.layers}
    for config in parsed.configs.values():
        assert config.rotary_dim is not None
        numbers |= {config.base, config.head_dim, config.rotary_dim}
        numbers |= {each for each in config.scaling.as_options().values() if is_number(each)}
        if abs(value * config.head_dim - config.rotary_dim) < 1:
            return True
    return value in numbers


def _entries(content: Mapping[str, Any]) -> Iterator[tuple[_Path, Any]]:
    """Yield the entries about the positions of text that state a number, with where they stand."""
    if "general.architecture" in content:
        yield from (((key,), value) for key, value in content.items() if _IN_GGUF.search(key) and _states(value))
        return
    where, part = tuple(text_part_names(content)), text_part(content)
    is_off = part.get(_SWITCH_OF_WINDOWS) is False
    kind = model_type(text_type(content))
    has_latent_heads = (kind is not None and kind.has_latent_heads) or "qk_rope_head_dim" in part
    for key, value in part.items():
        if not _states(value) or _OTHERS.search(key) or (is_off and "window" in key):
            continue
        if key == "head_dim" and has_latent_heads:
            continue  # which says where the rotated features stand, or is told as passed over
        if _ABOUT_ROTATION.search(key) or is_about_positions(key):
            yield (*where, key), value
    for name in GROUPS:
        group = part.get(name)
        for path, inner in _groups((*where, name), group) if isinstance(group, Mapping) else ():
            yield from (
                ((*path, key), value)
                for key, value in inner.items()
                if _states(value) and _OF_GROUPS.search(key) and not _OTHERS.search(key)
            )


def _groups(path: _Path, group: Mapping[str, Any]) -> Iterator[tuple[_Path, Mapping[str, Any]]]:
    yield path, group
    for name, inner in group.items():
        if isinstance(inner, Mapping):
            yield (*path, name), inner


def _states(value: Any) -> bool:
    """Whether a value is a number that says something: by 0, -1 and the like files say that there is none."""
    return is_number(value) and value > 0 and value != _NEUTRAL


def _other_values(value: Any) -> list[Any]:
    """Return values in the place of one, of its kind, which no reader refuses for their size alone.

    One of them is small: a number of layers or tokens may be as good as any other that is larger than the model's.
    """
    return [value * 2, value // 2, _SMALL] if isinstance(value, int) else [value * 2, value / 2]


def _with(content: Mapping[str, Any], path: _Path, value: Any) -> dict[str, Any]:
    """Return a file with another value of one entry."""
    first, *others = path
    return {**content, first: _with(content[first], tuple(others), value) if others else value}


def _without(content: Mapping[str, Any], path: _Path) -> dict[str, Any]:
    """Return a file without one entry."""
    first, *others = path
    if others:
        return {**content, first: _without(content[first], tuple(others))}
    return {key: value for key, value in content.items() if key != first}


def _is_same(parsed: ParsedConfig, content: Mapping[str, Any], read: Read) -> bool:
    try:
        other = read(content)
    except UNREADABLE:
        return False
    return (other.configs, other.layers, other.multimodal) == (parsed.configs, parsed.layers, parsed.multimodal)


def values_of_the_class(
    content: Mapping[str, Any], parsed: ParsedConfig, read: Read, kind: ModelType, said: Sequence[Finding]
) -> list[Finding]:
    """Return notes about what is shown though the file does not state it, because the class has it.

    Args:
        content: A config.json.
        parsed: Its reading.
        read: How it was read.
        kind: The facts of its class.
        said: What was found so far; entries that a finding names are not told again.
    """
    told = words_of_findings(said)
    where, part = tuple(text_part_names(content)), text_part(content)
    own = entries_of_class(kind.name)
    found = []
    for name in _FILLED_IN:
        value = kind.defaults.get(name, (kind.rope or {}).get(name))
        if name == _SHARE_OF_NEOX and own is not None and name in own.reads and kind.keeps_its_share:
            value = (kind.rope or {}).get("partial_rotary_factor")
        is_stated = _states(value) or (name == _SHARE_OF_NEOX and value == _NEUTRAL)
        if name in part or name in told or not is_stated or own is None:
            continue
        if name in _SHARES and any(_OF_A_SHARE.search(key) for key, each in part.items() if each is not None):
            continue  # stated by another name
        names = {name, "partial_rotary_factor"} if name == _SHARE_OF_NEOX else {name}
        if any(isinstance(part.get(group), Mapping) and names & {*part[group]} for group in GROUPS):
            continue
        if name == "head_dim" and value == head_size(part):
            continue
        if not _is_same(parsed, _with(content, (*where, name), value), read):
            continue
        if all(_is_same(parsed, _with(content, (*where, name), other), read) for other in _other_values(value)):
            continue
        found.append(
            Finding(
                "note",
                f"The file has no {name}; {value:g} is taken, as the class of '{kind.name}' in transformers has.",
                "Compare with the model's publication.",
            )
        )
    scaling = _scaling_of_class(kind)
    is_stated = any(part.get(group) is not None for group in GROUPS)
    is_scaled = any(not isinstance(each.scaling, Unscaled) for each in parsed.configs.values())
    if scaling is not None and is_scaled and not is_stated and "scaling" not in told:
        found.append(
            Finding(
                "note",
                f"The file has no scaling; what is shown has the type '{scaling}', as the class of '{kind.name}' in "
                "transformers has of its own.",
                "Compare with the model's publication.",
            )
        )
    return found


def _scaling_of_class(kind: ModelType) -> str | None:
    """Return the type of the scaling that a class has where the file states none."""
    rope = kind.rope or {}
    groups = [group for group in rope.values() if isinstance(group, Mapping)] or [rope]
    types = {str(group.get("rope_type", group.get("type", "default"))) for group in groups} - {"default"}
    return min(types) if types else None
