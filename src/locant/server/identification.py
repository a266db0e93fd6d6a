"""The language of a text, by the package py3langid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from locant.languages import find_language, language_identifier

_MOST_CHARACTERS = 2_000  # that are looked at; more do not make it surer
_LEAST_SHOWN = 3.0  # percent
_NO_LANGUAGE = {"zxx", "und"}


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
        self._codes = codes

    def identify(self, text: str) -> list[Identified]:
        """Return the languages that a text may be in, most probable first; none where nothing speaks for one."""
        shown = (each for each in _ranked(text) if each.confidence >= _LEAST_SHOWN)
        return [replace(each, code=find_language(each.code, self._codes) or each.code) for each in shown]

    def choose(self, text: str, among: Sequence[str]) -> Identified:
        """Return the most probable of some languages.

        Args:
            text: Any text.
            among: Codes of at least one language; the first is chosen where the text says nothing.
        """
        found = (replace(each, code=code) for each in _ranked(text) if (code := find_language(each.code, among)))
        return next(found, Identified(among[0], 0.0))


def _ranked(text: str) -> list[Identified]:
    """Return all languages that the package knows, most probable first."""
    if not any(character.isalpha() for character in text):
        return []
    ranked = language_identifier().rank(text[:_MOST_CHARACTERS])
    return [Identified(code, round(100 * float(share), 1)) for code, share in ranked if code not in _NO_LANGUAGE]
