"""What is kept on disk while a run is prepared: numbers that grow block by block, and what is found of large texts.

A text has a folder with the facts of its pairs (``facts.bin``, see :mod:`locant.text.pairs`) until all is prepared, and
what it is known by: ``text.json``. Files that change in size or time are read again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from locant.errors import CheckpointError, DataError
from locant.files import read_json, readable_errors, sealed, write_json
from locant.text.pairs import FACTS, Facts, ParallelText, encoded, facts_of
from locant.text.readers import DatasetSplit, TextFiles
from locant.text.workers import in_order, usable_processes

_MADE_FROM, _BLOCKS = "made-from.json", "blocks.bin"
_FORMAT = 3  # Raise it when what is on disk, or what is found of a text, changes.
FACTS_FILE = "facts.bin"
"""Of a text in the store; it is of no use when all is prepared."""

Progress = Callable[[str, float], None]
"""Called with what is being done, and its share, 0 to 1."""


def no_progress(what: str, share: float) -> None:
    """Tell nobody."""


class GrowingColumns:
    """Flat files ``NAME.bin`` of numbers that grow together, used in a ``with`` block.

    Args:
        folder: Made again unless it holds a beginning of the same.
        names: Of the columns.
        notes: How many numbers are noted of each block.
        made_from: Plain data that says what the columns are of: only what was made from the same is gone on with.

    Attributes:
        blocks: What is noted of the blocks that are there.
        ends: The bytes of each column.

    Raises:
        CheckpointError: The disk is full or not writable.
    """

    def __init__(self, folder: Path, names: Sequence[str], notes: int, made_from: Any) -> None:
        self._folder, self._stack = folder, ExitStack()
        paths = [*(folder / f"{name}.bin" for name in names), folder / _BLOCKS]
        width = notes + len(names)
        known = np.zeros((0, width), np.int64)
        with suppress(CheckpointError, OSError):
            if read_json(folder / _MADE_FROM) == made_from:
                rows = np.fromfile(paths[-1], np.int64)
                known = rows[: len(rows) // width * width].reshape(-1, width)
                # A row is written after its block, but a power cut may keep the one without the other.
                known = known[(known[:, notes:] <= [path.stat().st_size for path in paths[:-1]]).all(axis=1)]
        self.blocks: list[list[int]] = known[:, :notes].tolist()
        with readable_errors(folder):
            if not self.blocks:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                write_json(folder / _MADE_FROM, made_from)
            self._files = [self._stack.enter_context(path.open("ab")) for path in paths]
            self.ends: list[int] = known[-1, notes:].tolist() if self.blocks else [0] * len(names)
            for file, end in zip(self._files, [*self.ends, known.nbytes], strict=True):
                file.truncate(end)

    def append(self, notes: Sequence[int], columns: Sequence[npt.NDArray[Any]]) -> None:
        """Append a block: numbers to note, and more of each column."""
        ends = [end + values.nbytes for end, values in zip(self.ends, columns, strict=True)]
        with readable_errors(self._folder):
            row = np.array([*notes, *ends], np.int64)
            for file, values in zip(self._files, [*columns, row], strict=True):
                file.write(np.ascontiguousarray(values).data)
                file.flush()
        self.blocks.append([*notes])
        self.ends = ends

    def finish(self) -> None:
        """Close the files for good: the folder holds nothing but the columns then."""
        self.__exit__()
        for name in (_MADE_FROM, _BLOCKS):
            (self._folder / name).unlink()

    def __enter__(self) -> GrowingColumns:
        return self

    def __exit__(self, *_: object) -> None:
        with readable_errors(self._folder):
            self._stack.close()


@dataclass(frozen=True)
class TextStore:
    """Where it is noted what large texts are, so that one process reads them, and not again when a run goes on.

    Attributes:
        folder: Has a folder for each text.
        processes: How many read at once; by default as many as there are cores.
        large: The bytes from which a text is noted; smaller ones are read again each time.
        progress: Called with the share that has been read.
        reads: Whether texts are read into it; if not, it serves for those that it knows.
    """

    folder: Path
    processes: int | None = None
    large: int = 32 << 20
    progress: Progress = no_progress
    reads: bool = True

    def open(self, files: TextFiles | DatasetSplit) -> ParallelText | None:
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
        if about is None:
            if not self.reads:
                return None
            about = self._read(files, folder, made_from)
        sizes, path = about["sizes"], folder / FACTS_FILE

        def facts() -> Iterator[Facts]:
            if not path.exists() or path.stat().st_size != sum(sizes) * FACTS.itemsize:
                yield from (facts_of(block.read()) for block in files.blocks())
                return
            for size, end in zip(sizes, accumulate(sizes), strict=True):
                yield np.fromfile(path, FACTS, size, offset=(end - size) * FACTS.itemsize)

        return ParallelText(files.blocks, sizes, about["digest"], facts, folder)

    def _read(self, files: TextFiles | DatasetSplit, folder: Path, made_from: Any) -> dict[str, Any]:
        """Read a text, from its beginning or from where a killed process was, and return what it is."""
        digest, done, total = hashlib.sha256(), 0, files.text_size()
        try:
            with GrowingColumns(folder, ["facts"], 1, made_from) as columns:
                work = partial(_read_block, known=len(columns.blocks))
                for text, facts in in_order(work, enumerate(files.blocks()), self.processes or usable_processes()):
                    digest.update(text)
                    done += len(text)
                    if facts is not None:
                        columns.append([len(facts)], [facts])
                        self.progress("reading", min(1.0, done / total))
                sizes = [size for (size,) in columns.blocks]
        except DataError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self.progress("reading", 1.0)
        about = {"made_from": made_from, "sizes": sizes, "digest": digest.hexdigest()}
        write_json(folder / "text.json", sealed(about))
        return about


def _read_block(numbered: tuple[int, Any], *, known: int) -> tuple[bytes, Facts | None]:
    """Return the text of a block, and its facts unless they are known."""
    number, block = numbered
    pairs = block.read()
    data = encoded(pairs)
    return b"\n".join([*data, b""]), None if number < known else facts_of(pairs, data)


def _known(folder: Path, made_from: Any) -> dict[str, Any] | None:
    """Return what is known of a text that has been read; None where there is none, or its files have changed."""
    with suppress(CheckpointError, KeyError, TypeError):
        about: dict[str, Any] = read_json(folder / "text.json")
        if about["made_from"] == made_from and all(size >= 0 for size in about["sizes"]) and about["digest"]:
            return about
    return None
