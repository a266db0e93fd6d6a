"""The models of a server: which translates between which languages, by way of which, and with which glossary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from locant.errors import ConfigError, UsageError
from locant.languages import find_language, language_identifier, parse_language, require_language
from locant.text.tokenizer_pair import Direction, Prefixes
from locant.translation.glossary import Glossary
from locant.translation.translator import Translator, load_translator

_CODE = re.compile("[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]+)*")
_IDENTIFIED = 2_000  # characters that a language is identified by; more do not make it surer
_LEAST_SHOWN = 3.0  # percent
_NO_LANGUAGE = {"zxx", "und"}

ALL = "*"
"""The name of all directions, of a glossary."""


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
        # Codes may have hyphens, too: regions are in capitals, languages in most cases not.
        source, target = min(pairs, key=lambda pair: sum(code[0].isupper() for code in pair))
        for code in (source, target):
            require_language(code, text)
        return cls(folder, source, None if target == "*" else target)


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
        """The ids that are before a source and its translation."""
        return self.translator.tokenizers.prefixes(*self.direction)

    @cached_property
    def aligns(self) -> bool:
        """Whether words are aligned: weights that the engine alone has are not read again for it, by every worker."""
        return not self.translator.model.output.weight.is_meta


Terms = Mapping[str, str | None]
"""Terms with their translations; ``None`` for what stays as it is."""

Way = tuple[Route, ...]
"""The models that a text goes through one after the other: one, or two by way of a language that both know."""


class Models:
    """Translators by direction.

    Where several glossaries are for a direction, the one that names both languages counts alone, else the one that
    names one.

    Args:
        found: Translators with their places.
        pivot: The code of the language by way of which a text goes where no model translates it directly; ``None`` for
            direct translation alone.
        glossaries: Terms by direction, as :func:`read_glossaries` returns them.

    Attributes:
        translators: The translators.
        names: Of the models, in the same order.
        routes: The model that translates in a direction.
        ways: The models that a text goes through in a direction; with a pivot more directions than ``routes``.
        targets: The target languages of each source language.
        codes: The codes of all languages, sources first.

    Raises:
        ConfigError: A model does not say its languages, or has not those that are named; no model translates in the
            direction of a glossary, or translations are given for all of several directions.
        DataError: A term is wrong; see :class:`~locant.translation.Glossary`.
        UsageError: Two models translate in the same direction.
    """

    def __init__(
        self,
        found: Sequence[tuple[ModelPlace, Translator]],
        *,
        pivot: str | None = None,
        glossaries: Mapping[str, Terms] | None = None,
    ) -> None:
        self._found = found
        self.translators = [translator for _, translator in found]
        self.names = [Path(place.folder).name or place.folder for place, _ in found]
        self.routes: dict[Direction, Route] = {}
        for number, (place, translator) in enumerate(found):
            for direction in _directions(place, translator):
                if direction in self.routes:
                    other = found[self.routes[direction].number][0].folder
                    raise UsageError(f"Both {other} and {place.folder} translate {direction}. Give one of them.")
                self.routes[direction] = Route(number, translator, direction)
        for direction, glossary in self._glossaries(glossaries or {}).items():
            self.routes[direction] = replace(self.routes[direction], glossary=glossary)
        self.ways: dict[Direction, Way] = {direction: (route,) for direction, route in self.routes.items()}
        middle = find_language(pivot, [code for direction in self.routes for code in direction]) if pivot else None
        before = [route for direction, route in self.routes.items() if direction.target == middle]
        after = [route for direction, route in self.routes.items() if direction.source == middle]
        for first, second in product(before, after):
            direction = Direction(first.direction.source, second.direction.target)
            if direction.source != direction.target and middle not in direction:
                self.ways.setdefault(direction, (first, second))
        self.targets: dict[str, list[str]] = {}
        for direction in self.ways:
            self.targets.setdefault(direction.source, []).append(direction.target)
        self.codes = list(dict.fromkeys([*self.targets, *(direction.target for direction in self.ways)]))

    def arranged(self, *, pivot: str | None = None, glossaries: Mapping[str, Terms] | None = None) -> Models:
        """Return the same models, with another pivot and other glossaries."""
        return Models(self._found, pivot=pivot, glossaries=glossaries)

    def _glossaries(self, terms: Mapping[str, Terms]) -> dict[Direction, Glossary]:
        """Return the glossary of each direction that has one."""
        known, glossaries = ", ".join(map(str, self.routes)), {}
        languages = [code for direction in self.routes for code in direction]
        for name, found in terms.items():
            place = ModelPlace.parse(f"{name}=glossary")
            if place.source:
                name = "-".join(find_language(code, languages) or code for code in (place.source, place.target or "*"))
            glossaries[name] = Glossary(found)
        if ALL in glossaries and len(self.routes) > 1 and any(words is not None for words in terms[ALL].values()):
            raise ConfigError(
                f"A glossary with translations is for one direction, and the models translate {known}. Name it before "
                f"the file: {next(iter(self.routes))}=FILE"
            )
        chosen, used = {}, set()
        for direction in self.routes:
            names = [str(direction), f"{direction.source}-*", ALL]
            used.update(names)
            if best := next((name for name in names if name in glossaries), None):
                chosen[direction] = glossaries[best]
        for name in glossaries:
            if name not in used:
                raise ConfigError(f"There is a glossary for {_shown(name)}, but the models translate {known}.")
        return chosen

    def find(self, code: str, known: Iterable[str] | None = None) -> str | None:
        """Return what the models call a language, or ``None``.

        A region that no model has represents its language, if that is there once in the same script.

        Args:
            code: In any form.
            known: Codes among which it is looked for; by default all.
        """
        known = list(self.codes if known is None else known)
        if found := find_language(code, known):
            return found
        asked = parse_language(code)
        same = [
            other
            for other in known
            if (one := parse_language(other)).code == asked.code
            and one.variant == asked.variant
            and (one.script == asked.script or not asked.says_script)
        ]
        return same[0] if len(same) == 1 else None


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

    def own(code: str | None, side: str) -> list[str]:
        found = find_language(code, known) if code else None
        if code and found is None:
            raise ConfigError(f"The model {place.folder} has no {side} language '{code}'. Known: {', '.join(known)}.")
        return [found] if found else known

    sources = own(source, "source") if languages.takes_source or source is None else [source]
    for one, other in product(sources, own(target, "target")):
        if one != other:
            yield Direction(one, other)


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


def read_glossaries(places: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """Return the terms of glossary files by their direction.

    Args:
        places: ``FILE`` for all directions, ``de-en=FILE`` for one, ``en-*=FILE`` for those from a language.

    Raises:
        ConfigError: Two files are for the same directions.
        DataError: A file cannot be read, or a line of it is wrong.
    """
    found: dict[str, dict[str, str | None]] = {}
    for text in places:
        place = ModelPlace.parse(text)
        name = f"{place.source}-{place.target or '*'}" if place.source else ALL
        if name in found:
            raise ConfigError(f"There are two glossaries for {_shown(name)}. Write all terms into one.")
        found[name] = Glossary.read(place.folder).terms
    return found


def _shown(name: str) -> str:
    return "all directions" if name == ALL else name


class Identified(NamedTuple):
    """A language that a text may be in.

    Attributes:
        language: Its code: ISO 639-1, or as the server's models call it.
        confidence: Percent, 0 to 100.
    """

    language: str
    confidence: float


def identify(text: str, codes: Sequence[str]) -> list[Identified]:
    """Return the languages that a text may be in, most probable first; none where nothing speaks for one.

    Args:
        text: Any text.
        codes: What the models call their languages.
    """
    shown = (each for each in _ranked(text) if each.confidence >= _LEAST_SHOWN)
    return [Identified(find_language(code, codes) or code, confidence) for code, confidence in shown]


def identify_among(text: str, codes: Sequence[str]) -> Identified:
    """Return the most probable of some languages; the first where the text says nothing.

    Args:
        text: Any text.
        codes: Of at least one language.
    """
    found = (Identified(known, share) for code, share in _ranked(text) if (known := find_language(code, codes)))
    return next(found, Identified(codes[0], 0.0))


def _ranked(text: str) -> list[Identified]:
    """Return all languages that py3langid knows, most probable first."""
    if not any(character.isalpha() for character in text):
        return []
    ranked = language_identifier().rank(text[:_IDENTIFIED])
    return [Identified(code, round(100 * float(share), 1)) for code, share in ranked if code not in _NO_LANGUAGE]
