"""Make the table of languages, from the data of the Unicode CLDR that Babel brings.

Run it as ``.venv/bin/python tools/languages.py``; it writes ``languages.tsv`` beside :mod:`locant.languages`. A row is
a language: its code in BCP 47, other codes of it, its script, the scripts that some regions write it in, the code of
the country that it is the first language of, where that is no code of a language, and its names.
"""

from __future__ import annotations

from pathlib import Path

from babel import Locale, UnknownLocaleError
from babel.core import get_global

import locant

TABLE = Path(locant.__file__).with_name("languages.tsv")
# Codes in use besides: those of before 1989, what is named for what it mostly is, and southern Pashto.
_EXTRA_CODES = {"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "no": "nb", "nor": "nb", "tl": "fil", "pbt": "ps"}
_EXTRA_NAMES = {"nb": ["Norwegian"], "fil": ["Tagalog"], "zh": ["Mandarin"], "fa": ["Farsi"]}
_NO_LANGUAGES = {"mul", "und", "zxx", "root"}


def rows() -> list[str]:
    """Return the rows, sorted by code."""
    english = Locale("en")
    likely = get_global("likely_subtags")
    aliases = {old: new for old, new in get_global("language_aliases").items() if len(old) <= 3 and new.isalpha()}
    aliases |= _EXTRA_CODES
    codes = {code: name for code, name in english.languages.items() if 2 <= len(code) <= 3}
    languages = {code for code in codes if code not in aliases and code not in _NO_LANGUAGES and code in likely}
    found = []
    for code in sorted(languages):
        _, script, country = likely[code].split("_")
        others = sorted(old for old, new in aliases.items() if new == code)
        scripts = sorted(
            f"{region}={written}"
            for tag, full in likely.items()
            if tag.startswith(f"{code}_") and len(region := tag.split("_")[1]) == 2
            for written in [full.split("_")[1]]
            if written != script
        )
        country = country.lower()
        is_first = likely.get(f"und_{country.upper()}", "en").split("_")[0] == code
        names = [codes[code], *_EXTRA_NAMES.get(code, [])]
        try:
            own = Locale.parse(code).languages.get(code)
        except (UnknownLocaleError, ValueError):
            own = None
        if own and own.casefold() not in [name.casefold() for name in names]:
            names.append(own)
        wrong = country if is_first and country not in {*codes, *aliases} else ""
        cells = (code, " ".join(others), script, " ".join(scripts), wrong, "/".join(names))
        found.append("\t".join(cells))
    return found


if __name__ == "__main__":
    TABLE.write_text("".join(row + "\n" for row in rows()), encoding="utf-8")
