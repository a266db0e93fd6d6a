"""The way of a text through the server: into sentences, to the scheduler of its model, and together again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from locant.documents import Document
from locant.documents.formats import TextDocument, Write
from locant.documents.markup import cut_html
from locant.documents.passages import Sentence, Written, cut_passage
from locant.documents.plain import is_plain_sentence, plain_text
from locant.documents.segmentation import Splitter
from locant.documents.sentences import fitting_splitter, sentence_splitter
from locant.documents.steps import one_line, sentence_steps, translation_steps
from locant.documents.translate import fits_model
from locant.models.decoding_settings import DecodingSettings
from locant.server.models import Models, Route, Way
from locant.server.plain_sentences import search, search_input
from locant.server.progress import Answers, Delivery, Progress
from locant.server.scheduler import Observer, Scheduler
from locant.server.settings import ServerSettings
from locant.server.threads import TextThreads
from locant.server.works import Work, Works
from locant.translation.continuous import continuous_search, rows_at_once, searches_at_once

_THREADS = 2  # that cut texts
# Characters that are cut and put together at once, for another thread would cost more; unless terms are placed.
_SHORT = 2_000


@dataclass(frozen=True)
class Translated:
    """A translated text.

    Attributes:
        text: The best translation.
        alternatives: Others, each once.
    """

    text: str
    alternatives: list[str]


@dataclass(frozen=True)
class _Stream:
    """A text that is translated sentence by sentence.

    Attributes:
        parts: Characters that stay, and the sentences.
        write: Returns a translated sentence as the text has it.
    """

    parts: Sequence[str | Work]
    write: Write

    @property
    def works(self) -> list[Work]:
        """The sentences."""
        return [part for part in self.parts if isinstance(part, Work)]


class TranslationService:
    """Translates texts with the models of a server.

    Args:
        models: The models.
        settings: The limits.
        observers: What is told of each model's work.
    """

    def __init__(self, models: Models, settings: ServerSettings, observers: Sequence[Observer]) -> None:
        self.models, self._settings = models, settings
        limits = settings.limits
        self._searches: dict[tuple[Route, int], tuple[DecodingSettings, int]] = {}
        self._fits: dict[Route, Callable[[str], bool]] = {}
        self._delivered: Delivery | None = None
        self.threads = TextThreads(
            _THREADS, waiting_requests=limits.waiting_requests, waiting_seconds=limits.waiting_seconds
        )
        self._schedulers = []
        for translator, name, observer in zip(models.translators, models.names, observers, strict=True):
            lanes = min(searches_at_once(translator.engine), settings.rows)
            rows = min(settings.rows // lanes, rows_at_once(translator.engine, lanes) or settings.rows)
            self._schedulers.append(
                Scheduler(
                    partial(continuous_search, translator.engine, rows=rows),
                    observer,
                    waiting_requests=limits.waiting_requests,
                    waiting_sentences=limits.waiting_sentences,
                    waiting_seconds=limits.waiting_seconds,
                    lanes=lanes,
                    name=f"model {name}",
                )
            )

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being translated."""
        return all(scheduler.is_idle for scheduler in self._schedulers)

    def end(self) -> None:
        """End all threads; what is not finished fails."""
        for scheduler in self._schedulers:
            scheduler.end()
        self.threads.end()

    async def translate(
        self, texts: Sequence[tuple[str, Way]], client: str, *, markup: bool = False, alternatives: int = 0
    ) -> list[Translated]:
        """Translate texts.

        Args:
            texts: Each with the models that translate it.
            client: Who asks.
            markup: Whether they are HTML.
            alternatives: How many other translations are wanted of each.

        Raises:
            QueueFullError: Too much waits.
            SchedulerClosedError: The server is being shut down.
            LocantError: A model's output is not a number.
        """
        last = [(text, way[-1]) for text, way in texts]
        indirect = [number for number, (_, way) in enumerate(texts) if len(way) > 1]
        if indirect:
            firsts = [(texts[number][0], texts[number][1][:-1]) for number in indirect]
            halfway = await self.translate(firsts, client, markup=markup)
            for number, each in zip(indirect, halfway, strict=True):
                last[number] = each.text, last[number][1]
        return await self._translate(last, client, markup, alternatives, resumed=bool(indirect))

    async def _translate(
        self, texts: Sequence[tuple[str, Route]], client: str, markup: bool, alternatives: int, *, resumed: bool
    ) -> list[Translated]:
        """Translate each text with one model."""
        if not resumed:
            self._check_room((route for _, route in texts), client)
        short = sum([len(text) for text, _ in texts]) <= _SHORT and not any(route.glossary for _, route in texts)
        if short and len(texts) == 1 and not markup:
            ((text, route),) = texts
            translated = await self._translate_sentence(text, route, client, alternatives, resumed=resumed)
            if translated is not None:
                return [translated]
        documents: list[tuple[TextDocument, Route]]
        read = partial(_read, texts, markup)
        documents = read() if short else await self.threads.run(client, read, resumed=resumed)
        written = await self.translate_documents(
            documents, client, alternatives=alternatives, short=short, resumed=resumed
        )
        return [
            _best_of([document.text(version, route.direction.target) for version in versions])
            for (document, route), versions in zip(documents, written, strict=True)
        ]

    async def _translate_sentence(
        self, text: str, route: Route, client: str, alternatives: int, *, resumed: bool
    ) -> Translated | None:
        """Translate a text that is one plain sentence; ``None`` for others."""
        if not is_plain_sentence(text, self._splitter(route)):
            return None
        sentence = search_input(text, route, *self._search_of(route, alternatives))
        if sentence is None:
            return None
        scheduler = self._schedulers[route.number]
        hypotheses = await search(scheduler, client, sentence, self._delivery(), resumed=resumed)
        tokens = [hypotheses[min(rank, len(hypotheses) - 1)].tokens for rank in range(alternatives + 1)]
        return _best_of([one_line(text, version) for version in route.translator.tokenizers.target.decode(tokens)])

    async def translate_documents(
        self,
        documents: Sequence[tuple[Document, Route]],
        client: str,
        *,
        alternatives: int = 0,
        short: bool = False,
        resumed: bool = False,
    ) -> list[list[list[Written]]]:
        """Translate documents that have been taken apart; errors are those of :meth:`translate`.

        Args:
            documents: Each with the model that translates it.
            client: Who asks.
            alternatives: How many other translations are wanted of each.
            short: Whether they are so short that another thread would cost more than they do.
            resumed: Whether they are of a request that has been taken already, which is not refused any more.

        Returns:
            Of each document its passages in each version, the best first.
        """
        works: list[Work]
        begin = partial(self._begin, documents, alternatives)
        works = begin() if short else await self.threads.run(client, begin, resumed=True)
        with self._progress(works, client, alternatives=alternatives, short=short, resumed=resumed) as progress:
            while await progress.go_on():
                pass
        ranks = alternatives + 1
        return [[work.written for work in works[first : first + ranks]] for first in range(0, len(works), ranks)]

    async def translate_document(
        self, document: Document, read: Callable[[bytes], Document], way: Way, client: str
    ) -> bytes:
        """Translate a document of any format; errors are those of :meth:`translate`.

        Args:
            document: The document.
            read: Takes such a document apart, for the second of two models.
            way: The models that translate it.
            client: Who asks.
        """
        content = b""
        for number, route in enumerate(way):
            if number:
                document = await self.threads.run(client, partial(read, content), resumed=True)
            ((written,),) = await self.translate_documents([(document, route)], client, resumed=number > 0)
            write = partial(document.written, written, route.direction.target)
            content = await self.threads.run(client, write, resumed=True)
        return content

    async def stream(self, text: str, way: Way, client: str) -> AsyncIterator[str | int]:
        """Translate a text and yield the number of its sentences, and then its translation piece by piece.

        The pieces, joined, are what :meth:`translate` returns. What goes by way of another language is translated into
        that before the first piece comes. Arguments and errors are those of :meth:`translate`.
        """
        *before, route = way
        if before:
            (halfway,) = await self.translate([(text, tuple(before))], client)
            text = halfway.text
        else:
            self._check_room([route], client)
        short = len(text) <= _SHORT and not route.glossary
        stream: _Stream
        begin = partial(self._begin_stream, text, route)
        stream = begin() if short else await self.threads.run(client, begin, resumed=bool(before))
        yield len(stream.works)
        parts = deque(stream.parts)

        def due() -> str:
            """Take what is known up to the next sentence that is not finished."""
            known = []
            while parts and (isinstance(parts[0], str) or parts[0].is_finished):
                part = parts.popleft()
                known.append(part if isinstance(part, str) else stream.write(part.written[0]))
            return "".join(known)

        if piece := due():
            yield piece
        with self._progress(stream.works, client, short=short, resumed=bool(before)) as progress:
            while await progress.go_on():
                if piece := due():
                    yield piece

    def _progress(
        self, works: Sequence[Work], client: str, *, alternatives: int = 0, short: bool, resumed: bool
    ) -> Progress:
        """Return what translates works to their ends."""
        asked = Works(works, partial(self._search_of, alternatives=alternatives), alternatives + 1)
        answers = Answers(self._schedulers, client, asked, self._delivery())
        aside = partial(self.threads.run, client, resumed=True)
        return Progress(asked, answers, aside, short=short, resumed=resumed)

    def _delivery(self) -> Delivery:
        """Return what brings answers to the running loop."""
        loop = asyncio.get_running_loop()
        if self._delivered is None or self._delivered.loop is not loop:
            self._delivered = Delivery(loop)
        return self._delivered

    def _begin(self, documents: Sequence[tuple[Document, Route]], alternatives: int) -> list[Work]:
        """Return the work on each version of each document, with its first question."""
        works = []
        for document, route in documents:
            split = self._splitter(route)
            for rank in range(alternatives + 1):
                works.append(Work(translation_steps(document.passages, split, aligned=route.aligns), route, rank))
                works[-1].advance(None)
        return works

    def _begin_stream(self, text: str, route: Route) -> _Stream:
        """Return a text with the work on each of its sentences, at its first question."""
        document = plain_text(text)
        (passage,), (write,) = document.passages, document.writers
        parts: list[str | Work] = []
        for piece in cut_passage(passage, self._splitter(route)):
            if isinstance(piece, Sentence):
                parts.append(work := Work(sentence_steps([piece], aligned=route.aligns), route))
                work.advance(None)
            else:
                parts.append(write([piece]))
        return _Stream(parts, write)

    def _splitter(self, route: Route) -> Splitter:
        """Return what cuts lines into sentences that fit the model, until they are more than may wait at a time."""
        fits = self._fits.get(route)
        if fits is None:
            most = self._settings.limits.sentence_tokens
            fits = self._fits[route] = fits_model(route.translator, most=most, prefixes=route.prefixes)
        whole = route.glossary.spans if route.glossary else None
        return fitting_splitter(self._counting(sentence_splitter(route.direction.source), route), fits, whole)

    def _counting(self, split: Splitter, route: Route) -> Splitter:
        """Return what cuts lines into sentences until they are more than may wait at a time."""
        sentences = 0

        def count(line: str) -> Sequence[str]:
            nonlocal sentences
            found = split(line)
            sentences += sum(any(map(str.isalpha, sentence)) for sentence in found)
            self._check_size(route, sentences)
            return found

        return count

    def _check_room(self, routes: Iterable[Route], client: str) -> None:
        """Refuse what would be refused in any case before its texts are cut, which is most of the work there is."""
        for number in {route.number for route in routes}:
            self._schedulers[number].check_room(client)

    def _check_size(self, route: Route, sentences: int) -> None:
        self._schedulers[route.number].check_size(sentences)

    def _search_of(self, route: Route, alternatives: int) -> tuple[DecodingSettings, int]:
        """Return how a model searches, and the most tokens of a sentence that is translated whole."""
        known = self._searches.get((route, alternatives))
        if known is None:
            beam = max(self._settings.beam or route.translator.settings.beam, alternatives + 1)
            settings = route.translator.settings_with(beam=beam, n_best=alternatives + 1)
            longest = route.translator.longest_source(prefixes=route.prefixes)
            known = self._searches[route, alternatives] = settings, min(longest, self._settings.limits.sentence_tokens)
        return known


def _best_of(versions: Sequence[str]) -> Translated:
    best, *others = versions
    return Translated(best, [other for other in dict.fromkeys(others) if other != best])


def _read(texts: Sequence[tuple[str, Route]], markup: bool) -> list[tuple[TextDocument, Route]]:
    read = cut_html if markup else plain_text
    return [(read(text), route) for text, route in texts]
