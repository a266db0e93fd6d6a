"""Corpora: the parts, splits and stages of parallel text, and their opening from settings.

A corpus is read once when it is opened, so that mistakes surface before any long work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from locant.errors import ConfigError, DataError
from locant.languages import LanguageTag, parse_language
from locant.text.corpus_settings import (
    BibleCorpus,
    CorpusSettings,
    FileCorpus,
    FilePair,
    HuggingFaceCorpus,
    JsonlCorpus,
    LanguagesCorpus,
    MixtureCorpus,
    MixtureStage,
    SourceCorpusSettings,
    TsvCorpus,
)
from locant.text.noise import NoiseSettings
from locant.text.pairs import ParallelText, concatenated, hold_out, in_memory, survey, turned
from locant.text.readers import (
    DatasetSplit,
    LineFormat,
    TextFiles,
    columns,
    json_fields,
    open_dataset,
    parallel_lines,
)
from locant.text.store import TextStore
from locant.text.tokenizer_pair import Direction, LanguageLayout

_SHOWN_FILES = 4
"""Files that the description of a corpus names."""


@dataclass(frozen=True)
class CorpusPart:
    """Parallel text of one source in one pair of languages: all of a plain corpus, or a share of a mixed one.

    Attributes:
        name: Different from the names of the other parts.
        source_language: Short code, or None when not known.
        target_language: Short code, or None when not known.
        train: Streamed from disk; empty in a zero-shot direction, which is only measured.
        valid: Given, or held out of the training text; None when the part is only trained on.
        test: None when the part has none.
        weights: How often it is drawn in each stage, see :func:`~locant.text.epochs.sampling_shares`.
        tag: The token before each source of the training text, which marks it as one of a kind; or None.
        noise: Of the sources of the training text; or None.
    """

    name: str
    source_language: str | None
    target_language: str | None
    train: ParallelText
    valid: ParallelText | None
    test: ParallelText | None
    weights: tuple[float, ...] = (1.0,)
    tag: str | None = None
    noise: NoiseSettings | None = None

    @property
    def zero_shot(self) -> bool:
        """Whether this is a direction that is only measured."""
        return not len(self.train)


@dataclass(frozen=True)
class Corpus:
    """Parallel text in three splits, of one part or more.

    Attributes:
        name: For reports.
        description: What the text is, where it is from and, where known, its licence.
        parts: One of a plain corpus; at least one has validation text.
        licence: None when not known.
        temperature: How much the sizes of the parts count when they are drawn.
        layout: Where the tokens of the languages are in a corpus of several; None without such tokens.
        stages: Stretches of training; none where there is only one.
    """

    name: str
    description: str
    parts: tuple[CorpusPart, ...]
    licence: str | None = None
    temperature: float = 1.0
    layout: LanguageLayout | None = None
    stages: tuple[MixtureStage, ...] = ()

    @property
    def source_language(self) -> str | None:
        """Short code that all parts have in common, or None."""
        return _common(part.source_language for part in self.parts)

    @property
    def target_language(self) -> str | None:
        """Short code that all parts have in common, or None."""
        return _common(part.target_language for part in self.parts)

    @property
    def tags(self) -> list[str]:
        """The tags of all parts, each once."""
        return list(dict.fromkeys(part.tag for part in self.parts if part.tag))

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that have a token: with ``marian`` those that are translated into; none without tokens."""
        sources = [part.source_language for part in self.parts if self.layout == "fairseq"]
        targets = [part.target_language for part in self.parts if self.layout]
        return tuple(dict.fromkeys(code for code in (*sources, *targets) if code is not None))

    @property
    def weights(self) -> list[tuple[float, ...]]:
        """The weights of the parts in each stage; there is at least one."""
        return list(zip(*(part.weights for part in self.parts), strict=True))

    @property
    def train(self) -> ParallelText:
        """The training text of all parts, one after the other."""
        return concatenated([part.train for part in self.parts])

    @property
    def drawn(self) -> ParallelText:
        """The same without parts that have no weight in any stage."""
        return concatenated([part.train for part in self.parts if any(part.weights)])

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
        splits = ((part.train, part.valid, part.test) for part in self.parts)
        return "+".join("-".join(split.digest for split in three if split is not None) for three in splits)


