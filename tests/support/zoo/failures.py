"""Entries with which a class of transformers refuses a file, or fails, though it computes a file without them."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

import torch

from locant.extension.inspect.model_class.inputs import text_inputs
from locant.extension.inspect.model_class.small_model import build, model_class, quiet
from zoo.architectures import Architecture, config_with_model, given_by_whole
from zoo.left_out import entries_of_class, made
from zoo.scalings import SCALINGS, Tried, complete_scaling, with_entries, with_share

_LATENT = "qk_rope_head_dim"
_SHARE = 0.25
_TOKENS = 4
_GROUPS_OF_ROTATION = ("rope_parameters", "rope_scaling")
_TOLD = ("head_dim", "hidden_size", "num_attention_heads", "num_hidden_layers")  # of which other facts tell
_NULLABLE = re.compile(
    r"(?<!default)(^|_)theta$|base_freq$|^rotary_(emb_base|pct|dim)$|^partial_rotary_factor$|^num_key_value_heads$"
)
_ROUNDS = re.compile(r"interval|period|pattern|every|_step$")  # by which classes divide
_OF_ATTENTION = re.compile(r"attn|attention|position")
OF_SIZES = re.compile(
    r"(head_dim|heads|_rank|experts?|_size|_dim|top_?k\w*|_layers|experts_per_tok)$|^(index|indexer|linear)_"
)
"""Names of the sizes of a class, of its indexers and recurrences too."""


def refusal_facts(found: Architecture, *, rotates: bool) -> dict[str, Any]:
    """Return with what the configuration of a class refuses a file, whether or not it rotates.

    ``choices`` are all values that it takes for entries about attention which have a few, by their names, those within
    a group behind the name of that; ``refuses_scalings``, of a class that does not rotate, are types of scalings
    beside which it cannot be made.

    Args:
        found: The class.
        rotates: Whether it rotates.
    """
    if made(found) is None:
        return {}
    facts: dict[str, Any] = {"choices": dict(_choices(found.config_class))}
    if not rotates:
        scaled = {name: {"rope_theta": 10000.0, **complete_scaling(name, 8)} for name in SCALINGS}
        facts["refuses_scalings"] = [name for name, group in scaled.items() if made(found, rope_scaling=group) is None]
    return {name: value for name, value in facts.items() if value}


def _choices(config_class: Any) -> Iterator[tuple[str, list[Any]]]:
    for name, field in getattr(config_class, "__dataclass_fields__", {}).items():
        stated = field.type
        part = getattr(config_class, "sub_configs", {}).get(name)
        if part is not None and _OF_ATTENTION.search(name):
            yield from ((f"{name}.{inner}", values) for inner, values in _choices(part))
        kinds = get_args(stated) if get_origin(stated) is not Literal else (stated,)
        literals = [each for each in kinds if get_origin(each) is Literal]
        if _OF_ATTENTION.search(name) and literals and {*kinds} <= {*literals, type(None)}:
            values = [value for each in literals for value in get_args(each)]
            yield name, [*values, None] if type(None) in kinds else values


def nulls_that_fail(found: Architecture, entries: Mapping[str, Any]) -> list[str]:
    """Return the entries beside the groups with null for which a class makes no model, though it does without them.

    Of sizes that are numbers by default, which the configuration takes null for, it may fail in computing a text, too.

    Args:
        found: The class.
        entries: The entries of a small model that it computes.
    """
    rest = {name: value for name, value in entries.items() if name != "rope_parameters"}
    names = {*entries_of_class(found), "rope_theta", "partial_rotary_factor"}
    chosen = [name for name in sorted(names) if _NULLABLE.search(name)]
    if not is_made(found, rest):
        return []
    failing = [name for name in chosen if not is_made(found, {**rest, name: None})]
    usual = {name: getattr(found.config_class, name, None) for name in names if OF_SIZES.search(name)}
    sizes = [name for name, value in sorted(usual.items()) if isinstance(value, int) and value is not True]
    sizes = [name for name in sizes if name not in {*chosen, *_TOLD} and made(found, **{name: None}) is not None]
    if sizes and _computes(found, entries):
        failing += [name for name in sizes if not _computes(found, {**entries, name: None})]
    return sorted(failing)


def zeros_that_fail(found: Architecture, entries: Mapping[str, Any]) -> list[str]:
    """Return the entries with the length of a round of layers of which a class makes no model where they are 0.

    They are tried beside stated types of layers, and without other lists for all layers, as files leave these out.

    Args:
        found: The class.
        entries: The entries of a small model that it computes.
    """
    usual = {name: getattr(found.config_class, name, None) for name in entries_of_class(found) if _ROUNDS.search(name)}
    names = [name for name, value in sorted(usual.items()) if isinstance(value, int) and value is not True and value]
    rest = {name: value for name, value in entries.items() if name == "layer_types" or not isinstance(value, list)}
    return [name for name in names if not is_made(found, {**rest, name: 0})] if is_made(found, rest) else []


def needed_entries(found: Architecture, entries: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the entries that a class has no value for and fails without, with other names that it takes for them.

    Those of a group stand behind the name of that.

    Args:
        found: The class.
        entries: The entries of a small model that it computes.
    """
    usual = {} if (config := made(found)) is None else config.to_dict()
    filled = [
        name
        for name, value in entries.items()
        if value is not None and (usual.get(name) is None or isinstance(value, Mapping))
    ]
    names = []
    for name in filled:
        value = entries[name]
        if name in _GROUPS_OF_ROTATION or name in _TOLD:
            continue
        if isinstance(value, Mapping):
            own = usual.get(name) or {}
            chosen = [key for key in value if own.get(key) is None]
            without = {f"{name}.{key}": {each: value[each] for each in value if each != key} for key in chosen}
            names += [path for path, group in without.items() if not _computes(found, {**entries, name: group})]
        elif not _computes(found, {key: each for key, each in entries.items() if key != name}):
            names.append(name)
    others = getattr(found.config_class, "attribute_map", {})
    given = given_by_whole(found)
    names = [name for name in names if name not in given and "dropout" not in name]  # which wholes hand on
    needed = sorted(names) if names and _computes(found, entries) else []
    return {name: sorted(other for other, usual in others.items() if usual == name) for name in needed}


