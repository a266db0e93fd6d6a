"""The compiled engine: a Transformer and its search, run by the C++ kernels on the CPU."""

from __future__ import annotations

import ctypes
import itertools
import math
import struct
import weakref
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from locant.errors import ConfigError, LocantError, nearest
from locant.kernels.library import LIBRARY, require_done
from locant.kernels.translation import PRECISIONS, nanoseconds, supports
from locant.models.architectures import require_transformer
from locant.models.decoding_settings import DecodingSettings
from locant.models.encoder_decoder import EncoderDecoder
from locant.text.tokenizer import EOS
from locant.translation.hypotheses import NOT_A_NUMBER, Hypothesis, hypothesis_of
from locant.translation.kernel_weights import kernel_weights
from locant.translation.search import batches, require_sentences
from locant.translation.threads import side_by_side, useful_threads

Outcome: TypeAlias = list[Hypothesis] | LocantError
"""The hypotheses of a sentence, best first, or why there are none."""

INTERVAL = 0.1
"""Seconds after which a call that takes longer pauses, at the end of a sub-layer of the encoder or of a step: other
Python threads and signals, such as that of Ctrl-C, then have their turn."""

_ALL = 1 << 40  # more sentences than there are

# The instructions that a precision needs; activations.h numbers precisions as above.
_INSTRUCTIONS = {"bfloat16": "AVX-512 BF16 or ARM's BF16", "int8": "AVX2 or ARM's dot products"}

# Rows of a group, fewer of which take as long.
_LEAST_ROWS = 8

_TOO_LARGE = "The sentences do not fit into memory. Translate fewer at once (decoding.batch_tokens), or shorter ones."

# Of a sentence, as ``beam.h`` has it. An array of ctypes' would be of a class of its own for every length, which takes
# longer to make, and to find again as garbage, than the call does.
_OPTIONS = struct.Struct("=qqqqqddqQQ")


