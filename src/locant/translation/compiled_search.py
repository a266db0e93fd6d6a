"""Greedy and beam search by the C++ kernels: a step of all sentences that are searched for is one call."""

from __future__ import annotations

import ctypes
import math
import struct
import weakref
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from locant.errors import ConfigError, LocantError
from locant.kernels.outcomes import require_done
from locant.kernels.translation import nanoseconds
from locant.models.decoding_settings import DecodingSettings
from locant.text.tokenizer import EOS
from locant.translation.batching import require_ids
from locant.translation.hypotheses import NOT_A_NUMBER, Hypothesis, hypothesis_of

if TYPE_CHECKING:
    from locant.translation.compiled import CompiledTransformer

_ALL = 1 << 40  # more sentences than there are

INTERVAL = 0.1
"""Seconds after which a call that takes longer pauses, at the end of a sub-layer of the encoder or of a step: other
Python threads and signals, such as that of Ctrl-C, then have their turn."""

_TOO_LARGE = "The sentences do not fit into memory. Translate fewer at once, or shorter ones."


@dataclass(frozen=True, eq=False)
class Searched:
    """A sentence to be searched for.

    Attributes:
        source: Source ids as the encoder reads them, EOS included.
        max_length: Most target tokens, EOS included, at least 1.
        prefix: Target ids that the decoder reads before it writes, at least one; no part of the hypotheses.
        settings: Beam, length penalty and number of hypotheses.
    """

    source: list[int]
    max_length: int
    prefix: Sequence[int]
    settings: DecodingSettings


# Of a sentence, as ``search.cpp`` has it: number, beam, limit, n_best, prefix, alpha. An array of ctypes' would be of a
# class of its own for every length, which takes longer to make, and to find again as garbage, than the call does.
_WISH = struct.Struct("=qqqqqd")


