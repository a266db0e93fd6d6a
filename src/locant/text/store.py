"""Text that has been read once: on disk in blocks that processes take, with what cleaning and statistics ask of it.

A stored text is a folder with the UTF-8 of all pairs one after the other (``text.bin``: source, line end, target, line
end), the bytes of each side (``lengths.bin``), and numbers that were found while it was read: 64-bit hashes of the pair
(``pair.bin``; ``stripped.bin`` without white space around its sides), words (``words.bin``) and CRC-32 of each side
(``checksums.bin``; ``folded.bin`` as cleaning compares it). Files that change in size or time are read again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from locant.errors import CheckpointError, DataError
from locant.files import explaining_damage, read_json, readable_errors, sealed, write_json
from locant.locks import FileLock
from locant.text.cleaning import among, facts_of, hashes64, utf8
from locant.text.dataset_rows import DatasetSplit
from locant.text.growing import GrowingColumns
from locant.text.line_blocks import Place, TextFiles
from locant.text.pairs import Block, Pair, ParallelText, Rows, hold_out, in_memory, memory_blocks
from locant.text.workers import in_order, usable_processes

_FORMAT = 1  # Raise it when what is on disk, or what is found of a text, changes.
_COLUMNS: dict[str, type[np.generic]] = {
    "text": np.uint8,
    "lengths": np.uint32,
    "pair": np.uint64,
    "stripped": np.uint64,
    "words": np.uint32,
    "checksums": np.uint32,
    "folded": np.uint32,
}
_SIDES = {"lengths", "words", "checksums", "folded"}
"""Columns that have a number for each side of a pair."""
_BLOCK = 8192
_SCANNED = 1 << 20
_LARGE = 32 << 20
_MOST = 1 << 48  # Pairs; what says more is damaged.

PairFiles = TextFiles | DatasetSplit
"""What is read into a store."""

Progress = Callable[[str, float], None]
"""Is told what is being done and how much of it is done, 0 to 1."""


def no_progress(what: str, share: float) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class TextStore:
    """Where large texts are kept while a run is prepared, so that their files are read once.

    Attributes:
        folder: Has a folder for each text.
        processes: How many read at once; by default as many as there are cores.
        large: The bytes from which a text is kept; smaller ones are read again each time.
        progress: Is told how far the reading is.
        reads: Whether texts are read into it; if not, it serves for those that it knows.
    """

    folder: Path
    processes: int | None = None
    large: int = _LARGE
    progress: Progress = no_progress
    reads: bool = True

    def open(self, files: PairFiles) -> StoredText | None:
        """Return a text, read now or earlier; None where it is not kept.

        Raises:
            DataError: What :class:`~locant.text.line_blocks.TextFiles` raises; nothing is left of the text then.
            CheckpointError: The disk is full or not writable.
        """
        if files.size() < self.large:
            return None
        made_from = {"format": _FORMAT, **files.made_from()}
        names = [[path for path, *_ in paths] for paths in made_from["files"]]
        key = hashlib.sha256(json.dumps([names, made_from["format"]]).encode()).hexdigest()
        folder = self.folder / key[:16]
        about = _known(folder, made_from)
        if about is None and not self.reads:
            return None
        if about is None:
            with _alone(folder):
                about = _known(folder, made_from) or _read(
                    files, folder, made_from, self.processes or usable_processes(), self.progress
                )
        return StoredText(folder, files, about["count"], about["digest"])


def _known(folder: Path, made_from: Any) -> dict[str, Any] | None:
    """Return what is known of a text that has been read; None where there is none, or its files have changed."""
    try:
        about: dict[str, Any] = read_json(folder / "text.json")
        count = about["count"]
        whole = isinstance(count, int) and 0 <= count <= _MOST and isinstance(about["digest"], str)
        return about if whole and about["made_from"] == made_from else None
    except (CheckpointError, KeyError, TypeError):
        return None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes from reading into a folder; where the file system has no locks nothing is kept."""
    lock = FileLock(folder.with_suffix(".lock"))
    with readable_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):
        lock.acquire("reading text", wait=True)
    try:
        yield
    finally:
        lock.path.unlink(missing_ok=True)
        lock.release()


@dataclass(frozen=True)
class _ReadBlock:
    """What a process does with a block of lines or rows: all columns of their pairs.

    Attributes:
        format: Of the files; it parses their blocks.
    """

    format: Any

    def __call__(self, block: Any) -> dict[str, npt.NDArray[Any]]:
        pairs = list(self.format.parse(block))
        encoded = _encoded(pairs)
        text = b"\n".join([*encoded, b""])
        lengths = np.fromiter(map(len, encoded), np.uint32, len(encoded))
        hashes = hashes64(map(b"\n".join, zip(encoded[::2], encoded[1::2], strict=True)))
        facts = facts_of(pairs, hashes)
        return {
            "text": np.frombuffer(text, dtype=np.uint8),
            "lengths": lengths,
            "pair": hashes,
            "stripped": facts.stripped,
            "words": facts.words,
            "checksums": np.fromiter(map(crc32, encoded), np.uint32, len(encoded)),
            "folded": facts.folded,
        }


