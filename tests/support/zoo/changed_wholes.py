"""Changed files of classes with several parts: what is read of the whole, next to what is read of its text part alone.

The measure is the text part that the class of the whole makes of the file. No model is built for it: that such a part
alone is read as its class computes it is what :mod:`zoo.changed` is about.
"""

from __future__ import annotations

import copy
import itertools
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from locant.errors import ConfigError
from locant.extension.inspect.model_class.small_model import HEADS, quiet
from locant.rotary_configs import ParsedConfig, read_huggingface
from locant.rotary_configs.classes import families
from zoo.architectures import TEXT_PARTS, Architecture, architecture, text_part_of
from zoo.cases import LENGTH, draw_case, nested_case
from zoo.changed import ChangedVerdict, read_file, said_of_class
from zoo.changes import Change
from zoo.facts import mentions_rotation
from zoo.verdict import first_line

_BASE = 77777.0
_LINEAR = {"rope_type": "linear", "factor": 2.0}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": LENGTH // 4}
_BESIDE: dict[str, Any] = {
    "rope_theta": _BASE,
    "rope_scaling": {"type": "linear", "factor": 2.0},
    "rope_parameters": {**_LINEAR, "rope_theta": _BASE},
    "partial_rotary_factor": 0.5,
    "head_dim": 48,
    "sliding_window": 5,
    "num_attention_heads": 4,
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "max_position_embeddings": 333,
    "layer_types": ["full_attention"] * 6,
    "rope_local_base_freq": 777.0,
}
_ABOUT_POSITIONS = re.compile(
    r"rope|rotary|head_dim|layer_types|hidden_layers|attention_heads|^hidden_size$|max_position|window|interval|pattern|n_heads|key_value"
)
_TYPES = ("llama", "mistral", "gemma3_text", "gpt2", "unheard_of")
_OTHER_NAMES = ("llm_config", "decoder", "text_cfg")


def changed_whole_verdicts(
    found: Architecture, seed: int = 0, limit: int | None = None, ways: Sequence[bool] = (False,)
) -> Iterator[ChangedVerdict]:
    """Yield the outcomes of changed files of a class with several parts; nothing where its text does not rotate.

    Args:
        found: The class.
        seed: Seed by which the changes are drawn.
        limit: How many of the changes are tried; all where it is ``None``.
        ways: For each way of reading a file, whether the class is asked in it.
    """
    usual = _usual_file(found)
    if usual is None:
        return
    content, way = usual
    before = {asks_class: _reading(content, asks_class=asks_class)[1] for asks_class in ways}
    first = _text_of(found, content)
    changes = list(_changes(content, way))
    if limit is not None and limit < len(changes):
        changes = random.Random(f"{found.model_type} {seed}").sample(changes, limit)
    for change, asks_class in itertools.product(changes, ways):
        try:
            verdict = _judged(found, change, first, before[asks_class], asks_class=asks_class)
        except Exception as error:  # nothing may be raised for a file
            verdict = ChangedVerdict(found.model_type, change.name, "error", first_line(error))
        yield replace(verdict, with_class=asks_class)


def _usual_file(found: Architecture) -> tuple[dict[str, Any], list[str]] | None:
    """Return a small file that the class takes, and the names of the groups that lead to its text part."""
    way, text, kind = [], found, families.model_type(found.model_type)
    must: Mapping[str, Any] = {}
    while text.kind == "composite":
        if kind is None or not kind.text_part or kind.text_type is None:
            return None
        way, must = [*way, *kind.text_part], kind.text_must
        text, kind = architecture(kind.text_type), families.model_type(kind.text_type)
    if text.kind != "text" or not mentions_rotation(text.config_class):
        return None
    for heads, scaled in itertools.product(HEADS[:-1], (True, False)):
        try:
            case = draw_case(text.config_class, text.model_type, 1, heads=heads, scaled=scaled)
            content = nested_case(case, found.model_type, tuple(way)).content
            _at(content, way).update(must)
            _text_of(found, content)
        except Exception:  # whatever the classes raise for small sizes
            continue
        return content, way
    return None


