"""Entries of config.json that a class of transformers passes over, and that code of others reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.classes.entries import READ_BY_SOME, entries_of_class
from locant.rotary_configs.classes.families import PASSES_OVER_GROUPS, READS_NEW_NAME_ALONE, TAKES_ROTARY_EMB_BASE
from locant.rotary_configs.classes.field_kinds import entries_of_nobody
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.windows import FIRST_LAYERS, speaks_of_first_layers
from locant.rotary_configs.classes.without_rotation import switches_rotation_off
from locant.rotary_configs.spellings import (
    HEAD_SIZES,
    HEADS,
    LAYERS,
    WIDTHS,
    head_size,
    is_about_positions,
    is_base_of_all_layers,
    is_count,
    says_rotary,
    words_of,
)

_OF_OTHER_CODE = ("rotary_emb_base", "rotary_emb_fraction", "rotary_emb_interleaved", "rotary_scaling_factor")
_USUAL = ("rope_theta", "rope_parameters", "rope_scaling", "partial_rotary_factor")
_READ_BY_OTHERS = ("attention_chunk_size", "head_dim")  # the caches and scalings of transformers, of any file
_LISTS_OF_ONES = ("no_rope_layers", "attn_type_list")  # 1 for each layer with rotation, or with attention to the text
_TOLD_ELSEWHERE = frozenset(
    ["sliding_window", "attention_window", "use_sliding_window", "max_window_layers", "dual_chunk_attention_config"]
)


def without_unread(given: dict[str, Any], kind: ModelType, findings: list[Finding]) -> None:
    """Remove the entries that a class of transformers does not read, with a warning where they say something.

    Args:
        given: The entries of a text part, which are changed.
        kind: The facts of its class.
        findings: Where findings go.
    """
    own = entries_of_class(kind.name)
    if kind.name in PASSES_OVER_GROUPS:
        _without_groups(given, kind, findings, ("rope_parameters", "rope_scaling", "partial_rotary_factor"))
    if kind.name in READS_NEW_NAME_ALONE:
        _without_groups(given, kind, findings, ("rope_scaling", "partial_rotary_factor"))
        findings += _groups_that_are_not_filled_in(given, kind)
    if own is None:
        return
    read = {*own.reads, *own.takes, *kind.aliases, *(kind.switch or ())[:1]}
    if "qk_rope_head_dim" in kind.defaults or given.get("head_dim") == _computed_head(given, kind.defaults):
        read.add("head_dim")
    elif kind.computes_head:
        read -= {"head_dim"}
    off = {name for name, value in given.items() if switches_rotation_off(name, value)}
    for entry in [name for name in given if (name in READ_BY_SOME or name in off) and name not in read]:
        value = given.pop(entry)
        says_nothing = not value or (
            entry in _LISTS_OF_ONES and isinstance(value, list) and all(each == 1 for each in value)
        )
        says_nothing = says_nothing or (entry == "rotary_pct" and value == 1)
        # Of Cohere 2's own code; the types of the class are in that order.
        says_nothing = says_nothing or (value == "local_attn_first" and kind.layer_types[:1] == ["sliding_attention"])
        says_nothing = says_nothing or (entry in HEAD_SIZES and value in (_computed_head(given), given.get("head_dim")))
        own_share = (kind.rope or {}).get("partial_rotary_factor", kind.defaults.get("partial_rotary_factor"))
        head = _computed_head(given)
        says_nothing = says_nothing or (entry == "attn_rotary_emb" and head and value == (own_share or 1) * head)
        window = given.get("sliding_window", kind.defaults.get("sliding_window"))
        says_nothing = says_nothing or ("window" in entry and value == window)  # as in Gemma 2's files
        says_nothing = says_nothing or says_rotary({entry: value})  # in words, as position_embedding_type may
        if entry == FIRST_LAYERS and not speaks_of_first_layers(given, kind.name, kind.defaults, value):
            continue
        if entry in entries_of_nobody(kind.name):  # of which another finding tells
            continue
        if entry in off or not says_nothing:
            findings.append(
                Finding(
                    "warning",
                    f"{entry} is {in_json(value)} in config.json, which the class of '{kind.name}' in transformers "
                    f"passes over{', or fails with' if entry in _READ_BY_OTHERS else ''}.",
                    "Say it by an entry that the class reads, or name the code that reads this one.",
                )
            )


def without_names_of_others(given: dict[str, Any], kind: ModelType, findings: list[Finding]) -> None:
    """Remove bases, shares and scalings under names that other code has for them, with a warning where they say more.

    Args:
        given: The entries of a text part, which are changed.
        kind: The facts of its class, or of one of transformers that reads no text.
        findings: Where findings go.
    """
    own = entries_of_class(kind.name)
    if own is None or kind.name in TAKES_ROTARY_EMB_BASE:
        return
    base = next((name for name in own.takes if is_base_of_all_layers(name)), None)
    reads_group = "rope_parameters" in own.takes or kind.name in READS_NEW_NAME_ALONE
    names = _OF_OTHER_CODE if base is None or reads_group else (*_OF_OTHER_CODE, *_USUAL)
    for name in [name for name in names if name in given and name not in (base, *own.takes, *own.reads, *kind.aliases)]:
        is_base = is_base_of_all_layers(name)
        if is_base and base is None and not kind.rope:
            continue  # of a class with one base that no entry changes, which is told as such
        if name == "rotary_emb_base" and given.get("rope_theta") is not None:
            continue  # the one beside it is taken, and told
        value = given.pop(name)
        usual = kind.defaults.get("rope_theta", (kind.rope or {}).get("rope_theta"))
        plain: tuple[Any, ...] = ((given.get(base) if base else None) or usual,) if is_base else (1, 0)
        plain = (False,) if name == "rotary_emb_interleaved" else plain
        kind_of_group = value.get("rope_type", value.get("type")) if isinstance(value, Mapping) else None
        if value is not None and value not in plain and kind_of_group != "default":
            takes = f": it takes {base or 'rope_theta'}, {plain[0]:g} here" if is_number(plain[0]) and is_base else ""
            findings.append(
                Finding(
                    "warning",
                    f"{name} is {f'{value:g}' if is_number(value) else in_json(value)} in config.json, which the class "
                    f"of '{kind.name}' in transformers passes over{takes}.",
                    f"State {base or 'rope_theta'}, if the weights were trained with that base."
                    if is_base
                    else "Load the model with the code that reads it, if the weights were trained so.",
                )
            )


def entries_of_no_class(given: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield warnings about entries that are about positions by a word of their name, and that the class does not have.

    Args:
        given: The entries of a text part.
        kind: The facts of its class.
    """
    own = entries_of_class(kind.name)
    if own is None:
        return
    has = {*own.has, *own.takes, *own.reads, *READ_BY_SOME, *_TOLD_ELSEWHERE, *kind.defaults, *kind.aliases}
    for name, value in given.items():
        entry = name.removeprefix("_")
        if entry != name and entry in kind.defaults and value not in (None, given.get(entry, kind.defaults[entry])):
            yield Finding(
                "warning",
                f"{name} is {in_json(value)} in config.json, which the class of '{kind.name}' in transformers does not "
                f"read: it takes {entry}, {in_json(given.get(entry, kind.defaults[entry]))} here.",
                f"State {entry}, if the weights were trained so.",
            )
        is_said = value not in (None, False, 0, [], {}) and not name.startswith("_")  # what a class kept for itself
        is_head = "head" in words_of(name)
        is_said = is_said and not (is_head and value == head_size({key: given[key] for key in given if key != name}))
        if is_said and is_about_positions(name) and name not in has:
            yield Finding(
                "warning",
                f"'{name}' in config.json is {in_json(value)}, and the class of '{kind.name}' in transformers has no "
                "such entry: it passes over it.",
                "Say it by an entry that the class reads, or remove it.",
            )


