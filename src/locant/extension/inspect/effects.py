"""Effects of the entries of a file on its reading: those without any, and values of the class for those left out.

An entry is tried: the file is read again without it and with another value. Where the positions stay the same in every
case, the entry says nothing, and whoever wrote it may believe otherwise.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from locant.extension.inspect.keys_left_out import keys_left_out
from locant.extension.inspect.left_out import values_left_out
from locant.extension.inspect.trials import Path, Read, is_same, other_values, read_or_none, states, with_value, without
from locant.extension.inspect.without_effect import entries_without_effect_in_class
from locant.extension.source import Source
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.base import ParsedConfig
from locant.rotary_configs.classes.families import is_in_transformers, model_type
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.gguf.reading import read_gguf
from locant.rotary_configs.huggingface.groups_by_layer_type import FAILS_WITH_GROUPS, PASSES_OVER_GROUPS
from locant.rotary_configs.huggingface.reading import read_config
from locant.rotary_configs.huggingface.text_parts import text_part, text_part_names, text_type
from locant.rotary_configs.spellings import is_about_positions
from locant.rotary_configs.usual_values import GROUPS
from locant.rotary_configs.wording import words_of_findings

# Parts of names: of entries that are tried, beside the groups of rotary parameters, in them and in a GGUF file; and of
# entries that are about something else all the same, or whose number no other one can stand for.
_ABOUT_ROTATION = re.compile(r"rope|rotary|theta|mscale|partial|^pad_head")
_OF_GROUPS = re.compile(r"rope|theta|factor|mscale|beta|length|position|truncate")
_IN_GGUF = re.compile(r"\.rope\.|\.attention\.sliding_window")
_OTHERS = re.compile(r"index|linear|vision|audio|mamba|ssm|conv|v_head|nope_head|relative|^_|layers$|type")
_SWITCH_OF_WINDOWS = "use_sliding_window"


def effects_of_entries(
    source: Source,
    parsed: ParsedConfig | None,
    shown: ParsedConfig | None,
    kind: ModelType | None,
    said: Sequence[Finding],
) -> list[Finding]:
    """Return notes on what the entries of a file do to its reading, and those left out, where nobody has told of it.

    Args:
        source: The file.
        parsed: Its reading, by the file alone; ``None`` where it has no rotary positions.
        shown: What is shown in its place, where its class was asked; of one that does otherwise another finding tells.
        kind: Facts of a class that is not known here, where it was asked.
        said: What was found so far.
    """
    content = source.content
    if source.kind == "gguf":
        read_keys = functools.partial(read_gguf, tensors=source.tensors)
        if parsed is None:
            return []
        return [*entries_without_effect(content, parsed, read_keys, said), *keys_left_out(content, parsed, said)]
    known = model_type(text_type(content))
    kind = known or kind
    if kind is None:
        return []
    read = functools.partial(read_config, kind=None if known is not None else kind)
    if parsed is None:
        return entries_without_effect_in_class(content, None, read, said)
    is_ours = is_in_transformers(kind.name)
    is_shown = shown is not None and (shown.configs, shown.layers) == (parsed.configs, parsed.layers)
    found = values_left_out(content, parsed, read, kind, said) if is_ours and is_shown else []
    is_tried = is_ours and "auto_map" not in content  # code of its own may read more
    unmoved, others = _tried(content, parsed, read, said) if is_tried else ([], [])
    return [*found, *entries_without_effect_in_class(content, parsed, read, said, unmoved), *others]


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
    names, others = _tried(content, parsed, read, said)
    return [*_passed_over(names, "no effect", "the same with any other value above 0, and without"), *others]


def _tried(
    content: Mapping[str, Any], parsed: ParsedConfig, read: Read, said: Sequence[Finding]
) -> tuple[list[str], list[Finding]]:
    """Return the entries that change nothing at all, with their values, and notes about those that nearly do."""
    told = words_of_findings(said)
    # A key may count in the file mended of which llama.cpp refuses one beside it: the window without its pattern.
    refused = words_of_findings([each for each in said if each.code == "refused by the engine"])
    names: list[str] = []
    by_being_there: list[str] = []
    by_zero: list[str] = []
    of_no_group = any(each.code in (FAILS_WITH_GROUPS, PASSES_OVER_GROUPS) for each in said)
    for path, value in _entries(content):
        if of_no_group and any(name in GROUPS for name in path[:-1]):
            continue  # within a group of which it is told
        name = path[-1].split(".", 1)[-1]
        if _is_shown(value, parsed) or {name, name.rsplit(".", 1)[-1]} & told:
            continue
        if any(word.startswith(f"{path[-1]}_") for word in refused):
            continue
        others = [with_value(content, path, other) for other in other_values(value)]
        if not all(is_same(parsed, other, read) for other in others) or any(
            _is_warned_of(name, other, parsed, read) for other in others
        ):
            continue
        told_of = names if is_same(parsed, without(content, path), read) else by_being_there
        if told_of is names and "window" in name and not is_same(parsed, with_value(content, path, 0), read):
            told_of = by_zero  # which switches windows off, whatever any other size does
        told_of.append(f"{name} {in_json(value):.40}")
    return names, [
        *_passed_over(by_being_there, "an effect by being there alone", "the same with any other value above 0"),
        *_passed_over(by_zero, "no effect unless 0", "the same with any other value but 0, and without"),
    ]


def _is_warned_of(name: str, content: Mapping[str, Any], parsed: ParsedConfig, read: Read) -> bool:
    """Whether another value of an entry of config.json is warned of: the class may fail with it."""
    other = None if "general.architecture" in content else read_or_none(content, read)
    doubts = () if other is None else (each for each in other.findings if each not in parsed.findings)
    told = [each for each in doubts if each.severity != "note" and each.code != "beyond published values"]
    return name in words_of_findings(told)


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


def _entries(content: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield the entries about the positions of text that state a number, with where they stand."""
    if "general.architecture" in content:
        yield from (((key,), value) for key, value in content.items() if _IN_GGUF.search(key) and states(value))
        return
    where, part = tuple(text_part_names(content)), text_part(content)
    is_off = part.get(_SWITCH_OF_WINDOWS) is False
    kind = model_type(text_type(content))
    has_latent_heads = (kind is not None and kind.has_latent_heads) or "qk_rope_head_dim" in part
    for key, value in part.items():
        if not states(value) or _OTHERS.search(key) or (is_off and "window" in key):
            continue
        if key == "head_dim" and has_latent_heads:
            continue  # which says where the rotated features stand, or is told as passed over
        if _ABOUT_ROTATION.search(key) or is_about_positions(key):
            yield (*where, key), value
    if isinstance(part.get(GROUPS[0]), Mapping) and part.get(GROUPS[0]) == part.get(GROUPS[1]):
        return  # of which one repeats the other
    for name in GROUPS:
        group = part.get(name)
        for path, inner in _groups((*where, name), group) if isinstance(group, Mapping) else ():
            yield from (
                ((*path, key), value)
                for key, value in inner.items()
                if states(value) and _OF_GROUPS.search(key) and not _OTHERS.search(key)
            )


def _groups(path: Path, group: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    yield path, group
    for name, inner in group.items():
        if isinstance(inner, Mapping):
            yield (*path, name), inner
