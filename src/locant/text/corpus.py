"""Corpora: the parts, splits and stages of parallel text, and their opening from settings.

A corpus is read once when it is opened, so that mistakes surface before any long work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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
from locant.text.readers import Columns, DatasetSplit, JsonFields, ParallelLines, TextFiles, open_dataset
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
        weight: How often it is drawn, see :func:`~locant.text.epochs.sampling_shares`.
        tag: The token before each source of the training text, which marks it as one of a kind; or None.
        noise: Of the sources of the training text; or None.
    """

    name: str
    source_language: str | None
    target_language: str | None
    train: ParallelText
    valid: ParallelText | None
    test: ParallelText | None
    weight: float = 1.0
    tag: str | None = None
    noise: NoiseSettings | None = None

    @property
    def zero_shot(self) -> bool:
        """Whether this is a direction that is only measured."""
        return not len(self.train)


@dataclass(frozen=True)
class CorpusStage:
    """A stretch of training: its settings say when it ends, the weights are of each part, in the order of the parts."""

    settings: MixtureStage
    weights: tuple[float, ...]


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
        stages: Stretches of training with weights of their own; none where the weights of the parts hold throughout.
    """

    name: str
    description: str
    parts: tuple[CorpusPart, ...]
    licence: str | None = None
    temperature: float = 1.0
    layout: LanguageLayout | None = None
    stages: tuple[CorpusStage, ...] = ()

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
        return [stage.weights for stage in self.stages] or [tuple(part.weight for part in self.parts)]

    @property
    def train(self) -> ParallelText:
        """The training text of all parts, one after the other."""
        return concatenated([part.train for part in self.parts])

    @property
    def drawn(self) -> ParallelText:
        """The same without parts that have no weight in any stage."""
        drawn = [any(weights) for weights in zip(*self.weights, strict=True)]
        return concatenated([part.train for part, wanted in zip(self.parts, drawn, strict=True) if wanted])

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
        return _load_mixture(settings, store)
    corpus = _load_plain(settings, store, hold_out_some=True)
    if not corpus.valids:
        raise ConfigError("The corpus has no validation text: give 'valid', or a valid_size above 0.")
    return corpus


def _load_mixture(settings: MixtureCorpus, store: TextStore | None) -> Corpus:
    """Open the sources of a mixture, whose parts become its parts."""
    sources = settings.sources.values()
    given = any(isinstance(one.corpus, BibleCorpus) or one.corpus.valid is not None for one in sources)
    corpora = {
        name: _load_plain(source.corpus, store, hold_out_some=not (given or source.tag))
        for name, source in settings.sources.items()
    }
    for name, corpus in corpora.items():
        if corpus.layout is not None:
            raise ConfigError(
                f"The source '{name}' of the mixture has several languages, and a mixture has one pair of them. Use "
                "kind 'languages', whose pairs may be mixtures."
            )
    languages: dict[str, Any] = {}
    for side in ("source_language", "target_language"):
        known = {name: language for name, corpus in corpora.items() if (language := getattr(corpus, side))}
        if len(set(map(parse_language, known.values()))) > 1:
            listed = ", ".join(f"{language} in '{name}'" for name, language in known.items())
            raise ConfigError(
                "The sources of a mixture must be of one pair of languages, but the "
                f"{side.replace('_', ' ')} is {listed}."
            )
        languages[side] = next(iter(known.values()), None)
    named = [(name, part) for name, corpus in corpora.items() for part in corpus.parts]
    parts = [
        replace(
            part,
            name=name if len(corpora[name].parts) == 1 else f"{name}/{part.name}",
            **languages,
            weight=settings.sources[name].weight * part.weight,
            tag=settings.sources[name].tag,
            noise=noise if (noise := settings.sources[name].noise) and noise.any else None,
        )
        for name, part in named
    ]
    if not any(part.valid for part in parts):
        raise ConfigError("No source of the mixture has validation text: give one of them 'valid' or 'valid_size'.")
    stages = []
    for stage in settings.stages:
        weights = settings.stage_weights(stage)
        stages.append(CorpusStage(stage, tuple(weights[name] * part.weight for name, part in named)))
    licences = [f"{corpus.licence} ({name})" for name, corpus in corpora.items() if corpus.licence]
    return Corpus(
        name=settings.name or f"mixture of {', '.join(corpora)}",
        description=" ".join(f"{name}: {corpus.description}" for name, corpus in corpora.items()),
        parts=tuple(parts),
        licence="; ".join(licences) or None,
        temperature=settings.temperature,
        stages=tuple(stages),
    )


def _load_plain(settings: SourceCorpusSettings, store: TextStore | None, *, hold_out_some: bool) -> Corpus:
    """Open a corpus of one kind; ``hold_out_some`` says what its settings do not: whether to hold validation out."""
    if isinstance(settings, BibleCorpus):
        from locant.text.bible import load_bible  # which makes a Corpus

        return load_bible(settings)
    splits = {"train": settings.train, "test": settings.test, "valid": settings.valid}
    texts = {
        name: None if split is None else _survey_split(settings, store, name, split) for name, split in splits.items()
    }
    whole, valid = texts["train"], texts["valid"]
    assert whole is not None
    train, size = whole, settings.valid_size
    if size is None:
        size = max(1, min(1000, len(whole) // 20)) if hold_out_some else 0
    if valid is None and size:
        # Of a text that repeats itself so much as many as of what is different in it.
        if size < len(whole):
            train, valid = hold_out(whole, size)
            if settings.valid_size is None and 2 * len(train) < len(whole):
                train, valid = hold_out(whole, max(1, _count_different(whole) // 20))
        if valid is None or not len(train):
            raise DataError(
                f"The training text has {_count_different(whole)} different pair(s), too few to hold out {size} for "
                "validation. Give 'valid', or a smaller 'valid_size'."
            )
    languages = f"{settings.source_language or 'source'}-{settings.target_language or 'target'}"
    if isinstance(settings, HuggingFaceCorpus):
        description = f"Dataset {settings.dataset}{f' ({settings.config})' if settings.config else ''}."
    else:
        files = settings.train
        paths = [*files.source, *files.target] if isinstance(files, FilePair) else files
        description = f"Local files {_shown(paths)}{'' if settings.folder == Path() else f' in {settings.folder}'}."
    name = settings.name or f"{settings.kind} {languages}"
    part = CorpusPart(name, settings.source_language, settings.target_language, train, valid, texts["test"])
    return Corpus(name, description, (part,), settings.licence)


def _count_different(text: ParallelText) -> int:
    return len(np.unique(np.concatenate([facts["pair"] for facts in text.open_facts()])))


def _load_languages(settings: LanguagesCorpus, store: TextStore | None) -> Corpus:
    corpora = [load_corpus(pair, store) for pair in settings.pairs]
    texts: dict[Direction, list[CorpusPart]] = {}
    codes: dict[LanguageTag, str] = {}
    for number, corpus in enumerate(corpora, start=1):
        if corpus.layout is not None:
            raise ConfigError(f"Pair {number} of the corpus has 'languages' itself; a pair has two languages.")
        if corpus.stages or corpus.temperature != 1:
            raise ConfigError(
                f"Pair {number} of the corpus ({corpus.name}) has stages or a temperature of its own, but text of all "
                "pairs is drawn together. Leave them out, and give the temperature to the corpus of all languages."
            )
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
                raise ConfigError(
                    f"Pair {number} of the corpus ({corpus.name}) is of one language, '{part.source_language}'."
                )
            part = replace(part, source_language=source, target_language=target)
            texts.setdefault(Direction(source, target), []).append(part)
            if part.tag is None:  # tagged text is synthetic on one side, which should not become a target
                back = replace(
                    part,
                    source_language=target,
                    target_language=source,
                    train=turned(part.train),
                    valid=part.valid and turned(part.valid),
                    test=part.test and turned(part.test),
                )
                texts.setdefault(Direction(target, source), []).append(back)
    parts = []
    for direction, trained in settings.chosen(texts).items():
        for number, part in enumerate(texts[direction], start=1):
            name = f"{direction} {number}" if number > 1 else str(direction)
            if not trained and part.valid is None and part.test is None:
                raise ConfigError(f"The zero-shot direction {name} has no text of validation or test to measure it on.")
            parts.append(replace(part, name=name, train=part.train if trained else in_memory([])))
    languages = ", ".join(dict.fromkeys(code for direction in texts for code in direction))
    description = " ".join(dict.fromkeys(corpus.description for corpus in corpora))
    licences = dict.fromkeys(corpus.licence for corpus in corpora if corpus.licence)
    licence = settings.licence or (", ".join(licences) or None)
    name = settings.name or f"languages {languages}"
    return Corpus(name, description, tuple(parts), licence, settings.temperature, settings.layout)


def _survey_split(
    settings: FileCorpus, store: TextStore | None, name: str, split: FilePair | Sequence[Path] | str
) -> ParallelText:
    """Read a split once; a large one is kept in the store."""
    folder = settings.folder.expanduser()
    reader: TextFiles | DatasetSplit
    if isinstance(settings, HuggingFaceCorpus):
        reader = open_dataset(settings, str(split))
    else:
        format: ParallelLines | Columns | JsonFields = ParallelLines()
        if isinstance(settings, TsvCorpus):
            format = Columns(settings.source_column, settings.target_column, settings.header)
        elif isinstance(settings, JsonlCorpus):
            format = JsonFields(settings.source_field, settings.target_field)
        sides = (split.source, split.target) if isinstance(split, FilePair) else (split,)
        paths = ([folder / Path(path).expanduser() for path in side] for side in sides)
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
