"""Glossaries: terms with their translations, words that stay as they are, and where they are in a sentence."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from locant.errors import DataError
from locant.parsing import read_bytes
from locant.text.spans import Locator, Span, goes_on, in_word, word_spans

MOST_TERMS = 100_000
"""Terms of the largest glossary."""
LONGEST_TERM = 200
"""Characters of the longest term, and of the longest translation of one."""
_LARGEST_FILE = 20_000_000
_SENTENCE_ENDS = ".!?\u2026"


@dataclass(frozen=True, slots=True)
class Match:
    """A term between two offsets of a sentence, and what the translation of the sentence has to have.

    ``may_begin`` says whether these words are written with a capital letter where they begin a sentence.
    """

    start: int
    end: int
    words: str
    may_begin: bool = False


class Glossary:
    """Terms that are translated in one way, and words that are not translated.

    A term is found where it is as whole words, with any white space between them, in the very letters; where two
    overlap, the longer one is found. A term whose first word is written in lower case is also found with a capital
    letter where a sentence begins.

    Args:
        terms: The translation of each term; ``None`` for one that stays as it is.

    Attributes:
        terms: Likewise, in composed Unicode (NFC), with single spaces.

    Raises:
        DataError: A term or a translation is empty, too long, or without a letter or digit; a term is there twice with
            different translations; there are too many.

    Example:
        >>> glossary = Glossary({"machine": "Maschine", "Locant": None})
        >>> [match.words for match in glossary.find("Machines are no machine, says Locant.")]
        ['Maschine', 'Locant']
    """

    def __init__(self, terms: Mapping[str, str | None]) -> None:
        self._set((f"The term '{_shown(term)}'", term, words) for term, words in terms.items())

    @classmethod
    def read(cls, path: Path | str) -> Glossary:
        """Read a glossary file.

        It is UTF-8. Each line has a term, a tab and its translation; a line with a term alone says that it stays as it
        is. Empty lines, and lines that begin with ``#``, say nothing. A file whose name ends in ``.csv`` has commas
        for tabs, and quotation marks around what has commas in it (RFC 4180).

        Raises:
            DataError: The file cannot be read, or a line is wrong; the message has its number.
        """
        path = Path(path)
        try:
            text = read_bytes(path, _LARGEST_FILE).decode("utf-8-sig")
        except FileNotFoundError:
            raise DataError(f"The glossary {path} does not exist.") from None
        except (OSError, ValueError) as error:
            reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
            raise DataError(f"The glossary {path} cannot be read: {reason}.") from None
        glossary = cls.__new__(cls)
        glossary._set(_rows(path, text))
        if not glossary.terms:
            raise DataError(f"The glossary {path} has no term. Write a term, a tab and its translation in each line.")
        return glossary

    def _set(self, rows: Iterator[tuple[str, str, str | None]]) -> None:
        """Take on terms, each with where it is, for messages."""
        self.terms: dict[str, str | None] = {}
        places: dict[str, str] = {}
        for where, term, words in rows:
            source = _checked(term, where, "the term")
            target = None if words is None else _checked(words, where, "the translation")
            if source in self.terms and self.terms[source] != target:
                raise DataError(f"{where}: '{source}' has another translation already ({places[source]}). Keep one.")
            if len(self.terms) == MOST_TERMS and source not in self.terms:
                raise DataError(f"{where}: a glossary has at most {MOST_TERMS:,} terms.")
            self.terms[source] = target
            places.setdefault(source, where)
        lengths: dict[str, set[int]] = {}
        for source in self.terms:
            lengths.setdefault(source[0].lower(), set()).add(len(source))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    def __len__(self) -> int:
        return len(self.terms)

    def __repr__(self) -> str:
        return f"Glossary({len(self)} terms)"

    def find(self, sentence: str) -> list[Match]:
        """Return the terms of a sentence, in their order; no two of them overlap."""
        text, place = _normal(sentence)
        candidates: list[Match] = []
        for start, first in enumerate(text):
            lengths = self._lengths.get(first.lower())
            if not lengths or goes_on(text, start):
                continue
            for length in lengths:
                end = start + length
                if end > len(text) or goes_on(text, end):
                    continue
                term = found = text[start:end]
                if found not in self.terms and first.isupper():
                    lower = first.lower() + found[1:]
                    if lower in self.terms and _has_lower_first(lower) and begins_sentence(text, start):
                        term = lower
                if term in self.terms:
                    words = self.terms[term]
                    if words in (None, term):
                        candidates.append(Match(start, end, found))
                    else:
                        candidates.append(Match(start, end, str(words), _has_lower_first(str(words))))
        chosen: list[Match] = []
        taken = bytearray(len(text))
        for match in sorted(candidates, key=lambda match: match.start - match.end):
            if not any(taken[match.start : match.end]):
                taken[match.start : match.end] = b"\1" * (match.end - match.start)
                chosen.append(match)
        chosen.sort(key=lambda match: match.start)
        return [Match(*place(match.start, match.end), match.words, match.may_begin) for match in chosen]

    def spans(self, sentence: str) -> list[Span]:
        """Return where terms are in a sentence, which is not to be cut there."""
        return [(match.start, match.end) for match in self.find(sentence)]


def _rows(path: Path, text: str) -> Iterator[tuple[str, str, str | None]]:
    """Yield where each line of a glossary file is, its term and its translation."""
    lines = io.StringIO(text, newline=None)
    has_commas = path.suffix.lower() == ".csv"
    rows = csv.reader(lines, strict=True) if has_commas else csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    while True:
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise DataError(f"{path}, line {rows.line_num}: this is no line of a table ({error}).") from None
        if cells is None:
            return
        where = f"{path}, line {rows.line_num}"
        if not "".join(cells).strip() or cells[0].startswith("#"):
            continue
        if has_commas and len(cells) == 1 and ";" in cells[0]:
            raise DataError(
                f"{where}: there is a semicolon and no comma. A .csv file has a comma between a term and its "
                "translation; a term that has a semicolon in it and stays as it is is in a file with tabs."
            )
        if len(cells) > 2:
            raise DataError(f"{where}: a line has a term and its translation; this one has {len(cells)} columns.")
        if len(cells) == 2 and not cells[1].strip():
            raise DataError(f"{where}: the translation is empty. A line with the term alone says that it stays.")
        yield where, cells[0], cells[1] if len(cells) == 2 else None


def _checked(words: str, where: str, side: str) -> str:
    """Return words in composed Unicode with single spaces; raises DataError where they cannot be a term."""
    plain = " ".join(unicodedata.normalize("NFC", words).split())
    if not plain:
        raise DataError(f"{where}: {side} is empty.")
    if len(plain) > LONGEST_TERM:
        raise DataError(f"{where}: {side} has {len(plain)} characters; at most {LONGEST_TERM} are possible.")
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in plain):
        raise DataError(f"{where}: {side} has a control character or half of a character in it. Remove it.")
    if not any(map(str.isalnum, plain)):
        raise DataError(f"{where}: {side} '{plain}' has no letter or digit.")
    return plain


def _shown(words: str) -> str:
    return words if len(words) <= 40 else f"{words[:40]}..."


def _normal(sentence: str) -> tuple[str, Locator]:
    """Return a sentence in composed Unicode with single spaces, and what finds places of it in the sentence."""
    words = (sentence[start:end] for start, end in word_spans(sentence))
    text = " ".join(unicodedata.normalize("NFC", word) for word in words)
    return text, Locator(sentence, text)


def begins_sentence(text: str, place: int) -> bool:
    """Whether a sentence begins at a place: nothing but punctuation is before it, or the end of another sentence."""
    start = place
    while start and not in_word(text[start - 1]):
        start -= 1
    between = text[start:place]
    return not start or (any(end in between for end in _SENTENCE_ENDS) and any(map(str.isspace, between)))


def _has_lower_first(words: str) -> bool:
    """Whether the first of some words is written in lower case."""
    return words.partition(" ")[0].islower()
