"""The way of a text through the server: into sentences, to the scheduler of its model, and together again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from locant.errors import LocantError
from locant.server.markup import Page, cut_html
from locant.server.models import Models, Route
from locant.server.scheduler import Deliver, Observer, Scheduler, Sentence, Ticket
from locant.server.segmentation import Piece, cut_text
from locant.server.sentences import sentence_splitter
from locant.server.settings import ServerSettings
from locant.translation.continuous import Outcome, continuous_search
from locant.translation.hypotheses import Hypothesis
from locant.translation.lines import split_to_fit

_THREADS = 2  # that cut texts


@dataclass(frozen=True)
class Translated:
    """A translated text.

    Attributes:
        text: The best translation.
        alternatives: Others, each once.
    """

    text: str
    alternatives: list[str]


class _Layout(Protocol):
    """A text with gaps where the translations of sentences go."""

    def put_together(self, translations: Sequence[str]) -> str: ...


@dataclass(frozen=True)
class _PlainLayout:
    """Plain text: characters that stay, and numbers of sentences."""

    parts: Sequence[str | int]

    def put_together(self, translations: Sequence[str]) -> str:
        return "".join(part if isinstance(part, str) else translations[part] for part in self.parts)


@dataclass(frozen=True)
class _HtmlLayout:
    """HTML, each of whose sentences has a plain layout, because it may have been cut."""

    page: Page
    sentences: Sequence[_PlainLayout]

    def put_together(self, translations: Sequence[str]) -> str:
        return self.page.put_together([sentence.put_together(translations) for sentence in self.sentences])


@dataclass
class _Group:
    """Texts for one model in one direction.

    Attributes:
        route: The model.
        sentences: Of all its texts.
        layouts: Of each text, by its number.
    """

    route: Route
    sentences: list[Sentence]
    layouts: dict[int, _Layout]


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
        self, texts: Sequence[tuple[str, Route]], client: str, *, markup: bool = False, alternatives: int = 0
    ) -> list[Translated]:
        """Translate texts.

        Args:
            texts: Each with the model that translates it.
            client: Who asks.
            markup: Whether they are HTML.
            alternatives: How many other translations are wanted of each.

        Raises:
            QueueFullError: Too much waits.
            SchedulerClosedError: The server is being shut down.
            LocantError: A model's output is not a number.
        """
        groups: list[_Group] = await self.aside(self._groups, texts, markup, alternatives)
        found: list[list[list[Hypothesis]]] = [[[] for _ in group.sentences] for group in groups]
        async for number, index, hypotheses in self._search(groups, client):
            found[number][index] = hypotheses
        written: list[list[Translated]] = await asyncio.gather(
            *(self.aside(_write, group, each, alternatives) for group, each in zip(groups, found, strict=True))
        )
        by_number = {
            number: text
            for group, all_texts in zip(groups, written, strict=True)
            for number, text in zip(group.layouts, all_texts, strict=True)
        }
        return [by_number[number] for number in range(len(texts))]

    async def stream(self, text: str, route: Route, client: str) -> AsyncIterator[str | int]:
        """Translate a text and yield the number of its sentences, and then its translation piece by piece.

        Arguments and errors are those of :meth:`translate`.
        """
        (group,) = await self.aside(self._groups, [(text, route)], False, 0)
        layout = group.layouts[0]
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

    def _groups(self, texts: Sequence[tuple[str, Route]], markup: bool, alternatives: int) -> list[_Group]:
        groups: dict[Route, _Group] = {}
        for number, (text, route) in enumerate(texts):
            group = groups.setdefault(route, _Group(route, [], {}))
            cut = partial(self._layout, group, alternatives=alternatives)
            split = sentence_splitter(route.direction.source)
            if markup:
                page = cut_html(text, split)
                lines = cut([Piece(sentence, True)] for sentence in page.sentences)
                group.layouts[number] = _HtmlLayout(page, lines)
            else:
                (group.layouts[number],) = cut([cut_text(text, split)])
        return list(groups.values())

    def _layout(self, group: _Group, texts: Any, *, alternatives: int) -> list[_PlainLayout]:
        """Return the layout of each text, given by its pieces, and add the sentences to the group."""
        translator, prefixes = group.route.translator, group.route.prefixes
        beam = max(self._settings.beam or translator.settings.beam, alternatives + 1)
        settings = translator.settings_with(beam=beam, n_best=alternatives + 1)
        encode = translator.tokenizers.source.encode

        check_size = self._schedulers[group.route.number].check_size

        def fits(text: str) -> bool:
            return len(encode([text])[0]) <= most

        most = min(translator.longest_source(prefixes=prefixes), self._settings.limits.sentence_tokens)
        layouts = []
        for pieces in texts:
            lines = [piece.text for piece in pieces if piece.translated]
            check_size(len(group.sentences) + len(lines))
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


def _write(group: _Group, found: Sequence[list[Hypothesis]], alternatives: int) -> list[Translated]:
    """Return the translations of a group's texts: the alternatives of a text have those of all its sentences."""
    decode = group.route.translator.tokenizers.target.decode
    versions = [
        decode([hypotheses[min(rank, len(hypotheses) - 1)].tokens for hypotheses in found])
        for rank in range(alternatives + 1)
    ]
    written = []
    for layout in group.layouts.values():
        best, *others = (layout.put_together(version) for version in versions)
        written.append(Translated(best, [other for other in dict.fromkeys(others) if other != best]))
    return written
