"""Documents translated by functions, where a test needs no model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from hypothesis import strategies as st

from locant.documents import DocumentOptions, find_format
from locant.documents.sentences import Splitter, sentence_splitter
from locant.documents.steps import answer_steps, translation_steps

Function = Callable[[str], str]


def translated(
    format: str,
    content: str | bytes,
    function: Function,
    *,
    align: bool = False,
    split: Splitter | None = None,
    language: str | None = None,
    **options: object,
) -> bytes:
    """A document whose sentences go through a function; with ``align`` each word is that of the same number."""
    raw = content.encode() if isinstance(content, str) else content
    document = find_format(format).read(raw, DocumentOptions(**options))
    steps = translation_steps(document.passages, split or sentence_splitter("en"), aligned=align)

    def links(pairs: Sequence[tuple[str, str]]) -> list[list[tuple[int, int]]]:
        return [[(word, word) for word in range(len(one.split()))] for one, _ in pairs]

    answered = answer_steps(steps, lambda texts: [function(text) for text in texts], links if align else None)
    return document.written(answered, language)


def reversed_words(sentence: str) -> str:
    return " ".join(reversed(sentence.split()))


@cache
def _marked(sentence: str) -> str:
    return f"*{sentence[::-1]}_ <b>1. # `x`|$y$ \\"


FUNCTIONS: dict[str, Function] = {
    "same": lambda sentence: sentence,
    "upper": str.upper,
    "reversed": reversed_words,
    "nothing": lambda sentence: "",
    "twice": lambda sentence: f"{sentence} {sentence}",
    "one word": lambda sentence: "Wort",
    "lines": lambda sentence: sentence.replace(" ", "\n") + "\n\n1\n00:00:01,000 --> 00:00:02,000",
    "markup": _marked,
}
functions = st.sampled_from(sorted(FUNCTIONS))
