"""Entries of a config.json about positions that change nothing in the class of transformers, in one note.

Some the class does not read, by its code: they were saved by habit, or are of the publisher's own code. Others are
switched off, repeat what the file says elsewhere, or change nothing as the file is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from locant.extension.inspect.trials import Read, is_same, other_values, states, with_value, without
from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.base import UNREADABLE, NoRotaryPositionsError, ParsedConfig
from locant.rotary_configs.classes.entries import TYPES_OF_TRANSFORMERS, entries_of_class
from locant.rotary_configs.classes.families import PASSES_OVER_BASE, model_type
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.reads import is_of_positions, read_by_class, read_for_nothing
from locant.rotary_configs.classes.windows import FIRST_LAYERS, SWITCH, has_switch_of_windows, windows_of_class
from locant.rotary_configs.huggingface.text_parts import (
    BESIDE_TEXT,
    Step,
    name_of,
    steps_to_text,
    text_part,
    text_part_names,
    text_type,
)
from locant.rotary_configs.spellings import is_count
from locant.rotary_configs.usual_values import GROUPS, rotary_groups
from locant.rotary_configs.wording import words_of_findings

_NEW, _OLD = GROUPS
_LONGEST_VALUE = 40
_HOW_TO_ROTATE = re.compile(
    r"^rope_(parameters|scaling)$|^rotary_(pct|dim)$|^partial_rotary|(?<!layer_)rope_theta$|_base(_freq)?$"
)


def entries_without_effect_in_class(
    content: Mapping[str, Any],
    parsed: ParsedConfig | None,
    read: Read,
    said: Sequence[Finding],
    unmoved: Sequence[str] = (),
) -> list[Finding]:
    """Return the note about the entries of a file which change nothing in its class, and of which nobody has told.

    Args:
        content: A config.json.
        parsed: Its reading, ``None`` for a class without rotary positions.
        read: How it was read.
        said: What was found so far; entries that a finding names are not told again.
        unmoved: Entries that were tried with other values, and changed nothing, with their values.
    """
    name, told = text_type(content), words_of_findings(said)
    if name is None or read_by_class(name) is None:
        return []
    where, part = tuple(text_part_names(content)), text_part(content)
    unread = [*_not_read(content), *(_share_not_read(content, parsed, read) if parsed is not None else ())]
    idle = read_for_nothing(name)

    def changes_nothing(entry: str) -> bool:
        return parsed is None or entry not in part or is_same(parsed, without(content, (*where, entry)), read)

    groups: dict[str, Iterable[tuple[str, str]]] = {
        "beside use_sliding_window false": _switched_off(content, model_type(name)),
        "as no layer has a window": _of_no_layer(part, name) if parsed is None else [],
        "as no layer is of the types whose base it is": _of_absent_types(part, model_type(name), parsed),
        "as no layer rotates": _of_no_rotation(content, read) if parsed is None else [],
        **{f"of which {name} says the same": _repeated(part, name) for name in GROUPS},
        "beside rope_scaling": [(_NEW, f"{_NEW} null")] if _is_null_beside_old_name(part) else [],
        "of which it makes modules that it never uses": [each for each in unread if each[0] in idle],
        "which it does not read": [each for each in unread if each[0] not in idle],
    }
    listed, clauses = set(told), list[str]()
    for why, entries in groups.items():
        pairs = [(entry, shown) for entry, shown in entries if entry not in listed and changes_nothing(entry)]
        listed |= {entry for entry, _ in pairs}
        if pairs:
            clauses.append(f"{_in_words([shown for _, shown in pairs])}, {why}")
    for step in steps_to_text(content):
        if names := [entry for entry in _beside(step, content) if entry not in told]:
            clauses.append(f"{_in_words(names)} beside '{step.name}', in which such entries count")
    if tried := [each for each in unmoved if each.split(" ")[0] not in listed]:
        clauses.append(f"{_in_words(tried)}, any other value of which above 0 gives the same positions")
    sentences = [] if parsed is None else [*_types_under_other_names(content, parsed, told)]
    sentences += [] if parsed is None else _shares_under_another_name(part, parsed, name, told)
    if clauses:
        whose = f"the class of '{name}' in transformers"
        sentences.insert(0, f"Without effect in {whose}: {'; '.join(clauses)}.")
    if not sentences:
        return []
    return [Finding("note", " ".join(sentences), "Nothing has to be done, unless they were meant to change positions.")]


def _beside(step: Step, content: Mapping[str, Any]) -> list[str]:
    """Return entries about positions that stand beside the text part, of which the class around it takes none."""
    own = () if step.kind is None else step.kind.of_whole
    names = [name for name in BESIDE_TEXT if step.whole.get(name) is not None and name not in own]
    return names if step.is_ours and step.part is text_part(content) else []


def _not_read(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield entries that look as if they were about positions, of the text part and beside it, which nothing reads."""
    steps, part = steps_to_text(content), text_part(content)
    levels: list[tuple[Mapping[str, Any], list[str | None]]] = [
        ({name: value for name, value in step.whole.items() if name not in BESIDE_TEXT}, [name_of(step.whole)])
        for step in steps
    ]
    levels.append((part, [text_type(content), *([] if steps else [name_of(content)])]))
    for level, types in levels:
        known = [read for each in types if each is not None and (read := read_by_class(each, level)) is not None]
        kinds = [kind for each in types if (kind := model_type(each)) is not None]
        if not known:
            continue
        others = {entry for kind in kinds for entry in (*kind.flat, *kind.of_whole, *kind.aliases, *kind.text_names)}
        for entry, value in level.items():
            is_read = entry in others or any(entry in read for read in known)
            is_read = is_read and not (entry == "rope_theta" and _passes_over_base(kinds))
            if is_read or value is None or entry.startswith("_") or not is_of_positions(entry):
                continue
            if isinstance(value, Mapping) and entry not in GROUPS:
                continue  # a part of the model
            yield entry, _shown(entry, value)