def _computed_head(given: Mapping[str, Any], usual: Mapping[str, Any] | None = None) -> Any:
    """Return the features of a head by width and number of heads; ``head_dim`` where the file tells no sizes of layers.

    Args:
        given: The entries of the file.
        usual: Those of the class, for what the file leaves out of its sizes.
    """
    is_told = any(is_count(given.get(name)) for name in (*WIDTHS, *HEADS, *LAYERS))
    groups = (given, usual) if is_told and usual else (given,)
    width, heads = (
        next((group[name] for group in groups for name in names if is_count(group.get(name))), None)
        for names in (WIDTHS, HEADS)
    )
    return width // heads if width is not None and heads is not None else given.get("head_dim")


def _groups_that_are_not_filled_in(given: dict[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield that a group without a scaling lacks its base, of a class that fills none in; remove what is no group."""
    group = given.get("rope_parameters")
    if "rope_parameters" in given and (not isinstance(group, Mapping) or _is_plain_without_base(group)):
        if not isinstance(group, Mapping):
            del given["rope_parameters"]
        yield Finding(
            "warning",
            f"rope_parameters is {in_json(group)} in config.json: the class of '{kind.name}' in transformers fills in "
            "no rope_theta there, and fails.",
            "State rope_theta in rope_parameters, or leave rope_parameters out.",
        )


def _is_plain_without_base(group: Mapping[str, Any]) -> bool:
    if any(isinstance(each, Mapping) for each in group.values()):  # of which another finding tells that it fails
        return False
    return group.get("rope_theta") is None and (group.get("rope_type") or group.get("type") or "default") == "default"


def _without_groups(given: dict[str, Any], kind: ModelType, findings: list[Finding], entries: Sequence[str]) -> None:
    """Remove the groups of rotary parameters and the share that a class does not read."""
    plain = ("default", given.get("rope_theta"), kind.defaults.get("rope_theta"), None)
    taken = (
        "it reads rope_parameters alone" if "rope_parameters" not in entries else "it has one rotation without scaling"
    )
    for entry in entries:
        value = given.pop(entry, None)
        says = list(value.values()) if isinstance(value, dict) else [value]
        if isinstance(value, str) or any(each not in plain for each in says):
            findings.append(
                Finding(
                    "warning",
                    f"{entry} is {in_json(value)} in config.json, which the class of '{kind.name}' in transformers "
                    f"{'fails with' if isinstance(value, str) else 'passes over'}: {taken}.",
                    "Name a model type whose class reads it, if the weights were trained so.",
                )
            )
