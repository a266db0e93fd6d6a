"""The rules by which sentences of a language end, by the package sentencex."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from locant.errors import MissingExtraError
from locant.server.segmentation import Splitter


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
        raise MissingExtraError("The server", "sentencex", "serve") from None
    return partial(_split, segment, language.replace("_", "-").partition("-")[0].lower())


def _split(segment: Any, language: str, line: str) -> Sequence[str]:
    found: Sequence[str] = segment(language, line)
    return found
