"""What makes a corpus doubtful before it is trained on, from the first of its pairs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from locant.errors import MissingExtraError
from locant.languages import language_identifier, parse_language, script_of
from locant.text.corpus import Corpus, CorpusPart
from locant.text.corpus_settings import CorpusSettings, LanguagesCorpus, MixtureCorpus, TsvCorpus
from locant.text.readers import read_lines

_LOOKED_AT, _IDENTIFIED, _FEWEST = 2000, 200, 10
"""Pairs of a text that are looked at, those whose language is identified, and how few say nothing."""
_SURE, _LONG = 0.9, 30  # probability of a language, and letters of a sentence that has one
_TOKENISED = re.compile(r"\s(?:[.,。、](?:\s|$)|@-@\s)|&(?:apos|quot|amp|lt|gt|#\d+);")

Code = Literal["copies", "no-letters", "columns", "tokenised", "lower-case", "language"]


@dataclass(frozen=True)
class Doubt:
    """Something about a text that is likely not meant.

    Attributes:
        code: What it is.
        where: The part of the corpus and the side, or the file.
        share: Of the pairs that were looked at, 0 to 1.
        found: An example, or the language that was found.
    """

    code: Code
    where: str
    share: float
    found: str = ""

    @property
    def sentence(self) -> str:
        """What a user is told."""
        share = f"{self.share:.0%}" if self.share >= 0.01 else "Some"
        what = {
            "copies": f"{share} of the sources are the same as their targets, so the model learns to copy. "
            "Give translations as the target, or leave such pairs out.",
            "no-letters": f"{share} of the sentences have no letters, as in '{self.found:.40}'. Of a TSV other columns "
            "may be meant: corpus.source_column and corpus.target_column.",
            "columns": f"{share} of the lines have more tabs than most, as '{self.found:.40}', so their sentences may "
            "be cut or be those of other columns. Remove tabs within sentences.",
            "tokenised": f"{share} of the sentences are tokenised or escaped, as in '{self.found:.60}'. The model "
            "then wants such text and writes it. Train it on plain text.",
            "lower-case": f"{share} of the sentences have no capital letters. The model then knows none: set "
            "tokenizer.lowercase=true, or train it on text as it is written.",
            "language": f"{share} of the sentences seem to be in another language ('{self.found}').",
        }
        return f"{self.where}: {what[self.code]}"


def corpus_doubts(settings: CorpusSettings, corpus: Corpus, *, lowercase: bool = False) -> list[Doubt]:
    """Return what is doubtful about the training text of a corpus.

    Args:
        settings: Of the corpus.
        corpus: The same, opened.
        lowercase: Whether the text is brought to lower case anyway.

    Raises:
        DataError: A file can be read no more.
    """
    found: list[Doubt] = []
    waiting: list[Any] = [settings]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, MixtureCorpus):
            waiting += [source.corpus for source in one.sources.values()]
        elif isinstance(one, LanguagesCorpus):
            waiting += one.pairs
        elif isinstance(one, TsvCorpus):
            for path in one.train:
                found += _columns(one.folder.expanduser() / path.expanduser())
    for part in corpus.parts:
        pairs = list(islice(part.train, _LOOKED_AT))
        if len(pairs) >= _FEWEST:
            found += _of_part(part, pairs, lowercase)
    return found


def _columns(path: Path) -> Iterator[Doubt]:
    lines = list(islice(read_lines(path), _LOOKED_AT))
    usual = Counter(line.count("\t") for line in lines).most_common(1)[0][0]
    more = [line for line in lines if line.count("\t") > usual]
    if more and len(lines) >= _FEWEST:
        yield Doubt("columns", str(path), len(more) / len(lines), more[0].replace("\t", " | "))


def _of_part(part: CorpusPart, pairs: Sequence[tuple[str, str]], lowercase: bool) -> Iterator[Doubt]:
    copies = sum(source == target for source, target in pairs) / len(pairs)
    if copies >= 1 / 3 and not part.noise:
        yield Doubt("copies", part.name, copies)
    languages = part.source_language, part.target_language
    sides: list[Doubt] = []
    for side, language, texts in zip(("source", "target"), languages, zip(*pairs, strict=True), strict=True):
        sides += _of_side(f"{part.name}, {side}", language, texts, lowercase)
    both = {doubt.code for doubt in sides if [other.code for other in sides].count(doubt.code) > 1} - {"language"}
    yield from (doubt for doubt in sides if doubt.code not in both)
    yield from (replace(next(one for one in sides if one.code == code), where=part.name) for code in sorted(both))


def _of_side(where: str, language: str | None, texts: Sequence[str], lowercase: bool) -> Iterator[Doubt]:
    bare = [text for text in texts if not any(map(str.isalpha, text))]
    if 2 * len(bare) >= len(texts):
        yield Doubt("no-letters", where, len(bare) / len(texts), bare[0])
        return
    tokenised = tokenised_texts(texts)
    if 5 * len(tokenised) >= len(texts):
        yield Doubt("tokenised", where, len(tokenised) / len(texts), tokenised[0])
    cased = [text for text in texts if text.lower() != text.upper()]
    lower = [text for text in cased if text == text.lower()]
    if not lowercase and len(lower) >= 0.98 * len(cased) and 2 * len(cased) >= len(texts):
        yield Doubt("lower-case", where, len(lower) / len(texts))
    yield from _other_language(where, language, texts)


def tokenised_texts(texts: Sequence[str]) -> list[str]:
    """Return those texts that look tokenised or escaped, as ``Moses`` leaves them."""
    return [text for text in texts if _TOKENISED.search(text)]


def _other_language(where: str, language: str | None, texts: Sequence[str]) -> Iterator[Doubt]:
    said, script = parse_language(language) if language else None, script_of(texts)
    if said and not said.may_be_in(script):
        yield Doubt("language", where, 1.0, script)
        return
    with suppress(MissingExtraError):
        identifier = language_identifier()
        long = [text for text in texts if sum(map(str.isalpha, text)) >= _LONG]
        some = long[:: len(long) // _IDENTIFIED + 1]
        ranked = [identifier.rank(text)[0] for text in some]
        counts = Counter(parse_language(code).code for code, share in ranked if share >= _SURE)
        usual = said.code if said else max(counts, key=lambda code: counts[code], default="")
        sure = counts.total()
        del counts[usual]
        known = said is None or said.code in {parse_language(code).code for code in identifier.nb_classes}
        if known and counts.total() >= max(_FEWEST, len(some) / 5):
            yield Doubt("language", where, counts.total() / sure, max(counts, key=lambda code: counts[code]))
