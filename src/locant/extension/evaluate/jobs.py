"""Jobs of an evaluation: a pass over part of a document, or one question."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from locant.extension.evaluate import retrieval
from locant.extension.evaluate.documents import Document, LongText
from locant.extension.evaluate.perplexity import Window, windows_of
from locant.extension.evaluate.records import fingerprint
from locant.extension.evaluate.retrieval import Question, longest_prompt

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from locant.extension.evaluate.evaluation import EvaluationSettings
    from locant.extension.evaluate.prefill import Answerer

Record = dict[str, Any]
Progress = Callable[[int], None]


@dataclass
class Session:
    """A loaded model at work.

    Attributes:
        model: In evaluation mode.
        tokenizer: Of the model.
        chunk: Tokens read at once.
        exact: Whether Locant's rotation takes the place of the model's own.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    chunk: int
    exact: bool = False
    _answerer: Answerer | None = field(default=None, init=False)

    def answerer(self, length: int) -> Answerer:
        """Return what answers prompts of up to ``length`` tokens; it remembers the latest prompt."""
        from locant.extension.evaluate.prefill import Answerer

        if self._answerer is None or self._answerer.length != length:
            end = self.tokenizer.eos_token_id
            stop = () if end is None else (end,)
            self._answerer = Answerer(self.model, length, stop=stop, chunk=self.chunk, exact=self.exact)
        return self._answerer


@dataclass(frozen=True)
class PerplexityJob:
    """Windows of a document that begin at the same token, which one pass can measure.

    Attributes:
        document: What is read.
        windows: In it, shortest first; where the frequencies follow the length of the text, one alone.
    """

    document: Document
    windows: tuple[Window, ...]

    @cached_property
    def records(self) -> dict[str, Window]:
        """The windows by the name of their record, which says what is read and scored."""
        return {window_record(self.document, window): window for window in self.windows}

    def tokens(self, wanted: Iterable[str]) -> tuple[int, int]:
        """Return how many tokens a pass for some of the records reads, and how many it finds read already."""
        return max(self.records[name].length for name in wanted), 0

    def measure(self, session: Session, wanted: Sequence[str], progress: Progress) -> Iterator[tuple[str, Record]]:
        """Yield the records wanted."""
        from locant.extension.evaluate.prefill import token_losses

        windows = [self.records[name] for name in wanted]
        longest = max(windows, key=lambda window: window.length)
        first = min(window.scored_from for window in windows)
        begin = time.perf_counter()
        times: list[tuple[int, float]] = []

        def on_chunk(done: int) -> None:
            times.append((done, time.perf_counter() - begin))
            progress(done)

        tokens = self.document.window(longest.start, longest.length)
        losses = token_losses(
            session.model, tokens, scored_from=first, chunk=session.chunk, exact=session.exact, on_chunk=on_chunk
        ).double()
        for name, window in zip(wanted, windows, strict=True):
            scored = losses[window.scored_from - first : window.length - first]
            seconds = next(seconds for done, seconds in times if done >= window.length - 1)
            yield name, {"nll": scored.sum().item(), "tokens": len(scored), "seconds": seconds}


@dataclass(frozen=True)
class AnswerJob:
    """One question.

    Attributes:
        test: Name of the test, or of the RULER task.
        length: Tokens of prompt and answer together, at most.
        depth: Where the answer stands, 0 to 1; ``None`` where it stands in several places.
        attempt: Number of the try.
        answer_tokens: Tokens of the answer at most.
        build: Makes the question from an amount of filling text.
        content: Fingerprint of what else the prompt is made of.
    """

    test: str
    length: int
    depth: float | None
    attempt: int
    answer_tokens: int
    build: Callable[[int], Question]
    content: str = ""

    @cached_property
    def record(self) -> str:
        """The name of the record."""
        parts = [self.length, "" if self.depth is None else f"{self.depth:.4f}", self.attempt, self.content]
        return f"{self.test}-" + "-".join(str(part) for part in parts if part != "")

    @property
    def records(self) -> tuple[str]:
        """That name alone."""
        return (self.record,)

    def tokens(self, wanted: Iterable[str]) -> tuple[int, int]:
        """Return how many tokens are read up to the last, and how many of them were most likely read before."""
        del wanted
        return self.length, int((self.depth or 0) * self.length * 0.9)

    def measure(self, session: Session, wanted: Sequence[str], progress: Progress) -> Iterator[tuple[str, Record]]:
        """Yield the record."""
        begin = time.perf_counter()
        question, prompt = longest_prompt(self.build, session.tokenizer, self.length - self.answer_tokens)
        ids = session.answerer(self.length).answer(prompt, self.answer_tokens, progress)
        answer = str(session.tokenizer.decode(ids, skip_special_tokens=True))
        yield (
            wanted[0],
            {
                "expected": list(question.expected),
                "answer": answer,
                "score": question.score(answer),
                "tokens": len(prompt),
                "seconds": time.perf_counter() - begin,
            },
        )


