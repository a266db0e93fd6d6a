"""The axis of an image's or a video's positions that turns each pair, as the class of a model does it."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import torch

from locant.extension.inspect.model_class.inputs import text_inputs
from locant.extension.inspect.model_class.observe import WARM_UP, ObservedLayer, watch
from locant.rotary_configs.axes import AxisOrder, several_axes

if TYPE_CHECKING:
    from torch import Tensor, nn

FAR = 1009
"""A position in tokens at which slow pairs have moved too."""
_MOVED = 1e-5  # of a pair's length


def takes_axes(own: type[Any], *, stated: bool = False) -> bool:
    """Whether the code of a class takes positions of several axes; whether it asks the file for their sections.

    Args:
        own: A class of transformers, whose folder holds the code of the model.
        stated: Whether only code counts that asks for ``mrope_section``.
    """
    folder = Path(sys.modules[own.__module__].__file__ or "").parent
    words = r'"mrope_section"' if stated else r'"mrope_section"|position_ids.expand\(\d'
    return any(re.search(words, each.read_text(encoding="utf-8")) for each in folder.glob("modeling_*.py"))


def axes_of_class(model: nn.Module, layers: Sequence[ObservedLayer]) -> dict[str, Any] | None:
    """Return the sections that a class takes where none are stated, and how they share out the pairs.

    Args:
        model: A small model of the class.
        layers: What its layers were seen to do with text.

    Returns:
        ``sections``, or the number of axes that have ``equal`` parts, and the ``order`` of
        :mod:`~locant.rotary_configs.axes`; ``None`` where the class takes no positions of several axes.
    """
    rotating = next((layer for layer in layers if layer.rotation is not None and layer.rotation.layout), None)
    if rotating is None or rotating.rotation is None or not takes_axes(type(model)):
        return None
    found: Any = next((each.mrope_section for each in model.modules() if hasattr(each, "mrope_section")), None)
    stated: Sequence[int] | None = next(iter(found.values())) if isinstance(found, dict) else found
    pairs = rotating.rotation.rotary_dim // 2
    for axes in (len(stated),) if stated else (2, 3, 4):
        seen = turning_axes(model, rotating, pairs, axes)
        if seen is None:
            continue
        sizes = stated or [sum(axis in each for each in seen) for axis in range(axes)]
        share: dict[str, Any] = {"sections": list(sizes)} if stated else {"equal": axes}
        for order in get_args(AxisOrder):
            if order != "mixed" and (len(sizes) == 3 or order != "space first"):
                read = several_axes(sizes, order, pairs)["axis_of_pair"]
                if [{axis} for axis in read] == seen:
                    return {**share, "order": order}
        return {**share, "order": "mixed"}
    return None


def turning_axes(model: nn.Module, layer: ObservedLayer, pairs: int, axes: int) -> list[set[int]] | None:
    """Return by which axes each pair of a layer turns, ``None`` where the class takes no positions of so many axes.

    Args:
        model: The model.
        layer: Its first layer that rotates, as seen with text: what comes before it does not depend on positions.
        pairs: Pairs that it rotates.
        axes: Number of axes.
    """
    rotation = layer.rotation
    assert rotation is not None
    for embedded in (None, model):  # of a text, or of its embeddings where the class has none of its own
        try:
            turned = [_query(model, axis, layer.name, axes, embedded) for axis in (None, *range(axes))]
            break
        except (RuntimeError, ValueError, IndexError, TypeError, AttributeError):
            continue
    else:
        return None
    blocks = [
        each[0, :, -1, rotation.first : rotation.first + 2 * pairs].double() for each in turned if each is not None
    ]
    if len(blocks) <= axes:
        return None
    halves = [
        block.chunk(2, -1) if rotation.layout == "half" else (block[..., 0::2], block[..., 1::2]) for block in blocks
    ]
    vectors = [torch.stack(each) for each in halves]  # [2, H, pairs]
    return [
        {
            axis
            for axis, each in enumerate(vectors[1:])
            if (each[..., pair] - vectors[0][..., pair]).norm() > _MOVED * vectors[0][..., pair].norm()
        }
        for pair in range(pairs)
    ]


def _query(model: nn.Module, axis: int | None, name: str, axes: int, embedded: nn.Module | None) -> Tensor | None:
    """Return the queries of a layer whose last token is far away on one axis, and whose others are at 0."""
    positions = torch.zeros((axes, 1, WARM_UP + 2), dtype=torch.long)
    if axis is not None:
        positions[axis, :, -1] = FAR
    text = text_inputs(inspect.signature(model.forward).parameters, range(WARM_UP + 2), embedded)
    if "position_ids" not in text:
        return None
    recorder, _ = watch(model, (0, FAR), {**text, "position_ids": positions})
    call = recorder.calls.get(name)
    return None if call is None else call.query
