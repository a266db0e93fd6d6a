"""The folder of a generated corpus: pairs with scores, and the record by which a stopped generation goes on exactly.

A folder holds::

    train.tsv (or .tsv.gz, .jsonl, .jsonl.gz)   source, target, score
    valid.tsv, test.tsv                          as they are, where the text is that of a corpus
    generation.json                              what it was made from, and what was removed

While it grows the first has the name ``train.tsv.partial``. Whatever is in it beyond what the record speaks of is cut
off when the generation goes on.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from locant.errors import CheckpointError
from locant.files import append_at, explaining_damage, publish, read_json, replacing_folder, write_json
from locant.text import Pair

CorpusFormat = Literal["tsv", "tsv.gz", "jsonl", "jsonl.gz"]
"""Columns with a tab between them, or one JSON object a line; both perhaps compressed."""

FORMATS: tuple[CorpusFormat, ...] = ("tsv", "tsv.gz", "jsonl", "jsonl.gz")

RECORD = "generation.json"


@dataclass(frozen=True)
class GenerationReport:
    """How far a generation has come.

    Attributes:
        lines: Lines of the text.
        done: Lines dealt with so far.
        skipped: Lines that were not translated, by reason.
        translations: Translations made.
        removed: Translations that were removed, by reason.
        tokens: Tokens of the translations that were kept, EOS included.
        log_probability: Log-probability (natural) of these tokens.
        seconds: Time spent translating, in all sessions together.
        finished: Whether the corpus is complete.
    """

    lines: int
    done: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    translations: int = 0
    removed: Mapping[str, int] = field(default_factory=dict)
    tokens: int = 0
    log_probability: float = 0.0
    seconds: float = 0.0
    finished: bool = False

    @property
    def kept(self) -> int:
        """Pairs of the corpus."""
        return self.translations - sum(self.removed.values())

    @property
    def score(self) -> float:
        """Mean log-probability (natural) of a token of the translations that were kept."""
        return self.log_probability / max(1, self.tokens)


class GeneratedCorpus:
    """The folder of a generated corpus.

    Args:
        folder: A new folder, or one whose generation was stopped or is finished.
        form: How pairs are written.
        made_from: Text, model and settings, as plain data; a folder that was begun with others is refused.
        lines: Lines of the text.
        others: Further splits, by name; written when the folder is made.

    Attributes:
        path: The file of generated pairs of a finished corpus.
        report: What has been done so far.

    Raises:
        CheckpointError: The folder holds something else, or is damaged, or cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        form: CorpusFormat,
        made_from: Mapping[str, Any],
        *,
        lines: int,
        others: Mapping[str, Iterable[Pair]],
    ) -> None:
        self.folder = folder
        self.path = folder / f"train.{form}"
        self._form = form
        self._partial = folder / f"{self.path.name}.partial"
        self._made_from = json.loads(json.dumps(made_from))
        self._bytes = 0
        self.report = GenerationReport(lines)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            self.go_on()
            return
        with replacing_folder(folder) as new:
            for name, pairs in others.items():
                rows = ((source, target, None) for source, target in pairs)
                (new / f"{name}.{form}").write_bytes(_encoded(rows, form))
            (new / self._partial.name).touch()
            write_json(new / RECORD, self._record())

    def append(self, rows: Iterable[tuple[str, str, float | None]], report: GenerationReport) -> None:
        """Add pairs with their scores, and what is then done.

        Raises:
            CheckpointError: The disk is full or not writable; what was there before stays.
        """
        data = _encoded(rows, self._form)
        append_at(self._partial, self._bytes, data)
        self._bytes += len(data)
        self.report = report
        write_json(self.folder / RECORD, self._record())

    def finish(self, report: GenerationReport) -> None:
        """Give the file its name."""
        if self._partial.exists():
            append_at(self._partial, self._bytes, b"")
            publish(self._partial, self.path)
        self.report = report
        write_json(self.folder / RECORD, self._record())

    def _record(self) -> dict[str, Any]:
        return {"made_from": self._made_from, "bytes": self._bytes, "report": asdict(self.report)}

    def go_on(self) -> None:
        """Go on where the record says; once more when the folder is held, for what was done until then.

        Raises:
            CheckpointError: The folder holds something else, or is damaged.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise CheckpointError(f"{self.folder} is a file, and a generated corpus is a folder. Name a new folder.")
        if not (self.folder / RECORD).is_file():
            raise CheckpointError(f"{self.folder} is not empty and holds no generated corpus. Name a new folder.")
        record = read_json(self.folder / RECORD)
        with explaining_damage(self.folder / RECORD):
            made_from, size = dict(record["made_from"]), int(record["bytes"])
            report = GenerationReport(**record["report"])
        differences = _differences(made_from, self._made_from)
        if differences:
            raise CheckpointError(
                f"{self.folder} holds a corpus that was begun otherwise: {'; '.join(differences)}. Repeat what it was "
                "begun with to go on with it, or name a new folder."
            )
        self._bytes, self.report = size, report
        # The last thing before a corpus is finished is its renaming.
        complete = self.report.done == self.report.lines and self.path.exists()
        file = self.path if complete else self._partial
        if not file.exists() or file.stat().st_size < self._bytes:
            raise CheckpointError(
                f"{file} is missing or shorter than {RECORD} says, so the corpus is damaged. Begin anew."
            )


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], before: str = "") -> list[str]:
    """Return what differs between two records of what a corpus is made from, in words."""
    found = []
    for key in [*old, *(key for key in new if key not in old)]:
        one, other, name = old.get(key), new.get(key), f"{before}{key}"
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found += _differences(one, other, f"{name}.")
        elif one != other:
            was = f"{name} was {_in_words(one)}, not {_in_words(other)}"
            found.append(f"the {name} was another" if key in ("text", "model") else was)
    return found


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {each}" for key, each in value.items() if each is not None)
    return "none" if value is None else str(value)


def _encoded(rows: Iterable[tuple[str, str, float | None]], form: CorpusFormat) -> bytes:
    """Return rows of source, target and, where there is one, score as the bytes of a file."""
    write = _tsv_line if form.startswith("tsv") else _json_line
    data = "".join(write(*row) for row in rows).encode("utf-8", "replace")
    # One after another, compressed files are a compressed file; without the time they are the same each time.
    return gzip.compress(data, mtime=0) if form.endswith(".gz") and data else data


def _tsv_line(source: str, target: str, score: float | None) -> str:
    columns = [" ".join(source.split()), " ".join(target.split())]
    if score is not None:
        columns.append(f"{score:.4f}")
    return "\t".join(columns) + "\n"


def _json_line(source: str, target: str, score: float | None) -> str:
    row = {"source": source, "target": target, **({} if score is None else {"score": round(score, 4)})}
    return json.dumps(row, ensure_ascii=False) + "\n"
