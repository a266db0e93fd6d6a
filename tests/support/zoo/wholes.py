"""What the classes of transformers with several parts make of their text part; no model is built."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from locant.extension.inspect.model_class.small_model import quiet
from locant.rotary_configs.classes.families import is_in_transformers, known_model_types, model_type
from locant.rotary_configs.huggingface.text_parts import BESIDE_TEXT, ENTRIES_OF_TEXT, SIZES
from zoo.architectures import Architecture, text_part_of
from zoo.failures import is_made
from zoo.left_out import entries_of_class, made

_DEPTH = 11
_OTHER_BASE = 12345.0
_OTHER_SIZE = 48
_EXAMPLES: Mapping[str, Any] = {
    "rope_parameters": {"rope_type": "default", "rope_theta": _OTHER_BASE},
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    "rope_theta": _OTHER_BASE,
    "partial_rotary_factor": 0.25,
}
_SIZES = ("hidden_size", "num_attention_heads", "head_dim", "qk_rope_head_dim", "qk_nope_head_dim")
_ONLY = re.compile(r"(\w+) must be (\d+|True|False),? ")
_TRIES = 8
_OTHERS = ("llama", "mistral", "qwen2", "gpt_neox")


def facts_of_whole(found: Architecture, names: re.Pattern[str]) -> dict[str, Any]:
    """Return the facts of a class with a text part.

    ``text_part`` is the name of that group, ``text_type`` the model type of it, which may be a whole itself;
    ``of_whole`` are entries that the class has for something else, ``whole_nulls`` those of them with null for which it
    fails;
    ``text_names`` are other names of the group; ``text_defaults`` is what the class gives it where it leaves that out,
    otherwise than the class of the part, and ``text_alone`` what a file without that part has. ``one_text_type`` is
    there where any model type is passed over that the part states, ``parts_need_type`` names other parts that must
    state one; without the first, ``text_reads`` are entries that the class
    reads of any such part, and ``text_types`` those whose parts have them always. ``text_must`` are entries of
    which the class takes one value, ``text_widths`` entries of other parts that must be as large as the width of the
    text part, with what they are where they are left out. ``flat`` are the entries that the class takes from the file
    itself where it has no text part, ``handed_on`` those that it takes from there though it has one, in the place of
    what that states, by the names of the group.

    Args:
        found: The class.
        names: Of the entries that are compared.
    """
    parts = found.config_class.sub_configs
    part = text_part_of(found.config_class) or ""
    text_type = getattr(parts[part], "model_type", None) or _type_of_part(found, part)
    given = _tried(text_defaults, found, part, text_type, names)
    alone = _tried(text_alone, found, part, text_type, names)
    facts = {
        "text_part": [part],
        "of_whole": [
            *_entries_of_whole(found),
            *(_rotation_of_whole(found) if (nulls := _nulls_of_whole(found)) else ()),
        ],
        "whole_nulls": nulls,
        "text_names": other_names_of_text(found, part),
        "text_type": text_type,
        "text_defaults": given,
        "one_text_type": has_one_text_type(found, part, text_type),
        "parts_need_type": _parts_of_a_type(found, part),
    }
    if text_type:
        facts |= {"text_must": (must := _values_of_text(found, part, text_type))}
        stated = {"model_type": text_type, **must}
        facts |= bases_of_text(found, part, stated, alone)
        width = _width_of_text(found, part, {**stated, **_width_in(alone)})
        facts |= {"text_widths": _widths(found, part, stated, width), "flat": _taken_from_the_file(found, part)}
        facts["handed_on"] = _handed_on(found, part, (part, *facts["text_names"]), stated | width)
        if not facts["one_text_type"] and (read := _entries_read(found, part, must, width)):
            facts |= {"text_reads": read, "text_types": _accepted_types(found, part, must)}
    return {**facts, "text_alone": alone if alone != given else {}}


def _type_of_part(found: Architecture, part: str) -> str | None:
    """Return the model type that a class takes for its text part where the file has none."""
    config = getattr(made(found), part, None)
    own = getattr(found.config_class, "sub_configs_defaults", {}).get(part)  # also where it refuses its own defaults
    return getattr(config, "model_type", None) or getattr(own, "model_type", None)


def _parts_of_a_type(found: Architecture, part: str) -> dict[str, str]:
    """Return the parts beside that of text of which a class takes none without a model type, with their usual ones."""
    config = made(found)
    types = {name: getattr(getattr(config, name, None), "model_type", None) for name in found.config_class.sub_configs}
    return {
        name: usual
        for name, usual in types.items()
        if name != part
        and usual
        and made(found, **{name: {"model_type": usual}}) is not None
        and made(found, **{name: {}}) is None
    }


def _tried(asked: Any, found: Architecture, part: str, text_type: str | None, names: re.Pattern[str]) -> dict[str, Any]:
    try:
        return dict(asked(found, part, text_type, names)) if text_type else {}
    except Exception:  # a class that makes no configuration of its own defaults
        return {}


def _entries_of_whole(found: Architecture) -> list[str]:
    """Return entries about positions, and sizes, that a class has beside its text part."""
    fields = getattr(found.config_class, "__dataclass_fields__", {})
    config = made(found)
    saved = {} if config is None else config.to_dict()
    return [name for name in (*BESIDE_TEXT, *SIZES) if name in fields or saved.get(name) is not None]


def _rotation_of_whole(found: Architecture) -> list[str]:
    """Return the entries that a class takes into a group of rotary parameters beside its text part."""
    usual = getattr(made(found), "rope_parameters", None)
    names = (name for name in _EXAMPLES if name != "rope_parameters")
    return [name for name in names if getattr(made(found, **{name: _EXAMPLES[name]}), "rope_parameters", None) != usual]


def _nulls_of_whole(found: Architecture) -> list[str]:
    """Return the entries with null for which a class fails that has a rotation beside that of its text part."""
    if not getattr(made(found), "rope_parameters", None) or not is_made(found, {}):
        return []
    return [name for name in _rotation_of_whole(found) if not is_made(found, {name: None})]


def has_one_text_type(found: Architecture, part: str, text_type: str | None) -> bool:
    """Whether a text part that states another model type is taken for one of the class's own."""
    other = "llama" if text_type == "mistral" else "mistral"
    try:
        config = _part_of(found, part, {"model_type": other})
    except Exception:  # whatever a class raises for another type
        return False
    return text_type is not None and type(config).model_type == text_type


