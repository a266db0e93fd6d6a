"""Settings of corpora: the kinds of sources of parallel text and the keys of each.

A direction is a pair of languages in one order, written ``en-de``. A zero-shot direction is never trained: the model
has read its source language and written its target language in other directions only (Johnson et al. 2017, "Google's
Multilingual Neural Machine Translation System", section 4.5).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from locant.errors import ConfigError, nearest
from locant.settings import Settings
from locant.text.noise import NoiseSettings
from locant.text.tokenizer_pair import Direction, LanguageLayout

_as_list = BeforeValidator(lambda value: [value] if isinstance(value, str | Path) else value)
Paths = Annotated[tuple[Path, ...], _as_list, Field(min_length=1)]
"""One path or a list of paths; several files are read one after the other."""
Names = Annotated[tuple[str, ...], _as_list, Field(min_length=1)]
"""One name or a list of names."""
Directions = Annotated[tuple[str, ...], _as_list]
"""One direction or a list of directions, such as ``en-de``."""


class FileCorpus(Settings):
    """Keys that the kinds with named splits share.

    Attributes:
        name: A name for reports; by default made from the kind and the languages.
        folder: Where relative paths start.
        source_language: Short code such as ``en``.
        target_language: Short code such as ``de``.
        valid_size: How many training pairs to hold out for validation when ``valid`` is not given; by default
            5 %, at most 1000. 0, for a source of a mixture alone, holds out none.
        licence: Licence of the text, for the model card: ``CC BY 4.0``, for instance.
    """

    name: str | None = None
    licence: str | None = None
    folder: Path = Path()
    source_language: str | None = None
    target_language: str | None = None
    valid_size: int | None = Field(default=None, ge=0)


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


class FilesCorpus(FileCorpus):
    """Parallel plain text: one sentence a line, line by line translations (``.gz`` files too)."""

    kind: Literal["files"]
    train: FilePair
    valid: FilePair | None = None
    test: FilePair | None = None


class TsvCorpus(FileCorpus):
    """Tab-separated files (``.gz`` too); columns are numbered from 1, quotation marks have no special meaning."""

    kind: Literal["tsv"]
    train: Paths
    valid: Paths | None = None
    test: Paths | None = None
    source_column: int = Field(default=1, ge=1)
    target_column: int = Field(default=2, ge=1)
    header: bool = False


class JsonlCorpus(FileCorpus):
    """Files with one JSON object a line (``.gz`` too); dots in a field name descend, as in ``translation.en``."""

    kind: Literal["jsonl"]
    train: Paths
    valid: Paths | None = None
    test: Paths | None = None
    source_field: str = "source"
    target_field: str = "target"


class HuggingFaceCorpus(FileCorpus):
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


class DirectionSettings(Settings):
    """Keys of a corpus of several languages.

    Attributes:
        directions: ``all``, or the directions that are trained.
        zero_shot: Directions that are never trained, but measured in validation and test.
        layout: Where the tokens of the languages are, see :class:`~locant.text.LanguageTokens`.
        temperature: How much the sizes of the directions' texts count when pairs are drawn: 1 for all, more for less
            (see :func:`~locant.text.epochs.sampling_shares`).
    """

    directions: Literal["all"] | Directions = "all"
    zero_shot: Directions = ()
    layout: LanguageLayout = "fairseq"
    temperature: float = Field(default=1.0, gt=0)

    def chosen(self, possible: Iterable[Direction]) -> dict[Direction, bool]:
        """Return the directions that are used, in the order of those that have text, and whether each is trained.

        Raises:
            ConfigError: A direction has no text, is trained and zero-shot at once, or could not be measured fairly;
                or none is trained.
        """
        known = {str(direction): direction for direction in possible}
        every = self.directions == "all"
        trained = [name for name in known if name not in self.zero_shot] if every else [*self.directions]
        for name in (*trained, *self.zero_shot):
            if name not in known:
                more = " A zero-shot direction is measured on text of its own." if name in self.zero_shot else ""
                raise ConfigError(
                    f"The corpus has no text for the direction {name}.{nearest(name, known)} It has text for "
                    f"{', '.join(known)}. Add some, or leave the direction out.{more}"
                )
        if not trained:
            raise ConfigError("No direction is left to train on: all are in 'zero_shot'. Leave some of them out.")
        for name in self.zero_shot:
            if name in trained:
                raise ConfigError(f"The direction {name} is in both 'directions' and 'zero_shot'. Name it in one.")
            for side, does in (("source", "translates from"), ("target", "translates into")):
                if (language := getattr(known[name], side)) not in {getattr(known[other], side) for other in trained}:
                    raise ConfigError(
                        f"The zero-shot direction {name} {does} '{language}', which no trained direction does, so the "
                        "model never sees it there. Train one that does."
                    )
        return {one: name in trained for name, one in known.items() if name in {*trained, *self.zero_shot}}


class BibleCorpus(DirectionSettings):
    """Bible translations in the public domain (see :func:`~locant.text.bible.bible_versions`).

    Either two languages, by ``source`` and ``target``, or several with language tokens, by ``languages``.

    Attributes:
        name: A name for reports.
        source: A version, or a list of versions of one language: in training each gives its own pairs.
        target: A version.
        languages: By language code, a version or a list of versions. As a source each version gives pairs of its own
            in training; translated into is the first.
        valid_chapters: Whole chapters held out for validation (about 26 verses each).
        test_chapters: Whole chapters held out for the test.
    """

    kind: Literal["bible"]
    name: str | None = None
    source: Names | None = None
    target: str | None = None
    languages: dict[str, Names] | None = None
    valid_chapters: int = Field(default=20, ge=1, le=400)
    test_chapters: int = Field(default=20, ge=1, le=400)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.languages is None:
            if self.source is None or self.target is None:
                raise ValueError("needs 'source' and 'target', or 'languages'")
            if self.directions != "all" or self.zero_shot:
                raise ValueError("'directions' and 'zero_shot' go with 'languages'")
        elif self.source is not None or self.target is not None:
            raise ValueError("has 'languages', which take the place of 'source' and 'target'")
        elif len(self.languages) < 2:
            raise ValueError("'languages' must be two or more")
        return self


SourceCorpusSettings = Annotated[
    FilesCorpus | TsvCorpus | JsonlCorpus | HuggingFaceCorpus | BibleCorpus, Field(discriminator="kind")
]
"""The settings of a corpus that may be a source of a mixture."""

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""How often text is drawn; 0 draws none."""

_SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")


class MixtureSource(Settings):
    """One of the texts of a mixture.

    Attributes:
        corpus: Any kind of corpus but a mixture. Nothing is held out of it for validation without a ``valid_size``
            where it has a tag, or where another source gives ``valid``.
        weight: How often its pairs are drawn, compared with the other sources; 0 draws none.
        tag: A token of the vocabulary that is before each of its sources in training, such as ``<bt>`` for
            back-translated text (Caswell et al. 2019, arXiv:1906.06442). Translation goes without it, and so do
            validation and test.
        noise: Changes of the sources in training, so that the model bears with text that is not well written.
    """

    corpus: SourceCorpusSettings
    weight: Weight = 1.0
    noise: NoiseSettings | None = None
    tag: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if isinstance(self.corpus, BibleCorpus) and self.corpus.languages:
            raise ValueError(
                "the corpus has several languages, and a mixture has one pair of them; use kind 'languages', whose "
                "pairs may be mixtures"
            )
        if self.tag is not None and self.tag.split() != [self.tag]:
            raise ValueError(f"the tag '{self.tag}' must be one word without spaces, such as <bt>")
        if self.tag in _SPECIAL:
            raise ValueError(f"the tag {self.tag} is a special token of every vocabulary; choose another, such as <bt>")
        return self


