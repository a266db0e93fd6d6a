"""The way of a text through the server: into sentences, to the scheduler of its model, and together again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from locant.documents import Document
from locant.documents.formats import TextDocument
from locant.documents.markup import cut_html
from locant.documents.passages import Item, Sentence, Written, cut_passage
from locant.documents.plain import is_plain_sentence, plain_text
from locant.documents.sentences import Splitter, fitting_splitter, sentence_splitter
from locant.documents.steps import Pairs, Sentences, Steps, one_line, sentence_steps, translation_steps
from locant.documents.translate import align_words, fits_model
from locant.errors import LocantError
from locant.models.decoding_settings import DecodingSettings
from locant.server.models import Models, Route, Way
from locant.server.scheduler import Scheduler, Ticket
from locant.server.settings import ServerSettings
from locant.translation.compiled import Outcome, Searched
from locant.translation.continuous import continuous_search, rows_at_once, searches_at_once
from locant.translation.hypotheses import Hypothesis
from locant.translation.lines import parts_of

_THREADS = 2  # that cut texts
# Characters that are cut and put together at once, for another thread would cost more; unless terms are placed.
_SHORT = 2_000

Found = TypeVar("Found")


class TextThreads:
    """Threads for what takes its time besides the models: long texts are cut, documents read, languages identified.

    A client has one thread at a time, so that nobody takes them from the others. Work that has begun goes on to its
    end, whoever still waits for it.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="texts")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, client: str, work: Callable[[], Found]) -> Found:
        """Return what some work for a client returns, when a thread has done it."""
        turn = self._turns.setdefault(client, asyncio.Lock())
        await turn.acquire()
        doing = asyncio.get_running_loop().run_in_executor(self._pool, work)
        doing.add_done_callback(lambda done: turn.release())
        return await asyncio.shield(doing)

    def end(self) -> None:
        """Let nothing more begin."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@dataclass(eq=False)
class _Asked:
    """A text whose translation is asked for.

    Attributes:
        parts: The text, more of them where it is too long for the model, none where there is nothing to translate.
        outcomes: What becomes of them.
        versions: Its translations by rank, once they are put together.
    """

    parts: list[str] = field(default_factory=list)
    outcomes: list[asyncio.Future[Outcome]] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)


class TranslationService:
    """Translates texts with the models of a server.

    Args:
        models: The models.
        settings: The limits.
    """

    def __init__(self, models: Models, settings: ServerSettings) -> None:
        self.models, self._settings = models, settings
        limits = settings.limits
        self.splitter_of, self.search_of = cache(self._splitter), cache(self._search)
        self.threads = TextThreads()
        self.schedulers = []
        for translator, name in zip(models.translators, models.names, strict=True):
            lanes = min(searches_at_once(translator.engine), settings.rows)
            rows = min(settings.rows // lanes, rows_at_once(translator.engine, lanes) or settings.rows)
            self.schedulers.append(
                Scheduler(
                    partial(continuous_search, translator.engine, rows=rows),
                    waiting_requests=limits.waiting_requests,
                    waiting_sentences=limits.waiting_sentences,
                    waiting_seconds=limits.waiting_seconds,
                    lanes=lanes,
                    name=name,
                )
            )

    def end(self) -> None:
        """End all threads; what is not finished fails."""
        for scheduler in self.schedulers:
            scheduler.end()
        self.threads.end()

    async def translate(
        self, texts: Sequence[tuple[str, Way]], client: str, *, markup: bool = False, alternatives: int = 0
    ) -> list[list[str]]:
        """Translate texts.

        Args:
            texts: Each with the models that translate it.
            client: Who asks.
            markup: Whether they are HTML.
            alternatives: How many other translations are wanted of each.

        Returns:
            Of each text its translations, best first, each once.

        Raises:
            RequestError: Too much waits, or the server is being shut down (503), or there are too many sentences (400).
            LocantError: A model's output is not a number.
        """
        last = [(text, way[-1]) for text, way in texts]
        indirect = [number for number, (_, way) in enumerate(texts) if len(way) > 1]
        if indirect:
            firsts = [(texts[number][0], texts[number][1][:-1]) for number in indirect]
            for number, (best, *_) in zip(indirect, await self.translate(firsts, client, markup=markup), strict=True):
                last[number] = best, last[number][1]
        else:
            self._check_room([route for _, route in last], client)
        short = sum([len(text) for text, _ in last]) <= _SHORT and not any(route.glossary for _, route in last)
        ranks, resumed = alternatives + 1, bool(indirect)
        if short and len(last) == 1 and not markup:
            ((text, route),) = last
            if is_plain_sentence(text, self.splitter_of(route)):  # as most are: nothing is cut or put together
                with closing(_Answers(self, route, client, ranks, short=True, resumed=resumed)) as answers:
                    (versions,) = await answers.translations([text])
                return [list(dict.fromkeys(one_line(text, version) for version in versions))]
        cut = cut_html if markup else plain_text

        def read() -> list[tuple[TextDocument, Route]]:
            return [(cut(text), route) for text, route in last]

        documents = read() if short else await self.threads.run(client, read)
        found = await self._translate(documents, client, ranks=ranks, short=short, resumed=resumed)
        return [
            list(dict.fromkeys(document.text(version, route.direction.target) for version in versions))
            for (document, route), versions in zip(documents, found, strict=True)
        ]

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
                document = await self.threads.run(client, partial(read, content))
            ((written,),) = await self._translate([(document, route)], client, resumed=number > 0)
            write = partial(document.written, written, route.direction.target)
            content = await self.threads.run(client, write)
        return content

    async def _translate(
        self,
        documents: Sequence[tuple[Document, Route]],
        client: str,
        *,
        ranks: int = 1,
        short: bool = False,
        resumed: bool,
    ) -> list[list[list[Written]]]:
        """Translate documents that have been taken apart, and return of each its passages in each version."""
        groups: dict[Route, list[Document]] = {}
        for document, route in documents:
            groups.setdefault(route, []).append(document)
        versions: dict[int, list[list[Written]]] = {id(document): [] for document, _ in documents}
        for route, own in groups.items():
            passages = [passage for document in own for passage in document.passages]
            with closing(_Answers(self, route, client, ranks, short=short, resumed=resumed)) as answers:
                for rank in range(ranks):
                    steps = translation_steps(passages, self.splitter_of(route), aligned=route.aligns)
                    written = iter(await answers.answer(steps, rank=rank))
                    for document in own:
                        versions[id(document)].append(list(islice(written, len(document.passages))))
        return [versions[id(document)] for document, _ in documents]

    async def stream(self, text: str, way: Way, client: str) -> AsyncIterator[str | int]:
        """Translate a text and yield the number of its sentences, and then its translation piece by piece.

        The pieces, joined, are what :meth:`translate` returns. What goes by way of another language is translated into
        that before the first piece comes. Arguments and errors are those of :meth:`translate`.
        """
        *before, route = way
        if before:
            ((text, *_),) = await self.translate([(text, tuple(before))], client)
        else:
            self._check_room([route], client)
        short = len(text) <= _SHORT and not route.glossary
        document = plain_text(text)
        (passage,), (write,) = document.passages, document.writers

        def begin() -> tuple[list[Item | Sentence], list[str]]:
            pieces = cut_passage(passage, self.splitter_of(route))
            return pieces, [piece.text for piece in pieces if isinstance(piece, Sentence) and piece.is_manageable]

        pieces, texts = begin() if short else await self.threads.run(client, begin)
        yield sum(isinstance(piece, Sentence) for piece in pieces)
        with closing(_Answers(self, route, client, short=short, resumed=bool(before))) as answers:
            await answers.ask(texts)
            known = ""
            for piece in pieces:
                if isinstance(piece, Sentence):
                    (written,) = await answers.answer(sentence_steps([piece], aligned=route.aligns))
                    yield known + write(written)
                    known = ""
                else:
                    known += write([piece])
            if known:
                yield known

    def _splitter(self, route: Route) -> Splitter:
        """Return what cuts lines into sentences that fit a model."""
        most = self._settings.limits.sentence_tokens
        fits = fits_model(route.translator, most=most, prefixes=route.prefixes)
        whole = route.glossary.spans if route.glossary else None
        return fitting_splitter(sentence_splitter(route.direction.source), fits, whole)

    def _check_room(self, routes: Iterable[Route], client: str) -> None:
        """Refuse what would be refused in any case before its texts are cut, which is most of the work there is."""
        for number in {route.number for route in routes}:
            self.schedulers[number].check_room(client)

    def _search(self, route: Route, ranks: int) -> tuple[DecodingSettings, int]:
        """Return how a model searches, and the most tokens of a sentence that is translated whole."""
        beam = max(self._settings.beam or route.translator.settings.beam, ranks)
        longest = route.translator.longest_source(prefixes=route.prefixes)
        settings = route.translator.settings_with(beam=beam, n_best=ranks)
        return settings, min(longest, self._settings.limits.sentence_tokens)


class _Answers:
    """What one model answers to the questions of one request; each text is asked for once.

    Args:
        service: Whose models and threads are used.
        route: The model.
        client: Who asks.
        ranks: Translations of each sentence.
        short: Whether to go on takes less time than another thread would cost.
        resumed: Whether the request has been taken already.
    """

    def __init__(
        self, service: TranslationService, route: Route, client: str, ranks: int = 1, *, short: bool, resumed: bool
    ) -> None:
        self._service, self._route, self._client, self._ranks = service, route, client, ranks
        self._short, self._resumed = short, resumed
        self._asked: dict[str, _Asked] = {}
        self._tickets: list[Ticket] = []
        self._scheduler = service.schedulers[route.number]

    async def _aside(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return what some work returns, which a thread does unless it is short."""
        if self._short:
            return work(*arguments)
        return await self._service.threads.run(self._client, partial(work, *arguments))

    async def ask(self, wanted: Sequence[str]) -> None:
        """Submit sentences, but those that have been submitted."""
        texts = {text: _Asked() for text in wanted if text not in self._asked}
        self._asked.update(texts)
        if not texts:
            return
        sentences: list[Searched] = await self._aside(self._sentences, texts)
        if sentences:
            ticket = self._scheduler.submit(self._client, sentences, resumed=self._resumed)
            self._tickets.append(ticket)
            outcomes = iter(ticket.outcomes)
            for asked in texts.values():
                asked.outcomes = [next(outcomes) for _ in asked.parts]
        self._resumed = True

    async def translations(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the translations of sentences, the best of each first."""
        await self.ask(texts)
        new = {text: asked for text in texts if not (asked := self._asked[text]).versions}
        for asked in new.values():
            for outcome in asked.outcomes:
                result = await outcome
                if isinstance(result, LocantError):
                    raise result
        if new:
            await self._aside(self._put_together, new)
        return [self._asked[text].versions for text in texts]

    async def answer(self, steps: Steps, *, rank: int = 0) -> list[Written]:
        """Answer the questions of steps by translations of a rank, 0 for the best, and return what they return."""
        answer: Any = None
        while not isinstance(question := await self._aside(_next_question, steps, answer), list):
            if isinstance(question, Sentences):
                answer = [versions[rank] for versions in await self.translations(question.texts)]
            else:
                translator, prefixes = self._route.translator, self._route.prefixes
                work = partial(align_words, translator, question.pairs, prefixes=prefixes)
                answer = await self._service.threads.run(self._client, work)
        found: list[Written] = question
        return found

    def close(self) -> None:
        """Drop what has not come."""
        for ticket in self._tickets:
            self._scheduler.release(ticket)

    def _sentences(self, texts: Mapping[str, _Asked]) -> list[Searched]:
        """Return the sentences of texts for the search; a text that is too long is cut."""
        translator, prefixes, glossary = self._route.translator, self._route.prefixes, self._route.glossary
        settings, most = self._service.search_of(self._route, self._ranks)
        # Sentences have been cut to fit, so that a word of that many tokens is left.
        parts = parts_of(
            list(texts),
            translator.tokenizers.source.encode,
            most=most,
            reason="",
            on_long="split",
            say=lambda sentence: None,
            whole=glossary.spans if glossary else None,
        )
        sentences = []
        for asked, own in zip(texts.values(), parts, strict=True):
            asked.parts = [part for part, _ in own]
            for _, ids in own:
                source, longest = translator.search_input(ids, settings, prefixes)
                sentences.append(Searched(source, longest, prefixes.target, settings))
        return sentences

    def _put_together(self, texts: Mapping[str, _Asked]) -> None:
        """Write the translations of texts whose outcomes have come; one with nothing to translate stays."""
        translator, glossary, prefixes = self._route.translator, self._route.glossary, self._route.prefixes
        parts = [part for asked in texts.values() for part in asked.parts]
        found: list[list[Hypothesis]] = [outcome.result() for asked in texts.values() for outcome in asked.outcomes]  # type: ignore[misc]
        for rank in range(self._ranks):
            tokens = [hypotheses[min(rank, len(hypotheses) - 1)].tokens for hypotheses in found]
            written = translator.tokenizers.target.decode(tokens)
            if glossary:
                written = translator.with_terms(glossary, parts, written, prefixes=prefixes)
            decoded = iter(written)
            for text, asked in texts.items():
                asked.versions.append(" ".join(islice(decoded, len(asked.parts))) if asked.parts else text)


def _next_question(steps: Steps, answer: Any) -> Sentences | Pairs | list[Written]:
    """Answer a question of steps, if any, and return the next one, or at the end what they return."""
    try:
        return steps.send(answer)
    except StopIteration as end:
        found: list[Written] = end.value
        return found
