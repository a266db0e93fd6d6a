"""Codes of languages as standards, models and servers write them: ``de``, ``deu``, ``deu_Latn`` and ``DE`` are one.

``languages.tsv`` has the codes of ISO 639 that mean the same, and the scripts that languages are written in, from the
Unicode CLDR; ``tools/languages.py`` makes it. A code that is not there, such as that of a group of languages, stays as
it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from locant.errors import ConfigError
from locant.lazy import require_package

# Codes of Argos Translate and LibreTranslate that no standard has.
_OF_ARGOS = {"zt": "zh-Hant", "pb": "pt-BR"}
_MODIFIERS = {"latin": "Latn", "cyrillic": "Cyrl", "devanagari": "Deva", "euro": ""}  # of locales: sr@latin
_PART_OF = {"Hang": "Kore", "Hira": "Jpan", "Kana": "Jpan"}  # scripts that are written together with others
# First words of the names of letters in Unicode, where they are not the beginning of the script's code.
_SCRIPTS = {
    **{"CJK": "Hani", "HIRAGANA": "Jpan", "KATAKANA": "Jpan", "HANGUL": "Kore", "GURMUKHI": "Guru", "GUJARATI": "Gujr"},
    **{"KANNADA": "Knda", "MALAYALAM": "Mlym", "MYANMAR": "Mymr", "KHMER": "Khmr", "LAO": "Laoo", "TIBETAN": "Tibt"},
    **{"ORIYA": "Orya", "SYRIAC": "Syrc", "CYRILLIC": "Cyrl", "THAANA": "Thaa", "LATIN": "Latn", "TIFINAGH": "Tfng"},
    **{"GREEK": "Grek", "OL": "Olck", "ARMENIAN": "Armn", "CANADIAN": "Cans"},
}


@dataclass(frozen=True)
class _Row:
    code: str
    script: str
    scripts: dict[str, str]
    name: str


@dataclass(frozen=True)
class LanguageTag:
    """What the code of a language says.

    Attributes:
        code: Of the language alone: ISO 639-1, or 639-3 where that has none, or whatever was given.
        script: ISO 15924 (``Latn``); where none is named that of the region, or the usual one; empty if not known.
        region: ISO 3166 (``BR``, ``419``), empty where none is named.
        says_script: Whether the script is named, or follows from the region.
        variant: What else there is, in lower case.
    """

    code: str
    script: str = ""
    region: str = ""
    says_script: bool = field(default=False, compare=False)
    variant: str = ""

    @property
    def tag(self) -> str:
        """The code in BCP 47, without a script that is the usual one: ``de``, ``zh-Hant``, ``pt-BR``."""
        row = _table()[0].get(self.code)
        usual = row and self.script == row.scripts.get(self.region, row.script)
        return "-".join(part for part in (self.code, "" if usual else self.script, self.region, self.variant) if part)

    def may_be_in(self, script: str) -> bool:
        """Whether text of the language may be in a script, as far as is known.

        Args:
            script: As :func:`script_of` returns it.
        """
        row = _table()[0].get(self.code)
        written = {self.script} if self.says_script or not row else {self.script, *row.scripts.values()}
        if script == "Hani":  # of which kind does not show
            return not self.script or bool(written & {"Hani", "Hans", "Hant"})
        return not (script and self.script) or script in written


def parse_language(code: str) -> LanguageTag:
    """Return what a code says, with any separators and in any case.

    Args:
        code: For instance ``de``, ``pt-BR``, ``zh_Hans``, ``deu_Latn``, ``zt``, ``de_DE.UTF-8``, ``sr@latin``.
    """
    first, *rest = re.split("[-_@]", re.sub(r"\.[^@]*", "", code).strip("-_@"))
    if first.lower() in _OF_ARGOS and not rest:
        return parse_language(_OF_ARGOS[first.lower()])
    row = _table()[0].get(first.lower())
    named, region, others = "", "", []
    for part in (_MODIFIERS.get(part.lower(), part) for part in rest):
        if len(part) == 4 and part.isalpha() and not named:
            named = _PART_OF.get(part.title(), part.title())
        elif re.fullmatch("[A-Za-z]{2}|[0-9]{3}", part) and not region:
            region = part.upper()
        elif part:
            others.append(part.lower())
    if row is None:
        return LanguageTag(first.lower(), named, region, bool(named), "-".join(others))
    script = named or row.scripts.get(region, row.script)
    return LanguageTag(row.code, script, region, bool(named or (region and row.scripts)), "-".join(others))


_parsed = lru_cache(maxsize=1024)(parse_language)  # for codes of models, which are few


def find_language(code: str, known: Iterable[str]) -> str | None:
    """Return which of some codes means a language, or ``None``.

    What a code does not say may be anything, the usual before the first; scripts or regions that both say are the same.

    Args:
        code: Of the language: ``zh-CN`` finds ``zho_Hans``, ``en-US`` finds ``en``, ``pt`` finds ``pt-BR``.
        known: Codes that a model or a server has.
    """
    known = list(known)
    if code in known:
        return code
    asked, found = parse_language(code), []
    for place, other in enumerate(known):
        one = _parsed(other)
        if (one.code, one.variant) != (asked.code, asked.variant):
            continue
        other_script, other_region = one.script != asked.script, one.region != asked.region
        # Where regions differ in their scripts these count.
        says_region = asked.region and one.region and not (asked.says_script and one.says_script)
        if (other_script and asked.says_script) or (other_region and says_region):
            continue
        found.append((other_script, other_region, place))
    return known[min(found)[2]] if found else None


def other_codes(known: Iterable[str]) -> dict[str, str]:
    """Return the codes that mean one of some languages, in lower case and with hyphens, and which of them each means.

    Args:
        known: Codes: of ``deu_Latn`` are found ``de``, ``deu``, ``ger``, ``de-latn`` and others.
    """
    known = list(known)
    tags = [parse_language(code) for code in known]
    forms = {*known, *(tag.tag for tag in tags)}
    for code, row in _table()[0].items():
        for tag in tags:
            if tag.code == row.code:
                forms |= {code, *(f"{code}-{part}" for part in (tag.script, *row.scripts))}
    found = {form.lower().replace("_", "-"): find_language(form, known) for form in sorted(forms)}
    return {form: code for form, code in found.items() if code is not None}


def meant_language(name: str) -> str:
    """Return a sentence that names the code of a language that is called something else, or an empty string.

    Args:
        name: For instance ``japanese`` or ``jp``, which is a country; the sentence begins with a space.
    """
    codes, mistaken = _table()
    first = re.split("[-_]", name.strip())[0].casefold()
    code = None if first in codes else mistaken.get(name.strip().casefold()) or mistaken.get(first)
    return f" The code of {codes[code].name} is '{code}'." if code else ""


def english_name(code: str) -> str | None:
    """Return the English name of the language that a code names, without script and region; ``None`` if not known."""
    row = _table()[0].get(parse_language(code).code)
    return row.name if row else None


def require_language(name: str | None, what: str) -> None:
    """Raise ConfigError where something else than a code names a language; codes that no standard knows are taken.

    Args:
        name: What was given; ``None`` for nothing.
        what: For the message, such as ``corpus.target_language``.
    """
    if name and (right := meant_language(name)):
        raise ConfigError(f"{what}: '{name}' is no code of a language.{right}")


def script_of(texts: Sequence[str]) -> str:
    """Return the script of most letters of a text (ISO 15924), or an empty string where it has none or an unknown one.

    Han letters beside a tenth of kana or more are Japanese, ``Jpan``; without them they are ``Hani``.
    """
    letters = Counter(character for text in texts for character in text if character.isalpha())
    counts: Counter[str] = Counter()
    for character, count in letters.items():
        word = unicodedata.name(character, "").split(" ")[0].split("-")[0]
        counts[_SCRIPTS.get(word, word[:4].title())] += count
    if 10 * counts["Jpan"] >= counts["Hani"]:
        counts["Jpan"] += counts.pop("Hani", 0)
    return max(counts, key=lambda script: counts[script]) if counts.total() else ""


@lru_cache(maxsize=1)
def language_identifier() -> Any:
    """Return py3langid's model, which is read when it is first asked for.

    Raises:
        MissingExtraError: The package is not installed.
    """
    require_package("py3langid", "The identification of languages")
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@lru_cache(maxsize=1)
def _table() -> tuple[dict[str, _Row], dict[str, str]]:
    """Return the rows by each of their codes, and the codes of what is no code: names and countries."""
    codes: dict[str, _Row] = {}
    mistaken: dict[str, str] = {}
    for line in Path(__file__).with_name("languages.tsv").read_text(encoding="utf-8").splitlines():
        code, others, script, scripts, country, names = line.split("\t")
        shown, *own = names.split("/")
        row = _Row(code, _PART_OF.get(script, script), dict(pair.split("=") for pair in scripts.split()), shown)
        codes |= dict.fromkeys([code, *others.split()], row)
        mistaken |= dict.fromkeys([name.casefold() for name in (country, shown, *own) if name], code)
    return codes, mistaken