class CompiledSearch:
    """Sentences that join a search by the kernels at any step, and leave it when they are finished.

    It finds what :func:`~locant.translation.search.beam_search` finds, and at a beam of 1
    :func:`~locant.translation.search.greedy_search`. A hypothesis that has ended takes no more of the steps.

    Args:
        model: What is compiled.
        threads: The most threads.

    Raises:
        MemoryError: Memory does not suffice.
    """

    def __init__(self, model: CompiledTransformer, threads: int) -> None:
        self._model, self._library = model, model.library
        made = ctypes.c_void_p()
        require_done(self._library.locant_search(model.handle, threads, EOS, ctypes.byref(made)), _TOO_LARGE)
        self._search = made.value
        self._sizes, self._unfinished = (ctypes.c_int64 * 2)(), ctypes.c_int64()
        self._limits: dict[int, tuple[int, float]] = {}  # by number: greatest length, and length penalty's exponent
        self._joining: set[int] = set()  # the numbers of those that are not encoded yet
        self._read: Tensor | None = None  # the table of positions that they read
        weakref.finalize(self, self._library.locant_search_free, self._search).atexit = False

    def __len__(self) -> int:
        """Number of sentences that are searched for."""
        return len(self._limits)

    def limit_threads(self, threads: int) -> None:
        """Let the next calls have so many threads at most, at least 1."""
        require_done(self._library.locant_search_threads(self._search, threads), _TOO_LARGE)

    def join(self, sentences: Mapping[int, Searched], wanted: Callable[[], bool] = lambda: True) -> bool:
        """Encode sentences, at least one, whose translations begin at the next step.

        After each :data:`INTERVAL` other Python threads and signals have their turn. Whatever goes wrong, the search
        stays as it was.

        Args:
            sentences: By numbers that no others have.
            wanted: Asked after each interval whether to go on; if not, the search stays as it was.

        Returns:
            Whether the sentences have joined.

        Raises:
            ConfigError: An id is outside the vocabulary, a number is taken, or a greatest length is too large.
            DataError: A sentence is longer than the positions that the model knows.
            MemoryError: Memory does not suffice.
        """
        self.begin(sentences)
        try:
            while not self.encode(INTERVAL):
                if not wanted():
                    self.abandon()
                    return False
        except BaseException:
            self.abandon()
            raise
        return True

    def begin(self, sentences: Mapping[int, Searched]) -> None:
        """Begin to encode sentences, which :meth:`encode` does; arguments and errors are those of :meth:`join`."""
        wishes = array("b", b"".join([_wish(number, sentence) for number, sentence in sentences.items()]))
        lengths, tokens, prefixes = array("q"), array("q"), array("q")
        try:
            for sentence in sentences.values():
                lengths.append(len(sentence.source))
                tokens.extend(sentence.source)
                prefixes.extend(sentence.prefix)
        except OverflowError:  # the kernels, which look at all other ids, cannot be given this one
            require_ids(sentence.source, self._model.source_vocabulary, "source")
            require_ids(sentence.prefix, self._model.vocabulary, "target")
            raise
        positions = self._model.positions(0, max(lengths))
        said = self._library.locant_search_join(
            self._search,
            len(lengths),
            _address(lengths),
            _address(tokens),
            len(tokens),
            *_table(positions),
            _address(wishes),
            _address(prefixes),
            len(prefixes),
        )
        require_done(said, _TOO_LARGE)
        self._joining, self._read = set(sentences), positions
        for number, of in sentences.items():
            self._limits[number] = of.max_length, of.settings.length_penalty

    def encode(self, seconds: float) -> bool:
        """Go on encoding the sentences that join; returns whether it is done, and their translations begin.

        Until then the others may take steps, and all can be removed, but no more can join.

        Args:
            seconds: After which to pause.

        Raises:
            MemoryError: Memory does not suffice; the sentences are still to be encoded.
        """
        require_done(
            self._library.locant_search_encode(self._search, nanoseconds(seconds), ctypes.byref(self._unfinished)),
            _TOO_LARGE,
        )
        if not self._unfinished.value:
            self._joining, self._read = set(), None
        return not self._unfinished.value

    def abandon(self) -> None:
        """Drop the sentences that join and are not encoded yet."""
        for number in tuple(self._joining):
            self.remove(number)
        self._read = None

    def remove(self, number: int) -> None:
        """Drop a sentence; a number that is not known is ignored."""
        self._library.locant_search_remove(self._search, number)
        self._limits.pop(number, None)
        self._joining.discard(number)

    def step(
        self, most: int = 1, enough: int = 1, seconds: float = math.inf
    ) -> list[tuple[int, list[Hypothesis] | LocantError]]:
        """Take a decoding step of all sentences, or more of them until some sentences are finished.

        Whatever goes wrong, the search stays as it was before the step that failed.

        Args:
            most: The most steps.
            enough: How many sentences that are finished end them.
            seconds: After which they end.

        Returns:
            The numbers of the sentences that are finished, and their hypotheses, best first, or an error where the
            model's output was not a number.

        Raises:
            DataError: The translation is longer than the positions that the model knows.
            MemoryError: Memory does not suffice.
        """
        library = self._library
        positions = self._model.positions(1, library.locant_search_length(self._search) + 1)
        table = _table(positions)
        said = library.locant_search_steps(self._search, *table, most, enough, nanoseconds(seconds), self._sizes)
        require_done(said, _TOO_LARGE)
        return self._take(*self._sizes) if self._sizes[0] else []

    def run(self, wanted: Callable[[], bool] = lambda: True) -> list[tuple[int, list[Hypothesis] | LocantError]]:
        """Take steps until all sentences are finished; see :meth:`step`. Python is hardly needed meanwhile.

        After each :data:`INTERVAL` other Python threads and signals have their turn.

        Args:
            wanted: Asked there whether to go on.
        """
        outcomes: list[tuple[int, list[Hypothesis] | LocantError]] = []
        while len(self) and wanted():
            outcomes += self.step(_ALL, _ALL, INTERVAL)
        return outcomes

    def _take(self, integers: int, totals: int) -> list[tuple[int, list[Hypothesis] | LocantError]]:
        """Return the sentences that are finished, whose description has so many integers and log-probabilities."""
        written, scored = array("q", bytes(8 * integers)), array("f", bytes(4 * totals))
        self._library.locant_search_take(self._search, _address(written), _address(scored))
        described, probabilities = written.tolist(), iter(scored)
        outcomes: list[tuple[int, list[Hypothesis] | LocantError]] = []
        place = 0
        while place < integers:
            number, count = described[place : place + 2]
            place += 2
            limit, alpha = self._limits.pop(number)
            hypotheses: list[Hypothesis] = []
            outcome: list[Hypothesis] | LocantError = hypotheses if count else LocantError(NOT_A_NUMBER)
            for _ in range(count):
                first = place + 1
                place = first + described[place]
                try:
                    hypotheses.append(hypothesis_of(described[first:place], next(probabilities), limit, alpha))
                except LocantError as error:
                    outcome = error
            outcomes.append((number, outcome))
        return outcomes


def _wish(number: int, of: Searched) -> bytes:
    settings = of.settings
    limit, prefix = of.max_length, len(of.prefix)
    try:
        return _WISH.pack(number, settings.beam, limit, settings.n_best, prefix, settings.length_penalty)
    except struct.error:  # as the kernels say of fewer that are too many
        raise ConfigError(f"There is no translation of {limit} tokens.") from None


def _table(positions: Tensor | None) -> tuple[int | None, int]:
    """Return where a table is, which must be kept while it is read, and its rows."""
    return (None, 0) if positions is None else (positions.data_ptr(), positions.shape[0])


def _address(values: array[Any]) -> int:
    return values.buffer_info()[0]