def _common(values: Iterable[str | None]) -> str | None:
    """Return the value that all have, or None where they differ."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


def load_corpus(settings: CorpusSettings, store: TextStore | None = None) -> Corpus:
    """Open a corpus and read it once, so that mistakes in the data surface before any long work.

    Args:
        settings: Of the corpus.
        store: Where large files are kept once they have been read, for what else is done with them.

    Raises:
        DataError: A file is missing, damaged, not UTF-8, without the expected columns or fields, or empty, or two
            parallel files differ in length.
        ConfigError: An unknown Bible version, or versions or sources that do not fit together.
        MissingExtraError: An optional package is not installed.
    """
    if isinstance(settings, LanguagesCorpus):
        return _load_languages(settings, store)
    if isinstance(settings, MixtureCorpus):
        corpus = _load_mixture(settings, store)
    else:
        corpus = _load_source(settings, store, hold_out_some=True)
    if not corpus.valids:
        raise ConfigError(
            "The corpus has no validation text: give 'valid' or a 'valid_size' above 0, in a mixture once."
        )
    return corpus


def _load_mixture(settings: MixtureCorpus, store: TextStore | None) -> Corpus:
    """Open the sources of a mixture, whose parts become its parts."""
    sources = settings.sources
    given = any(isinstance(one.corpus, BibleCorpus) or one.corpus.valid is not None for one in sources.values())
    corpora = {
        name: _load_source(source.corpus, store, hold_out_some=not (given or source.tag))
        for name, source in sources.items()
    }
    common: dict[str, Any] = {}
    for side in ("source_language", "target_language"):
        known = {name: language for name, corpus in corpora.items() if (language := getattr(corpus, side))}
        if len(set(map(parse_language, known.values()))) > 1:
            listed = ", ".join(f"{language} in '{name}'" for name, language in known.items())
            raise ConfigError(
                "The sources of a mixture must be of one pair of languages, but the "
                f"{side.replace('_', ' ')} is {listed}."
            )
        common[side] = next(iter(known.values()), None)
    weights = [settings.stage_weights(stage) for stage in settings.stages or [MixtureStage()]]
    parts = []
    for name, source in sources.items():
        noise = source.noise if source.noise and source.noise.any else None
        own = tuple(one[name] for one in weights)
        parts.append(replace(corpora[name].parts[0], name=name, weights=own, tag=source.tag, noise=noise, **common))
    licences = [f"{corpus.licence} ({name})" for name, corpus in corpora.items() if corpus.licence]
    return Corpus(
        name=settings.name or f"mixture of {', '.join(corpora)}",
        description=" ".join(f"{name}: {corpus.description}" for name, corpus in corpora.items()),
        parts=tuple(parts),
        licence="; ".join(licences) or None,
        temperature=settings.temperature,
        stages=settings.stages,
    )


def _load_languages(settings: LanguagesCorpus, store: TextStore | None) -> Corpus:
    """Open pairs of languages, whose text serves both directions."""
    corpora = [load_corpus(pair, store) for pair in settings.pairs]
    texts: dict[Direction, list[CorpusPart]] = {}
    codes: dict[LanguageTag, str] = {}
    for number, corpus in enumerate(corpora, start=1):
        for part in corpus.parts:
            if part.source_language is None or part.target_language is None:
                raise ConfigError(
                    f"Pair {number} of the corpus ({corpus.name}) lacks source_language, target_language or both."
                )
            # Whatever form a code has, that of the first pair with the language holds.
            source, target = (
                codes.setdefault(parse_language(code), code) for code in (part.source_language, part.target_language)
            )
            if source == target:
                raise ConfigError(f"Pair {number} of the corpus ({corpus.name}) is of one language, '{source}'.")
            texts.setdefault(Direction(source, target), []).append(part)
            if part.tag is None:  # tagged text is synthetic on one side, which should not become a target
                train, valid, test = (text and turned(text) for text in (part.train, part.valid, part.test))
                back = replace(part, train=train or part.train, valid=valid, test=test)
                texts.setdefault(Direction(target, source), []).append(back)
    parts = []
    for direction, trained in settings.chosen(texts).items():
        for number, part in enumerate(texts[direction], start=1):
            name = f"{direction} {number}" if number > 1 else str(direction)
            if not trained and part.valid is None and part.test is None:
                raise ConfigError(f"The zero-shot direction {name} has no text of validation or test to measure it on.")
            train, (source, target) = part.train if trained else in_memory([]), direction
            parts.append(replace(part, name=name, source_language=source, target_language=target, train=train))
    licences = ", ".join(dict.fromkeys(corpus.licence for corpus in corpora if corpus.licence))
    return Corpus(
        name=settings.name or f"languages {', '.join(dict.fromkeys(chain.from_iterable(texts)))}",
        description=" ".join(dict.fromkeys(corpus.description for corpus in corpora)),
        parts=tuple(parts),
        licence=settings.licence or licences or None,
        temperature=settings.temperature,
        layout=settings.layout,
    )


def _load_source(settings: SourceCorpusSettings, store: TextStore | None, *, hold_out_some: bool) -> Corpus:
    """Open a corpus of one kind; ``hold_out_some`` says what its settings do not: whether to hold validation out."""
    if isinstance(settings, BibleCorpus):
        from locant.text.bible import load_bible  # which makes a Corpus

        return load_bible(settings)
    train, valid, test = (_read_split(settings, store, name) for name in ("train", "valid", "test"))
    assert train is not None
    size = settings.valid_size
    if size is None:
        size = max(1, min(1000, len(train) // 20)) if hold_out_some else 0
    if valid is None and size:
        whole = train
        train, valid = hold_out(whole, size)
        if 2 * len(train) < len(whole):
            different = len(np.unique(np.concatenate([facts["pair"] for facts in whole.open_facts()])))
            if settings.valid_size is None:  # of a text that repeats itself so much, a share of what is different in it
                train, valid = hold_out(whole, max(1, different // 20))
            if not len(train):
                raise DataError(
                    f"The training text has {different} different pair(s), too few to hold out {size} for validation. "
                    "Give 'valid', or a smaller 'valid_size'."
                )
    languages = f"{settings.source_language or 'source'}-{settings.target_language or 'target'}"
    if isinstance(settings, HuggingFaceCorpus):
        description = f"Dataset {settings.dataset}{f' ({settings.config})' if settings.config else ''}."
    else:
        files = settings.train
        paths = [*files.source, *files.target] if isinstance(files, FilePair) else files
        description = f"Local files {_shown(paths)}{'' if settings.folder == Path() else f' in {settings.folder}'}."
    name = settings.name or f"{settings.kind} {languages}"
    part = CorpusPart(name, settings.source_language, settings.target_language, train, valid, test)
    return Corpus(name, description, (part,), settings.licence)


def _read_split(settings: FileCorpus, store: TextStore | None, name: str) -> ParallelText | None:
    """Read a split once, if there is one; what a large one is known by is kept in the store."""
    split, folder = getattr(settings, name), settings.folder.expanduser()
    if split is None:
        return None
    reader: TextFiles | DatasetSplit
    if isinstance(settings, HuggingFaceCorpus):
        reader = open_dataset(settings, split)
    else:
        format: LineFormat = partial(parallel_lines)
        if isinstance(settings, TsvCorpus):
            format = partial(columns, settings.source_column, settings.target_column, settings.header)
        elif isinstance(settings, JsonlCorpus):
            format = partial(json_fields, settings.source_field, settings.target_field)
        sides = (split.source, split.target) if isinstance(split, FilePair) else (split,)
        paths = ([folder / path.expanduser() for path in side] for side in sides)
        reader = TextFiles(tuple(zip(*paths, strict=True)), format)
    text = (store.open(reader) if store else None) or survey(reader.blocks)
    if not len(text):
        files = list(chain.from_iterable(reader.paths)) if isinstance(reader, TextFiles) else []
        raise DataError(
            f"The '{name}' text of the corpus is empty: there is no pair in {_shown(files) or 'the dataset'}. Name "
            "what has the sentences."
        )
    return text


def _shown(paths: Sequence[Path]) -> str:
    """Return the names of the first files."""
    return ", ".join(map(str, paths[:_SHOWN_FILES])) + (" and more" if len(paths) > _SHOWN_FILES else "")
