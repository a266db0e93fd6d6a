"""The catalogue of errata, in the order of the pages, and what the same texts say rightly."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locant.errors import UsageError, nearest
from locant.figures.errata.entry import Erratum
from locant.figures.errata.transformer_values import TRANSFORMER_VALUES
from locant.figures.errata.values import VALUES


@dataclass(frozen=True)
class Topic:
    """Errata that belong together.

    Attributes:
        key: Its anchor on the pages.
        title: Heading.
        entries: The errata.
    """

    key: str
    title: str
    entries: tuple[Erratum, ...]


_DATA = tomllib.loads(Path(__file__).with_name("errata.toml").read_text(encoding="utf-8"))
_VALUES = VALUES | TRANSFORMER_VALUES


def _entry(data: dict[str, Any]) -> Erratum:
    return Erratum(**{**data, "figures": tuple(data["figures"])}, values=_VALUES[data["key"]])


TOPICS: tuple[Topic, ...] = tuple(
    Topic(topic["key"], topic["title"], tuple(map(_entry, topic["entries"]))) for topic in _DATA["topics"]
)
"""All errata, by topic."""

RIGHTLY_SAID: tuple[tuple[str, tuple[str, ...]], ...] = tuple(
    (said["text"], tuple(said["figures"])) for said in _DATA["rightly_said"]
)
"""What the same texts say rightly, each with the figures that show it."""


def get_erratum(key: str) -> Erratum:
    """Return an erratum.

    Args:
        key: Its key, such as ``e4``.

    Raises:
        UsageError: There is none of this key.

    Example:
        >>> get_erratum("e4").values()[0].computed_text
        '0.0464'
    """
    known = {entry.key: entry for topic in TOPICS for entry in topic.entries}
    if key.lower() not in known:
        raise UsageError(f"There is no erratum '{key}'.{nearest(key, known)} They run from e1 to e{len(known)}.")
    return known[key.lower()]
