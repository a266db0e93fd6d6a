"""Continuous batching: sentences join the search, and leave it when they are finished, at any step.

A server gets sentences from many clients at any time. Where a batch had to be finished before the next one begins, each
sentence would wait for the longest of the batch before its own, and at last only a few would be left of a batch. Here
the places of those that are finished are taken by new ones at once (Yu et al. 2022, "Orca", section 3.1: scheduling by
iterations).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

import torch

from locant.errors import ConfigError, DataError, LocantError
from locant.models.decoding_settings import DecodingSettings
from locant.translation.batching import require_ids, require_sentences
from locant.translation.compiled import CompiledEngine
from locant.translation.compiled_search import INTERVAL, CompiledSearch
from locant.translation.engines import Engine
from locant.translation.hypotheses import Hypothesis
from locant.translation.sampling import Pausing, samples
from locant.translation.waiting import Line, Request, Room

# More searches beside each other would wait for Python more often than for the kernels.
_MOST_SEARCHES = 4

# Steps of a search that has no room, after which it is seen what was cancelled meanwhile, as after each INTERVAL. While
# long sentences are encoded, the others take a step after each such time, which is enough to encode those of a batch.
_STEPS = 8

# The part of the sentences that run for whose end those that wait wait together: encoding them together, and telling of
# several ends at once, takes less time than one by one.
_TOGETHER = 2

Outcome = list[Hypothesis] | LocantError
"""The hypotheses of a sentence, best first, or why there are none."""


class ContinuousSearch(Protocol):
    """Translates sentences that come and go.

    One thread calls it; it has no threads of its own but the kernels'. A sentence that has been added waits until the
    next step at which it fits beside those that run: there are never more hypotheses than ``rows``, and when it begins
    no more tokens than its ``settings.batch_tokens``, unless it is alone. Sentences begin in the order in which they
    came.
    """

    def add(
        self,
        key: Hashable,
        source: list[int],
        max_length: int,
        prefix: Sequence[int],
        settings: DecodingSettings,
    ) -> None:
        """Add a sentence; what is wrong with it :meth:`step` says.

        Args:
            key: What the caller knows it by.
            source: Source ids as the encoder reads them, EOS included.
            max_length: Most target tokens, EOS included, at least 1.
            prefix: Target ids that the decoder reads before it writes, at least one; no part of the hypotheses.
            settings: Beam, length penalty, number of hypotheses and size of a batch; where they sample, the sentence
                is drawn like the first one of a text of its own.

        Raises:
            ConfigError: A sentence with the same key has not been finished yet.
        """

    def remove(self, key: Hashable) -> None:
        """Drop a sentence, whether it waits or runs; a key that is not known is ignored."""

    def has_room(self, tokens: int) -> bool:
        """Return whether another source of so many tokens, with the settings of the last, would begin at once."""

    def step(self, sharing: int = 1, waiting: int = 0) -> list[tuple[Hashable, Outcome]]:
        """Take one decoding step of all sentences that run, or some where there is no room for another before one ends.

        Args:
            sharing: How many searches take steps at this time, this one included: each has its part of the threads.
            waiting: How many sentences the caller would add were there room: some steps may make room for several.

        Returns:
            The sentences that are finished: their keys, and their hypotheses or what went wrong with them alone.
        """

    @property
    def active(self) -> int:
        """Number of sentences that wait or run."""


def continuous_search(engine: Engine, *, rows: int) -> ContinuousSearch:
    """Return a continuous search with an engine.

    Any engine will do. One that cannot take new sentences between two steps translates those that wait batch by batch,
    and a step then lasts as long as the translation of a batch.

    Args:
        engine: What computes.
        rows: The most hypotheses that are decoded at once; a sentence has as many as its beam is wide.

    Raises:
        ConfigError: ``rows`` is not positive.
    """
    if rows < 1:
        raise ConfigError(f"A continuous search must decode at least 1 hypothesis at once; got rows={rows}.")
    return _StepByStep(engine, rows) if isinstance(engine, CompiledEngine) else _BatchByBatch(engine, rows)


def searches_at_once(engine: Engine) -> int:
    """Return how many continuous searches with an engine are worth running beside each other, each in a thread.

    Where there are many sentences, each search has its own ones and a part of the processors, and none waits for the
    others or for what Python does between two steps of theirs.

    Args:
        engine: What computes.
    """
    return min(engine.model.threads, _MOST_SEARCHES) if isinstance(engine, CompiledEngine) else 1


def rows_at_once(engine: Engine, searches: int) -> int | None:
    """Return how many hypotheses each of some searches beside each other decodes best at once; ``None`` for any number.

    More would be decoded more slowly one by one, and sentences that wait meanwhile are finished sooner. These are half
    as many again as the kernels take together: places are empty until several sentences make room for others.

    Args:
        engine: What computes.
        searches: How many there are.
    """
    if not isinstance(engine, CompiledEngine):
        return None
    return 3 * engine.model.rows_of_a_thread[1] // 2 * -(-engine.model.threads // searches)


class _BatchByBatch(Line):
    """A continuous search with any engine: each step translates a batch of sentences to their ends."""

    def __init__(self, engine: Engine, rows: int) -> None:
        super().__init__(rows)
        self._engine = engine

    def remove(self, key: Hashable) -> None:
        """Drop a sentence; see :meth:`ContinuousSearch.remove`."""
        self._leave(self._waiting, key)

    def step(self, sharing: int = 1, waiting: int = 0) -> list[tuple[Hashable, Outcome]]:
        """Translate the sentence that has waited longest, and those that can be translated with it."""
        batch: dict[Hashable, Request] = {}
        room = Room(self._rows)
        for key, request in self._waiting.items():
            first = next(iter(batch.values()), request)
            if (request.prefix, request.settings) != (first.prefix, first.settings):
                continue
            # A sample depends on its place in a batch, so it has one of its own.
            if batch and (request.settings.sampling or not room.fits(request.load, request.settings)):
                break
            batch[key] = request
            room.put(request.load)
        for key in batch:
            self._leave(self._waiting, key)
        return _translations(self._engine, batch)


class _StepByStep(Line):
    """A continuous search by the compiled kernels, which take new sentences between any two steps."""

    def __init__(self, engine: CompiledEngine, rows: int) -> None:
        super().__init__(rows)
        self._engine, self._model = engine, engine.model
        self._threads = engine.model.threads
        self._search = CompiledSearch(engine.model, self._threads)
        self._beside = Room(rows)  # with those that run
        self._numbers = itertools.count()
        self._keys: dict[int, Hashable] = {}  # of the sentences that run, by the numbers that the search knows them by
        self._joining: list[int] = []  # the numbers of those of them that are not encoded yet
        self._sampled: tuple[Hashable, Pausing[list[list[Hypothesis]]]] | None = None  # one that runs, by itself

    def remove(self, key: Hashable) -> None:
        """Drop a sentence; see :meth:`ContinuousSearch.remove`."""
        self._leave(self._waiting, key)
        if self._end(key):
            if self._sampled and self._sampled[0] == key:
                self._sampled = None
                return
            (number,) = (number for number, own in self._keys.items() if own == key)
            del self._keys[number]
            if number in self._joining:
                self._joining.remove(number)
            self._search.remove(number)

    def step(self, sharing: int = 1, waiting: int = 0) -> list[tuple[Hashable, Outcome]]:
        """Take a decoding step of all that run, or some; see :meth:`ContinuousSearch.step`."""
        outcomes: list[tuple[Hashable, Outcome]] = []
        threads = max(1, self._model.threads // sharing)
        if threads != self._threads:
            self._search.limit_threads(threads)
            self._threads = threads
        try:
            if self._joining:
                self._encode(outcomes)
            else:
                self._begin(outcomes)
            self._sample(outcomes)
            # Where there is no room, nothing can join before a sentence is finished, and Python is not needed.
            most = 1 if self._joining or self.has_room(1) else _STEPS
            enough = max(1, min(waiting, len(self._running) // _TOGETHER))
            for number, outcome in self._search.step(most, enough, INTERVAL):
                key = self._keys.pop(number)
                self._end(key)
                outcomes.append((key, outcome))
        except MemoryError as error:
            if not self._running:
                raise
            # The search is as it was. The sentence that came last makes room for the others.
            key = next(reversed(self._running))
            self.remove(key)
            outcomes.append((key, _failure(error)))
        return outcomes

    def _end(self, key: Hashable) -> bool:
        """Take a sentence out of those that run; returns whether it was there."""
        request = self._running.get(key)
        if request is not None:
            self._beside.put(request.load, -1)
        return self._leave(self._running, key)

    def _begin(self, outcomes: list[tuple[Hashable, Outcome]]) -> None:
        """Encode the sentences that wait, as many as fit, and add to what is known of those that cannot be."""
        if not self._waiting:
            return
        joining: dict[Hashable, Request] = {}
        for key, request in list(self._waiting.items()):
            if not self._beside.fits(request.load, request.settings):
                break
            if request.settings.sampling:  # one at a time
                if not self._sampled:
                    self._beside.put(request.load)
                    self._running[key] = self._waiting.pop(key)
                    self._sampled = key, self._samples(request)
                break
            try:
                self._require_possible(request)
            except LocantError as error:
                self._leave(self._waiting, key)
                outcomes.append((key, error))
            else:
                joining[key] = request
                self._beside.put(request.load)
        self._join(joining, outcomes)

    def _samples(self, request: Request) -> Pausing[list[list[Hypothesis]]]:
        require_sentences([request.source], [request.max_length], request.prefix)
        self._model.require_ids([request.source], request.prefix)
        taken = [request.source], [request.max_length], request.settings
        return (yield from samples(self._model, *taken, numbers=[0], prefix=request.prefix))

    def _sample(self, outcomes: list[tuple[Hashable, Outcome]]) -> None:
        """Go on drawing the sentence that is sampled, for a while."""
        if not self._sampled:
            return
        (key, drawing), end = self._sampled, time.monotonic() + INTERVAL
        outcome: Outcome
        try:
            while True:
                next(drawing)
                if time.monotonic() >= end:
                    return
        except StopIteration as ended:
            (outcome,) = ended.value
        except (LocantError, MemoryError, torch.OutOfMemoryError) as error:
            outcome = _failure(error)
        self.remove(key)
        outcomes.append((key, outcome))

    def _require_possible(self, request: Request) -> None:
        require_sentences([request.source], [request.max_length], request.prefix)
        require_ids(request.prefix, self._model.vocabulary, "target")
        known, needed = self._model.target_positions, len(request.prefix) - 1 + request.max_length
        if known and needed > known:
            raise DataError(
                f"The translation needs {needed} positions, but the model knows {known}. Lower its greatest length."
            )

    def _join(self, joining: Mapping[Hashable, Request], outcomes: list[tuple[Hashable, Outcome]]) -> None:
        """Begin to encode sentences together, or where that fails encode each alone."""
        if not joining:
            return
        numbers = dict(zip(self._numbers, joining, strict=False))
        try:
            self._search.begin({number: joining[key] for number, key in numbers.items()})
        except (LocantError, MemoryError):
            self._join_one_by_one(joining, outcomes)
            return
        self._joining = list(numbers)
        for number, key in numbers.items():
            self._run(number, key, joining[key])
        self._encode(outcomes)

    def _encode(self, outcomes: list[tuple[Hashable, Outcome]]) -> None:
        """Go on encoding the sentences that join, for a while."""
        try:
            if self._search.encode(INTERVAL):
                self._joining = []
        except MemoryError:
            self._search.abandon()
            keys = [self._keys.pop(number) for number in self._joining]
            self._joining = []
            self._join_one_by_one({key: self._running[key] for key in keys}, outcomes)

    def _join_one_by_one(self, joining: Mapping[Hashable, Request], outcomes: list[tuple[Hashable, Outcome]]) -> None:
        """Encode sentences each alone, to its end, and add to what is known of those that cannot be."""
        for key, request in joining.items():
            number = next(self._numbers)
            try:
                self._search.join({number: request})
            except (LocantError, MemoryError) as error:
                self._beside.put(request.load, -1)
                if not self._leave(self._waiting, key):
                    self._leave(self._running, key)
                outcomes.append((key, _failure(error)))
            else:
                self._run(number, key, request)

    def _run(self, number: int, key: Hashable, request: Request) -> None:
        """Note that a sentence runs."""
        self._keys[number] = key
        self._running[key] = request
        self._waiting.pop(key, None)


def _translations(engine: Engine, batch: Mapping[Hashable, Request]) -> list[tuple[Hashable, Outcome]]:
    """Translate sentences with the same prefix and settings; where that fails, each alone."""
    if not batch:
        return []
    keys, requests = list(batch), list(batch.values())
    sources = [request.source for request in requests]
    limits = [request.max_length for request in requests]
    try:
        found = dict(engine.translate(sources, limits, requests[0].prefix, requests[0].settings))
        return [(key, found[place]) for place, key in enumerate(keys)]
    except (LocantError, MemoryError, torch.OutOfMemoryError) as error:
        if len(keys) == 1:
            return [(keys[0], _failure(error))]
    return [outcome for key in keys for outcome in _translations(engine, {key: batch[key]})]


def _failure(error: Exception) -> LocantError:
    if isinstance(error, LocantError):
        return error
    return LocantError("The sentence does not fit into memory. Translate fewer at once, or shorter ones.")
