"""Layers whose types alternate: by their number alone, or by an entry with the length of a round of them."""

from __future__ import annotations

import itertools

from locant.positions.scaling.fields import Fields
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.layer_types import LINEAR, LOCAL
from locant.rotary_configs.spellings import is_count

_OWN_ROUND = "prefix_dense_sliding_window_pattern"
"""Entry with the length of a round among the first, dense layers; where it is 1, all of these rotate."""


def by_number(kind: ModelType | None, count: int) -> tuple[str, ...]:
    """Return the types that a class gives so many layers where the file says nothing of them, empty without any.

    Args:
        kind: The facts of the class.
        count: The number of layers.
    """
    if kind is None or not kind.layer_types:
        return ()
    pattern = kind.layer_types[::-1] if kind.counts_from_back else kind.layer_types
    names = tuple(itertools.islice(itertools.cycle(pattern), count))
    names = names[::-1] if kind.counts_from_back else names
    names = (kind.first_type, *names)[:count] if kind.first_type else names
    return (*names[:-1], kind.last_type) if kind.last_type else names


def in_rounds(part: Fields, kind: ModelType, count: int) -> tuple[str, ...]:
    """Return the types by the entry of a class that is the length of a round, where the file has it.

    Args:
        part: The text part of config.json.
        kind: The facts of the class.
        count: The number of layers.
    """
    if kind.period is None:
        return ()
    entry, most, other, place = kind.period
    size, dense = part.get(entry), part.get("first_k_dense_replace")
    if _own_round(part, kind) is None or not is_count(dense):
        dense = 0
    elif size is None:
        size = kind.defaults.get(entry)
    if not is_count(size):
        return ()
    start = 0 if place == "first" else 1
    prefix = _own_round(part, kind) or 1
    first = tuple(other if (index + 1) % prefix == 0 else most for index in range(min(dense, count)))
    names = (*first, *(other if (index + start) % size == 0 else most for index in range(count - len(first))))
    return (*names[:-1], kind.last_type) if kind.last_type else names


def in_blocks(part: Fields, kind: ModelType, count: int) -> tuple[str, ...]:
    """Return the types by ``block_types``, of a class that takes whatever is not recurrent for attention.

    Args:
        part: The text part of config.json.
        kind: The facts of the class.
        count: The number of layers.
    """
    blocks = part.get("block_types") if "block_types" in kind.defaults else None
    if not isinstance(blocks, list) or not blocks:
        return ()
    return tuple(LINEAR if blocks[index % len(blocks)] == "recurrent" else LOCAL for index in range(count))


def rotating_dense_layers(part: Fields, kind: ModelType | None, count: int) -> frozenset[int]:
    """Return the layers without experts, where a class rotates all of these.

    Args:
        part: The text part of config.json.
        kind: The facts of the class.
        count: The number of layers.
    """
    if kind is None or _own_round(part, kind) != 1:
        return frozenset()
    types, first = part.get("mlp_layer_types"), part.get("first_k_dense_replace")
    if isinstance(types, list):
        return frozenset(index for index, name in enumerate(types) if name == "dense")
    return frozenset(range(min(first, count) if is_count(first) else 0))


def _own_round(part: Fields, kind: ModelType) -> int | None:
    value = part.get(_OWN_ROUND) or kind.defaults.get(_OWN_ROUND)
    return value if is_count(value) else None
