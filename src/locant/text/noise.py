"""Noise in sources: other case, typing errors, other punctuation, from random numbers alone.

A model that has seen such sources with right translations keeps its quality on text as people write it (Belinkov and
Bisk, "Synthetic and Natural Noise Both Break Neural Machine Translation", 2018, arXiv:1711.02173, section 6).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from locant.settings import Settings

_LETTERS_A_TYPO = 30
_MARKS = (".,;:!?", "\u3002\uff0c\uff1b\uff1a\uff01\uff1f")
"""Marks that are taken for one another: of alphabets, and of Chinese and Japanese."""


class NoiseSettings(Settings):
    """How many of the source sentences are changed, and how; each is a share, 0 to 1, drawn again each time.

    Attributes:
        lowercase: Sentences in lower case.
        uppercase: Sentences in capitals.
        title_case: Sentences in which every word begins with a capital.
        typos: Sentences with typing errors, about one in thirty letters and at least one: a letter is left out,
            doubled, exchanged with its neighbour or replaced by another of the sentence.
        punctuation: Sentences without punctuation, or with other marks; apostrophes and hyphens inside words stay.
    """

    lowercase: float = Field(default=0.0, ge=0, le=1)
    uppercase: float = Field(default=0.0, ge=0, le=1)
    title_case: float = Field(default=0.0, ge=0, le=1)
    typos: float = Field(default=0.0, ge=0, le=1)
    punctuation: float = Field(default=0.0, ge=0, le=1)

    @model_validator(mode="after")
    def _one_case(self) -> Self:
        if self.changes_case > 1:
            raise ValueError(
                "lowercase, uppercase and title_case are shares of the same sentences, but together "
                f"{self.changes_case:g}; lower them to 1 at most"
            )
        return self

    @property
    def changes_case(self) -> float:
        """The share of sentences whose case is changed."""
        return self.lowercase + self.uppercase + self.title_case

    @property
    def any(self) -> bool:
        """Whether there is any noise."""
        return bool(self.changes_case or self.typos or self.punctuation)


def add_noise(texts: Sequence[str], settings: NoiseSettings, seed: Sequence[int]) -> list[str]:
    """Return the texts, some of them changed; a text of which nothing would be left stays as it is.

    Args:
        texts: Source sentences.
        settings: How many are changed.
        seed: Non-negative integers, on which the result depends besides the text.
    """
    random = np.random.default_rng(seed)
    draws = random.random((len(texts), 3))
    noisy = []
    for text, (case, typos, punctuation) in zip(texts, draws.tolist(), strict=True):
        changed = text
        if punctuation < settings.punctuation:
            changed = _other_punctuation(changed, random)
        if typos < settings.typos:
            changed = _with_typos(changed, random)
        if case < settings.lowercase:
            changed = changed.lower()
        elif case < settings.lowercase + settings.uppercase:
            changed = changed.upper()
        elif case < settings.changes_case:
            changed = re.sub(r"\S+", lambda word: word[0][0].upper() + word[0][1:], changed)
        noisy.append(changed if changed.strip() else text)
    return noisy


def _other_punctuation(text: str, random: np.random.Generator) -> str:
    """Leave out all punctuation, or put other marks for those that can represent one another."""
    drop = random.random() < 0.5
    found = []
    for place, character in enumerate(text):
        inside = text[place - 1 : place].isalnum() and text[place + 1 : place + 2].isalnum()
        if inside or not unicodedata.category(character).startswith("P"):
            found.append(character)
        elif not drop:
            marks = next((marks for marks in _MARKS if character in marks), character)
            others = marks.replace(character, "") or character
            found.append(others[int(random.integers(len(others)))])
    return "".join(found)


def _with_typos(text: str, random: np.random.Generator) -> str:
    characters = list(text)
    letters = [place for place, character in enumerate(characters) if character.isalpha()]
    if not letters:
        return text
    for _ in range(max(1, round(len(letters) / _LETTERS_A_TYPO))):
        place = letters[int(random.integers(len(letters)))]
        match int(random.integers(4)):
            case 0:
                characters[place] = ""
            case 1:
                characters[place] *= 2
            case 2 if place + 1 < len(characters) and characters[place + 1].isalpha():
                characters[place], characters[place + 1] = characters[place + 1], characters[place]
            case _:
                characters[place] = text[letters[int(random.integers(len(letters)))]]
    return "".join(characters)
