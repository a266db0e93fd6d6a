"""Translation of passages, whoever translates: what is to be translated is asked for step by step.

The steps are a generator that yields questions and is sent their answers. A loop answers them from a translator; a
server answers the same questions from its queue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from locant.documents.passages import Item, Passage, Sentence, Written, cut_passage
from locant.documents.places import Alignment, Draft, Links, parts_alone
from locant.documents.sentences import Splitter

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


@dataclass(frozen=True)
class Sentences:
    """A question: what are the translations of these sentences?"""

    texts: list[str]


@dataclass(frozen=True)
class Pairs:
    """A question: which words of these sentences are translations of which? The answer has :data:`Links` of each."""

    pairs: list[tuple[str, str]]


Steps = Generator[Sentences | Pairs, Any, list[Written]]
"""Questions, their answers, and the passages as they are to be written."""


def translation_steps(passages: Sequence[Passage], split: Splitter, *, aligned: bool) -> Steps:
    """Translate passages.

    A sentence whose translation is the sentence itself is written as it was. A sentence is translated whole, and in
    parts too where something in it has no place in the translation.

    Args:
        passages: Texts with marks.
        split: Cuts a line into sentences.
        aligned: Whether questions about alignments are answered.

    Yields:
        Questions, to be answered through ``send`` in their order.

    Returns:
        The passages as they are to be written.
    """
    cut = [cut_passage(passage, split) for passage in passages]
    sentences = [piece for pieces in cut for piece in pieces if isinstance(piece, Sentence)]
    written = iter((yield from sentence_steps(sentences, aligned=aligned)))
    return [
        [item for piece in pieces for item in (next(written) if isinstance(piece, Sentence) else [piece])]
        for pieces in cut
    ]


def sentence_steps(sentences: Sequence[Sentence], *, aligned: bool) -> Steps:
    """Translate the sentences of passages; what comes of one does not depend on the others.

    Args:
        sentences: As :func:`~locant.documents.passages.cut_passage` cuts them.
        aligned: Whether questions about alignments are answered.

    Yields:
        Questions, to be answered through ``send`` in their order.

    Returns:
        Each sentence as it is to be written.
    """
    written: list[Written | None] = [None] * len(sentences)  # as long as something has no place
    drafts: dict[int, Draft] = {}  # translations of whole sentences, with all that is kept
    known = yield from _ask([sentence.text for sentence in sentences if sentence.is_manageable])
    for number, sentence in enumerate(sentences):
        if sentence.is_manageable and known[sentence.text] == sentence.text:
            written[number] = list(sentence.items)
        elif sentence.is_manageable and (draft := Draft.of(sentence, known[sentence.text])):
            drafts[number], written[number] = draft, draft.written()
    unsettled = {number: draft for number, draft in drafts.items() if written[number] is None}
    if unsettled and aligned:
        pairs = [(sentences[number].text, draft.text) for number, draft in unsettled.items()]
        for (number, draft), pair, links in zip(unsettled.items(), pairs, (yield Pairs(pairs)), strict=True):
            written[number] = draft.written(Alignment(*pair, links).locate)
    parts = {number: sentences[number].parts() for number, each in enumerate(written) if each is None}
    known = yield from _ask([part.text for own in parts.values() for part in own if isinstance(part, Sentence)])
    for number, own in parts.items():
        if number in drafts:
            written[number] = drafts[number].written(parts_alone(drafts[number].text, own, known))
        if written[number] is None:
            written[number] = [item for part in own for item in _alone(part, known)]
    return [each or [] for each in written]


def _alone(part: Item | Sentence, known: Mapping[str, str]) -> Written:
    """Return a part of a sentence, translated for itself."""
    if not isinstance(part, Sentence):
        return [part]
    translation = known[part.text]
    return list(part.items) if translation == part.text else Draft(part, translation, ()).written() or [translation]


def _ask(texts: list[str]) -> Generator[Sentences | Pairs, Any, dict[str, str]]:
    """Ask for the translations of sentences, each once, and of none of those without any."""
    different = list(dict.fromkeys(texts))
    answers = (yield Sentences(different)) if different else []
    return {text: one_line(text, str(answer)) for text, answer in zip(different, answers, strict=True)}


def one_line(sentence: str, translation: str) -> str:
    """Return a translation as it can be in any document, without line breaks and white space around it.

    One without words is the sentence.
    """
    return translation if translation == sentence else _CONTROL.sub(" ", translation).strip() or sentence


def answer_steps(
    steps: Steps,
    translate: Callable[[list[str]], Sequence[str]],
    align: Callable[[list[tuple[str, str]]], Sequence[Links]] | None = None,
) -> list[Written]:
    """Answer all questions of :func:`translation_steps` and return what it returns.

    Args:
        steps: Begun with ``aligned`` if ``align`` is given.
        translate: Returns the translation of each sentence.
        align: Returns the links of each pair.
    """
    answer: Sequence[str] | Sequence[Links] | None = None
    while True:
        try:
            question = steps.send(answer) if answer is not None else next(steps)
        except StopIteration as end:
            return list(end.value)
        if isinstance(question, Sentences):
            answer = translate(question.texts)
        else:
            assert align
            answer = align(question.pairs)
