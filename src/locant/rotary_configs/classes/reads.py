"""Entries that look as if they were about positions, and whether the code of a class of transformers mentions them.

``reads.json`` is generated from the sources of transformers 5.24 (``tests/support/zoo/reads.py``): names that the
class of a configuration, and the models that take it, read of it; apart from them those that they read for modules
alone which they make and never use.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from locant.rotary_configs.spellings import HEAD_SIZES, LENGTHS, ROTARY, is_about_positions, words_of

_WORDS = frozenset(
    ["nope", "mrope", "alibi", "theta", "yarn", "ntk", "logn", "pos", "position", "positions", "positional"]
)
_LAYERS = frozenset(["layer", "layers", "block", "blocks", "attn", "attention", "hybrid", "full", "global", "local"])
_KINDS = frozenset(["type", "types", "pattern", "interval", "period", "every", "idxs", "indices", "offset"])
_LENGTH = frozenset(["length", "len", "ctx", "seqlen"])
_TEXT = frozenset(["context", "ctx", "seq", "sequence", "training", "train"])
_OF_OTHERS = """
vision visual image img images video audio speech mel mm patch spatial temporal vq codec
mlp moe ffn expert experts mtp router gate loss quant quantization bits dropout bias norm std init eps
token tokens id ids vocab mask pad mamba ssm conv linear index indexer v value cross eval time mode tp pp cp
implementation prefix suffix classifier decoding generation feed forward
"""
_OTHERS = frozenset(_OF_OTHERS.split())
_IN_SPITE = frozenset(["conv", "pad", "bias"])  # of positions, or heads, by their other words


def is_of_positions(name: str) -> bool:
    """Whether an entry looks, by the words of its name, as if it were about positions, windows or kinds of layers."""
    words = words_of(name)
    is_of_head = {"head", "dim"} <= words or name in HEAD_SIZES
    if name in LENGTHS or words & _OTHERS - (_IN_SPITE if words & _WORDS or is_of_head else frozenset()):
        return False
    return (
        bool(words & (_WORDS | ROTARY))
        or is_of_head
        or is_about_positions(name)
        or bool(words & _LAYERS and words & _KINDS)
        or bool(words & _LENGTH and words & _TEXT)
    )


def read_by_class(model_type: str, part: Mapping[str, Any] | None = None) -> frozenset[str] | None:
    """Return which entries that look so the class of a model type reads, ``None`` where that is not known.

    Args:
        model_type: The model type.
        part: The entries of a file, by which the class may not need some of them.
    """
    each = _by_type().get(model_type)
    if each is None:
        return None
    read = frozenset(each["reads"])
    for name, values in each.get("unread", {}).items() if part is not None else ():
        value = part.get(name) if part is not None else None
        read -= frozenset(values.get(value, ()) if isinstance(value, str) else ())
    return read


def read_for_nothing(model_type: str) -> frozenset[str]:
    """Return which such entries the class of a model type reads for modules alone that it makes and never uses.

    Args:
        model_type: The model type.
    """
    return frozenset(_by_type().get(model_type, {}).get("idle", ()))


@functools.cache
def _by_type() -> Mapping[str, Mapping[str, Any]]:
    stored: list[dict[str, Any]] = json.loads((Path(__file__).parent / "reads.json").read_text(encoding="utf-8"))
    return {name: each for each in stored for name in each["of"]}
