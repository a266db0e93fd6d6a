"""Tables of positions with an end, which limit the texts that a class of transformers computes.

``position_tables.json`` is generated from the classes of transformers 5.24 (``tests/support/zoo/position_tables.py``):
small models are given longer and longer texts, until one fails.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locant.rotary_configs.spellings import is_count


@dataclass(frozen=True)
class PositionTable:
    """The table of positions of a model.

    Attributes:
        entry: The entry that says how large it is.
        stated: What the file, or the class, has there.
        tokens: The longest text, in tokens: some tables have rows that no token of a text has.
    """

    entry: str
    stated: int
    tokens: int

    def in_words(self) -> str:
        """Return the longest text in words: "512 tokens, by max_position_embeddings 514"."""
        by = self.entry if self.stated == self.tokens else f"{self.entry} {self.stated}"
        return f"{self.tokens} tokens, by {by}"


def position_table(part: Mapping[str, Any], name: str, defaults: Mapping[str, Any]) -> PositionTable | None:
    """Return the table that the class of a file makes with its usual switches, ``None`` where it has none with an end.

    Args:
        part: The text part of config.json.
        name: Its model type.
        defaults: What its class has where the file leaves an entry out.
    """
    stored = _tables().get(name)
    if stored is None:
        return None
    entry, more, *counted_from = stored
    stated = part.get(entry, defaults.get(entry))
    first = [part.get(each, defaults.get(each)) for each in counted_from]
    if not is_count(stated) or not all(isinstance(each, int) for each in first):
        return None
    return PositionTable(entry, stated, stated + more - sum(first))


@functools.cache
def _tables() -> Mapping[str, Any]:
    stored: dict[str, Any] = json.loads((Path(__file__).parent / "position_tables.json").read_text(encoding="utf-8"))
    return stored
