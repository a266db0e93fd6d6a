"""Sentences as parts that a model can read: most are one part, those that are too long are split or left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from locant.errors import DataError
from locant.translation.lines import OnLong, WholeSpans, split_to_fit

Part = tuple[str, list[int]]
"""A text and its token ids, at least one."""


@dataclass(frozen=True)
class LongSentences:
    """What becomes of sentences that are too long.

    Attributes:
        most: Tokens of the longest sentence that is translated whole.
        reason: What sets that limit.
        on_long: What becomes of longer ones; see :meth:`locant.translation.Translator.translate_chunks`.
        say: Called with a line about each of them that is not an error.
        whole: Returns what is not cut in a sentence that is split; ``None`` for nothing.
    """

    most: int
    reason: str
    on_long: OnLong = "error"
    say: Callable[[str], None] = lambda sentence: None
    whole: WholeSpans | None = None


def parts_of(
    sentences: Sequence[str], encode: Callable[[Sequence[str]], list[list[int]]], long: LongSentences, *, first: int = 1
) -> list[list[Part]]:
    """Return of each sentence its parts: itself, more where it is split, none where its translation is empty.

    Args:
        sentences: Texts.
        encode: Returns the token ids of each text.
        long: What becomes of those that are too long.
        first: Number of the first sentence in messages.

    Raises:
        DataError: A sentence is too long, or has half of a character in it.
    """
    for number, sentence in enumerate(sentences, start=first):
        try:
            sentence.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(
                f"Sentence {number} has half of a character (a lone surrogate), which is no text. Remove it."
            ) from None
    parts: list[list[Part]] = []
    for number, (sentence, source) in enumerate(zip(sentences, encode(sentences), strict=True), start=first):
        parts.append([(sentence, source)] if source else [])
        if len(source) <= long.most:
            continue
        message = f"Sentence {number} has {len(source)} tokens, but at most {long.most} can be translated"
        message += f" ({long.reason})."
        if long.on_long == "error":
            raise DataError(f"{message} Split it into shorter sentences.")
        parts[-1] = []
        if long.on_long == "split":
            texts = split_to_fit(sentence, lambda part: len(encode([part])[0]) <= long.most, long.whole)
            pieces = [(text, ids) for text, ids in zip(texts, encode(texts), strict=True) if ids]
            if all(len(ids) <= long.most for _, ids in pieces):
                parts[-1] = pieces
        how = f"It is translated in {len(parts[-1])} parts." if parts[-1] else "It is not translated."
        long.say(f"{message} {how}")
    return parts
