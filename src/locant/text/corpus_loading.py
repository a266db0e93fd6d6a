"""Opening a corpus from its settings, read once so that mistakes surface before any long work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from locant.errors import ConfigError, DataError
from locant.languages import LanguageTag, parse_language
from locant.text.bible import load_bible
from locant.text.corpus import Corpus, CorpusPart, CorpusStage
from locant.text.corpus_settings import (
    BibleCorpus,
    CorpusSettings,
    FileCorpus,
    FilePair,
    FilesCorpus,
    HuggingFaceCorpus,
    JsonlCorpus,
    LanguagesCorpus,
    MixtureCorpus,
    SourceCorpusSettings,
    TsvCorpus,
)
from locant.text.directions import Direction
from locant.text.pairs import ParallelText, count_different, hold_out, in_memory, survey, turned
from locant.text.readers import Columns, DatasetSplit, JsonFields, ParallelLines, TextFiles, open_dataset
from locant.text.store import TextStore

_SHOWN_FILES = 4
"""Files that the description of a corpus names."""


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
    given = any(
        isinstance(source.corpus, BibleCorpus) or source.corpus.valid is not None
        for source in settings.sources.values()
    )
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
    languages = [_agreed(side, corpora) for side in ("source_language", "target_language")]
    parts = [
        replace(
            part,
            name=name if len(corpus.parts) == 1 else f"{name}/{part.name}",
            source_language=languages[0],
            target_language=languages[1],
            weight=settings.sources[name].weight * part.weight,
            tag=settings.sources[name].tag,
            noise=noise if (noise := settings.sources[name].noise) and noise.any else None,
        )
        for name, corpus in corpora.items()
        for part in corpus.parts
    ]

    def weights(of_sources: Mapping[str, float]) -> tuple[float, ...]:
        return tuple(of_sources[name] * part.weight for name, corpus in corpora.items() for part in corpus.parts)

    if not any(part.valid for part in parts):
        raise ConfigError("No source of the mixture has validation text: give one of them 'valid' or 'valid_size'.")
    licences = {name: corpus.licence for name, corpus in corpora.items() if corpus.licence}
    return Corpus(
        name=settings.name or f"mixture of {', '.join(corpora)}",
        description=" ".join(f"{name}: {corpus.description}" for name, corpus in corpora.items()),
        parts=tuple(parts),
        licence="; ".join(f"{licence} ({name})" for name, licence in licences.items()) or None,
        temperature=settings.temperature,
        stages=tuple(CorpusStage(stage, weights(settings.stage_weights(stage))) for stage in settings.stages),
    )


def _agreed(side: str, corpora: Mapping[str, Corpus]) -> str | None:
    """Return the language of one side that those sources agree on that know it.

    Raises:
        ConfigError: They do not agree.
    """
    known = {name: language for name, corpus in corpora.items() if (language := getattr(corpus, side))}
    if len(set(map(parse_language, known.values()))) > 1:
        listed = ", ".join(f"{language} in '{name}'" for name, language in known.items())
        raise ConfigError(
            f"The sources of a mixture must be of one pair of languages, but the {side.replace('_', ' ')} is {listed}."
        )
    return next(iter(known.values()), None)


def _load_plain(settings: SourceCorpusSettings, store: TextStore | None, *, hold_out_some: bool) -> Corpus:
    """Open a corpus of one kind.

    Args:
        settings: Of the corpus.
        store: Where large files are kept.
        hold_out_some: Whether to hold validation text out of the training text where the settings say nothing of it.
    """
    if isinstance(settings, BibleCorpus):
        return load_bible(settings)
    survey_split = partial(_survey_split, settings, store)
    train = whole = survey_split("train", settings.train)
    test = None if settings.test is None else survey_split("test", settings.test)
    if settings.valid is not None:
        valid: ParallelText | None = survey_split("valid", settings.valid)
    else:
        usual = max(1, min(1000, len(train) // 20)) if hold_out_some else 0
        size = usual if settings.valid_size is None else settings.valid_size
        valid = None
        if size >= len(train):
            raise DataError(
                f"The training text has {len(train)} pair(s), too few to hold out {size} for validation. "
                "Give 'valid', or a smaller 'valid_size'."
            )
        if size:
            train, valid = hold_out(whole, size)
            if settings.valid_size is None and 2 * len(train) < len(whole):  # so few are different
                train, valid = hold_out(whole, max(1, count_different(whole) // 20))
            if not len(train):
                different = count_different(whole)
                raise DataError(
                    f"The training text has {different} different pair(s), too few to hold out {size} for validation. "
                    "Give 'valid', or a smaller 'valid_size'."
                )
    languages = f"{settings.source_language or 'source'}-{settings.target_language or 'target'}"
    name = settings.name or f"{settings.kind} {languages}"
    part = CorpusPart(name, settings.source_language, settings.target_language, train, valid, test)
    return Corpus(name, _description(settings), (part,), settings.licence)


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
    licences = list(dict.fromkeys(corpus.licence for corpus in corpora if corpus.licence))
    licence = settings.licence or (", ".join(licences) or None)
    name = settings.name or f"languages {languages}"
    return Corpus(name, description, tuple(parts), licence, settings.temperature, settings.layout)


def _survey_split(
    settings: FileCorpus, store: TextStore | None, name: str, split: FilePair | Sequence[Path] | str
) -> ParallelText:
    """Read a split once; a large one is kept in the store."""
    reader = _reader(settings, split)
    text = (store.open(reader) if store else None) or survey(reader.blocks)
    if not len(text):
        files = list(chain.from_iterable(reader.paths)) if isinstance(reader, TextFiles) else []
        raise DataError(
            f"The '{name}' text of the corpus is empty: there is no pair in {_shown(files) or 'the dataset'}. Name "
            "what has the sentences."
        )
    return text


def _reader(settings: FileCorpus, split: FilePair | Sequence[Path] | str) -> TextFiles | DatasetSplit:
    """Return what reads the pairs of one split."""
    if isinstance(settings, HuggingFaceCorpus) and isinstance(split, str):
        return open_dataset(
            settings.dataset,
            folder=settings.folder.expanduser(),
            config=settings.config,
            revision=settings.revision,
            split=split,
            source_field=settings.source_field,
            target_field=settings.target_field,
        )
    if isinstance(split, FilePair):
        sides = _resolved(settings, split.source), _resolved(settings, split.target)
        return TextFiles(tuple(zip(*sides, strict=True)), ParallelLines())
    paths = tuple((path,) for path in _resolved(settings, [Path(path) for path in split]))
    if isinstance(settings, TsvCorpus):
        return TextFiles(paths, Columns(settings.source_column, settings.target_column, settings.header))
    assert isinstance(settings, JsonlCorpus)
    return TextFiles(paths, JsonFields(settings.source_field, settings.target_field))


def _resolved(settings: FileCorpus, paths: Sequence[Path]) -> list[Path]:
    return [settings.folder.expanduser() / path.expanduser() for path in paths]


def _description(settings: FilesCorpus | TsvCorpus | JsonlCorpus | HuggingFaceCorpus) -> str:
    if isinstance(settings, HuggingFaceCorpus):
        return f"Dataset {settings.dataset}{f' ({settings.config})' if settings.config else ''}."
    train = [*settings.train.source, *settings.train.target] if isinstance(settings, FilesCorpus) else settings.train
    place = "" if settings.folder == Path() else f" in {settings.folder}"
    return f"Local files {_shown(train)}{place}."


def _shown(paths: Sequence[Path]) -> str:
    """Return the names of the first files."""
    return ", ".join(map(str, paths[:_SHOWN_FILES])) + (" and more" if len(paths) > _SHOWN_FILES else "")
