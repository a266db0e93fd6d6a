"""Large texts, of which what is found by reading them is kept while a run is prepared.

A text has a folder with the facts of its pairs (``facts.bin``, see :mod:`locant.text.pairs`) until all is prepared, and
what it is known by: ``text.json``. Files that change in size or time are read again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from locant.errors import CheckpointError, DataError
from locant.files import read_json, sealed, write_json
from locant.text.columns import GrowingColumns
from locant.text.pairs import FACTS, Facts, ParallelText, encoded, facts_of
from locant.text.readers import DatasetSplit, TextFiles
from locant.text.workers import in_order, usable_processes

_FORMAT = 3  # Raise it when what is on disk, or what is found of a text, changes.
FACTS_FILE = "facts.bin"
"""Of a text in the store; it is of no use when all is prepared."""

Progress = Callable[[str, float], None]
"""Called with what is being done, and its share, 0 to 1."""


def no_progress(what: str, share: float) -> None:
    """Tell nobody."""


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
