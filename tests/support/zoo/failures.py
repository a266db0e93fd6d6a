"""Entries with which a class of transformers refuses a file, or fails, though it computes a file without them."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

import torch

from locant.extension.inspect.model_class.small_model import build, model_class, quiet
from zoo.architectures import Architecture
from zoo.left_out import entries_of_class, made
from zoo.scalings import SCALINGS, Tried, complete_scaling, with_entries

_LATENT = "qk_rope_head_dim"
_SHARE = 0.25
_NULLABLE = re.compile(
    r"(?<!default)(^|_)theta$|base_freq$|^rotary_(emb_base|pct|dim)$|^partial_rotary_factor$|^num_key_value_heads$"
)
_OF_ATTENTION = re.compile(r"attn|attention|position")


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

    Args:
        found: The class.
        entries: The entries of a small model that it computes.
    """
    rest = {name: value for name, value in entries.items() if name != "rope_parameters"}
    names = {*entries_of_class(found), "rope_theta", "partial_rotary_factor"}
    chosen = [name for name in sorted(names) if _NULLABLE.search(name)]
    if not _is_made(found, rest):
        return []
    return [name for name in chosen if not _is_made(found, {**rest, name: None})]


def failure_facts(found: Architecture, entries: Mapping[str, Any], part: int, tried: Tried) -> dict[str, Any]:
    """Return with what a class fails that has one rotation for all layers.

    ``fails_headless`` are types of scalings with which it fails where ``head_dim`` is null, and not where it is a
    number; ``needs_head`` is there where it fails with null for ``head_dim`` in any case; ``fails_with_null`` are the
    entries beside its group of which it makes no model where they are null. Of latent attention,
    ``fails_with_share`` is there where it fails with a share of a head and no scaling, and ``fails_with_groups`` where
    it fails with fewer heads of keys than of queries.

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
    if is_flat and "head_dim" in entries and _LATENT not in entries and _is_made(found, {**entries, "head_dim": None}):
        scaled = {name: with_entries(rope, complete_scaling(name, part // 2)) for name in SCALINGS}
        whole = {name: {**entries, "rope_parameters": group} for name, group in scaled.items()}
        facts["fails_headless"] = [
            name
            for name, each in whole.items()
            if _is_made(found, each) and not _is_made(found, {**each, "head_dim": None})
        ]
    facts["needs_head"] = needs_head(found, entries)
    facts["fails_with_null"] = nulls_that_fail(found, entries)
    if entries.get(_LATENT) is not None:
        shared = with_entries(rope, {"partial_rotary_factor": _SHARE}) if rope else None
        facts["fails_with_share"] = shared is not None and tried(rope_parameters=shared) is None
        facts["fails_with_groups"] = _fails_with_groups(found, entries)
    return facts


def needs_head(found: Architecture, entries: Mapping[str, Any]) -> bool:
    """Whether a class makes no model of entries with null for the size of heads, and does with a number or without.

    Args:
        found: The class.
        entries: The entries of a small model that it computes.
    """
    is_number = entries.get("head_dim", 1) is not None  # a class without the entry may look for it all the same
    return is_number and _is_made(found, entries) and not _is_made(found, {**entries, "head_dim": None})


def _is_made(found: Architecture, entries: Mapping[str, Any]) -> bool:
    """Whether a class makes a model of entries; frequencies are computed while it is made, numbers are not kept."""
    made = model_class(found.config_class)
    try:
        with quiet(), torch.device("meta"):
            return made is not None and made(found.config_class(**copy.deepcopy(dict(entries)))) is not None
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
        model = build(found.config_class(**copy.deepcopy(dict(entries))))
        model.set_attn_implementation("eager")
        model(torch.zeros((1, 4), dtype=torch.long))