Job = PerplexityJob | AnswerJob


def window_record(document: Document, window: Window) -> str:
    """Return the name of a window's record."""
    content = fingerprint(document.window(window.start, window.length).tolist())
    return f"perplexity-{content}-from{window.scored_from}"


def perplexity_jobs(
    documents: Sequence[Document], settings: EvaluationSettings, *, depends_on_length: bool
) -> list[PerplexityJob]:
    """Return the passes for all metrics.

    Args:
        documents: What is read.
        settings: Lengths and metrics.
        depends_on_length: Whether the model's frequencies depend on the length of the text, so that a longer window
            says nothing about a shorter one.
    """
    longest = max(settings.lengths)
    windows = sorted(
        {
            window
            for metric in settings.perplexity.metrics
            for length in settings.lengths
            for window in windows_of(metric, length, longest, settings.perplexity)
        }
    )

    def shared(window: Window) -> tuple[int, ...]:
        return (window.start, window.length) if depends_on_length else (window.start,)

    return [
        PerplexityJob(document, tuple(group)) for document in documents for _, group in groupby(windows, key=shared)
    ]


def answer_jobs(texts: Sequence[LongText], settings: EvaluationSettings) -> list[AnswerJob]:
    """Return the questions of all retrieval tests, so ordered that neighbours share much of their prompts."""
    jobs: list[AnswerJob] = []
    depths = [index / max(settings.depths - 1, 1) for index in range(settings.depths)]
    haystack = retrieval.sentences_of(texts[0].text) if {"needle", "ruler"} & set(settings.tests) else []
    content = fingerprint(haystack)
    for length in settings.lengths:
        grid = [(depth, attempt) for depth in depths for attempt in range(settings.tries)]
        if "passkey" in settings.tests:
            jobs += [
                AnswerJob(
                    "passkey",
                    length,
                    depth,
                    attempt,
                    retrieval.PASSKEY_ANSWER_TOKENS,
                    partial(_passkey, depth, attempt),
                )
                for depth, attempt in grid
            ]
        if "needle" in settings.tests:
            named = fingerprint([content, settings.needle.text, settings.needle.question, settings.needle.expected])
            jobs += [
                AnswerJob(
                    "needle",
                    length,
                    depth,
                    0,
                    retrieval.NEEDLE_ANSWER_TOKENS,
                    partial(_needle, haystack, depth, settings),
                    named,
                )
                for depth in depths
            ]
        if "ruler" in settings.tests:
            jobs += [
                AnswerJob(
                    name, length, None, attempt, task.answer_tokens, partial(_task, task, haystack, attempt), content
                )
                for name, task in retrieval.TASKS.items()
                for attempt in range(settings.tries)
            ]
    return jobs


def _passkey(depth: float, attempt: int, characters: int) -> Question:
    return retrieval.passkey_question(characters, depth, attempt)


def _needle(haystack: list[str], depth: float, settings: EvaluationSettings, sentences: int) -> Question:
    return retrieval.needle_question(haystack, sentences, depth, settings.needle)


def _task(task: retrieval.Task, haystack: list[str], attempt: int, amount: int) -> Question:
    return task.build(haystack, amount, attempt)


def mean_scores(jobs: Iterable[AnswerJob], records: Mapping[str, Record]) -> dict[str, Any]:
    """Return the mean score of some questions with what it is made of."""
    found = [records[job.record] for job in jobs]
    return {
        "score": sum(record["score"] for record in found) / len(found),
        "tries": len(found),
        "seconds": sum(record["seconds"] for record in found),
    }