def _entries_read(found: Architecture, part: str, must: Mapping[str, Any], width: Mapping[str, int]) -> list[str]:
    """Return entries that a class reads of its text part, which parts of some types have only where they state them."""
    read: dict[str, None] = {}
    for name in _OTHERS:
        for _ in range(_TRIES):
            try:
                _part_of(found, part, {"model_type": name, **width, **must, **read})
            except AttributeError as error:
                if not error.name or error.name in read:
                    break
                read[error.name] = None
            except Exception:  # whatever else a class raises for such a part
                break
            else:
                break
    return list(read)


def _accepted_types(found: Architecture, part: str, must: Mapping[str, Any]) -> list[str]:
    """Return the types that rotate of which a class takes a text part that states what it must, and no more."""
    kinds = ((name, model_type(name)) for name in known_model_types())
    rotating = (name for name, kind in kinds if kind is not None and kind.rotates and is_in_transformers(name))
    return [name for name in rotating if _is_taken(found, part, {"model_type": name, **must})]


def _is_taken(found: Architecture, part: str, content: dict[str, Any]) -> bool:
    try:
        return _part_of(found, part, content) is not None
    except Exception:  # whatever a class raises for such a part
        return False


def _values_of_text(found: Architecture, part: str, text_type: str) -> dict[str, Any]:
    """Return entries of the text part of which a class takes one value alone, and says so, where that is no default."""
    stated: dict[str, Any] = {}
    for _ in range(_TRIES):
        try:
            _part_of(found, part, {"model_type": text_type, **stated})
        except Exception as error:  # whatever a class raises for such a part
            said = _ONLY.search(str(error))
            if said is None or said[1] in stated:
                return stated
            stated[said[1]] = int(said[2]) if said[2].isdigit() else said[2] == "True"
        else:
            return stated
    return stated


def _width_in(entries: Mapping[str, Any]) -> dict[str, int]:
    return {name: value for name, value in entries.items() if name == "hidden_size"}


