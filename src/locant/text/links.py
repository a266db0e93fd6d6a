"""Links between the tokens of a tokenised parallel text, by the statistical aligner eflomal.

eflomal (Östling and Tiedemann 2016, "Efficient Word Alignment with Markov Chain Monte Carlo") is a program of its own,
which is given tokens as numbers and gives links of both directions; they are made symmetric here.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from locant.errors import CheckpointError, DataError
from locant.files import (
    explaining_damage,
    file_digest,
    open_output,
    read_json,
    replacing_folder,
    sealed,
    workplace,
    write_json,
)
from locant.lazy import find_program
from locant.text.cache import TokenCache
from locant.text.workers import in_order

Links = set[tuple[int, int]]
"""Numbers of a source token and of a target token that belong together, from 0."""

_COMMAND = "eflomal-align"
_FILES = ("ends.npy", "links.npy")
_PAIRS = 4096  # pairs that a process makes symmetric at a time


class TokenLinks:
    """The links of the pairs of a tokenised text, mapped from disk.

    Args:
        folder: What :func:`prepared_links` wrote.
        pairs: How many pairs the text has.
        made_from: What says which text it is.

    Raises:
        CheckpointError: The folder is missing or damaged, or of another text.
    """

    def __init__(self, folder: Path, pairs: int, made_from: str = "") -> None:
        about = read_json(folder / "links.json")
        with explaining_damage(folder / "links.json"):
            if (about["pairs"], about["made_from"]) != (pairs, made_from):
                raise ValueError("its links are of another text")
            for name, digest in about.get("digests", {}).items():  # earlier versions wrote none
                if file_digest(folder / name) != digest:
                    raise ValueError(f"{name} is not what was written")
            self._ends, self._links = (np.load(folder / name, mmap_mode="r") for name in _FILES)
            if len(self._ends) != pairs + 1 or self._ends[-1] != len(self._links):
                raise ValueError("its files do not belong together")

    def of(self, rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
        """Return the links of some pairs.

        Args:
            rows: Numbers of pairs of the whole text; [B].

        Returns:
            [N, 3]: place in ``rows``, number of the target token and number of the source token, both as they are in
            the token cache.
        """
        begins, ends = self._ends[rows], self._ends[rows + 1]
        found = [self._links[begin:end] for begin, end in zip(begins, ends, strict=True)]
        places = np.repeat(np.arange(len(rows)), ends - begins)
        links = np.concatenate(found) if found else np.empty((0, 2), np.uint16)
        return np.column_stack((places, links[:, 1], links[:, 0])).astype(np.int64)


def prepared_links(cache: TokenCache, folder: Path, *, made_from: str = "", processes: int = 1) -> TokenLinks:
    """Return the links of a text, as they were written before, or else of its tokens that are aligned now.

    Args:
        cache: The text, all of it.
        folder: Where the links are; it appears only when it is complete, and replaces those of another text.
        made_from: What says of which text they are.
        processes: How many make links symmetric at once; eflomal itself uses what cores it finds.

    Raises:
        MissingExtraError: eflomal is not installed.
        DataError: eflomal failed.
        CheckpointError: The disk is full or not writable.
    """
    with suppress(CheckpointError):
        return TokenLinks(folder, len(cache), made_from)
    command = aligner_command()

    def skipped() -> Iterator[tuple[int, int]]:
        """Yield how many tokens are before the text of each pair on each side: those that say languages."""
        for part in cache.parts:  # rows do not hold the first of the target's, which the decoder reads first
            yield from repeat((len(part.prefixes.source), len(part.prefixes.target) - 1), part.pairs)

    with workplace(folder.parent) as work:
        texts = [work / "source", work / "target"]
        for side, (path, column) in enumerate(zip(texts, (cache.source, cache.target), strict=True)):
            with open_output(path) as file:
                for number, before in enumerate(skipped()):
                    # eflomal wants a word in every line; links of one that is not there are left out afterwards.
                    file.write((" ".join(map(str, column[number][before[side] :].tolist())) or "-") + "\n")
        directions = [work / "forward", work / "reverse"]
        arguments = ["-s", texts[0], "-t", texts[1], "-f", directions[0], "-r", directions[1]]
        run = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True, check=False)
        if run.returncode or not all(path.exists() for path in directions):
            said = (run.stderr or run.stdout).strip().splitlines() or [f"it ended with {run.returncode}"]
            raise DataError(f"eflomal could not align the training text: {said[-1]}")
        counts, links = list[int](), [np.empty((0, 2), np.uint16)]
        with directions[0].open(encoding="ascii") as forward, directions[1].open(encoding="ascii") as reverse:
            lengths = (map(int, column.lengths) for column in (cache.source, cache.target))
            rows = zip(forward, reverse, skipped(), *lengths, strict=False)  # too few are counted in the end
            for of_block, found in in_order(_symmetric, iter(lambda: list(islice(rows, _PAIRS)), []), processes):
                counts += of_block
                links.append(found)
    if len(counts) != len(cache):
        raise DataError(f"eflomal aligned {len(counts)} pairs of the training text, which has {len(cache)}.")
    with replacing_folder(folder, "replace") as temporary:
        for name, array in zip(_FILES, (np.cumsum([0, *counts]), np.concatenate(links)), strict=True):
            np.save(temporary / name, array)
        digests = {name: file_digest(temporary / name) for name in _FILES}
        about = {"made_from": made_from, "pairs": len(cache), "aligner": "eflomal", "digests": digests}
        write_json(temporary / "links.json", sealed(about))
    return TokenLinks(folder, len(cache), made_from)


def aligner_command() -> str:
    """Return the path of eflomal's program.

    Raises:
        MissingExtraError: It is not installed.
    """
    return find_program(_COMMAND, "eflomal", "Guided alignment")


def grow_diag_final_and(forward: Links, reverse: Links) -> Links:
    """Return the links of both directions made symmetric (Koehn et al. 2005, section 2.2)."""
    both, either = forward & reverse, forward | reverse
    found = set(both)
    sources, targets = {s for s, _ in found}, {t for _, t in found}
    while True:
        new = sorted(
            (s, t)
            for s, t in either - found
            if (s not in sources or t not in targets)
            and any((s + i, t + j) in found for i in (-1, 0, 1) for j in (-1, 0, 1))
        )
        if not new:
            break
        for s, t in new:
            if s not in sources or t not in targets:
                found.add((s, t))
                sources.add(s)
                targets.add(t)
    for direction in (forward, reverse):
        for s, t in sorted(direction):
            if s not in sources and t not in targets:
                found.add((s, t))
                sources.add(s)
                targets.add(t)
    return found


def _symmetric(block: list[tuple[str, str, tuple[int, int], int, int]]) -> tuple[list[int], npt.NDArray[np.uint16]]:
    """Return how many links each pair of a block has, and all of them, [N, 2]."""
    found, counts = list[tuple[int, int]](), list[int]()
    for *directions, (first, other_first), length, other_length in block:
        forward, reverse = (
            {(int(source), int(target)) for source, _, target in (link.partition("-") for link in line.split())}
            for line in directions
        )
        links = sorted(
            (first + source, other_first + target)
            for source, target in grow_diag_final_and(forward, reverse)
            if first + source < length and other_first + target < other_length
        )
        found += links
        counts.append(len(links))
    return counts, np.array(found, np.uint16).reshape(-1, 2)