class CompiledEngine:
    """The engine of Locant's C++ kernels, several times faster than PyTorch on a CPU.

    Sentences are packed without padding, a step of the decoder is one call, beams share the keys and values of their
    sentence, and a beam that changes its place moves an index instead of its cache. In float32 the results are the
    model's up to rounding; bfloat16 rounds weights and the inputs of every product to 8 significant bits, in half the
    memory; int8 quantises weights (a scale for each output) and inputs (a scale for each row), in a quarter.

    Args:
        model: The model, on the CPU; its embeddings and norms stay shared with the engine, its matrices are copied.
        precision: One of :data:`PRECISIONS`. ``float32`` gives the same translations as PyTorch; ``bfloat16`` and
            ``int8`` are faster and may give others, ``int8`` more often.

    Attributes:
        precision: Likewise.
        vocabulary: Number of target tokens.
        target_positions: The most positions that the decoder knows; ``None`` for any number.
        library: The kernels.
        handle: Of the model in them.
        rows_of_a_thread: The least rows with which each of several threads is better off than if they shared all rows,
            and the best number.

    Raises:
        ConfigError: The model is not on the CPU, or its positions are neither added to the embeddings nor plain
            rotations; the processor has no instructions for the precision; kernels are switched off; there is no C++
            compiler, or it fails; a weight has not the shape that the configuration says.
        MemoryError: Memory does not suffice.
    """

    def __init__(self, model: EncoderDecoder[Any], precision: str = "float32") -> None:
        device = model.target_embedding.weight.device
        if device.type != "cpu":
            raise ConfigError(f"Compiled translation is for the CPU, but the model is on {device}.")
        if precision not in PRECISIONS:
            raise ConfigError(
                f"Unknown precision '{precision}'.{nearest(precision, PRECISIONS)} Known: {', '.join(PRECISIONS)}."
            )
        self.precision, self._copied_from = precision, model
        transformer = require_transformer(model, "Compiled translation")
        self.vocabulary = model.config.target_vocab_size
        weights = kernel_weights(transformer, "Compiled translation", "Use the engine pytorch.")
        self._kinds = weights.positions
        decoder = weights.positions[1]
        self.target_positions: int | None = decoder.most if decoder else None
        self.library = LIBRARY.require()
        if not supports(precision):
            raise ConfigError(
                f"This processor has no fast {precision} arithmetic ({_INSTRUCTIONS[precision]}). Use float32."
            )
        sizes = list(weights.shape)
        sizes.insert(10, PRECISIONS.index(precision))
        # Norms and embeddings are read where they lie.
        self._kept = [*weights.norms, *weights.embeddings]
        made = ctypes.c_void_p()
        said = self.library.locant_engine(
            (ctypes.c_int64 * len(sizes))(*sizes),
            _addresses(weights.matrices),
            _addresses(weights.biases),
            len(weights.biases),
            _addresses(weights.norms),
            len(weights.norms) // 2,
            *map(_address, weights.embeddings),
            ctypes.byref(made),
        )
        require_done(said, "The compiled model does not fit into memory.")
        self.handle = made.value
        rows = (ctypes.c_int64 * 2)()
        self.library.locant_engine_rows(self.handle, ctypes.byref(rows, 0), ctypes.byref(rows, 8))
        self.rows_of_a_thread = rows[0], rows[1]
        # At the end of a process its memory goes back by itself; other threads may still be using it.
        weakref.finalize(self, self.library.locant_engine_free, self.handle).atexit = False
        self._tables: list[Tensor | None] = [None, None]

    def __reduce__(self) -> tuple[type[CompiledEngine], tuple[EncoderDecoder[Any], str]]:
        """Return how a copy is made, in this process or in another one: from the model."""
        return CompiledEngine, (self._copied_from, self.precision)

    @property
    def name(self) -> str:
        """What computes, and in which type of numbers."""
        return f"compiled kernels, {self.precision}"

    @property
    def threads(self) -> int:
        """The most threads that a search has: PyTorch's, or as many as the system feeds now."""
        return useful_threads(torch.get_num_threads())

    def positions(self, stack: int, count: int) -> Tensor | None:
        """Return the rows of at least ``count`` positions, float32, which are to be kept while they are read.

        ``stack`` is 0 for the encoder and 1 for the decoder. DataError where the model knows fewer.
        """
        kind = self._kinds[stack]
        if kind is None:
            return None
        # Other threads may put another table in its place at any moment, so each reads the one that it has seen.
        table = self._tables[stack]
        if table is None or table.shape[0] < count:
            room = max(64, 2 * count)
            table = self._tables[stack] = kind.table(max(min(room, kind.most or room), count))
        return table

    def translate(
        self,
        sources: Sequence[list[int]],
        max_lengths: Sequence[int],
        prefix: Sequence[int],
        settings: DecodingSettings,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Search for translations; see :meth:`locant.translation.Engine.translate`."""
        require_sentences(sources, max_lengths, prefix)

        def searched(group: list[int], threads: int, wanted: Callable[[], bool]) -> list[tuple[int, Outcome]]:
            sentences = {index: Searched(sources[index], max_lengths[index], prefix, settings) for index in group}
            return CompiledSearch(self, threads).run(sentences, wanted)

        # One batch after the other: together they may take more memory than there is.
        for batch in batches([len(source) for source in sources], settings):
            threads = self.threads
            groups = self._groups(batch, settings.rows, threads)
            work = [partial(searched, group, threads if len(groups) == 1 else 1) for group in groups]
            for outcomes in side_by_side(work, threads):
                for index, outcome in outcomes:
                    if isinstance(outcome, LocantError):
                        raise outcome
                    yield index, outcome

    def _groups(self, batch: list[int], rows: int, threads: int) -> list[list[int]]:
        """Cut a batch into groups that threads translate side by side, each to its end without waiting for another.

        Returns one group, which all threads share, or at least one for each.
        """
        least, best = self.rows_of_a_thread
        total = rows * len(batch)
        # Two groups for each thread, so that one that loses its core for a while holds up the others for less.
        count = total // max(least, _LEAST_ROWS, min(best, total // (2 * threads)))
        if count < threads and total >= least * threads:
            count = threads
        elif count < 4 * threads:  # each thread has as many
            count -= count % threads
        count = min(count, len(batch))
        if count < threads:
            return [batch]
        cuts = [number * len(batch) // count for number in range(count + 1)]
        return [batch[begin:end] for begin, end in itertools.pairwise(cuts)]


@dataclass(frozen=True, eq=False)
class Searched:
    """A sentence to be searched for: source ids as the encoder reads them, EOS included, and how to search.

    It may have so many target tokens, EOS included, at least 1. The decoder reads the ids of the prefix, at least one,
    before it writes; they are no part of the hypotheses.
    """

    source: list[int]
    max_length: int
    prefix: Sequence[int]
    settings: DecodingSettings


class CompiledSearch:
    """Sentences that join a search by the kernels at any step, and leave it when they are finished.

    It finds what :func:`~locant.translation.search.search` finds, in that many threads at most. A hypothesis that has
    ended takes no more of the steps. Whatever goes wrong in a call, the search stays as it was before that; everything
    raises MemoryError where memory does not suffice.
    """

    def __init__(self, engine: CompiledEngine, threads: int) -> None:
        self._engine, self._library = engine, engine.library
        made = ctypes.c_void_p()
        require_done(self._library.locant_search(engine.handle, threads, EOS, ctypes.byref(made)), _TOO_LARGE)
        self._search = made.value
        self._sizes, self._unfinished = (ctypes.c_int64 * 2)(), ctypes.c_int64()
        self._limits: dict[int, tuple[int, float]] = {}  # by number: greatest length, and length penalty's exponent
        self._read: Tensor | None = None  # the table of positions that they read
        weakref.finalize(self, self._library.locant_search_free, self._search).atexit = False

    def __len__(self) -> int:
        """Number of sentences that are searched for."""
        return len(self._limits)

    def limit_threads(self, threads: int) -> None:
        """Let the next calls have that many threads at most, at least 1."""
        require_done(self._library.locant_search_threads(self._search, threads), _TOO_LARGE)

    def begin(self, sentences: Mapping[int, Searched]) -> None:
        """Begin to encode sentences, at least one, which :meth:`encode` does; steps translate them from then on.

        The numbers are such as no others have; of a sentence that is sampled it is its place in the text.

        Raises:
            ConfigError: An id is outside the vocabulary, a number is taken, a greatest length is too large, or a
                sentence is drawn from all tokens beside one that is not.
            DataError: A sentence is longer than the positions that the model knows.
        """
        described = [self._options(number, sentence) for number, sentence in sentences.items()]
        options = array("b", b"".join(described))
        lengths, tokens, prefixes = array("q"), array("q"), array("q")
        for sentence in sentences.values():
            lengths.append(len(sentence.source))
            tokens.extend(sentence.source)
            prefixes.extend(sentence.prefix)
        positions = self._engine.positions(0, max(lengths))
        said = self._library.locant_search_join(
            self._search,
            len(lengths),
            _place(lengths),
            _place(tokens),
            len(tokens),
            _address(positions),
            _rows(positions),
            _place(options),
            _place(prefixes),
            len(prefixes),
        )
        require_done(said, _TOO_LARGE)
        self._read = positions
        for number, of in sentences.items():
            self._limits[number] = of.max_length, of.settings.length_penalty

    def _options(self, number: int, of: Searched) -> bytes:
        settings, limit = of.settings, of.max_length
        temperature, top_k, seed, stream = 0.0, 0, 0, 0
        if sampling := settings.sampling:
            temperature, seed, stream = sampling.temperature, sampling.seed, sampling.first + number
            top_k = min(sampling.top_k or 0, self._engine.vocabulary)
        rows, prefix = settings.rows, len(of.prefix)
        searched = number, rows, limit, settings.n_best, prefix, settings.length_penalty
        return _OPTIONS.pack(*searched, temperature, top_k, seed, stream)

    def encode(self, seconds: float) -> bool:
        """Go on encoding the sentences that join, for that many seconds; returns whether it is done.

        Until then the others may take steps, and all can be removed, but no more can join.
        """
        require_done(
            self._library.locant_search_encode(self._search, nanoseconds(seconds), ctypes.byref(self._unfinished)),
            _TOO_LARGE,
        )
        if not self._unfinished.value:
            self._read = None
        return not self._unfinished.value

    def remove(self, number: int) -> None:
        """Drop a sentence; a number that is not known is ignored."""
        self._library.locant_search_remove(self._search, number)
        self._limits.pop(number, None)

    def step(self, most: int = 1, enough: int = 1, seconds: float = math.inf) -> list[tuple[int, Outcome]]:
        """Take a decoding step of all sentences, or several: at most so many, until enough are finished or time is up.

        Returns the numbers of the sentences that are finished, and their hypotheses, best first, or an error where the
        model's output was not a number. DataError where a translation is longer than the positions that the model
        knows.
        """
        library = self._library
        positions = self._engine.positions(1, library.locant_search_length(self._search) + 1)
        table, rows = _address(positions), _rows(positions)
        said = library.locant_search_steps(self._search, table, rows, most, enough, nanoseconds(seconds), self._sizes)
        require_done(said, _TOO_LARGE)
        return self._take(*self._sizes) if self._sizes[0] else []

    def run(
        self, sentences: Mapping[int, Searched], wanted: Callable[[], bool] = lambda: True
    ) -> list[tuple[int, Outcome]]:
        """Let sentences join, and take steps until all are finished; Python is hardly needed meanwhile.

        After each :data:`INTERVAL` other Python threads and signals have their turn, and it is asked whether the result
        is still ``wanted``; if not, what is found by then is returned. Errors are those of the other methods.
        """
        outcomes: list[tuple[int, Outcome]] = []
        self.begin(sentences)
        while not self.encode(INTERVAL):
            if not wanted():
                return outcomes
        while len(self) and wanted():
            outcomes += self.step(_ALL, _ALL, INTERVAL)
        return outcomes

    def _take(self, integers: int, totals: int) -> list[tuple[int, Outcome]]:
        """Return the sentences that are finished, whose description has that many integers and log-probabilities."""
        written, scored = array("q", bytes(8 * integers)), array("f", bytes(4 * totals))
        self._library.locant_search_take(self._search, _place(written), _place(scored))
        described, probabilities = written.tolist(), iter(scored)
        outcomes: list[tuple[int, Outcome]] = []
        place = 0
        while place < integers:
            number, count = described[place : place + 2]
            place += 2
            limit, alpha = self._limits.pop(number)
            hypotheses: list[Hypothesis] = []
            outcome: Outcome = hypotheses if count else LocantError(NOT_A_NUMBER)
            for _ in range(count):
                first = place + 1
                place = first + described[place]
                try:
                    hypotheses.append(hypothesis_of(described[first:place], next(probabilities), limit, alpha))
                except LocantError as error:
                    outcome = error
            outcomes.append((number, outcome))
        return outcomes


def _place(values: array[Any]) -> int:
    return values.buffer_info()[0]


def _rows(table: Tensor | None) -> int:
    return 0 if table is None else table.shape[0]


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _addresses(tensors: Sequence[Tensor | None]) -> Any:
    return (ctypes.c_void_p * len(tensors))(*map(_address, tensors))