def _width_of_text(found: Architecture, part: str, stated: Mapping[str, Any]) -> dict[str, int]:
    """Return the width of a text part with which a class makes a configuration; nothing where it has none."""
    width = getattr(getattr(made(found, **{part: dict(stated)}), part, None), "hidden_size", None)
    return {"hidden_size": width} if isinstance(width, int) else {}


def _widths(found: Architecture, part: str, stated: Mapping[str, Any], width: Mapping[str, int]) -> dict[str, int]:
    """Return entries of other parts that must be as large as the width of the text part, with their defaults.

    They are found by their effect on what the class raises for another width.
    """
    widths: dict[str, int] = {}
    others: dict[str, dict[str, Any]] = {}
    wider = {**stated, **{name: 2 * size for name, size in width.items()}}

    def raised(beside: Mapping[str, Any]) -> str:
        try:
            _part_of(found, part, wider, beside)
        except Exception as error:  # whatever a class raises for another width
            return str(error)
        return ""

    said = raised(others) if width else ""
    config = made(found, **{part: {**stated, **width}}) if said else None
    for name in found.config_class.sub_configs:
        own = getattr(config, name, None) if name != part else None
        for entry, value in (own.to_dict() if own is not None else {}).items():
            if said and value == width["hidden_size"]:
                tried = {**others, name: {**others.get(name, {}), entry: 2 * value}}
                if (now := raised(tried)) != said:
                    others, said = tried, now
                    widths[f"{name}.{entry}"] = value
    return widths


def _taken_from_the_file(found: Architecture, part: str) -> list[str]:
    """Return the entries that a class takes for its text part from the file itself where it has no such part."""
    config = made(found, num_hidden_layers=_DEPTH)
    if getattr(getattr(config, part, None), "num_hidden_layers", None) != _DEPTH:
        return []
    usual = getattr(config, part).to_dict()
    taken = []
    for name in _entries_with_values(usual):
        changed = made(found, **{"num_hidden_layers": _DEPTH, name: _other_value(name, usual)})
        if changed is None or getattr(changed, part).to_dict() != usual:  # what it refuses, it reads
            taken.append(name)
    return taken


