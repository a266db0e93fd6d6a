"""Continuous batching: sentences join the search, and leave it when they are finished, at any step.

A server gets sentences from many clients at any time. Where a batch had to be finished before the next one begins, each
sentence would wait for the longest of the batch before its own, and at last only a few would be left of a batch. Here
the places of those that are finished are taken by new ones at once (Yu et al. 2022, "Orca", section 3.1: scheduling by
iterations).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from locant.errors import ConfigError, DataError, LocantError
from locant.models.decoding_settings import DecodingSettings
from locant.translation.compiled import INTERVAL, CompiledEngine, CompiledSearch, Outcome, Searched
from locant.translation.engines import Engine
from locant.translation.search import counted_tokens, require_sentences

# More searches beside each other would wait for Python more often than for the kernels.
_MOST_SEARCHES = 4

# Steps of a search that has no room, after which it is seen what was cancelled meanwhile, as after each INTERVAL. While
# long sentences are encoded, the others take a step after each such time, which is enough to encode those of a batch.
_STEPS = 8

# The part of the sentences that run for whose end those that wait wait together: encoding them together, and telling of
# several ends at once, takes less time than one by one.
_TOGETHER = 2


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
    return _StepByStep(engine, rows) if isinstance(engine, CompiledEngine) else ContinuousSearch(engine, rows)


def searches_at_once(engine: Engine) -> int:
    """Return how many continuous searches with an engine are worth running beside each other, each in a thread.

    Where there are many sentences, each search has its own ones and a part of the processors, and none waits for the
    others or for what Python does between two steps of theirs.
    """
    return min(engine.threads, _MOST_SEARCHES) if isinstance(engine, CompiledEngine) else 1


def rows_at_once(engine: Engine, searches: int) -> int | None:
    """Return how many hypotheses each of some searches beside each other decodes best at once; ``None`` for any number.

    More would be decoded more slowly one by one, and sentences that wait meanwhile are finished sooner. These are half
    as many again as the kernels take together: places are empty until several sentences make room for others.
    """
    if not isinstance(engine, CompiledEngine):
        return None
    return 3 * engine.rows_of_a_thread[1] // 2 * -(-engine.threads // searches)


class _Room:
    """The room of that many rows that there is for sentences, and what those that are in it take of it."""

    def __init__(self, rows: int) -> None:
        self._most = rows
        self._sentences = self._rows = self._tokens = 0

    def put(self, sentence: Searched, count: int = 1) -> None:
        """Put in a sentence, or take it out again where ``count`` is -1."""
        self._sentences += count
        self._rows += count * sentence.settings.rows
        self._tokens += count * counted_tokens(len(sentence.source), sentence.settings)

    def fits(self, tokens: int, settings: DecodingSettings) -> bool:
        """Return whether a source of that many tokens fits beside those that are in it; it does where there is none."""
        if not self._sentences:
            return True
        taken = self._tokens + counted_tokens(tokens, settings)
        return self._rows + settings.rows <= self._most and taken <= settings.batch_tokens


class ContinuousSearch:
    """Translates sentences that come and go; each step translates a batch of them to their ends.

    One thread calls it; it has no threads of its own but the kernels'. A sentence that has been added waits until the
    next step at which it fits beside those that run: there are never more hypotheses than ``rows``, and when it begins
    no more tokens than its ``settings.batch_tokens``, unless it is alone. Sentences begin in the order in which they
    came.

    Args:
        engine: What computes.
        rows: The most hypotheses that are decoded at once.
    """

    def __init__(self, engine: Engine, rows: int) -> None:
        self._engine, self._rows = engine, rows
        self._waiting: dict[int, Searched] = {}
        self._running: dict[int, Searched] = {}
        self._room = _Room(rows)  # with all that wait or run
        self._latest = DecodingSettings()

    def add(
        self,
        key: int,
        source: list[int],
        max_length: int,
        prefix: Sequence[int],
        settings: DecodingSettings,
    ) -> None:
        """Add a sentence; what is wrong with it :meth:`step` says.

        Args:
            key: What the caller knows it by, a number below 2^63.
            source: Source ids as the encoder reads them, EOS included.
            max_length: Most target tokens, EOS included, at least 1.
            prefix: Target ids that the decoder reads before it writes, at least one; no part of the hypotheses.
            settings: Beam, length penalty, number of hypotheses and size of a batch; where they sample, the sentence
                is drawn like the first one of a text of its own, to its end in one step.

        Raises:
            ConfigError: A sentence with the same key has not been finished yet.
        """
        if key in self._waiting or key in self._running:
            raise ConfigError(f"There is a sentence with the key {key!r} already, which is not finished yet.")
        self._latest = settings
        self._waiting[key] = sentence = Searched(source, max_length, tuple(prefix), settings)
        self._room.put(sentence)

    def remove(self, key: int) -> None:
        """Drop a sentence, whether it waits or runs; a key that is not known is ignored."""
        sentence = self._waiting.pop(key, None)
        if sentence is not None:
            self._room.put(sentence, -1)

    def has_room(self, tokens: int) -> bool:
        """Return whether another source of that many tokens, with the settings of the last, would begin at once."""
        return self._room.fits(tokens, self._latest)

    @property
    def active(self) -> int:
        """Number of sentences that wait or run."""
        return len(self._waiting) + len(self._running)

    def step(self, sharing: int = 1, waiting: int = 0) -> list[tuple[int, Outcome]]:
        """Take one decoding step of all sentences that run, or some where there is no room for another before one ends.

        Args:
            sharing: How many searches take steps at this time, this one included: each has its part of the threads.
            waiting: How many sentences the caller would add were there room: some steps may make room for several.

        Returns:
            The sentences that are finished: their keys, and their hypotheses or what went wrong with them alone.
        """
        batch: dict[int, Searched] = {}
        room = _Room(self._rows)
        for key, sentence in self._waiting.items():
            first = next(iter(batch.values()), sentence)
            if (sentence.prefix, sentence.settings) != (first.prefix, first.settings):
                continue
            # A sample depends on its place in a batch, so it has one of its own.
            if batch and (sentence.settings.sampling or not room.fits(len(sentence.source), sentence.settings)):
                break
            batch[key] = sentence
            room.put(sentence)
        for key in batch:
            self.remove(key)
        return _translations(self._engine, batch)


class _StepByStep(ContinuousSearch):
    """A continuous search by the compiled kernels, which take new sentences between any two steps."""

    def __init__(self, engine: CompiledEngine, rows: int) -> None:
        super().__init__(engine, rows)
        self._kernels, self._threads = engine, engine.threads
        self._search = CompiledSearch(engine, self._threads)
        self._beside = _Room(rows)  # with those that run
        self._joining: list[int] = []  # the keys of those of them that are not encoded yet

    def remove(self, key: int) -> None:
        """Drop a sentence; see :meth:`ContinuousSearch.remove`."""
        super().remove(key)
        if key in self._running:
            self._search.remove(key)
            self._room.put(self._end(key), -1)

    def step(self, sharing: int = 1, waiting: int = 0) -> list[tuple[int, Outcome]]:
        """Take a decoding step of all that run, or some; see :meth:`ContinuousSearch.step`."""
        outcomes: list[tuple[int, Outcome]] = []
        threads = max(1, self._kernels.threads // sharing)
        if threads != self._threads:
            self._search.limit_threads(threads)
            self._threads = threads
        try:
            if not self._joining:
                self._begin(outcomes)
            if self._joining and self._search.encode(INTERVAL):
                self._joining = []
            # Where there is no room, nothing can join before a sentence is finished, and Python is not needed.
            most = 1 if self._joining or self.has_room(1) else _STEPS
            enough = max(1, min(waiting, len(self._running) // _TOGETHER))
            for key, outcome in self._search.step(most, enough, INTERVAL):
                outcomes.append((key, outcome))
                self._room.put(self._end(key), -1)
        except (LocantError, MemoryError) as error:
            if not self._running:
                raise
            # The search is as it was. The sentence that came last makes room.
            key = next(reversed(self._running))
            self.remove(key)
            outcomes.append((key, _failure(error)))
        return outcomes

    def _end(self, key: int) -> Searched:
        """Take a sentence out of those that run."""
        sentence = self._running.pop(key)
        self._beside.put(sentence, -1)
        if key in self._joining:
            self._joining.remove(key)
        return sentence

    def _begin(self, outcomes: list[tuple[int, Outcome]]) -> None:
        """Let sentences that wait join, as many as fit, and add to what is known of those that cannot."""
        for key, sentence in list(self._waiting.items()):
            if not self._beside.fits(len(sentence.source), sentence.settings):
                break
            if sentence.settings.sampling:  # which the kernels' search does not do
                super().remove(key)
                outcomes += _translations(self._engine, {key: sentence})
                continue
            try:
                require_sentences([sentence.source], [sentence.max_length], sentence.prefix)
                known, needed = self._kernels.target_positions, len(sentence.prefix) - 1 + sentence.max_length
                if known and needed > known:
                    raise DataError(
                        f"The translation needs {needed} positions, but the model knows {known}. Lower its greatest "
                        "length."
                    )
            except LocantError as error:
                super().remove(key)
                outcomes.append((key, error))
                continue
            self._joining.append(key)
            self._running[key] = self._waiting.pop(key)
            self._beside.put(sentence)
        if not self._joining:
            return
        try:
            self._search.begin({key: self._running[key] for key in self._joining})
        except (LocantError, MemoryError):
            if len(self._joining) == 1:
                raise
            # One by one then: the others wait for the next steps.
            for key in reversed(self._joining[1:]):
                self._waiting = {key: self._end(key), **self._waiting}
            self._search.begin({key: self._running[key] for key in self._joining})


def _translations(engine: Engine, batch: Mapping[int, Searched]) -> list[tuple[int, Outcome]]:
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
