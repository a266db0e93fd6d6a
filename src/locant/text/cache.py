"""Tokenised text on disk: written once, block by block, then mapped into memory, so that it takes little of it.

A cache is a folder with, for each side, the token ids of all sentences one after the other (``*.tokens.bin``, uint16
or uint32) and the places where sentences begin (``*.offsets.bin``, int64, one more than there are sentences). The pairs
of the parts of a corpus follow one another, and ``cache.json`` says how many each part has.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain, compress, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from locant.errors import CheckpointError, DataError
from locant.files import explaining_damage, file_digest, publish, read_json, readable_errors, sealed, write_json
from locant.text.pairs import Pair, RowNumbers, Rows
from locant.text.store import GrowingColumns
from locant.text.tokenizer_pair import PLAIN, Prefixes, TokenizerPair
from locant.text.workers import in_order

_TAKEN = 1 << 16
SIDES = ("source", "target")


class CachePart(NamedTuple):
    """Rows of one part of a corpus in a cache.

    Attributes:
        pairs: How many there are.
        dropped: How many pairs were left out because a side had too many tokens.
        prefixes: What is before the tokens of each sentence. The rows hold it but for the id that the decoder
            reads first.
    """

    pairs: int
    dropped: int
    prefixes: Prefixes


@dataclass(frozen=True)
class Column:
    """One side of a cache, or of some of its rows.

    Attributes:
        tokens: All ids, [N] uint16 or uint32, mapped from disk.
        all_offsets: Where each sentence of the cache begins in them, mapped from disk; int64.
        lengths: The number of ids of each sentence, without BOS and EOS; [pairs], uint8 or more.
        rows: Which sentences of the cache these are; None for all.
    """

    tokens: npt.NDArray[np.unsignedinteger[Any]]
    all_offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.unsignedinteger[Any]]
    rows: RowNumbers | None = None

    def offsets(self, indices: npt.NDArray[np.integer[Any]] | slice | int) -> npt.NDArray[np.int64]:
        """Return where some sentences begin."""
        return self.all_offsets[indices if self.rows is None else self.rows[indices]]

    def __getitem__(self, index: int) -> npt.NDArray[np.unsignedinteger[Any]]:
        start = int(self.offsets(index))
        return self.tokens[start : start + int(self.lengths[index])]


class TokenCache:
    """A tokenised parallel text, mapped from disk; language tokens are in their places in its rows.

    Args:
        folder: What :func:`write_cache` wrote.
        rows: Indices of pairs in ascending order, so that parts stay together, each as often as it is named, [M]; by
            default all.

    Attributes:
        folder: The same.
        source: The source side.
        target: The target side.
        parts: The rows of the parts of the corpus, which follow one another.
        max_tokens: The most tokens a side may have, EOS included.

    Raises:
        CheckpointError: The folder is missing or damaged.
    """

    def __init__(self, folder: Path, rows: RowNumbers | None = None) -> None:
        self.folder, self._rows = folder, rows
        path = folder / "cache.json"
        about = read_json(path)
        with explaining_damage(path):
            self._count, self.max_tokens = int(about["pairs"]), int(about["max_tokens"])
            # Earlier versions wrote caches of a single part, and no digests.
            parts = [
                CachePart(
                    int(part["pairs"]),
                    int(part["dropped"]),
                    Prefixes(**part["prefixes"]) if "prefixes" in part else PLAIN,
                )
                for part in about.get("parts", [about])
            ]
            self._digests = dict(about.get("digests", {}))
            ends = np.cumsum([0, *(part.pairs for part in parts)])
            if ends[-1] != self._count:
                raise ValueError("its parts do not have as many pairs as it has")
            if rows is not None:  # of the same type, or all of them would be copied to another
                ends = np.searchsorted(rows, ends.astype(rows.dtype))
            counts = zip(parts, np.diff(ends).tolist(), strict=True)
            self.parts = tuple(part._replace(pairs=count) for part, count in counts)
            kinds = [{"uint16": np.uint16, "uint32": np.uint32}[about[f"{side}_dtype"]] for side in SIDES]
            self.source, self.target = (self._column(side, kind) for side, kind in zip(SIDES, kinds, strict=True))

    def _column(self, side: str, kind: npt.DTypeLike) -> Column:
        places, rows = self.folder / f"{side}.offsets.bin", self._rows
        offsets, count = _mapped(places, np.int64, self._count + 1), self._count if rows is None else len(rows)
        longest = min(self.max_tokens, (1 << 31) - 1)
        lengths: npt.NDArray[Any] = np.empty(
            count, next(kind for kind in (np.uint8, np.uint16, np.uint32) if longest <= np.iinfo(kind).max)
        )
        for start in range(0, count, _TAKEN):  # all at once would take eight bytes a row
            if rows is None:
                found = np.diff(offsets[start : start + _TAKEN + 1])
            else:
                some = rows[start : start + _TAKEN].astype(np.int64)
                found = offsets[some + 1] - offsets[some]
            if offsets[0] or found.min() < 0 or found.max() > longest:
                raise CheckpointError(f"{places} is damaged: its sentences overlap.")
            lengths[start : start + _TAKEN] = found
        tokens = _mapped(self.folder / f"{side}.tokens.bin", kind, int(offsets[-1]))
        return Column(tokens, offsets[:-1], lengths, rows)

    def check(self) -> None:
        """Read all files once.

        Raises:
            CheckpointError: One of them is not what was written.
        """
        for name, digest in self._digests.items():
            found = None
            with suppress(OSError):
                found = file_digest(self.folder / name)
            if found != digest:
                raise CheckpointError(
                    f"The file {self.folder / name} is damaged: it is not what was written. Delete the folder "
                    f"{self.folder}, which is made again when the run goes on."
                )

    def __len__(self) -> int:
        return len(self.source.lengths)

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenCache, (self.folder, self._rows)  # opened again in another process

    def select(self, rows: RowNumbers) -> TokenCache:
        """Return some of the pairs, by indices in ascending order, without copying their tokens."""
        return TokenCache(self.folder, rows if self._rows is None else self._rows[rows])

    @property
    def dropped(self) -> int:
        """How many pairs were left out because a side had too many tokens."""
        return sum(part.dropped for part in self.parts)

    @property
    def decoder_start(self) -> int:
        """The id that the decoder reads first."""
        return self.parts[0].prefixes.target[0]

    def whole_rows(self, indices: Rows) -> Rows:
        """Return which rows of the whole cache those of some indices are."""
        return indices if self._rows is None else self._rows[indices].astype(np.int64)


def _mapped(path: Path, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
    """Map a flat file of that many numbers into memory."""
    expected = count * np.dtype(dtype).itemsize
    try:
        size = path.stat().st_size
    except OSError as error:
        raise CheckpointError(f"The token cache file {path} cannot be read: {error.strerror}.") from None
    if size != expected:
        raise CheckpointError(f"The token cache file {path} is damaged: {size} bytes, not {expected}.")
    # An empty file cannot be mapped; a plain array is indexed faster.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(count,))) if count else np.zeros(0, dtype)


class Encoded(NamedTuple):
    """Pairs of one part of a corpus, and how many more were left out because a side had too many tokens.

    Each side has the token ids of n texts, all one after the other, [N], and how many each has, [n].
    """

    part: int
    dropped: int
    sides: list[tuple[npt.NDArray[Any], npt.NDArray[np.int32]]]


@dataclass(frozen=True)
class Encoder:
    """Turns blocks of pairs into columns of numbers, wherever there is a process for it.

    Attributes:
        tokenizers: For both languages.
        max_tokens: The most tokens a side may have, EOS and language tokens included; longer pairs are dropped and
            counted.
        prefixes: What is before the tokens of a sentence, by part; by default nothing in any.
    """

    tokenizers: TokenizerPair
    max_tokens: int
    prefixes: Sequence[Prefixes] = ()

    @property
    def kinds(self) -> list[npt.DTypeLike]:
        """The smallest type that holds the token ids of each side."""
        sides = self.tokenizers.source, self.tokenizers.target
        return [np.uint16 if one.vocab_size <= 1 << 16 else np.uint32 for one in sides]

    def __call__(self, task: tuple[int, int, Any]) -> Encoded:
        """Return the columns of a block, given its number, its part of the corpus and itself; in one thread."""
        _, part, block = task
        pairs: list[Pair] = block.read()
        before = self.prefixes[part] if self.prefixes else PLAIN
        sides = (self.tokenizers.source, before.source), (self.tokenizers.target, before.target[1:])
        ids = [
            [prefix + one for one in encoded] if prefix else encoded
            for side, (tokenizer, prefix) in enumerate(sides)
            for encoded in [tokenizer.encode([pair[side] for pair in pairs], threads=1)]
        ]
        return self.packed(part, *ids)

    def packed(self, part: int, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> Encoded:
        """Return the columns of pairs whose token ids are there, without those that have too many.

        The ids are with what is before them, but without what the decoder reads first.
        """
        lengths = [np.fromiter(map(len, side), np.int32, len(side)) for side in (sources, targets)]
        fits = np.maximum(*lengths) < self.max_tokens
        columns = []
        for side, every, kind in zip((sources, targets), lengths, self.kinds, strict=True):
            kept = every[fits]
            ids = chain.from_iterable(compress(side, fits.tolist()))
            columns.append((np.fromiter(ids, kind, int(kept.sum())), kept))
        return Encoded(part, len(fits) - int(fits.sum()), columns)


def write_cache(
    parts: Sequence[Iterable[Any]],
    encoder: Encoder,
    folder: Path,
    *,
    processes: int = 1,
    made_from: Any = None,
    what: str = "pairs",
    tell: Callable[[int], None] = lambda seen: None,
) -> TokenCache:
    """Encode the parts of a corpus into a new cache; one that is already there is removed at once.

    The cache is the same whatever the number of processes.

    Args:
        parts: The blocks of each part, see :func:`~locant.text.pairs.memory_blocks`.
        encoder: What encodes them.
        folder: Where the cache goes; it appears only when it is complete.
        processes: How many encode at once.
        made_from: Plain data that says what all this is. Where it is given, what a killed process has done of the same
            is gone on with.
        what: What the pairs are called where none is left.
        tell: Called after each block with the number of pairs so far.

    Raises:
        DataError: No pair is left.
        CheckpointError: The disk is full or not writable.
    """
    resumable = made_from is not None
    partial = folder.with_name(f".{folder.name}{'' if resumable else f'-{secrets.token_hex(8)}'}.partial")
    about: dict[str, Any] = {"max_tokens": encoder.max_tokens}
    about |= {f"{side}_dtype": np.dtype(kind).name for side, kind in zip(SIDES, encoder.kinds, strict=True)}
    every = ((part, block) for part, blocks in enumerate(parts) for block in blocks)
    tasks = ((number, part, block) for number, (part, block) in enumerate(every))
    shutil.rmtree(folder, ignore_errors=True)
    names = [f"{side}.{column}" for side in SIDES for column in ("offsets", "tokens")]
    try:
        with GrowingColumns(partial, names, 3, [made_from, about]) as columns:
            blocks = columns.blocks  # of each its part, and how many pairs are in it and are left out
            if not blocks:
                begins, nothing = np.zeros(1, np.int64), np.zeros(0, np.int64)
                columns.append((0, 0, 0), (begins, nothing, begins, nothing))
            seen = sum(kept + lost for _, kept, lost in blocks)
            with closing(in_order(encoder, islice(tasks, len(blocks) - 1, None), processes)) as encoded:
                for block in encoded:
                    more: list[npt.NDArray[Any]] = []
                    for end, (ids, lengths) in zip(columns.ends[1::2], block.sides, strict=True):
                        more += [end // ids.itemsize + np.cumsum(lengths, dtype=np.int64), ids]
                    columns.append((block.part, len(lengths), block.dropped), more)
                    seen += len(lengths) + block.dropped
                    tell(seen)
            counts, dropped = (
                [sum(block[place] for block in blocks if block[0] == part) for part in range(len(parts))]
                for place in (1, 2)
            )
            if not sum(counts):
                raise DataError(
                    f"All {sum(dropped)} {what} have {encoder.max_tokens} tokens or more on a side, so nothing is "
                    "left. Allow more tokens, or use a larger vocabulary."
                )
            columns.finish()
        rows = [
            {"pairs": count, "dropped": lost, "prefixes": before._asdict()}
            for count, lost, before in zip(counts, dropped, encoder.prefixes or [PLAIN] * len(parts), strict=True)
        ]
        with readable_errors(folder):
            digests = {path.name: file_digest(path) for path in sorted(partial.glob("*.bin"))}
            about |= {"pairs": sum(counts), "parts": rows, "digests": digests}
            write_json(partial / "cache.json", sealed(about))
            publish(partial, folder)
    except BaseException as error:
        # What is wrong with the text stays wrong; anything else may be mended.
        if not resumable or isinstance(error, DataError):
            shutil.rmtree(partial, ignore_errors=True)
        raise
    return TokenCache(folder)