def failure_facts(found: Architecture, entries: Mapping[str, Any], part: int, tried: Tried) -> dict[str, Any]:
    """Return with what a class fails that has one rotation for all layers.

    ``fails_headless`` are types of scalings with which it fails where ``head_dim`` is null, and not where it is a
    number; ``needs_head`` is there where it fails with null for ``head_dim`` in any case, ``floors_head`` where it
    computes with heads that do not divide the width, and no ``head_dim``; ``fails_with_null`` are the entries beside
    its group of which it makes no model where they are null, ``fails_with_zero`` those with the length of a round of
    layers of which it makes none where they are 0, and ``needs`` those that it has no value for. ``fails_with_share``
    is there where it fails with a share of a head and no scaling; of latent attention, ``fails_with_groups`` where it
    fails with fewer heads of keys than of queries.

    Args:
        found: The class.
        entries: The entries of a small model that it computes.
        part: How many features of a head that model rotates.
        tried: What it does with other entries.
    """
    rope, facts = entries.get("rope_parameters"), dict[str, Any]()
    heads, size = entries.get("num_attention_heads"), entries.get("head_dim")
    if isinstance(heads, int) and isinstance(size, int):  # a class that computes the size of heads has the same then
        entries = {**entries, "hidden_size": heads * size}
    is_flat = isinstance(rope, Mapping) and "rope_type" in rope
    if is_flat and "head_dim" in entries and _LATENT not in entries and is_made(found, {**entries, "head_dim": None}):
        scaled = {name: with_entries(rope, complete_scaling(name, part // 2)) for name in SCALINGS}
        whole = {name: {**entries, "rope_parameters": group} for name, group in scaled.items()}
        facts["fails_headless"] = [
            name
            for name, each in whole.items()
            if is_made(found, each) and not is_made(found, {**each, "head_dim": None})
        ]
    facts["needs_head"] = needs_head(found, entries)
    facts["floors_head"] = floors_head(found, entries)
    facts["needs"] = needed_entries(found, entries)
    facts["fails_with_null"] = nulls_that_fail(found, entries)
    facts["fails_with_zero"] = zeros_that_fail(found, entries)
    if rope and (entries.get(_LATENT) is not None or (is_flat and "partial_rotary_factor" not in rope)):
        facts["fails_with_share"] = with_share(rope, entries, _SHARE, tried) is None
    if entries.get(_LATENT) is not None:
        facts["fails_with_groups"] = _fails_with_groups(found, entries)
    return facts


def needs_head(found: Architecture, entries: Mapping[str, Any]) -> bool:
    """Whether a class makes no model of entries with null for the size of heads, and does with a number or without.

    Args:
        found: The class.
        entries: The entries of a small model that it computes.
    """
    is_number = entries.get("head_dim", 1) is not None  # a class without the entry may look for it all the same
    return is_number and is_made(found, entries) and not is_made(found, {**entries, "head_dim": None})


def floors_head(found: Architecture, entries: Mapping[str, Any]) -> bool:
    """Whether a class computes with a width that its heads do not divide, and no size of heads: with the whole part.

    Args:
        found: The class.
        entries: The entries of a small model that it computes.
    """
    width, heads = entries.get("hidden_size"), entries.get("num_attention_heads")
    is_stated = isinstance(getattr(found.config_class, "head_dim", None), int)
    if not isinstance(width, int) or not isinstance(heads, int) or heads < 2 or is_stated:
        return False
    rest = {name: value for name, value in entries.items() if name != "head_dim"}
    wider = {**rest, "hidden_size": width // heads * heads + heads // 2}
    config = made(found, **wider)
    if config is None or getattr(config, "head_dim", None) not in (None, width // heads):
        return False
    return _computes(found, {**rest, "hidden_size": width // heads * heads}) and _computes(found, wider)


def _computes(found: Architecture, entries: Mapping[str, Any]) -> bool:
    """Whether a class makes a model of entries, and computes a text with it."""
    if not is_made(found, entries):
        return False
    try:
        with quiet(), torch.no_grad():
            model = build(config_with_model(found, copy.deepcopy(dict(entries))))
            model.set_attn_implementation("eager")
            model(**text_inputs(inspect.signature(model.forward).parameters, range(_TOKENS), None))
    except Exception:  # whatever the class raises
        return False
    return True


def is_made(found: Architecture, entries: Mapping[str, Any]) -> bool:
    """Whether a class makes a model of entries; frequencies are computed while it is made, numbers are not kept.

    Args:
        found: The class.
        entries: Entries of its configuration.
    """
    try:
        with quiet(), torch.device("meta"):
            config = config_with_model(found, copy.deepcopy(dict(entries)))
            made = model_class(type(config))
            return made is not None and made(config) is not None
    except Exception:  # whatever the class raises
        return False


def _fails_with_groups(found: Architecture, entries: Mapping[str, Any]) -> bool:
    """Whether a class computes a file with as many heads of keys as of queries, and fails with half of them."""
    heads = entries.get("num_attention_heads")
    if not isinstance(heads, int) or heads < 2:
        return False
    try:
        _run(found, {**entries, "num_key_value_heads": heads})
    except Exception:  # a class that cannot be run so tells nothing
        return False
    try:
        _run(found, {**entries, "num_key_value_heads": heads // 2})
    except Exception:  # whatever the class raises
        return True
    return False


def _run(found: Architecture, entries: Mapping[str, Any]) -> None:
    """Run a small model with the attention of transformers itself, which groups heads."""
    with quiet(), torch.no_grad():
        model = build(config_with_model(found, copy.deepcopy(dict(entries))))
        model.set_attn_implementation("eager")
        model(torch.zeros((1, 4), dtype=torch.long))
