"""Which rows of which weights become rotated features, told by the labels of made-up numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from locant.errors import LocantError
from locant.extension.asked.build import build
from locant.extension.asked.turn import origins
from locant.extension.asked.watch import Call, Watch, heard, watched
from locant.positions.rotary.config import RotaryLayout


@dataclass(frozen=True)
class RotatedRows:
    """Where the rotated features of heads stand in a tensor.

    Attributes:
        axis: Along this axis,
        size: which has so many rows,
        starts: blocks of rows begin here, each of which has
        count: so many rows, all rotated features of a head.
        layout: How they are paired.
    """

    axis: int
    size: int
    starts: tuple[int, ...]
    count: int
    layout: RotaryLayout


def rotated_rows(content: Mapping[str, Any]) -> dict[str, RotatedRows]:
    """Return the rows of all weights that become rotated features, by the names of the parameters of the bare model.

    Weights of single features between a projection and the rotation, those of norms, have their "rows" as well.

    Args:
        content: The object in config.json.

    Raises:
        NoClassError: transformers has no class for the file.
        ClassRefusesError: The class makes no model of the file.
        LocantError: The features of a head do not stand in rows of their own.
    """
    with heard():
        built = build(content)
        watch = watched(built.model, built.length)
    found: dict[str, RotatedRows] = {}
    known: dict[Any, dict[str, RotatedRows]] = {}
    for call in watch.calls.values():
        if call.turn is None:
            continue
        module, turn, scope = built.model.get_submodule(call.name), call.turn, f"{call.name}."
        sizes = tuple((name, tuple(each.shape)) for name, each in module.named_parameters())
        kind = type(module), sizes, turn.head_dim, turn.first, turn.rotary_dim, turn.layout  # layers of one are alike
        if kind not in known:
            rows = _rows_of(call, watch)
            if any(not name.startswith(scope) for name in rows):
                raise LocantError(f"{built.name} makes queries or keys of {call.name} of weights outside of it.")
            known[kind] = {name.removeprefix(scope): each for name, each in rows.items()}
        found |= {scope + name: each for name, each in known[kind].items()}
    return found


def _rows_of(call: Call, watch: Watch) -> dict[str, RotatedRows]:
    """Return the rows of one layer by the names of its parameters."""
    turn, found = call.turn, dict[tuple[str, int, int, RotaryLayout], set[int]]()
    if turn is None or turn.layout is None:
        raise LocantError(f"{call.name} moves features otherwise than by turning pairs.")
    for head in (*call.heads[0], *call.heads[1]):
        is_product = False
        block = head[turn.first : turn.first + turn.rotary_dim]
        for labelled, start, layout in origins(block, turn.layout, watch.labels.get(call.name, ())):
            is_product = labelled.is_product
            for weight in labelled.weights:
                place = weight.name, weight.axis, weight.size, layout
                found.setdefault(place, set()).add(weight.offset + (start if is_product else start % weight.size))
        if not is_product:
            raise LocantError(f"The rotated features of {call.name} do not stand in rows of a weight of their own.")
    rows = {
        name: RotatedRows(axis, size, tuple(sorted(starts)), turn.rotary_dim, layout)
        for (name, axis, size, layout), starts in found.items()
    }
    if len(rows) < len(found):
        raise LocantError(f"A weight of {call.name} serves heads that are paired differently.")
    return rows