def _share_not_read(content: Mapping[str, Any], parsed: ParsedConfig, read: Read) -> Iterator[tuple[str, str]]:
    """Yield a share of the head that any class may take beside its groups, and this one does not.

    Of latent attention, whose sizes say again which part is turned, other findings tell.
    """
    name, part, kind = "partial_rotary_factor", text_part(content), model_type(text_type(content))
    value = part.get(name)
    if kind is None or kind.has_latent_heads or not states(value):
        return
    others = (with_value(content, (*text_part_names(content), name), each) for each in other_values(value))
    if all(is_same(parsed, other, read) for other in others):
        yield name, _shown(name, value)


def _passes_over_base(kinds: Sequence[ModelType]) -> bool:
    """Whether a class has bases of its own for types of layers, which the one of the file does not change."""
    return any(kind.name in PASSES_OVER_BASE and kind.rope_by_layer and not kind.bases for kind in kinds)


def _switched_off(content: Mapping[str, Any], kind: ModelType | None) -> list[tuple[str, str]]:
    """Return windows, and the layers that have them, beside the switch that takes them away."""
    part = text_part(content)
    if kind is None or part.get(SWITCH) is not False or not has_switch_of_windows(kind.name):
        return []
    own = windows_of_class(kind.name)
    names = ("sliding_window", *(sorted(own.sizes - {"sliding_window"}) if own is not None else ()), FIRST_LAYERS)
    return [(name, _shown(name, part[name])) for name in names if part.get(name) is not None]


def _of_no_layer(part: Mapping[str, Any], name: str) -> list[tuple[str, str]]:
    """Return windows of a class that gives them to layers of some types, where the file has layers of others alone."""
    own, types = windows_of_class(name), part.get("layer_types")
    if own is None or "layer_types" not in (read_by_class(name) or ()) or not isinstance(types, list):
        return []
    if not types or not all(each == "full_attention" for each in types):
        return []
    return [(entry, _shown(entry, part[entry])) for entry in sorted(own.sizes) if is_count(part.get(entry))]


