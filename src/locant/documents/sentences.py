"""The rules by which sentences of a language end, by the package sentencex."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from locant.documents.segmentation import Splitter
from locant.errors import MissingExtraError
from locant.translation.lines import split_to_fit


@lru_cache(maxsize=256)
def sentence_splitter(language: str) -> Splitter:
    """Return what cuts lines of a language into sentences.

    Args:
        language: Its code; the part before the first hyphen or underscore counts.

    Raises:
        MissingExtraError: The package ``sentencex`` is not installed.
    """
    try:
        from sentencex import segment
    except ImportError:
        raise MissingExtraError("Cutting texts into sentences", "sentencex", "documents") from None
    return partial(_split, segment, language.replace("_", "-").partition("-")[0].lower())


def _split(segment: Any, language: str, line: str) -> Sequence[str]:
    found: Sequence[str] = segment(language, line)
    return found


def fitting_splitter(split: Splitter, fits: Callable[[str], bool]) -> Splitter:
    """Return what besides cuts sentences that are too long, at the end of a clause where there is one.

    Args:
        split: Cuts lines into sentences.
        fits: Whether a sentence is short enough for a model.
    """

    def split_and_fit(line: str) -> Sequence[str]:
        return [
            part
            for sentence in split(line)
            for part in ([sentence] if fits(sentence) else split_to_fit(sentence, fits))
        ]

    return split_and_fit
