"""Entries of config.json that a class of transformers has: which it reads, and which kinds of values it takes.

``entries.json`` is generated from the classes of transformers 5.24 (``tests/support/zoo/entries.py``): their
fields, whose kinds transformers checks, and which of the entries that some classes read stand in the code of each.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.classes.model_types import ModelType

KINDS_OF_VALUES = ("null", "a whole number", "a number", "true or false", "text", "a list", "a group")
"""Kinds of values of JSON; a whole number is written without a fraction."""

_OF_SOME = """
no_rope_layers no_rope_layer_interval layer_rope_theta sliding_window_pattern max_window_layers rope_scaling_layers
hybrid_override_pattern linear_attn_config attn_layer_indices full_attn_idxs attn_layer_period full_attention_interval
global_attn_every_n_layers rope_local_base_freq local_rope_theta global_rope_theta attn_type_list attn_layer_idxs
block_configs kv_channels attention_head_dim hidden_size_per_head attn_rotary_emb qk_rope_head_dim head_dim rotary_pct
global_head_dim sliding_window_size local_attention attention_window_size window_size attention_chunk_size
cross_attention_layers position_embedding_type order_of_interleaved_layers
"""
READ_BY_SOME = tuple(_OF_SOME.split())
"""Entries that say how layers rotate in some classes, and that all others pass over."""

LISTS_OF_TYPES = ("layer_types", "layers_block_type")
"""Entries with the type of each layer, which classes whose layers are all alike pass over."""

TYPES_OF_TRANSFORMERS = frozenset(
    ["default", "dynamic", "linear", "llama3", "longrope", "proportional", "yarn", "axial"]
)
"""The ``rope_type`` that transformers itself knows (``ROPE_INIT_FUNCTIONS``)."""


@dataclass(frozen=True)
class ClassEntries:
    """The entries about positions of one class.

    Attributes:
        takes: Kinds of values that it takes for each of its fields about positions and heads.
        sizes: Kinds of values that it takes for its other sizes, those of experts, indexers and recurrences.
        size_names: Which of the names of its width, its heads, its layers and its longest text it takes.
        items: Kinds of values in the lists that it takes for some of them, where it does not take all.
        alternating: Kinds of values from which it makes types of layers, where it takes more beside stated types.
        refuses_empty: Lists of which it makes no configuration where they are empty.
        reads: Which of :data:`READ_BY_SOME` and :data:`LISTS_OF_TYPES` its code reads.
        has: Names in its code that are about positions by their words.
        has_groups: Whether it looks for a group of rotary parameters for every type of layers.
        types: Types of scalings that it takes for another one of transformers, with that.
        layer_types: Which types of layers its code speaks of.
        refuses_types: Which types of layers, under their present names or older ones, it refuses in a file.
        window_types: Which types of layers it refuses in a file whose ``sliding_window`` is null.
        layers_by_type: Whether it looks for the entries of single layers (``per_layer_config``) by types of layers.
        needs_length: Of which of those types it refuses a group without the original length.
        loses_groups: Whether ``rope_scaling`` with null takes its groups from it.
        fails_without_groups: Whether it takes an empty object for its groups as it is, and has none then.
        whole_heads: Whether it refuses a width that its heads do not divide, whatever their size is.
    """

    takes: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, tuple[str, ...]]
    size_names: frozenset[str]
    items: Mapping[str, tuple[str, ...]]
    alternating: Mapping[str, tuple[str, ...]]
    refuses_empty: tuple[str, ...]
    reads: frozenset[str]
    has: frozenset[str]
    has_groups: bool
    types: Mapping[str, str]
    layer_types: frozenset[str]
    refuses_types: frozenset[str]
    window_types: frozenset[str]
    layers_by_type: bool
    needs_length: frozenset[str]
    loses_groups: bool
    fails_without_groups: bool
    whole_heads: bool


@functools.lru_cache(maxsize=1024)
def entries_of_class(name: str) -> ClassEntries | None:
    """Return the entries of a model type's class in transformers, ``None`` where they are not known."""
    each = _stored().get(name)
    if each is None:
        return None
    return ClassEntries(
        _by_field(each["takes"]),
        _by_field(each["sizes"]),
        frozenset(each["size_names"]),
        _by_field(each["items"]),
        _by_field(each["alternating"]),
        tuple(each["refuses_empty"]),
        frozenset(each["reads"]),
        frozenset(each["has"]),
        each["groups"],
        each["types"],
        frozenset(each["layer_types"]),
        frozenset(each["refuses_types"]),
        frozenset(each["window_types"]),
        each["layers_by_type"],
        frozenset(each["needs_length"]),
        each["loses_groups"],
        each["fails_without_groups"],
        each["whole_heads"],
    )


