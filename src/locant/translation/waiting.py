"""Sentences that wait for a continuous search and those that are in it, and the room that there is for them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from locant.errors import ConfigError
from locant.models.decoding_settings import DecodingSettings
from locant.translation.batching import counted_tokens
from locant.translation.compiled_search import Searched


@dataclass(frozen=True, eq=False)
class Request(Searched):
    """A sentence to be translated; see :meth:`~locant.translation.ContinuousSearch.add`."""

    load: Load


class Load(NamedTuple):
    """What a sentence takes of the room there is: rows, and tokens of the budget ``batch_tokens``."""

    rows: int
    tokens: int

    @classmethod
    def of(cls, tokens: int, settings: DecodingSettings) -> Load:
        """Return what a source of so many tokens takes."""
        return cls(settings.rows, counted_tokens(tokens, settings))


class Room:
    """The room there is for sentences, and what those that are in it take of it.

    Args:
        rows: How many rows there are.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._sentences = self._taken_rows = self._taken_tokens = 0

    def put(self, load: Load, sentences: int = 1) -> None:
        """Put in a sentence, or take it out again where ``sentences`` is -1."""
        self._sentences += sentences
        self._taken_rows += sentences * load.rows
        self._taken_tokens += sentences * load.tokens

    def fits(self, load: Load, settings: DecodingSettings) -> bool:
        """Return whether another sentence fits beside those that are in it; it does where there is none."""
        if not self._sentences:
            return True
        rows, tokens = self._taken_rows + load.rows, self._taken_tokens + load.tokens
        return rows <= self._rows and tokens <= settings.batch_tokens


class Line:
    """Sentences that wait, in the order in which they came, and those that run."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._waiting: dict[Hashable, Request] = {}
        self._running: dict[Hashable, Request] = {}
        self._room = Room(rows)  # with all that wait or run
        self._latest = DecodingSettings()

    def add(
        self,
        key: Hashable,
        source: list[int],
        max_length: int,
        prefix: Sequence[int],
        settings: DecodingSettings,
    ) -> None:
        """Add a sentence; see :meth:`~locant.translation.ContinuousSearch.add`."""
        if key in self._waiting or key in self._running:
            raise ConfigError(f"There is a sentence with the key {key!r} already, which is not finished yet.")
        self._latest = settings
        load = Load.of(len(source), settings)
        self._waiting[key] = Request(source, max_length, tuple(prefix), settings, load)
        self._room.put(load)

    def has_room(self, tokens: int) -> bool:
        """Return whether a source fits besides; see :meth:`~locant.translation.ContinuousSearch.has_room`."""
        return self._room.fits(Load.of(tokens, self._latest), self._latest)

    def _leave(self, sentences: dict[Hashable, Request], key: Hashable) -> bool:
        """Take a sentence out of those that wait or run; returns whether it was there."""
        request = sentences.pop(key, None)
        if request is not None:
            self._room.put(request.load, -1)
        return request is not None

    @property
    def active(self) -> int:
        """Number of sentences that wait or run."""
        return len(self._waiting) + len(self._running)