def _by_name(value: Any) -> Any:
    """Return names as a mapping to no weight of their own."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        return value
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"the source '{twice[0]}' is named twice; name it once, with a weight if it should count more")
    return dict.fromkeys(names)


class MixtureStage(Settings):
    """A stretch of training with sources and weights of its own.

    Attributes:
        until: Where it ends: below 1 the share of the budget that is then used, above 1 the number of updates. The
            last stage has none.
        sources: Names of the sources that are drawn from, or weights by name; by default all. Those named without a
            weight have that of the source.
    """

    until: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    sources: Annotated[dict[str, Weight | None], BeforeValidator(_by_name)] | None = None

    def ends(self, used: float, updates: int) -> bool:
        """Whether the stage is over.

        Args:
            used: The share of the budget that is used, 0 to 1.
            updates: How many are done.
        """
        return self.until is not None and (used if self.until < 1 else updates) >= self.until


class MixtureCorpus(Settings):
    """Several corpora of one pair of languages, drawn by weight (see :func:`~locant.text.epochs.sampling_shares`).

    Attributes:
        name: A name for reports.
        sources: The texts by name.
        temperature: How much the sizes of the sources count: 1 for all, more for less, ``.inf`` for nothing at all,
            so that weights alone decide.
        stages: Stretches of training, one after the other, with sources of their own; by default there is one, with
            all.
    """

    kind: Literal["mixture"]
    name: str | None = None
    sources: dict[str, MixtureSource] = Field(min_length=1)
    temperature: float = Field(default=1.0, gt=0)
    stages: tuple[MixtureStage, ...] = ()

    @model_validator(mode="after")
    def _some_text(self) -> Self:
        if not any(source.weight for source in self.sources.values()):
            raise ValueError("the weights of all sources are 0, so there is no text to train on; raise one of them")
        for number, stage in enumerate(self.stages, start=1):
            for name in stage.sources or ():
                if name not in self.sources:
                    hint = nearest(name, self.sources) or f" Known: {', '.join(self.sources)}."
                    raise ValueError(f"stage {number} names the source '{name}', which there is not.{hint}")
            if not any(self.stage_weights(stage).values()):
                raise ValueError(
                    f"stage {number} has no text: the weights of its sources are 0; name a source that has a weight"
                )
        return self

    @model_validator(mode="after")
    def _stages_follow(self) -> Self:
        ends = [stage.until or 0 for stage in self.stages[:-1]]
        listed = ", ".join(f"{end:g}" for end in ends)
        if self.stages and self.stages[-1].until is not None:
            raise ValueError("the last stage lasts to the end of training, so leave out its 'until'")
        if not all(ends):
            raise ValueError("every stage but the last needs 'until', the share of the budget at which it ends")
        if not (all(end < 1 for end in ends) or all(end > 1 and end % 1 == 0 for end in ends)):
            raise ValueError(
                f"stages end at {listed}; give shares of the budget, all below 1, or whole numbers of updates, above 1"
            )
        if any(end >= later for end, later in pairwise(ends)):
            raise ValueError(f"stages end at {listed}, but each must end after the one before")
        return self

    def stage_weights(self, stage: MixtureStage) -> dict[str, float]:
        """Return the weight of each source in a stage; 0 of those that it does not name."""
        if stage.sources is None:
            return {name: source.weight for name, source in self.sources.items()}
        own = {name: stage.sources.get(name, 0.0) for name in self.sources}
        return {name: self.sources[name].weight if weight is None else weight for name, weight in own.items()}


PairCorpusSettings = Annotated[SourceCorpusSettings | MixtureCorpus, Field(discriminator="kind")]
"""The settings of a corpus of one pair of languages."""


class LanguagesCorpus(DirectionSettings):
    """Several languages: pairs of languages, each with text of its own that serves both directions.

    Attributes:
        name: A name for reports.
        licence: Licence of the text, for the model card.
        pairs: Corpora of any other kind, with their ``source_language`` and ``target_language``.
    """

    kind: Literal["languages"]
    name: str | None = None
    licence: str | None = None
    pairs: tuple[PairCorpusSettings, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for number, pair in enumerate(self.pairs, start=1):
            if isinstance(pair, BibleCorpus) and pair.languages:
                raise ValueError(f"pair {number} has 'languages' itself; a pair has two languages")
            if isinstance(pair, MixtureCorpus) and (pair.stages or pair.temperature != 1):
                raise ValueError(
                    f"pair {number} has stages or a temperature of its own, but text of all pairs is drawn together; "
                    "leave them out, and give the temperature to the corpus of all languages"
                )
        return self


CorpusSettings = Annotated[PairCorpusSettings | LanguagesCorpus, Field(discriminator="kind")]
"""The settings of any corpus; the key ``kind`` tells which."""