def type_taken_for(name: Any, stated: Any) -> Any:
    """Return the type of scaling for which a class takes the one of a file: most often itself.

    Args:
        name: The model type.
        stated: The type in the file.
    """
    own = entries_of_class(name) if isinstance(name, str) else None
    return stated if own is None or not isinstance(stated, str) else own.types.get(stated, stated)


@functools.cache
def _stored() -> Mapping[str, Any]:
    stored: dict[str, Any] = json.loads((Path(__file__).parent / "entries.json").read_text(encoding="utf-8"))
    return stored


def _by_field(stored: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {field: tuple(kinds.split(", ")) for kinds, fields in stored.items() for field in fields}


def reads_types_of_layers(kind: ModelType) -> bool:
    """Whether a class reads the type of each layer from a file; those whose layers are all alike pass over a list.

    Args:
        kind: The facts of the class.
    """
    own = entries_of_class(kind.name)
    return own is None or not own.reads.isdisjoint(LISTS_OF_TYPES)


def values_of_other_kinds(given: Mapping[str, Any], kind: ModelType) -> Iterator[Finding]:
    """Yield warnings about values of kinds that the class refuses: null or text in the place of a number.

    Args:
        given: The entries of a text part.
        kind: The facts of its class.
    """
    own = entries_of_class(kind.name)
    if own is None:
        return
    for name, kinds in own.items.items():
        value = given.get(name)
        others = [each for each in value if _kind_of(each) not in kinds] if isinstance(value, list) else []
        if others:
            yield Finding(
                "warning",
                f"{in_json(others[0])} stands in {name} of config.json, a list of which the class of '{kind.name}' in "
                f"transformers 5 takes {_in_words(kinds)} alone: it refuses the file.",
                f"State {_in_words(kinds)} for each layer.",
            )
    for name, kinds in own.alternating.items() if given.get("layer_types") is None else ():
        if name in given and _kind_of(given[name]) in {*own.takes.get(name, KINDS_OF_VALUES)} - {*kinds}:
            yield Finding(
                "warning",
                f"{name} is {in_json(given[name])} in config.json, from which the class of '{kind.name}' in "
                f"transformers makes no types of layers: it takes {_in_words(kinds)} there, and fails.",
                f"State {_in_words(kinds)}, or the types in layer_types.",
            )
    yield from values_of_kinds(given, kind.name, {**own.takes, **own.sizes})


def values_of_kinds(
    given: Mapping[str, Any], model_type: str, takes: Mapping[str, tuple[str, ...]]
) -> Iterator[Finding]:
    """Yield warnings about values of other kinds than a class takes for its fields.

    Args:
        given: The entries of a text part.
        model_type: The model type.
        takes: The kinds that it takes for each field.
    """
    for name, kinds in takes.items():
        if name in given and _kind_of(given[name]) not in kinds:
            yield Finding(
                "warning",
                f"{name} is {in_json(given[name])} in config.json, where the class of '{model_type}' in transformers 5 "
                f"takes {_in_words(kinds)}: it refuses the file.",
                f"State {_in_words([each for each in kinds if each != 'null'])}, or leave {name} out.",
            )


def _in_words(kinds: tuple[str, ...] | list[str]) -> str:
    *first, last = kinds
    return f"{', '.join(first)} or {last}" if first else last


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int):
        return "a whole number"
    if is_number(value) or isinstance(value, float):
        return "a number"
    return "text" if isinstance(value, str) else "a group" if isinstance(value, Mapping) else "a list"
