"""The way of a text through the server: into sentences, to the scheduler of its model, and together again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from locant.documents import Document
from locant.documents.formats import TextDocument
from locant.documents.markup import cut_html
from locant.documents.passages import Written
from locant.documents.plain import plain_text
from locant.documents.segmentation import Piece, Splitter, cut_text
from locant.documents.sentences import fitting_splitter, sentence_splitter
from locant.documents.steps import Sentences, Steps, translation_steps
from locant.documents.translate import fits_model
from locant.errors import LocantError
from locant.models.decoding_settings import DecodingSettings
from locant.server.models import Models, Route, Way
from locant.server.scheduler import Deliver, Observer, Scheduler, Sentence, Ticket
from locant.server.settings import ServerSettings
from locant.translation.continuous import Outcome, continuous_search
from locant.translation.hypotheses import Hypothesis
from locant.translation.lines import split_to_fit

_THREADS = 2  # that cut texts
_SHORT = 2_000  # characters that are cut and put together at once: another thread would cost more than they do


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
class _PlainLayout:
    """Plain text: characters that stay, and numbers of sentences."""

    parts: Sequence[str | int]

    def put_together(self, translations: Sequence[str]) -> str:
        return "".join(part if isinstance(part, str) else translations[part] for part in self.parts)


@dataclass
class _Group:
    """Texts for one model in one direction.

    Attributes:
        route: The model.
        sentences: Of all its texts.
        layouts: Of each text.
    """

    route: Route
    sentences: list[Sentence]
    layouts: dict[str, _PlainLayout]


@dataclass
class _Work:
    """A version of a document on its way.

    Attributes:
        steps: Ask for translations of sentences.
        route: The model.
        rank: Of the translations that are taken: 0 for the best.
        question: The sentences that are asked for; ``None`` at the end.
        written: The passages, at the end.
    """

    steps: Steps
    route: Route
    rank: int
    question: list[str] | None = None
    written: list[Written] = field(default_factory=list)

    def advance(self, answers: Sequence[str] | None) -> None:
        """Answer the question and take the next one."""
        try:
            asked = self.steps.send(answers) if answers is not None else next(self.steps)
        except StopIteration as end:
            self.question, self.written = None, end.value
            return
        assert isinstance(asked, Sentences)
        self.question = asked.texts


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
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="texts")
        self._schedulers = [
            Scheduler(
                partial(continuous_search, translator.engine, rows=settings.rows),
                observer,
                waiting_requests=limits.waiting_requests,
                waiting_sentences=limits.waiting_sentences,
                name=f"model {name}",
            )
            for translator, name, observer in zip(models.translators, models.names, observers, strict=True)
        ]

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being translated."""
        return all(scheduler.is_idle for scheduler in self._schedulers)

    def end(self) -> None:
        """End all threads; what is not finished fails."""
        for scheduler in self._schedulers:
            scheduler.end()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def aside(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run what takes its time in another thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

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
        return await self._translate(last, client, markup, alternatives)

    async def _translate(
        self, texts: Sequence[tuple[str, Route]], client: str, markup: bool, alternatives: int
    ) -> list[Translated]:
        """Translate each text with one model."""
        self._check_room((route for _, route in texts), client)
        read = cut_html if markup else plain_text
        short = sum(len(text) for text, _ in texts) <= _SHORT
        run = _at_once if short else self.aside
        documents: list[tuple[TextDocument, Route]] = await run(lambda: [(read(text), route) for text, route in texts])
        written = await self.translate_documents(documents, client, alternatives=alternatives, short=short)
        translated = []
        for (document, _), versions in zip(documents, written, strict=True):
            best, *others = [document.text(version) for version in versions]
            translated.append(Translated(best, [other for other in dict.fromkeys(others) if other != best]))
        return translated

    async def translate_documents(
        self,
        documents: Sequence[tuple[Document, Route]],
        client: str,
        *,
        alternatives: int = 0,
        short: bool = False,
    ) -> list[list[list[Written]]]:
        """Translate documents that have been taken apart; errors are those of :meth:`translate`.

        Args:
            documents: Each with the model that translates it.
            client: Who asks.
            alternatives: How many other translations are wanted of each.
            short: Whether they are so short that another thread would cost more than they do.

        Returns:
            Of each document its passages in each version, the best first.
        """
        run = _at_once if short else self.aside
        works: list[_Work] = await run(self._begin, documents, alternatives)
        known: dict[tuple[Route, str], list[str]] = {}
        while any(work.question for work in works):
            groups: list[_Group] = await run(self._asked, works, known, alternatives)
            found: list[list[list[Hypothesis]]] = [[[] for _ in group.sentences] for group in groups]
            async for number, index, hypotheses in self._search(groups, client):
                found[number][index] = hypotheses
            await run(_go_on, works, known, list(zip(groups, found, strict=True)), alternatives)
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
                document = await self.aside(read, content)
            ((written,),) = await self.translate_documents([(document, route)], client)
            content = await self.aside(document.written, written)
        return content

    async def stream(self, text: str, way: Way, client: str) -> AsyncIterator[str | int]:
        """Translate a text and yield the number of its sentences, and then its translation piece by piece.

        What goes by way of another language is translated into that before the first piece comes. Arguments and errors
        are those of :meth:`translate`.
        """
        *before, route = way
        if before:
            (halfway,) = await self.translate([(text, tuple(before))], client)
            text = halfway.text
        self._check_room([route], client)
        group: _Group = await self.aside(self._pieces, text, route)
        (layout,) = group.layouts.values()
        yield len(group.sentences)
        decode = route.translator.tokenizers.target.decode
        ready: dict[int, str] = {}
        parts = list(reversed(layout.parts))

        def due() -> str:
            pieces = []
            while parts and (isinstance(parts[-1], str) or parts[-1] in ready):
                part = parts.pop()
                pieces.append(part if isinstance(part, str) else ready.pop(part))
            return "".join(pieces)

        if first := due():
            yield first
        async for _, index, hypotheses in self._search([group], client):
            (ready[index],) = decode([hypotheses[0].tokens])
            if piece := due():
                yield piece

    async def _search(self, groups: Sequence[_Group], client: str) -> AsyncIterator[tuple[int, int, list[Hypothesis]]]:
        """Yield the number of a group, the index of a sentence in it, and its hypotheses, as they come."""
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[tuple[int, Sequence[tuple[int, Outcome]]]] = asyncio.Queue()

        def deliver_to(number: int) -> Deliver:
            def deliver(results: Sequence[tuple[int, Outcome]]) -> None:
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(arrived.put_nowait, (number, results))

            return deliver

        tickets: list[tuple[Scheduler, Ticket]] = []
        try:
            for number, group in enumerate(groups):
                if group.sentences:
                    scheduler = self._schedulers[group.route.number]
                    tickets.append((scheduler, scheduler.submit(client, group.sentences, deliver_to(number))))
            left = sum(len(group.sentences) for group in groups)
            while left:
                number, results = await arrived.get()
                left -= len(results)
                for index, result in results:
                    if isinstance(result, LocantError):
                        raise result
                    yield number, index, result
        finally:
            for scheduler, ticket in tickets:
                scheduler.cancel(ticket)

    def _begin(self, documents: Sequence[tuple[Document, Route]], alternatives: int) -> list[_Work]:
        """Return the work on each version of each document, with its first question."""
        works = []
        for document, route in documents:
            most = self._settings.limits.sentence_tokens
            fits = fits_model(route.translator, most=most, prefixes=route.prefixes)
            split = fitting_splitter(self._counting(sentence_splitter(route.direction.source), route), fits)
            for rank in range(alternatives + 1):
                works.append(_Work(translation_steps(document.passages, split, aligned=False), route, rank))
                works[-1].advance(None)
        return works

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

    def _asked(
        self, works: Sequence[_Work], known: Mapping[tuple[Route, str], list[str]], alternatives: int
    ) -> list[_Group]:
        """Return the sentences that are asked for and whose translations are not known yet."""
        groups: dict[Route, _Group] = {}
        wanted: dict[Route, dict[str, None]] = {}
        for work in works:
            unknown = [text for text in work.question or [] if (work.route, text) not in known]
            wanted.setdefault(work.route, {}).update(dict.fromkeys(unknown))
        for route, texts in wanted.items():
            groups[route] = group = _Group(route, [], {})
            layouts = self._layout(group, [[Piece(text, True)] for text in texts], alternatives=alternatives)
            group.layouts.update(zip(texts, layouts, strict=True))
        return list(groups.values())

    def _pieces(self, text: str, route: Route) -> _Group:
        """Return the sentences of a plain text as a group."""
        group = _Group(route, [], {})
        (group.layouts[text],) = self._layout(group, [cut_text(text, sentence_splitter(route.direction.source))])
        return group

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

    def _layout(self, group: _Group, texts: Any, *, alternatives: int = 0) -> list[_PlainLayout]:
        """Return the layout of each text, given by its pieces, and add the sentences to the group."""
        translator, prefixes = group.route.translator, group.route.prefixes
        settings, most = self._search_of(group.route, alternatives)
        encode = translator.tokenizers.source.encode

        def fits(text: str) -> bool:
            return len(encode([text])[0]) <= most

        layouts = []
        for pieces in texts:
            lines = [piece.text for piece in pieces if piece.translated]
            self._check_size(group.route, len(group.sentences) + len(lines))
            encoded = iter(encode(lines))
            parts: list[str | int] = []
            for piece in pieces:
                tokens = next(encoded) if piece.translated else []
                shorter = [(piece, tokens)]
                if len(tokens) > most:
                    cut = cut_text(piece.text, lambda text: split_to_fit(text, fits))
                    shorter = [(part, encode([part.text])[0] if part.translated else []) for part in cut]
                for part, ids in shorter:
                    if not ids:
                        parts.append(part.text)
                        continue
                    source, longest = translator.search_input(ids, settings, prefixes)
                    parts.append(len(group.sentences))
                    group.sentences.append(Sentence(source, longest, prefixes.target, settings))
            layouts.append(_PlainLayout(parts))
        return layouts


async def _at_once(work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*arguments)


def _go_on(
    works: Sequence[_Work],
    known: dict[tuple[Route, str], list[str]],
    groups: Sequence[tuple[_Group, Sequence[list[Hypothesis]]]],
    alternatives: int,
) -> None:
    """Keep what was found, and answer the questions of all works with it."""
    for group, found in groups:
        decode = group.route.translator.tokenizers.target.decode
        versions = [
            decode([hypotheses[min(rank, len(hypotheses) - 1)].tokens for hypotheses in found])
            for rank in range(alternatives + 1)
        ]
        for text, layout in group.layouts.items():
            known[group.route, text] = [layout.put_together(version) for version in versions]
    for work in works:
        if work.question:
            work.advance([known[work.route, text][work.rank] for text in work.question])
