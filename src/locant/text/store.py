"""Large texts, of which what is found by reading them is kept while a run is prepared.

A text has a folder with the facts of its pairs, a column each (see :class:`~locant.text.facts.Facts`), until all is
prepared, and what it is known by: ``text.json``. Files that change in size or time are read again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from locant.errors import CheckpointError, DataError
from locant.files import read_json, readable_errors, sealed, write_json
from locant.locks import FileLock
from locant.text.facts import Facts, encoded, facts_of
from locant.text.growing import GrowingColumns
from locant.text.pairs import ParallelText
from locant.text.readers import DatasetSplit, TextFiles
from locant.text.workers import in_order, usable_processes

_FORMAT = 2  # Raise it when what is on disk, or what is found of a text, changes.
_COLUMNS = {name: np.uint64 if name in ("pair", "stripped") else np.uint32 for name in Facts._fields}
_LARGE = 32 << 20

PairFiles = TextFiles | DatasetSplit
"""What is read into a store."""

Progress = Callable[[str, float], None]
"""Is told what is being done and how much of it is done, 0 to 1."""


def no_progress(what: str, share: float) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class TextStore:
    """Where it is noted what large texts are, so that one process reads them, and not again when a run goes on.

    Attributes:
        folder: Has a folder for each text.
        processes: How many read at once; by default as many as there are cores.
        large: The bytes from which a text is noted; smaller ones are read again each time.
        progress: Is told how far the reading is.
        reads: Whether texts are read into it; if not, it serves for those that it knows.
    """

    folder: Path
    processes: int | None = None
    large: int = _LARGE
    progress: Progress = no_progress
    reads: bool = True

    def open(self, files: PairFiles) -> ParallelText | None:
        """Return a text, read now or earlier; None where it is not noted.

        Raises:
            DataError: What is wrong in the files; nothing is left of the text then.
            CheckpointError: The disk is full or not writable.
        """
        if files.text_size() < self.large:
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
                about = _known(folder, made_from) or self._read(files, folder, made_from)
        sizes = about["sizes"]

        def facts() -> Iterator[Facts]:
            if (folder / "pair.bin").exists():
                return _facts(folder, sizes)
            return (facts_of(block.read()) for block in files.blocks())

        def release() -> None:
            for name in _COLUMNS:
                (folder / f"{name}.bin").unlink(missing_ok=True)

        return ParallelText(files.blocks, sizes, about["digest"], facts, folder, release)

    def _read(self, files: PairFiles, folder: Path, made_from: Any) -> dict[str, Any]:
        """Read a text, from its beginning or from where a killed process was, and return what it is."""
        digest, total = hashlib.sha256(), max(1, files.size())
        try:
            with GrowingColumns(folder, _COLUMNS, made_from) as columns:
                sizes: list[int] = columns.state or []
                known = len(sizes)
                work = partial(_read_block, known=known)
                found = in_order(work, enumerate(files.blocks()), self.processes or usable_processes())
                for text, facts, on_disk in found:
                    digest.update(text)
                    if facts is None:
                        continue
                    for name, values in facts._asdict().items():
                        columns.append(name, values)
                    sizes.append(len(facts.pair))
                    columns.mark(sizes)
                    self.progress("reading", min(1.0, on_disk / total))
                columns.mark(sizes, now=True)
        except DataError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        about = {"made_from": made_from, "sizes": sizes, "digest": digest.hexdigest()}
        write_json(folder / "text.json", sealed(about))
        return about


def _read_block(numbered: tuple[int, Any], *, known: int) -> tuple[bytes, Facts | None, int]:
    """Return the text of a block, its facts unless they are known, and how much of all files it ends at."""
    number, block = numbered
    pairs = block.read()
    data = encoded(pairs)
    return b"\n".join([*data, b""]), None if number < known else facts_of(pairs, data), block.on_disk


def _known(folder: Path, made_from: Any) -> dict[str, Any] | None:
    """Return what is known of a text that has been read; None where there is none, or its files have changed."""
    try:
        about: dict[str, Any] = read_json(folder / "text.json")
        whole = all(isinstance(size, int) and size >= 0 for size in about["sizes"])
        return about if whole and isinstance(about["digest"], str) and about["made_from"] == made_from else None
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


def _facts(folder: Path, sizes: list[int]) -> Iterator[Facts]:
    """Yield the facts of each block."""
    rows = 0
    for size in sizes:
        columns: list[Any] = []
        for name, kind in _COLUMNS.items():
            sides = 1 if kind is np.uint64 else 2
            place = rows * sides * np.dtype(kind).itemsize
            found = np.fromfile(folder / f"{name}.bin", kind, size * sides, offset=place)
            if len(found) < size * sides:
                raise CheckpointError(f"{folder / name}.bin is damaged: it is too short. Remove {folder}.")
            columns.append(found if sides == 1 else found.reshape(-1, 2))
        yield Facts(*columns)
        rows += size
