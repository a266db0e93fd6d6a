"""The rows of a model's weights that become rotated features of queries and keys, found by asking its class."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from locant.errors import LocantError
from locant.extension.inspect.model_class.observe import AttentionCall, watch
from locant.extension.inspect.model_class.small_model import quiet
from locant.extension.layouts.low_rank import LowRankLinear
from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.positions.rotary.rotation import layout_order

if TYPE_CHECKING:
    from torch import Tensor, nn

_SAME = 1e-4  # of the largest feature


@dataclass(frozen=True)
class RotatingLayer:
    """The attention of a layer that rotates.

    Attributes:
        name: Name of its module in the class.
        config: What it rotates by.
        head_dim: Features of a query.
        first: The first rotated one.
        layout: How the rows of its projections are paired.
        gathered: How its queries are, when they are rotated: some classes make halves of neighbours before.
    """

    name: str
    config: RotaryConfig
    head_dim: int
    first: int
    layout: RotaryLayout
    gathered: RotaryLayout

    @property
    def rotary_dim(self) -> int:
        """Number of rotated features of a head."""
        assert self.config.rotary_dim is not None
        return self.config.rotary_dim

    @property
    def scope(self) -> str:
        """Name of the layer that the attention is a part of, with a dot, or nothing."""
        found = re.match(r"(.*?\.\d+\.)", self.name)
        return found[1] if found else ""


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

    def order(self, target: RotaryLayout) -> list[int]:
        """Return where each row of a block in another layout is found in this one."""
        found: list[int] = layout_order(self.count, source=self.layout, target=target).tolist()
        return found

    def permuted(self, tensor: Tensor, target: RotaryLayout) -> Tensor:
        """Return a tensor in another layout."""
        index = torch.arange(self.size)
        order = torch.tensor(self.order(target))
        for start in self.starts:
            index[start : start + self.count] = start + order
        return tensor.index_select(self.axis, index.to(tensor.device))


def rotated_rows(model: nn.Module, layers: Sequence[RotatingLayer]) -> dict[str, RotatedRows]:
    """Find the rows of all tensors that become rotated features, and make sure that nothing else comes of them.

    The derivatives of the first, second, middle and last rotated feature of every head say which rows they come from.
    Layers of one class and of the same sizes are alike, so one of them is asked. Then all blocks of the model change
    their order, and queries, keys and values must be those of before, in the new order.

    Args:
        model: From :func:`~locant.extension.layouts.low_rank.build_low_rank`.
        layers: The layers that rotate, as they were observed.

    Returns:
        The rows by the names of the class's parameters.

    Raises:
        LocantError: The features of a head do not stand in rows of their own, or something else than queries and keys
            comes of them.
    """
    calls, row = _calls(model)
    found: dict[str, RotatedRows] = {}
    known: dict[tuple[object, ...], dict[str, RotatedRows]] = {}
    for layer in layers:
        kind = _kind(model, layer)
        if kind not in known:
            known[kind] = _of_layer(model, layer, calls[layer.name], row)
        for name, rows in known[kind].items():
            full = layer.scope + name
            if found.setdefault(full, rows) != rows:
                raise LocantError(f"{full} serves layers that rotate differently, so its rows have no single layout.")
    for layout in {layer.layout for layer in layers}:
        chosen = {name: rows for name, rows in found.items() if rows.layout == layout}
        other = other_layout(layout)
        permute_rows(model, chosen, other)
        with torch.no_grad():
            after, _ = _calls(model)
        permute_rows(model, in_layout(chosen, other), layout)
        for layer in layers:
            if layer.layout == layout:
                _compare(model, layer, calls[layer.name], after[layer.name], row)
    return found


def other_layout(layout: RotaryLayout) -> RotaryLayout:
    """Return the other layout."""
    return "half" if layout == "interleaved" else "interleaved"


def in_layout(rows: Mapping[str, RotatedRows], layout: RotaryLayout) -> dict[str, RotatedRows]:
    """Return the same rows of weights that are in another layout."""
    return {name: replace(each, layout=layout) for name, each in rows.items()}


def _calls(model: nn.Module) -> tuple[dict[str, AttentionCall], int]:
    """Return what all attention modules attend with, and the row of a token that is not rotated."""
    with quiet():
        recorder, rows = watch(model, (0, 1, 2))
    return recorder.calls, rows.index(0)


def _kind(model: nn.Module, layer: RotatingLayer) -> tuple[object, ...]:
    shapes = tuple((name, tuple(tensor.shape)) for name, tensor, _ in _tensors(model, layer.scope))
    return (
        type(model.get_submodule(layer.name)),
        replace(layer, name=layer.name.removeprefix(layer.scope)),
        shapes,
    )


def _tensors(model: nn.Module, scope: str) -> Iterator[tuple[str, Tensor, Iterable[int]]]:
    """Yield the parameters of a layer, their names in it, and axes that may hold features.

    Of a weight of low rank it is the left part, which has a row for every row of the weight.
    """
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if not name.startswith(scope) or name.endswith(".right") or not parameter.is_floating_point():
            continue
        inner = name.removeprefix(scope)
        if inner.endswith(".left"):
            yield f"{inner.removesuffix('.left')}.weight", parameter, (0,)
        else:
            yield inner, parameter, range(parameter.ndim)


def _of_layer(model: nn.Module, layer: RotatingLayer, call: AttentionCall, row: int) -> dict[str, RotatedRows]:
    tensors = {name: (tensor, axes) for name, tensor, axes in _tensors(model, layer.scope)}
    count = layer.rotary_dim
    # Where the features of a head at the attention function stand among the rows.
    order = layout_order(count, source=layer.layout, target=layer.gathered).tolist()
    asked = sorted({0, 1, count // 2, count - 1})
    places = [order[feature] for feature in asked]
    starts: dict[tuple[str, int], set[int]] = {}
    if not (call.query.requires_grad and call.key.requires_grad):
        raise LocantError(
            f"{type(model).__name__} keeps no derivatives in {layer.name}, by which alone it says which rows of its "
            "weights become rotated features. Such weights are not converted."
        )
    for features in (call.query[0, :, row], call.key[0, :, row]):
        every: set[frozenset[tuple[str, int]]] = set()
        for head in features:
            probed = [head[layer.first + feature] for feature in asked]
            here = {
                (name, axis): start
                for name, (tensor, axes) in tensors.items()
                for axis, start in _starts(probed, tensor, axes, places)
            }
            every.add(frozenset(here))
            for key, start in here.items():
                starts.setdefault(key, set()).add(start)
        if len(every) != 1 or frozenset() in every:
            raise LocantError(
                f"The rotated features of {type(model).__name__} do not come from rows of their own in the weights of "
                f"{layer.name}, so these have no order that could be changed."
            )
    found: dict[str, RotatedRows] = {}
    for (name, axis), blocks in starts.items():
        ordered = tuple(sorted(blocks))
        shared = any(after - before < count for before, after in pairwise(ordered))
        if shared or name in found:
            raise LocantError(f"Rotated features of several heads share rows of {layer.scope}{name}.")
        found[name] = RotatedRows(axis, tensors[name][0].shape[axis], ordered, count, layer.layout)
    return found


def _starts(
    probed: Sequence[Tensor], tensor: Tensor, axes: Iterable[int], places: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield the axes of a tensor along which features come from rows of their own, with the first row of their head.

    A feature's own row is the one by which it changes most. A norm lets the others of its head have a part in it as
    well, which is smaller by the number of features.
    """
    gradients = []
    for feature in probed:
        (gradient,) = torch.autograd.grad(feature, tensor, retain_graph=True, allow_unused=True)
        if gradient is None:
            return
        gradients.append(gradient.square())
    for axis in axes:
        others = [each for each in range(tensor.ndim) if each != axis]
        found = [int((each.sum(others) if others else each).argmax()) for each in gradients]
        start = found[0] - places[0]
        if start >= 0 and [start + place for place in places] == found:
            yield axis, start


