"""Documents of a request on their way: which sentences they ask for, and how far each of them is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from locant.documents.passages import Written
from locant.documents.places import Links
from locant.documents.segmentation import cut_text
from locant.documents.steps import Pairs, Sentences, Steps
from locant.documents.translate import align_words
from locant.models.decoding_settings import DecodingSettings
from locant.server.models import Route
from locant.server.tickets import Sentence
from locant.translation.hypotheses import Hypothesis
from locant.translation.lines import split_to_fit


@dataclass(eq=False, slots=True)
class Work:
    """A document, or a part of one, that is being translated.

    Attributes:
        steps: Ask for translations of sentences.
        route: The model.
        rank: Of the translations that are taken: 0 for the best.
        question: The sentences that are asked for; ``None`` at the end.
        pairs: The pairs whose alignments are asked for instead.
        missing: How many of their translations have not come yet.
        written: What the steps return, at the end.
    """

    steps: Steps
    route: Route
    rank: int = 0
    question: list[str] | None = None
    pairs: list[tuple[str, str]] = field(default_factory=list)
    missing: int = 0
    written: list[Written] = field(default_factory=list)

    @property
    def is_finished(self) -> bool:
        """Whether it asks for nothing more."""
        return self.question is None and not self.pairs

    def advance(self, answers: Sequence[str] | Sequence[Links] | None) -> None:
        """Answer the question and take the next one."""
        try:
            asked = self.steps.send(answers) if answers is not None else next(self.steps)
        except StopIteration as end:
            self.question, self.pairs, self.written = None, [], end.value
            return
        self.question = asked.texts if isinstance(asked, Sentences) else None
        self.pairs = asked.pairs if isinstance(asked, Pairs) else []


@dataclass(eq=False, slots=True)
class _Asked:
    """A text that is asked for, in most cases a sentence for the search.

    Attributes:
        parts: Characters that stay, and numbers of its sentences.
        sources: Its sentences.
        found: The hypotheses of each sentence, once they have come.
        missing: How many of them have not come yet.
        works: Those that wait for it.
        versions: Its translations by rank, once they are put together.
    """

    parts: list[str | int] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    found: list[list[Hypothesis]] = field(default_factory=list)
    missing: int = 0
    works: list[Work] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Batch:
    """Sentences of one model that are asked for together.

    Attributes:
        route: The model.
        sentences: At least one.
        owners: Of each sentence the text that it is of, and its number there.
    """

    route: Route
    sentences: list[Sentence] = field(default_factory=list)
    owners: list[tuple[_Asked, int]] = field(default_factory=list)


SearchOf = Callable[[Route], tuple[DecodingSettings, int]]
"""Returns how a model searches, and the most tokens of a sentence that is translated whole."""


class Works:
    """The works of a request, from their first questions to their ends.

    Each text is asked for once, and a work goes on when all that it asks for is known. Nothing here waits: the caller
    submits the batches and says what has come.

    Args:
        works: At their first questions.
        search_of: See :data:`SearchOf`.
        ranks: Translations of each sentence.
    """

    def __init__(self, works: Sequence[Work], search_of: SearchOf, ranks: int = 1) -> None:
        self._search_of, self._ranks = search_of, ranks
        self._asked: dict[tuple[Route, str], _Asked] = {}
        self._asking = list(works)  # with questions that nobody has looked at
        self._answered: list[Work] = []
        self._aligning: list[Work] = []

    @property
    def can_go_on(self) -> bool:
        """Whether :meth:`go_on` has something to do."""
        return bool(self._asking or self._answered)

    @property
    def can_align(self) -> bool:
        """Whether :meth:`align` has something to do."""
        return bool(self._aligning)

    def note(self, batch: Batch, number: int, hypotheses: list[Hypothesis]) -> None:
        """Take the hypotheses of a sentence of a batch."""
        asked, place = batch.owners[number]
        asked.found[place] = hypotheses
        asked.missing -= 1
        if not asked.missing:
            for work in asked.works:
                work.missing -= 1
                if not work.missing:
                    self._answered.append(work)
            asked.works = []

    def go_on(self) -> tuple[list[Work], list[Batch]]:
        """Answer the questions whose answers are known.

        Returns:
            The works that are finished, and what the others ask for now.
        """
        finished: list[Work] = []
        batches: dict[Route, Batch] = {}
        while self._asking or self._answered:
            answered, self._answered = self._answered, []
            self._put_together(answered)
            for work in answered:
                texts = work.question or []
                work.advance([self._asked[work.route, text].versions[work.rank] for text in texts])
            asking, self._asking = self._asking + answered, []
            self._aligning += [work for work in asking if work.pairs]
            finished += [work for work in asking if work.is_finished]
            self._ask([work for work in asking if work.question is not None], batches)
        return finished, [batch for batch in batches.values() if batch.sentences]

    def align(self) -> None:
        """Answer what is asked about alignments, with one pass of each model; after it :meth:`go_on` has work."""
        works, self._aligning = self._aligning, []
        pairs: dict[Route, dict[tuple[str, str], Links]] = {}
        for work in works:
            pairs.setdefault(work.route, {}).update(dict.fromkeys(work.pairs, ()))
        for route, links in pairs.items():
            found = align_words(route.translator, list(links), prefixes=route.prefixes)
            links.update(zip(links, found, strict=True))
        for work in works:
            work.advance([pairs[work.route][pair] for pair in work.pairs])
        self._asking += works

    def _ask(self, works: Sequence[Work], batches: dict[Route, Batch]) -> None:
        """Add to the batches what is asked for and not known."""
        new: dict[Route, dict[str, _Asked]] = {}
        for work in works:
            for text in work.question or []:
                key = work.route, text
                if key not in self._asked:
                    self._asked[key] = new.setdefault(work.route, {})[text] = _Asked()
        for route, texts in new.items():
            self._add_sentences(batches.setdefault(route, Batch(route)), texts)
        for work in works:
            waited_for = [asked for text in work.question or [] if (asked := self._asked[work.route, text]).missing]
            for asked in waited_for:
                asked.works.append(work)
            work.missing = len(waited_for)
            if not waited_for:
                self._answered.append(work)

    def _add_sentences(self, batch: Batch, texts: dict[str, _Asked]) -> None:
        translator, prefixes, glossary = batch.route.translator, batch.route.prefixes, batch.route.glossary
        whole = glossary.spans if glossary else None
        settings, most = self._search_of(batch.route)
        encode = translator.tokenizers.source.encode

        def fits(text: str) -> bool:
            return len(encode([text])[0]) <= most

        for (text, asked), tokens in zip(texts.items(), encode(list(texts)), strict=True):
            shorter = [(text, tokens)]
            if len(tokens) > most:  # which takes a word of so many tokens: sentences have been cut to fit
                pieces = cut_text(text, lambda line: split_to_fit(line, fits, whole))
                shorter = [(piece.text, encode([piece.text])[0] if piece.translated else []) for piece in pieces]
            for part, ids in shorter:
                if not ids:
                    asked.parts.append(part)
                    continue
                source, longest = translator.search_input(ids, settings, prefixes)
                asked.parts.append(asked.missing)
                asked.sources.append(part)
                batch.owners.append((asked, asked.missing))
                batch.sentences.append(Sentence(source, longest, prefixes.target, settings))
                asked.missing += 1
            asked.found = [[] for _ in range(asked.missing)]

    def _put_together(self, works: Sequence[Work]) -> None:
        """Write the translations of the texts that works asked for, of each once."""
        found: dict[Route, dict[int, _Asked]] = {}
        for work in works:
            for text in work.question or []:
                asked = self._asked[work.route, text]
                if not asked.versions:
                    found.setdefault(work.route, {})[id(asked)] = asked
        for route, texts in found.items():
            decode = route.translator.tokenizers.target.decode
            sources = [source for asked in texts.values() for source in asked.sources]
            for rank in range(self._ranks):
                written = decode(list(self._tokens(texts.values(), rank)))
                if route.glossary:
                    written = route.translator.with_terms(route.glossary, sources, written, prefixes=route.prefixes)
                decoded = iter(written)
                for asked in texts.values():
                    asked.versions.append(
                        "".join(part if isinstance(part, str) else next(decoded) for part in asked.parts)
                    )

    @staticmethod
    def _tokens(texts: Iterable[_Asked], rank: int) -> Iterator[list[int]]:
        for asked in texts:
            for hypotheses in asked.found:
                yield hypotheses[min(rank, len(hypotheses) - 1)].tokens