def _encoded(pairs: list[Pair]) -> list[bytes]:
    """Return all sentences in UTF-8, source and target in turns."""
    sentences = list(chain.from_iterable(pairs))
    found = "\n".join(sentences).encode("utf-8", "surrogatepass").split(b"\n")
    # One call for all, but where a sentence has several lines.
    return found if len(found) == len(sentences) else list(utf8(sentences))


def _read(files: PairFiles, folder: Path, made_from: Any, processes: int, progress: Progress) -> dict[str, Any]:
    """Read a text into its folder, from its beginning or from where a killed process was, and return what it is."""
    try:
        with GrowingColumns(folder, _COLUMNS, made_from) as columns:
            begin, count = Place(), 0
            if columns.state is not None:
                number, line, offsets, share, count = columns.state
                begin = Place(number, line, tuple(offsets), share)
            digest = _digest(folder / "text.bin", columns.size("text"))
            places: deque[Place] = deque()

            def blocks() -> Iterator[Any]:
                for block, place in files.blocks(begin):
                    places.append(place)
                    yield block

            behind = begin
            for found in in_order(_ReadBlock(files.format), blocks(), processes):
                for name, values in found.items():
                    columns.append(name, values)
                digest.update(found["text"].data)
                count += len(found["pair"])
                behind = places.popleft()
                columns.mark([*behind, count])
                progress("reading", behind.share)
            columns.mark([*behind, count], now=True)
    except DataError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    about = {"made_from": made_from, "count": count, "digest": digest.hexdigest()}
    write_json(folder / "text.json", sealed(about))
    return about


