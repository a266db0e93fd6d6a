"""What a problem is: questions and answers of any length, drawn at random."""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from typing import ClassVar

Tokens = list[str]


class Problem(ABC):
    """A family of questions with exact answers.

    Attributes:
        name: By which the task is called.
        title: One line.
        length_means: What the length of a question counts.
        symbols: Every token that questions and answers are made of.
        max_length: Longest question there is, or ``None``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    length_means: ClassVar[str]
    symbols: ClassVar[tuple[str, ...]]
    max_length: ClassVar[int | None] = None

    @abstractmethod
    def sample(self, random: Random, length: int) -> tuple[Tokens, Tokens]:
        """Draw a question of a length and return its tokens and those of the answer."""


DIGITS = tuple("0123456789")
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
