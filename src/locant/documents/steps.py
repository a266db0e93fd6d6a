"""Translation of passages, whoever translates: what is to be translated is asked for step by step.

The steps are a generator that yields questions and is sent their answers. A loop answers them from a translator; a
server answers the same questions from its queue.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
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


@dataclass
class _Job:
    """A sentence on its way.

    Attributes:
        sentence: The sentence.
        draft: Its translation, with all that is kept; ``None`` where there is no such.
        written: With all that stands in it; ``None`` as long as something has no place.
    """

    sentence: Sentence
    draft: Draft | None = None
    written: Written | None = None


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
    return [_gathered(pieces, written) for pieces in cut]


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
    jobs = [_Job(sentence) for sentence in sentences]
    whole = [job for job in jobs if job.sentence.is_manageable]
    translations = yield from _ask([job.sentence.text for job in whole])
    for job, translation in zip(whole, translations, strict=True):
        if translation == job.sentence.text:
            job.written = list(job.sentence.items)
        elif draft := Draft.of(job.sentence, translation):
            job.draft, job.written = draft, draft.written()
    drafts = [(job, job.draft) for job in whole if job.written is None and job.draft]
    if drafts and aligned:
        pairs = [(job.sentence.text, draft.text) for job, draft in drafts]
        for (job, draft), pair, links in zip(drafts, pairs, (yield Pairs(pairs)), strict=True):
            job.written = draft.written(Alignment(*pair, links).locate)
    yield from _translate_parts([job for job in jobs if job.written is None])
    return [job.written or [] for job in jobs]


def _ask(texts: list[str]) -> Generator[Sentences | Pairs, Any, list[str]]:
    """Ask for the translations of sentences, each once, and of none of those without any."""
    different = list(dict.fromkeys(texts))
    answers = (yield Sentences(different)) if different else []
    known = {text: one_line(text, str(answer)) for text, answer in zip(different, answers, strict=True)}
    return [known[text] for text in texts]


def one_line(sentence: str, translation: str) -> str:
    """Return a translation as it can stand in any document, without line breaks and white space around it.

    One without words is the sentence.
    """
    return translation if translation == sentence else _CONTROL.sub(" ", translation).strip() or sentence


def _translate_parts(jobs: Sequence[_Job]) -> Generator[Sentences | Pairs, Any, None]:
    """Write sentences from the translations of their parts, or with the help of these."""
    parts = [job.sentence.parts() for job in jobs]
    texts = [[part.text for part in each if isinstance(part, Sentence)] for each in parts]
    answers = iter((yield from _ask([text for each in texts for text in each])))
    for job, own, asked in zip(jobs, parts, texts, strict=True):
        translations = list(islice(answers, len(asked)))
        if job.draft:
            job.written = job.draft.written(parts_alone(job.draft.text, own, translations))
        if job.written is None:
            job.written = []
            remaining = iter(translations)
            for part in own:
                if not isinstance(part, Sentence):
                    job.written.append(part)
                elif (translation := next(remaining)) == part.text:
                    job.written += part.items
                else:
                    job.written += Draft(part, translation, ()).written() or [translation]


def _gathered(pieces: Sequence[Item | Sentence], sentences: Iterator[Written]) -> Written:
    """Return a passage of what stands between its sentences and the next of the written ones."""
    written: Written = []
    for piece in pieces:
        written += next(sentences) if isinstance(piece, Sentence) else [piece]
    return written


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