def permute_rows(model: nn.Module, found: Mapping[str, RotatedRows], target: RotaryLayout) -> None:
    """Give the parameters of a model another layout.

    Args:
        model: Of low rank, or one with whole weights.
        found: The rows, in the layout that they have.
        target: The layout.
    """
    with torch.no_grad():
        for name, rows in found.items():
            owner, _, last = name.rpartition(".")
            module = model.get_submodule(owner)
            tensor = module.left if isinstance(module, LowRankLinear) and last == "weight" else getattr(module, last)
            tensor.copy_(rows.permuted(tensor, target))


def _compare(model: nn.Module, layer: RotatingLayer, before: AttentionCall, after: AttentionCall, row: int) -> None:
    """Compare queries, keys and values, before and after the order of the rows was changed."""
    moved = layout_order(layer.rotary_dim, source=layer.layout, target=other_layout(layer.layout))
    places = layout_order(layer.rotary_dim, source=layer.layout, target=layer.gathered)
    index = torch.arange(layer.head_dim)
    index[layer.first : layer.first + layer.rotary_dim] = layer.first + places.argsort()[moved[places]]
    pairs = {
        "queries": (before.query[..., index], after.query),
        "keys": (before.key[..., index], after.key),
        "values": (before.value, after.value),
    }
    for what, (old, new) in pairs.items():
        if old is None or new is None:
            continue
        old, new = old[0, :, row], new[0, :, row]
        if (old - new).abs().max() > _SAME * old.abs().max():
            shared = " Keys are values there as well, as it seems." if what == "values" else ""
            raise LocantError(
                f"{type(model).__name__} makes something else of the rows of rotated features in {layer.name}: with "
                f"another order of them its {what} are not those of before.{shared} Such weights are not converted."
            )
