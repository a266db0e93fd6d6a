"""The languages of a corpus whose settings do not say them: by the names of its files, else by its text."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from locant.errors import MissingExtraError
from locant.languages import english_name, language_identifier, parse_language, script_of
from locant.text.corpus import Corpus
from locant.text.corpus_settings import CorpusSettings, FilesCorpus

_logger = logging.getLogger("locant")

_LOOKED_AT, _TOGETHER, _SURE = 500, 10, 0.8
"""Pairs whose language is identified, how many sentences at once, and the share that must be of one language."""
_SUFFIX = re.compile(r"[A-Za-z]{2}|[A-Za-z]{2,3}[-_][A-Za-z0-9_-]{2,}")
"""A code that is no other usual suffix, as three letters alone may be: ``.src`` is Sardinian."""


def with_found_languages(corpus: Corpus, settings: CorpusSettings, *, tell: bool) -> Corpus:
    """Return a corpus of one pair of languages that knows them, as far as they can be found.

    Args:
        corpus: The opened corpus; languages that it knows stay.
        settings: What it was opened from.
        tell: Whether to log what was found, and how to say it where it was not.
    """
    if corpus.layout is not None or not corpus.parts or (corpus.source_language and corpus.target_language):
        return corpus
    pairs = [pair for part in corpus.parts for pair in islice(part.train, _LOOKED_AT)][:_LOOKED_AT]
    found: dict[str, Any] = {}
    said: list[str] = []
    for place, side in enumerate(("source", "target")):
        key = f"{side}_language"
        if getattr(corpus, key):
            continue
        files = getattr(settings.train, side) if isinstance(settings, FilesCorpus) else ()
        texts = [pair[place] for pair in pairs]
        code, how = _by_name(files, texts), "by the name of its file"
        if not code:
            code, how = _by_text(texts), "by its text"
        if code:
            found[key] = code
            said.append(f"{side} {code} ({how})")
        elif tell:
            _say(
                f"The {side} language is not known, which serving and some exports need: name it with "
                f"--{side}-language CODE (corpus.{key})."
            )
    if said and tell:
        _say(f"Languages: {', '.join(said)}. Others are named with --source-language and --target-language.")
    return replace(corpus, parts=tuple(replace(part, **found) for part in corpus.parts))


def _say(sentence: str) -> None:
    if os.environ.get("RANK", "0") == "0":
        _logger.info(sentence)


def _by_name(files: Sequence[Path], texts: Sequence[str]) -> str | None:
    """Return the code that all files have as their suffix, where the text may be of that language."""
    codes = {Path(file.name.removesuffix(".gz")).suffix[1:] for file in files}
    code = codes.pop() if len(codes) == 1 else ""
    known = _SUFFIX.fullmatch(code) and english_name(code)
    return code if known and parse_language(code).may_be_in(script_of(texts)) else None


def _by_text(texts: Sequence[str]) -> str | None:
    """Return the code of the language that nearly all of the text is in; ``None`` where none is known."""
    with suppress(MissingExtraError):
        identifier = language_identifier()
        some = [" ".join(texts[start : start + _TOGETHER]) for start in range(0, len(texts), _TOGETHER)]
        counts = Counter(identifier.rank(text)[0][0] for text in some if any(map(str.isalpha, text)))
        code, count = counts.most_common(1)[0] if counts else ("", 0)
        if count and count >= _SURE * counts.total():
            return str(code)
    return None
