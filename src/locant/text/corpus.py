"""Corpora: the parts, splits and stages of parallel text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from locant.text.corpus_settings import MixtureStage
from locant.text.noise import NoiseSettings
from locant.text.pairs import ParallelText, concatenated
from locant.text.tokenizer_pair import LanguageLayout


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

    @property
    def digest(self) -> str:
        """A hash of all text of the three splits."""
        return "-".join(split.digest for split in (self.train, self.valid, self.test) if split is not None)


@dataclass(frozen=True)
class CorpusStage:
    """A stretch of training.

    Attributes:
        settings: Say when it ends.
        weights: Of each part, in the order of the parts.
    """

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
        layout: Where the tokens of the languages stand in a corpus of several; None without such tokens.
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
        if self.layout is None:
            return ()
        sources = [] if self.layout == "marian" else [part.source_language for part in self.parts]
        codes = (*sources, *(part.target_language for part in self.parts))
        return tuple(dict.fromkeys(code for code in codes if code is not None))

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
        return "+".join(part.digest for part in self.parts)


def _common(values: Iterable[str | None]) -> str | None:
    """Return the value that all have, or None where they differ."""
    different = set(values)
    return different.pop() if len(different) == 1 else None