def _digest(path: Path, size: int) -> Any:
    """Return the SHA-256 of the beginning of a file, to go on with."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while size:
            data = file.read(min(size, _SCANNED))
            digest.update(data)
            size -= len(data)
    return digest


@dataclass(frozen=True)
class _StoredBlock:
    """Some thousand pairs of a stored text that follow one another.

    Attributes:
        folder: Of the text.
        start: The first row.
        end: The row behind the last.
        offset: Where its text begins.
        rows: The rows of the block, counted from its start, that are part of the text; None for all.
        is_turned: Whether sides are exchanged.
    """

    folder: Path
    start: int
    end: int
    offset: int
    rows: Rows | None = None
    is_turned: bool = False

    def __len__(self) -> int:
        return self.end - self.start if self.rows is None else len(self.rows)

    def column(self, name: str) -> npt.NDArray[Any] | None:
        found = self._whole(name)
        if self.rows is not None:
            found = found[self.rows]
        if name == "stripped" or not self.is_turned:
            return found  # pairs are alike turned or not
        return found[:, ::-1] if name in _SIDES else None

    def _whole(self, name: str) -> npt.NDArray[Any]:
        sides = 2 if name in _SIDES else 1
        size = np.dtype(_COLUMNS[name]).itemsize * sides
        count = self.end - self.start
        found = np.fromfile(self.folder / f"{name}.bin", _COLUMNS[name], count=count * sides, offset=self.start * size)
        if len(found) < count * sides:
            raise CheckpointError(f"{self.folder / name}.bin is damaged: it is too short. Remove {self.folder}.")
        return found.reshape(-1, 2) if sides == 2 else found

    def read(self, rows: Rows | None = None) -> list[Pair]:
        if self.rows is not None:
            rows = self.rows if rows is None else self.rows[rows]
        ends = np.cumsum(self._whole("lengths").astype(np.int64).ravel() + 1)
        starts = np.concatenate(([0], ends[:-1])).reshape(-1, 2)
        places = np.concatenate((starts, ends.reshape(-1, 2) - 1), axis=1)
        if rows is not None:
            places = places[rows]
        if not len(places):
            return []
        first, last = int(places[0, 0]), int(places[-1, 3])
        with (self.folder / "text.bin").open("rb") as file:
            file.seek(self.offset + first)
            data = file.read(last - first)
        pairs = _decoded(data, places - first, np.arange(len(places)) if rows is None else rows - rows[0])
        return [(target, source) for source, target in pairs] if self.is_turned else pairs

    def inside(self, rows: Rows) -> Rows:
        """Return those of some rows of the text, in ascending order, that are in the block, counted from its start."""
        begin, end = np.searchsorted(rows, (self.start, self.end))
        return rows[begin:end] - self.start

    def turned(self) -> _StoredBlock:
        return replace(self, is_turned=not self.is_turned)


def _decoded(data: bytes, places: npt.NDArray[np.int64], rows: Rows) -> list[Pair]:
    """Return pairs of a text, given where their sides begin and end and which of its pairs they are."""
    if 2 * len(rows) > rows[-1]:
        # Most of them: one call for all, but where a sentence has several lines.
        lines = data.decode("utf-8", "surrogatepass").split("\n")
        if len(lines) == 2 * (rows[-1] + 1):
            every = list(zip(lines[::2], lines[1::2], strict=True))
            return every if len(rows) == len(every) else [every[row] for row in rows.tolist()]
    decode = partial(str, encoding="utf-8", errors="surrogatepass")
    return [
        (decode(data[source:source_end]), decode(data[target:target_end]))
        for source, target, source_end, target_end in places.tolist()
    ]


@dataclass(frozen=True)
class StoredText:
    """A text in a store.

    Attributes:
        folder: Its folder.
        files: Where it is from.
        count: Pairs of all of it.
        digest: Of all of it, as of any :class:`~locant.text.pairs.ParallelText`.
    """

    folder: Path
    files: PairFiles
    count: int
    digest: str

    def whole(self) -> ParallelText:
        """Return all of the text."""
        return self._text(np.zeros(0, dtype=np.int64), self.digest)

    def hold_out(self, size: int) -> tuple[ParallelText, ParallelText]:
        """Split pairs off, the same as :func:`~locant.text.pairs.hold_out` does.

        Args:
            size: How many.
        """
        path = self.folder / f"held-out-{size}.json"
        if not path.exists():
            if not self._is_here():
                return hold_out(self.whole(), size)
            rows, pairs = self._chosen(size)
            write_json(path, sealed({"rows": rows.tolist(), "pairs": pairs}))
        kept = read_json(path)
        with explaining_damage(path):
            held = in_memory([(str(source), str(target)) for source, target in kept["pairs"]])
            rows = np.array(kept["rows"], dtype=np.int64)
            if not (np.diff(np.concatenate(([-1], rows, [self.count]))) > 0).all():
                raise ValueError(f"its rows are not some of {self.count}, in ascending order")
        return self._text(rows, f"{self.digest}-{size}"), held

    def _chosen(self, size: int) -> tuple[Rows, list[Pair]]:
        """Return all rows whose pairs have one of the smallest hashes, and each of these pairs once."""
        smallest = np.zeros(0, dtype=np.uint64)
        for _, hashes in self._scanned("pair"):
            new = hashes[hashes < smallest[-1]] if len(smallest) == size else hashes
            smallest = np.unique(np.concatenate((smallest, new)))[:size]
        rows = np.concatenate([start + np.flatnonzero(among(some, smallest)) for start, some in self._scanned("pair")])
        found: dict[Pair, None] = {}
        for block in self._stored_blocks():
            some = block.inside(rows)
            if len(some):
                found.update(dict.fromkeys(block.read(some)))
        return rows, list(found)

    def _scanned(self, name: str) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        for start in range(0, self.count, _SCANNED):
            yield start, _StoredBlock(self.folder, start, min(self.count, start + _SCANNED), 0)._whole(name)

    def _stored_blocks(self) -> Iterator[_StoredBlock]:
        offset = 0
        for start in range(0, self.count, _BLOCK):
            block = _StoredBlock(self.folder, start, min(self.count, start + _BLOCK), offset)
            yield block
            offset += int(block._whole("lengths").sum(dtype=np.int64)) + 2 * len(block)

    def _text(self, without: Rows, digest: str) -> ParallelText:
        """Return the text without some rows, which are in ascending order."""
        return ParallelText(
            lambda: chain.from_iterable(block.read() for block in self._blocks(without)),
            self.count - len(without),
            digest,
            lambda: self._blocks(without),
            self.release,
        )

    def _blocks(self, without: Rows) -> Iterator[Block]:
        if not self._is_here():
            left_out = set(without.tolist())
            yield from memory_blocks(pair for row, pair in enumerate(self.files()) if row not in left_out)
            return
        for block in self._stored_blocks():
            some = block.inside(without)
            yield replace(block, rows=np.delete(np.arange(len(block)), some)) if len(some) else block

    def _is_here(self) -> bool:
        return (self.folder / "text.bin").exists()

    def release(self) -> None:
        """Remove all but what the text is known by; its files are read again where it is needed."""
        for name in _COLUMNS:
            (self.folder / f"{name}.bin").unlink(missing_ok=True)
