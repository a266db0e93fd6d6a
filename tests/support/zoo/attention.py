"""Masks and positions of several axes, as the attention of a model of transformers sees them."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from locant.extension.inspect.model_class.observe import ATTENTION, ObservedLayer
from locant.extension.inspect.model_class.turning_axes import FAR, turning_axes
from locant.rotary_configs.base import ParsedConfig

if TYPE_CHECKING:
    from torch import Tensor, nn

_NAME = "zoo_recorded"
_LENGTH = 20  # tokens, more than any window that is drawn
_SLOW = 1e-4  # radians that do not show


@dataclass(frozen=True)
class _Seen:
    name: str
    layer: int | None
    query: Tensor
    mask: Tensor | None


_seen: list[_Seen] = []
_names: dict[int, str] = {}


def _record(module: Any, query: Tensor, key: Tensor, value: Tensor, *args: Any, **options: Any) -> Any:
    mask = args[0] if args else options.get("attention_mask")
    name = _names.get(id(module), "")
    numbers = re.findall(r"(?:^|\.)(\d+)(?=\.|$)", name)
    _seen.append(_Seen(name, int(numbers[0]) if numbers else None, query.detach(), mask))
    batch, heads, length, _ = query.shape
    return query.new_zeros(batch, length, heads, value.shape[-1]), None


@torch.no_grad()
def _run(model: nn.Module, inputs: dict[str, Any]) -> list[_Seen]:
    """Return what the attention layers of a model see; nothing of classes that compute their own attention."""
    from transformers import AttentionInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

    AttentionInterface.register(_NAME, _record)
    AttentionMaskInterface.register(_NAME, ALL_MASK_ATTENTION_FUNCTIONS["eager"])
    configs = {id(config): config for each in model.modules() if (config := getattr(each, "config", None)) is not None}
    observed = [each for each in configs.values() if getattr(each, "_attn_implementation", None) == ATTENTION]
    _seen.clear()
    _names.clear()
    _names.update({id(module): name for name, module in model.named_modules()})
    accepted = inspect.signature(model.forward).parameters
    given = {**inputs, "decoder_input_ids": inputs["input_ids"], "use_cache": False}
    for each in observed:
        each._attn_implementation = _NAME
    try:
        model(**{name: value for name, value in given.items() if name in accepted})
    finally:  # the axes are asked by the observed attention
        for each in observed:
            each._attn_implementation = ATTENTION
    return list(_seen)


def window_differences(parsed: ParsedConfig, model: nn.Module) -> list[str] | None:
    """Return where the masks of a model have other windows than were read; ``None`` where no mask shows.

    Args:
        parsed: The reading.
        model: The model, with windows of less than twenty tokens.
    """
    found, compared = [], False
    # An indexer hides tokens by what they say: with a few of them hidden, its masks look like windows by chance.
    shown = (kind for kind in parsed.layers if kind.attends and kind.name != "indexed_attention")
    windows = {index: kind.window for kind in shown for index in kind.layers}
    for each in _run(model, {"input_ids": torch.full((1, _LENGTH), 7)}):
        if each.mask is None or each.mask.shape[-2:] != (_LENGTH, _LENGTH) or each.layer not in windows:
            continue
        compared = True
        window, read = _looks_back(each.mask), windows[each.layer]
        if window != (None if read is None or read >= _LENGTH else read):
            found.append(f"layer {each.layer}: window {read}, but the class: {window}")
    return found if compared else None


def _looks_back(mask: Tensor) -> int | None:
    """Return how many tokens the widest row of a mask looks back over, itself among them, ``None`` for all of them."""
    rows = mask[0, 0]
    allowed = rows if rows.dtype == torch.bool else rows > torch.finfo(rows.dtype).min / 2
    widths = [index + 1 - int(row.nonzero()[0]) for index, row in enumerate(allowed) if row.any()]
    widest = max(widths, default=0)  # a window of no tokens hides every one
    return widest if widest < len(rows) else None


def axis_differences(parsed: ParsedConfig, model: nn.Module, layers: list[ObservedLayer]) -> list[str] | None:
    """Return which pairs another axis turns than was read; ``None`` where the class takes no positions of axes.

    Only the first layer that rotates is asked: what comes before it does not depend on positions.

    Args:
        parsed: The reading.
        model: The model.
        layers: What its layers were seen to do with text.
    """
    rotating = next((each for each in layers if each.rotation is not None and each.rotation.layout), None)
    config = None if rotating is None or rotating.layer is None else parsed.of_layer(rotating.layer)
    if rotating is None or config is None or config.rotary_dim is None:
        return None
    kind = next((kind.config for kind in parsed.layers if rotating.layer in kind.layers), None)
    read = parsed.multimodal.get(kind or "", parsed.multimodal.get("all"))
    if read and read["axis_of_pair"] is None:
        return None
    seen = turning_axes(model, rotating, config.rotary_dim // 2, len(read["sections"]) if read else 3)
    if seen is None:
        return None
    expected = read["axis_of_pair"] if read else [None] * len(seen)
    return [
        f"pair {pair} turns by the axis {axis}, but the class: {sorted(moves)}"
        for pair, (axis, moves, frequency) in enumerate(zip(expected, seen, config.frequencies(1), strict=True))
        if abs(float(frequency)) * FAR > _SLOW and moves != {axis}
    ]
