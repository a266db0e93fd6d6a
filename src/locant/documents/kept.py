"""Parts of a text that its translation has as well: addresses of pages and mail, numbers, arrows, notes, emoji."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from locant.text.subword_spans import Span
from locant.text.word_borders import find_words

if TYPE_CHECKING:
    from locant.documents.passages import Kept

Locate = Callable[[int, int], Span | None]
"""Returns where what stands between two offsets of a sentence stands in its translation."""

_ADDRESS = r"(?:(?:https?|ftps?)://|www\.)[^\s<>\"“”«»„‚‘`|\\]+"  # noqa: RUF001
_MAIL = r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+"
_NUMBER = r"\d+(?:[.,:/'’\u00a0\u202f]\d+)*"  # noqa: RUF001
# Arrows, notes, stars, emoji and what belongs to them: no model translates them, and few have them in the vocabulary.
_SIGN = "(?:[©®\u2190-\u21ff\u2300-\u23ff\u2500-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff][\u200d\ufe0e\ufe0f\u20e3]*)+"
_KEPT = re.compile(f"(?P<address>{_ADDRESS})|(?P<mail>{_MAIL})|(?P<number>{_NUMBER})|(?P<sign>{_SIGN})", re.IGNORECASE)
_SIGNS = re.compile(_SIGN)
_DIGIT = re.compile(r"\d")
_ENDINGS = ".,;:!?'\"’)]}*_~。，、！？）"  # noqa: RUF001


def find_kept(text: str) -> list[tuple[int, int, str]]:
    """Return where addresses of pages (``address``), of mail (``mail``), numbers and signs (``sign``) stand in a text.

    Signs are arrows, notes, stars, emoji and the like.

    Punctuation behind an address is not part of it. Digits that are part of a word, as in ``3rd`` or ``B2B``, are no
    number.
    """
    found: list[tuple[int, int, str]] = []
    # Most sentences have none, which is seen in a tenth of the time.
    if not ("@" in text or "://" in text or _DIGIT.search(text) or "www." in text.lower()) and (
        text.isascii() or not _SIGNS.search(text)
    ):
        return found
    for match in _KEPT.finditer(text):
        kind, (start, end) = str(match.lastgroup), match.span()
        if kind == "address":
            while text[end - 1] in _ENDINGS and not (text[end - 1] == ")" and "(" in text[start:end]):
                end -= 1
        elif kind == "mail":
            end = start + len(match[0].rstrip(_ENDINGS + "-"))
        elif kind == "number" and (_is_cased(text[start - 1 : start]) or _is_cased(text[end : end + 1])):
            continue
        found.append((start, end, kind))
    return found


def _is_cased(character: str) -> bool:
    """Whether a character is a letter that words are written with from end to end, unlike those of Chinese."""
    return character.isalpha() and character.lower() != character.upper()


def _same_number(one: str, other: str) -> bool:
    """Whether two numbers have the same digits; languages differ in what separates them."""
    return re.findall(r"\d+", one) == re.findall(r"\d+", other)


def place_kept(
    kept: Sequence[Kept], source: str, translation: str, locate: Locate
) -> list[tuple[int, int, Kept]] | None:
    """Return where each kept part of a sentence stands in the translation, or what it has to replace there.

    What is not found stands for what the model made of it: for others of its kind that the source does not have, where
    there are as many; else for what its words are aligned with.

    Args:
        kept: Parts of the sentence that the translation has as well.
        source: The sentence.
        translation: Its translation.
        locate: Of the alignment.

    Returns:
        Offsets in the translation, in their order; ``None`` where something has no place, or is there twice.
    """
    if not kept:
        return []
    places: dict[int, Span] = {}
    missing: list[int] = []
    by_text: dict[str, list[int]] = {}
    for number, each in enumerate(kept):
        if each.kind != "number":
            by_text.setdefault(source[each.start : each.end], []).append(number)
    for text, numbers in sorted(by_text.items(), key=lambda pair: -len(pair[0])):
        found = [span for span in find_words(translation, text) if _is_free(span, places)]
        if len(found) > len(numbers) and kept[numbers[0]].kind in ("address", "mail"):
            return None
        places.update(zip(numbers, found, strict=False))
        missing += numbers[len(found) :]
    theirs = [span for span in find_kept(translation) if _is_free(span[:2], places)]
    for number, each in enumerate(kept):
        if each.kind == "number":
            own = source[each.start : each.end]
            same = [
                span for span in theirs if span[2] == "number" and _same_number(own, translation[span[0] : span[1]])
            ]
            if same:
                places[number] = same[0][:2]
                theirs.remove(same[0])
            else:
                missing.append(number)
    left = Counter(kept[number].kind for number in missing)
    for number in sorted(missing):
        kind = kept[number].kind
        if kind == "sign":
            return None  # the model leaves out what it does not know: no word of the translation stands for it
        others = [span for span in theirs if span[2] == kind]
        if others and len(others) == left[kind]:
            place: Span | None = others[0][:2]
            theirs.remove(others[0])
            left[kind] -= 1
        else:
            place = locate(kept[number].start, kept[number].end)
        if place is None or not _is_free(place, places):
            return None
        places[number] = place
    return [(*places[number], kept[number]) for number in sorted(places, key=lambda number: places[number])]


def _is_free(span: Span, places: dict[int, Span]) -> bool:
    return span[0] < span[1] and all(span[1] <= start or end <= span[0] for start, end in places.values())