def _text_of(found: Architecture, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the file of the text part that a class makes; raise what it raises."""
    with quiet():
        config: Any = found.config_class.from_dict(copy.deepcopy(dict(content)))
        while (part := _part_of(config)) is not None:
            config = part
        made: dict[str, Any] = json.loads(json.dumps(config.to_dict(), default=str))
    return made


def _part_of(config: Any) -> Any:
    names = (*TEXT_PARTS, text_part_of(type(config)) or "")
    parts = (getattr(config, name, None) for name in names if name in getattr(config, "sub_configs", {}))
    return next((part for part in parts if part is not None), None)


def _reading(content: Mapping[str, Any], *, asks_class: bool = False) -> tuple[ParsedConfig | None, list[str]]:
    """Return what is read of a file, ``None`` where it is refused, and what is said of it."""
    if asks_class:
        read = read_file(content, asks_class=True)
        return read.parsed, said_of_class(read, content)
    try:
        parsed = read_huggingface(copy.deepcopy(dict(content)))
    except ConfigError as error:
        return None, [str(error)]
    return parsed, [each.message for each in parsed.findings if each.severity != "note"]


def _by_layer(parsed: ParsedConfig) -> dict[int, Any]:
    """Return what each layer does; the declared length is no part of it, which the class fills in."""
    configs = {name: replace(config, max_length=None) for name, config in parsed.configs.items()}
    return {
        index: (kind.window, kind.attends, kind.config and configs[kind.config])
        for kind in parsed.layers
        for index in kind.layers
    }


def _judged(
    found: Architecture, change: Change, first: Mapping[str, Any], known: Sequence[str], *, asks_class: bool
) -> ChangedVerdict:
    about = (found.model_type, change.name)
    parsed, said = _reading(change.content, asks_class=asks_class)
    said = [message for message in said if message not in known]
    try:
        text = _text_of(found, change.content)
    except Exception as error:  # whatever the class raises
        return ChangedVerdict(*about, "right" if said or parsed is None else "failure unsaid", first_line(error))
    alone, _ = _reading(text)
    if alone is None or parsed is None:
        return ChangedVerdict(*about, "right" if alone is parsed else "refused", " | ".join(said))
    read, expected = _by_layer(parsed), _by_layer(alone)
    others = [index for index in sorted({*read, *expected}) if read.get(index) != expected.get(index)]
    if others:
        reason = f"layers {others}: {read.get(others[0])}, but the class: {expected.get(others[0])}"
        return ChangedVerdict(*about, "warned" if said else "silent", f"{reason} | {' | '.join(said)}")
    if change.kind == "added" and text == first and not said:
        return ChangedVerdict(*about, "unsaid", "the class passes over it")
    return ChangedVerdict(*about, "right", " | ".join(said))


def _at(content: dict[str, Any], way: Sequence[str]) -> dict[str, Any]:
    for name in way:
        content = content[name]
    return content


def _changes(content: Mapping[str, Any], way: Sequence[str]) -> Iterator[Change]:
    """Yield changed files: entries beside the text part, in it, of another type, and parts elsewhere or left out."""
    text = _at(dict(content), way)
    whole = families.model_type(content["model_type"])

    def changed(name: str, *, kind: str = "kept", lacks: Sequence[str] = (), beside: Any = (), **stated: Any) -> Change:
        new = copy.deepcopy(dict(content))
        part = _at(new, way)
        for entry in lacks:
            part.pop(entry, None)
        part.update(stated)
        return Change(name, {**new, **dict(beside)}, kind)

    for name, value in _BESIDE.items():
        is_new = name in text and text[name] != value and whole is not None and name not in whole.of_whole
        yield changed(f"{name} beside", kind="added" if is_new else "kept", beside={name: value})
        if name in text:
            yield changed(f"{name} beside alone", lacks=[name], beside={name: value})
    for name in [name for name in text if _ABOUT_POSITIONS.search(name)]:
        yield changed(f"without {name}", lacks=[name])
        yield changed(f"{name} null", **{name: None})
    for name in (*_TYPES, content["model_type"], None):
        yield changed(f"model_type {name}", model_type=name)
    yield changed("without model_type", lacks=["model_type"])
    group = text.get("rope_parameters")
    for name, scaling in (("linear", _LINEAR), ("yarn", _YARN), ("none", None)):
        yield changed(f"{name} of release 4", lacks=["rope_parameters"], rope_theta=_BASE, rope_scaling=scaling)
        yield changed(f"{name} without base", lacks=["rope_parameters"], rope_scaling=scaling)
    if isinstance(group, Mapping):
        for name in group:
            yield changed(f"group without {name}", rope_parameters={k: v for k, v in group.items() if k != name})
    yield from _parts_elsewhere(content, way)


def _parts_elsewhere(content: Mapping[str, Any], way: Sequence[str]) -> Iterator[Change]:
    """Yield files whose text part is left out, is something else, has another name, or stands in the file itself."""
    *outer, last = way

    def with_part(name: str, value: Any) -> Change:
        new = copy.deepcopy(dict(content))
        _at(new, outer)[last] = value
        return Change(name, new)

    text = _at(dict(content), way)
    without = copy.deepcopy(dict(content))
    del _at(without, outer)[last]
    yield Change("no text part", without)
    for name, value in (("null", None), ("empty", {}), ("a list", []), ("text", "x"), ("nested again", {last: text})):
        yield with_part(f"text part {name}", value)
    untyped = {name: value for name, value in text.items() if name != "model_type"}
    for name in _OTHER_NAMES if not outer else ():
        yield Change(f"text part as {name}", {**without, name: text})
        kind = "added" if name in TEXT_PARTS else "kept"
        yield Change(f"second text part {name}", {**content, name: {**text, "num_hidden_layers": 3}}, kind)
    if outer:
        yield Change("inner part in the place of the outer", {**content, way[0]: text})
    else:
        yield Change("text part in the file itself", {**untyped, **without})
        yield Change("text part repeated", {**untyped, **content})
