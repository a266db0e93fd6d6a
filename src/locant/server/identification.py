"""The language of a text, by the package py3langid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from locant.errors import MissingExtraError

_MOST_CHARACTERS = 2_000  # that are looked at; more do not make it surer
_LEAST_SHOWN = 3.0  # percent
_NO_LANGUAGE = {"zxx", "und"}

# Codes of languages that the package knows under others.
_OTHERS = {"nb": "no", "nn": "no", "iw": "he", "in": "id", "fil": "tl"}


@dataclass(frozen=True)
class Identified:
    """A language that a text may be in.

    Attributes:
        code: ISO 639-1, or as the server's models call it.
        confidence: Percent, 0 to 100.
    """

    code: str
    confidence: float


class Identifier:
    """Identifies languages.

    Args:
        codes: What the server's models call their languages.
    """

    def __init__(self, codes: Sequence[str]) -> None:
        self._codes: dict[str, str] = {}
        for code in codes:
            self._codes.setdefault(_two_letters(code), code)

    def identify(self, text: str) -> list[Identified]:
        """Return the languages that a text may be in, most probable first; none where nothing speaks for one."""
        return [each for each in self._ranked(text) if each.confidence >= _LEAST_SHOWN]

    def choose(self, text: str, among: Sequence[str]) -> Identified:
        """Return the most probable of some languages.

        Args:
            text: Any text.
            among: Codes of at least one language; the first is chosen where the text says nothing.
        """
        found = (each for each in self._ranked(text) if each.code in among)
        return next(found, Identified(among[0], 0.0))

    def _ranked(self, text: str) -> list[Identified]:
        if not any(character.isalpha() for character in text):
            return []
        ranked = identifier().rank(text[:_MOST_CHARACTERS])
        return [
            Identified(self._codes.get(code, code), round(100 * float(share), 1))
            for code, share in ranked
            if code not in _NO_LANGUAGE
        ]


@lru_cache(maxsize=1)
def identifier() -> Any:
    """Return py3langid's model, which is read when it is first asked for.

    Raises:
        MissingExtraError: The package is not installed.
    """
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise MissingExtraError("The identification of languages", "py3langid", "serve") from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _two_letters(code: str) -> str:
    """Return the code under which the package knows a language."""
    from babel import Locale, UnknownLocaleError

    language = code.replace("_", "-").partition("-")[0].lower()
    if len(language) == 3:
        try:
            language = Locale.parse(language).language
        except (ValueError, UnknownLocaleError):
            return language
    return _OTHERS.get(language, language)