def _of_absent_types(
    part: Mapping[str, Any], kind: ModelType | None, parsed: ParsedConfig | None
) -> list[tuple[str, str]]:
    """Return bases of layers of some types alone, where the file has layers of others: DeepSeek-V4's main one."""
    if kind is None or parsed is None or not parsed.layers or not {*parsed.configs} <= {*(kind.rope or {})}:
        return []
    absent = [entry for entry, types in kind.bases.items() if types and not {*types} & {*parsed.configs}]
    return [(entry, _shown(entry, part[entry])) for entry in absent if part.get(entry) is not None]


def _of_no_rotation(content: Mapping[str, Any], read: Read) -> list[tuple[str, str]]:
    """Return what says how to rotate, of a class that rotates other files; without it, too, this one does not."""
    where, part, name = tuple(text_part_names(content)), text_part(content), text_type(content)
    kind, known = model_type(name), read_by_class(name or "")
    if kind is None or not kind.rotates or known is None:
        return []

    def is_no_reason(entry: str) -> bool:
        try:
            read(without(content, (*where, entry)))
        except NoRotaryPositionsError:
            return True
        except UNREADABLE:
            return False
        return False

    names = [entry for entry in part if _HOW_TO_ROTATE.search(entry) and (entry in known or entry in GROUPS)]
    return [(entry, _shown(entry, part[entry])) for entry in names if part[entry] is not None and is_no_reason(entry)]


def _repeated(part: Mapping[str, Any], group_name: str) -> Iterator[tuple[str, str]]:
    """Yield what says beside a group of rotary parameters what stands in that group as well."""
    group = part.get(group_name)
    if not isinstance(group, Mapping):
        return
    for name in (*([_OLD] if group_name == _NEW else []), "rope_theta", "partial_rotary_factor"):
        value = part.get(name)
        own = group if name == _OLD else group.get(name)
        if value is not None and (value == own or _says_less(value, own)):
            yield name, name


def _is_null_beside_old_name(part: Mapping[str, Any]) -> bool:
    """Whether ``rope_parameters`` is null where ``rope_scaling`` counts."""
    return _NEW in part and part[_NEW] is None and isinstance(part.get(_OLD), Mapping)


def _says_less(value: Any, group: Any) -> bool:
    """Whether all that one group says stands in another."""
    return isinstance(value, Mapping) and isinstance(group, Mapping) and value.items() <= group.items()


def _types_under_other_names(content: Mapping[str, Any], parsed: ParsedConfig, told: set[str]) -> Iterator[str]:
    """Yield that a type of scaling that transformers does not have is taken for one that it has."""
    taken = {name for config in parsed.configs.values() for name in config.scaling.rope_types}
    for where, group in rotary_groups(text_part(content)):
        stated = group.get("rope_type") or group.get("type")
        if where == "config.json" or not isinstance(stated, str) or stated in told | TYPES_OF_TRANSFORMERS:
            continue
        if stated in taken and (others := taken & TYPES_OF_TRANSFORMERS):
            yield f"The type '{stated}' in {where} is taken as '{min(others)}'."


def _shares_under_another_name(
    part: Mapping[str, Any], parsed: ParsedConfig, name: str, told: set[str]
) -> Iterator[str]:
    """Yield that a number of rotated features, which a class has no field for, becomes the share that it has."""
    own = entries_of_class(name)
    size: Any = part.get("rotary_dim")
    if (
        own is None
        or "rotary_dim" in own.takes
        or "rotary_dim" not in (read_by_class(name) or ())
        or not is_count(size)
    ):
        return
    stated = {*told, *(entry for entry in part if entry != "rotary_dim")} & {"rotary_dim", "partial_rotary_factor"}
    shares = {size / each.head_dim if each.rotary_dim == size else None for each in parsed.configs.values()}
    share = next(iter(shares)) if len(shares) == 1 and not stated else None
    if share is not None:
        yield f"The class makes partial_rotary_factor {share:.4g} of rotary_dim {size}."


def _shown(name: str, value: Any) -> str:
    if isinstance(value, Mapping | list):
        return name
    return f"{name} {in_json(value):.{_LONGEST_VALUE}}"


def _in_words(said: Sequence[str]) -> str:
    *first, last = dict.fromkeys(said)
    return f"{', '.join(first)} and {last}" if first else last