def _handed_on(found: Architecture, part: str, names: Sequence[str], stated: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the entries of the file itself that a class takes for its text part, whatever that states of them.

    Args:
        found: The class.
        part: The name that it has for its text part.
        names: All names of the group that it takes for it.
        stated: What such a group must state.
    """
    handed: dict[str, list[str]] = {}
    for group in names:
        usual = getattr(made(found, **{group: dict(stated)}), part, None)
        own = {} if usual is None else usual.to_dict()
        for name in _entries_with_values(own):
            value = copy.deepcopy(own.get(name, _EXAMPLES.get(name)))  # classes change groups, and copies keep twins
            text = {**stated, name: value} if name not in stated else dict(stated)
            before = getattr(made(found, **{group: text}), part, None)
            after = getattr(made(found, **{group: text, name: _other_value(name, own)}), part, None)
            if before is not None and after is not None and before.to_dict() != after.to_dict():
                handed.setdefault(group, []).append(name)
    return handed


def _entries_with_values(usual: Mapping[str, Any]) -> list[str]:
    """Return the entries about positions, and sizes, that a text part may have."""
    names = dict.fromkeys((*ENTRIES_OF_TEXT, *BESIDE_TEXT))
    return [name for name in names if name in usual or name in _EXAMPLES]


def _other_value(name: str, usual: Mapping[str, Any]) -> Any:
    """Return a value of an entry that is not the one of a text part."""
    own = usual.get(name, _EXAMPLES.get(name))
    return _EXAMPLES.get(name, own // 2 if isinstance(own, int) else _OTHER_SIZE)


def text_defaults(found: Architecture, part: str, text_type: str, names: re.Pattern[str]) -> dict[str, Any]:
    """Return what the class of a whole gives its text part otherwise than the class of that part has it.

    Args:
        found: The class of the whole.
        part: Name of the group that is its text part.
        text_type: Model type of that part.
        names: Of the entries that are compared.
    """
    changed = _unlike_the_part(made(found, **{part: {"model_type": text_type}}), part, text_type, names)
    if "head_dim" in changed and _computes_heads(found, part, text_type, changed):
        del changed["head_dim"]
    return changed


def text_alone(found: Architecture, part: str, text_type: str, names: re.Pattern[str]) -> dict[str, Any]:
    """Return what the text part of a whole has where the file has none, otherwise than the class of that part has it.

    The arguments are those of :func:`text_defaults`.
    """
    return _unlike_the_part(made(found), part, text_type, names)


def bases_of_text(
    found: Architecture, part: str, stated: Mapping[str, Any], alone: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return what a whole does with the base of its text part, and whether it fails with a part of no stated type.

    Args:
        found: The class of the whole.
        part: Name of the group that is its text part.
        stated: The model type of that part, and what it must state.
        alone: What that part has where the file has none: a width of it that other parts must have.
    """
    from transformers import CONFIG_MAPPING

    width = _width_in(alone)
    scaled = {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    facts: dict[str, Any] = {}
    try:
        with quiet():
            own = [
                _base(CONFIG_MAPPING[stated["model_type"]].from_dict(copy.deepcopy(each)))
                for each in (scaled, {"rope_theta": _OTHER_BASE})
            ]
        given = [_base(_part_of(found, part, {**stated, **width, **scaled}))]
        given.append(_base(_part_of(found, part, {**stated, **width, "rope_theta": _OTHER_BASE})))
    except Exception:  # a class that refuses such a part
        return facts
    if isinstance(given[0], float) and given[0] != own[0]:
        facts["text_base"] = given[0]
    if isinstance(given[1], float) and own[1] == _OTHER_BASE != given[1]:
        facts["text_keeps_base"] = True
    untyped = {name: value for name, value in stated.items() if name != "model_type"}
    try:
        _part_of(found, part, {**untyped, **width, "rope_theta": _OTHER_BASE})
    except KeyError:
        facts["text_needs_type"] = True
    except Exception:  # what it refuses for another reason is another fact
        return facts
    return facts


def _part_of(found: Architecture, part: str, content: dict[str, Any], beside: Mapping[str, Any] | None = None) -> Any:
    """Return the configuration that a whole makes of its text part; raise what it raises."""
    with quiet():  # transformers writes into groups
        config: Any = found.config_class.from_dict(copy.deepcopy({**(beside or {}), part: content}))
    return getattr(config, part)


def _base(config: Any) -> Any:
    rope = getattr(config, "rope_parameters", None)
    base = rope.get("rope_theta") if isinstance(rope, dict) else None
    return float(base) if isinstance(base, int | float) else base


def _unlike_the_part(config: Any, part: str, text_type: str, names: re.Pattern[str]) -> dict[str, Any]:
    """Return the entries of the text part of a whole that differ from the defaults of that part's class."""
    from transformers import CONFIG_MAPPING

    config = getattr(config, part, None)
    if config is None or text_type not in CONFIG_MAPPING:
        return {}
    with quiet():
        usual = CONFIG_MAPPING[text_type]().to_dict()
    taken = {name: value for name, value in config.to_dict().items() if names.search(name) and name in usual}
    changed = {name for name, value in taken.items() if usual[name] != value}
    changed |= {*_SIZES} if changed & {*_SIZES} else set()  # one is computed from the others
    return {name: value for name, value in sorted(taken.items()) if name in changed}


def _computes_heads(found: Architecture, part: str, text_type: str, usual: Mapping[str, Any]) -> bool:
    """Whether the class of a whole computes the size of heads where its text part states a width."""
    width = usual.get("hidden_size")
    content = {"model_type": text_type, "hidden_size": 2 * width if isinstance(width, int) else None}
    config = getattr(made(found, **{part: content}), part, None)
    return config is not None and config.to_dict().get("head_dim") != usual.get("head_dim")


def other_names_of_text(found: Architecture, part: str) -> list[str]:
    """Return other names of the text part of a whole that its class takes.

    Args:
        found: The class of the whole.
        part: The name that it has for that part.
    """
    return list(_other_names(found, part))


def _other_names(found: Architecture, part: str) -> Iterator[str]:
    for name in sorted(entries_of_class(found)):
        if name.endswith("_config") and name != part and name not in getattr(found.config_class, "sub_configs", {}):
            taken = getattr(made(found, **{name: {"num_hidden_layers": _DEPTH}}), part, None)
            if getattr(taken, "num_hidden_layers", None) == _DEPTH:
                yield name
