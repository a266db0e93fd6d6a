"""Directions of a corpus of several languages: which are trained, and which are measured alone.

A direction is a pair of languages in one order, written ``en-de``. A zero-shot direction is never trained: the model
has read its source language and written its target language in other directions only (Johnson et al. 2017, "Google's
Multilingual Neural Machine Translation System", section 4.5).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from locant.errors import ConfigError, nearest
from locant.settings import Settings
from locant.text.tokenizer_pair import LanguageLayout


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) and value != "all" else value


Directions = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
"""One direction or a list of directions, such as ``en-de``."""


class Direction(NamedTuple):
    """One direction.

    Attributes:
        source: Language code.
        target: Language code.
    """

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


class DirectionSettings(Settings):
    """Keys of a corpus of several languages.

    Attributes:
        directions: ``all``, or the directions that are trained.
        zero_shot: Directions that are never trained, but measured in validation and test.
        layout: Where the tokens of the languages stand, see :class:`~locant.text.LanguageTokens`.
        temperature: How much the sizes of the directions' texts count when pairs are drawn: 1 for all, more for less
            (see :func:`~locant.text.epochs.sampling_shares`).
    """

    directions: Literal["all"] | Directions = "all"
    zero_shot: Directions = ()
    layout: LanguageLayout = "fairseq"
    temperature: float = Field(default=1.0, gt=0)

    def chosen(self, possible: Iterable[Direction]) -> dict[Direction, bool]:
        """Return the directions that are used, in the order of those that have text, and whether each is trained.

        Args:
            possible: The directions for which there is text.

        Raises:
            ConfigError: A direction has no text, is trained and zero-shot at once, or could not be measured fairly;
                or none is trained.
        """
        known = {str(direction): direction for direction in possible}
        trained = list(known) if self.directions == "all" else [*self.directions]
        for name in (*trained, *self.zero_shot):
            if name not in known:
                more = " A zero-shot direction is measured on text of its own." if name in self.zero_shot else ""
                raise ConfigError(
                    f"The corpus has no text for the direction {name}.{nearest(name, known)} It has text for "
                    f"{', '.join(known)}. Add some, or leave the direction out.{more}"
                )
        if self.directions == "all":
            trained = [name for name in trained if name not in self.zero_shot]
        for name in self.zero_shot:
            if name in trained:
                raise ConfigError(f"The direction {name} is in both 'directions' and 'zero_shot'. Name it in one.")
        if not trained:
            raise ConfigError("No direction is left to train on: all are in 'zero_shot'. Leave some of them out.")
        for name in self.zero_shot:
            for side, does in (("source", "translates from"), ("target", "translates into")):
                if (language := getattr(known[name], side)) not in {getattr(known[other], side) for other in trained}:
                    raise ConfigError(
                        f"The zero-shot direction {name} {does} '{language}', which no trained direction does, so the "
                        "model never sees it there. Train one that does."
                    )
        used = {*trained, *self.zero_shot}
        return {direction: name in trained for name, direction in known.items() if name in used}
