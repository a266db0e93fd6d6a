"""The facts of how the loader of llama.cpp reads the files of every architecture, generated from its sources.

``keys.json`` is written by ``tests/support/zoo/gguf_keys.py``: the keys about positions that the loader reads for every
architecture, and for one alone; those without which it loads no file; the architectures whose loader overrides
``attention.causal``, whose loader reads a base of sliding attention that the graph does not ask for, whose graph asks
each layer how many features it rotates, or sliding attention alone, whose layers may have no heads, that have no cache
of keys and values, that have a memory of states beside it (and those of which it has the layers without heads), and
whose keys must be as long as values; and what graphs rotate of the heads of indexers.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


@functools.cache
def loader_facts() -> Mapping[str, Any]:
    """Return all that is stored."""
    stored: dict[str, Any] = json.loads((Path(__file__).parent / "keys.json").read_text(encoding="utf-8"))
    return stored


def architectures_that_read(key: str) -> frozenset[str]:
    """Return the architectures of which llama.cpp reads a key, where it does not read it of all."""
    return frozenset(name for name, keys in loader_facts()["architectures"].items() if key in keys)


def needed_by(architecture: str) -> tuple[str, ...]:
    """Return the keys about positions of an architecture without which llama.cpp loads no file."""
    return tuple(loader_facts()["needed"].get(architecture, ()))
