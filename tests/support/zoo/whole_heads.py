"""Widths that the heads of a class do not divide, and of which it makes no model: asked with models without numbers."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from locant.extension.inspect.model_class.inputs import text_inputs
from locant.extension.inspect.model_class.small_model import model_class, quiet
from locant.rotary_configs.spellings import HEADS, LAYERS, WIDTHS, is_count

_WIDTHS = (*WIDTHS, "dim", "emb_dim")
_HEADS = ("attention_heads", *HEADS)
_HEADS_OF_STACKS = ("encoder_attention_heads", "decoder_attention_heads")
_LAYERS = {*LAYERS, "encoder_layers", "decoder_layers"}
_ODD = (3, 5, 7, 11, 13)
_TOKENS = 8


def whole_heads(config_class: Any) -> list[list[Any]]:
    """Return widths and numbers of heads with which a class computes no text where one is no multiple of the other.

    Each is the names of the width, with its default, and those of the number of heads, with that of it. Classes that
    take such a number all the same, as their heads have a size of their own, have none.

    Args:
        config_class: The configuration's class.
    """
    fields = getattr(config_class, "__dataclass_fields__", {})
    others = getattr(config_class, "attribute_map", {})
    usual = {
        name: getattr(config_class, name, None) for name in (*_WIDTHS, *_HEADS, *_HEADS_OF_STACKS) if name in fields
    }
    found = []
    for width, heads in _pairs(usual):
        known = {*_WIDTHS, *_HEADS, *_HEADS_OF_STACKS}
        names = [
            [name, *sorted(other for other, own in others.items() if own == name != other and other in known)]
            for name in (width, heads)
        ]
        few = dict.fromkeys(_LAYERS & fields.keys(), 1)
        if any(_needs_whole_heads(config_class, rest, usual[width], heads) for rest in (few, {})):
            found.append([names[0], usual[width], names[1], usual[heads]])
    return found


def _pairs(usual: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the width of a class with each number of heads that divides it."""
    width = next((name for name in _WIDTHS if is_count(usual.get(name))), None)
    for heads in (*_HEADS, *_HEADS_OF_STACKS):
        if width and is_count(usual.get(heads)) and usual[width] % usual[heads] == 0:
            yield width, heads


def _needs_whole_heads(config_class: Any, rest: Mapping[str, Any], width: int, heads: str) -> bool:
    """Whether a class computes with numbers of heads that divide the width, and not with one that does not."""
    whole = [count for count in (2, 4) if width % count == 0]
    other = next((count for count in _ODD if width % count), None)
    if not whole or other is None or not all(computes(config_class, {**rest, heads: each}) for each in whole):
        return False
    return not computes(config_class, {**rest, heads: other})


def computes(config_class: Any, entries: Mapping[str, Any]) -> bool:
    """Whether a class makes a model of entries, and computes a text with it where it reads one.

    Args:
        config_class: The configuration's class.
        entries: Entries of it.
    """
    try:
        with quiet(), torch.no_grad(), FakeTensorMode():
            config = config_class(**copy.deepcopy(dict(entries)))
            config._attn_implementation = "eager"
            found = model_class(config_class)
            if found is None:
                return False
            model = found(config).eval()
            accepted = inspect.signature(model.forward).parameters
            if "input_ids" in accepted:
                model(**text_inputs(accepted, range(_TOKENS), None))
    except Exception:  # whatever a class raises
        return False
    return True
