"""The models of a server, and which of them translates between which languages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path

from locant.errors import ConfigError, UsageError
from locant.languages import find_language, parse_language, require_language
from locant.text.directions import Direction
from locant.text.tokenizer_pair import Prefixes
from locant.translation.glossary import Glossary
from locant.translation.translator import Translator, load_translator

_CODE = re.compile("[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]+)*")


@dataclass(frozen=True)
class ModelPlace:
    """A model folder, and its languages where they are named.

    Attributes:
        folder: A run, a model folder or a model on the Hub.
        source: Language code; ``None`` for what the model says.
        target: Likewise.
    """

    folder: str
    source: str | None = None
    target: str | None = None

    @classmethod
    def parse(cls, text: str) -> ModelPlace:
        """Return what ``FOLDER`` or ``de-en=FOLDER`` says; ``en-*=FOLDER`` names the source alone.

        Raises:
            ConfigError: A language is named by something else than its code.
        """
        named, _, folder = text.partition("=")
        pairs = [(named[: at.start()], named[at.end() :]) for at in re.finditer("-", named)]
        pairs = [(one, to) for one, to in pairs if _CODE.fullmatch(one) and (to == "*" or _CODE.fullmatch(to))]
        if not folder or not pairs:
            return cls(text)
        source, target = min(pairs, key=_strangeness)
        for code in (source, target):
            require_language(code, text)
        return cls(folder, source, None if target == "*" else target)


def _strangeness(codes: tuple[str, str]) -> int:
    """Return how unlikely it is that these are meant, where codes with hyphens can be told apart in several ways."""
    from babel import Locale

    found = 0
    for code in codes:
        region = parse_language(code).region
        found += not code[:2].islower() and code != "*"
        found += bool(region) and (region not in code) + 2 * (region not in Locale("en").territories)
    return found


@dataclass(frozen=True, eq=False)
class Route:
    """A translator, and what tells it between which languages to translate; each is equal to itself alone.

    Attributes:
        number: Of the model among those of the server.
        translator: The model.
        direction: The languages.
        glossary: Terms that translations have to have; ``None`` for none.
    """

    number: int
    translator: Translator
    direction: Direction
    glossary: Glossary | None = None

    @cached_property
    def prefixes(self) -> Prefixes:
        """The ids that stand before a source and its translation."""
        return self.translator.tokenizers.prefixes(*self.direction)

    @cached_property
    def aligns(self) -> bool:
        """Whether words are aligned: weights that the engine alone has are not read again for it, by every worker."""
        return not self.translator.model.output.weight.is_meta


Way = tuple[Route, ...]
"""The models that a text goes through one after the other: one, or two by way of a language that both know."""


class Models:
    """Translators by direction.

    Args:
        found: Translators with their places.

    Attributes:
        translators: The translators.
        names: Of the models, in the same order.
        routes: The model that translates in a direction.
        ways: The models that a text goes through in a direction; more directions than ``routes`` after
            :meth:`by_way_of`.
        targets: The target languages of each source language.
        codes: The codes of all languages, sources first.

    Raises:
        ConfigError: A model does not say its languages, or has not those that are named.
        UsageError: Two models translate in the same direction.
    """

    def __init__(self, found: Sequence[tuple[ModelPlace, Translator]]) -> None:
        self.translators = [translator for _, translator in found]
        self.names = [Path(place.folder).name or place.folder for place, _ in found]
        self.routes: dict[Direction, Route] = {}
        for number, (place, translator) in enumerate(found):
            for direction in _directions(place, translator):
                if direction in self.routes:
                    other = found[self.routes[direction].number][0].folder
                    raise UsageError(f"Both {other} and {place.folder} translate {direction}. Give one of them.")
                self.routes[direction] = Route(number, translator, direction)
        self._set_ways({})

    def _set_ways(self, indirect: Mapping[Direction, Way]) -> None:
        self.ways: dict[Direction, Way] = {direction: (route,) for direction, route in self.routes.items()}
        for direction, way in indirect.items():
            self.ways.setdefault(direction, way)
        self.targets: dict[str, list[str]] = {}
        for direction in self.ways:
            self.targets.setdefault(direction.source, []).append(direction.target)
        # Of all languages, sources first.
        self.codes = list(dict.fromkeys([*self.targets, *(direction.target for direction in self.ways)]))

    def by_way_of(self, pivot: str | None) -> Models:
        """Return the same models, translating by way of a language where no model does so directly.

        Args:
            pivot: Its code; ``None`` for direct translation alone.
        """
        pivot = find_language(pivot, self.codes) if pivot else None
        before = [route for direction, route in self.routes.items() if direction.target == pivot]
        after = [route for direction, route in self.routes.items() if direction.source == pivot]
        indirect: dict[Direction, Way] = {}
        for first, second in product(before, after):
            direction = Direction(first.direction.source, second.direction.target)
            if direction.source != direction.target and pivot not in direction:
                indirect[direction] = first, second
        found = copy(self)
        found._set_ways(indirect)
        return found

    def with_glossaries(self, glossaries: Mapping[Direction, Glossary]) -> Models:
        """Return the same models, of which some keep to glossaries.

        Args:
            glossaries: Of some directions that a model translates in directly.
        """
        found = copy(self)
        found.routes = {
            direction: replace(route, glossary=glossaries.get(direction)) for direction, route in self.routes.items()
        }
        found._set_ways({})
        return found


def load_models(
    places: Sequence[ModelPlace], *, engine: str = "auto", device: str = "auto", compute_type: str | None = None
) -> tuple[Models, list[str]]:
    """Load the models of a server.

    Args:
        places: Where they are.
        engine: As for :func:`~locant.translation.load_translator`, like the others.
        device: Likewise.
        compute_type: Likewise.

    Returns:
        The models, and the name of each one's engine with the reasons for it.
    """
    found, engines = [], []
    for place in places:
        translator, chosen = load_translator(place.folder, engine=engine, device=device, compute_type=compute_type)
        found.append((place, translator))
        engines.append(chosen)
    return Models(found), engines


def _directions(place: ModelPlace, translator: Translator) -> Iterator[Direction]:
    languages = translator.tokenizers.languages
    source, target = place.source or translator.source_language, place.target or translator.target_language
    if languages is None:
        if source is None or target is None:
            raise ConfigError(
                f"The model {place.folder} does not say its languages. Name them before it: de-en={place.folder}"
            )
        yield Direction(source, target)
        return
    known = list(languages.ids)
    if source is not None and languages.takes_source:
        source = _known(source, "source", known, place)
    if target is not None:
        target = _known(target, "target", known, place)
    for one in [source] if source else known:
        yield from (Direction(one, other) for other in ([target] if target else known) if other != one)


def _known(code: str, side: str, known: Sequence[str], place: ModelPlace) -> str:
    found = find_language(code, known)
    if found is None:
        raise ConfigError(f"The model {place.folder} has no {side} language '{code}'. Known: {', '.join(known)}.")
    return found


@lru_cache(maxsize=1024)
def language_name(code: str) -> str:
    """Return the English name of a language, or its code where it has none.

    Args:
        code: In any form: ``de``, ``zh_Hant``, ``deu_Latn``.
    """
    from babel import Locale

    english, said = Locale("en"), parse_language(code)
    name = english.languages.get(said.code)
    if name is None:
        return code
    written = english.territories.get(said.region) or (english.scripts.get(said.script) if said.says_script else None)
    return f"{name} ({written})" if written else str(name)
