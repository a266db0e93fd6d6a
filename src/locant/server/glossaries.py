"""Glossaries of a server: which terms are kept to in which direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from locant.errors import ConfigError
from locant.languages import find_language
from locant.server.models import ModelPlace, Models
from locant.translation.glossary import Glossary

Terms = Mapping[str, str | None]
"""Terms with their translations; ``None`` for what stays as it is."""

ALL = "*"
"""The name of all directions."""


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


def with_glossaries(models: Models, terms: Mapping[str, Terms]) -> Models:
    """Return models that keep to glossaries.

    Where several are for a direction, the one that names both languages counts alone, else the one that names one.

    Args:
        models: The models of a server.
        terms: By direction, as :func:`read_glossaries` returns them.

    Raises:
        ConfigError: No model translates in a direction, or translations are given for all of several directions.
        DataError: A term is wrong; see :class:`~locant.translation.Glossary`.
    """
    glossaries = {_known(models, name): Glossary(found) for name, found in terms.items()}
    if ALL in glossaries and len(models.routes) > 1 and any(words is not None for words in terms[ALL].values()):
        known = ", ".join(map(str, models.routes))
        raise ConfigError(
            f"A glossary with translations is for one direction, and the models translate {known}. Name it before the "
            f"file: {next(iter(models.routes))}=FILE"
        )
    chosen, used = {}, set()
    for direction in models.routes:
        names = [str(direction), f"{direction.source}-*", ALL]
        used.update(names)
        if name := next((name for name in names if name in glossaries), None):
            chosen[direction] = glossaries[name]
    for name in glossaries:
        if name not in used:
            known = ", ".join(map(str, models.routes))
            raise ConfigError(f"There is a glossary for {_shown(name)}, but the models translate {known}.")
    return models.with_glossaries(chosen)


def _known(models: Models, name: str) -> str:
    """Return the name of directions with the codes that models have."""
    place = ModelPlace.parse(f"{name}=glossary")
    if place.source is None:
        return name
    source, target = (find_language(code, models.codes) or code for code in (place.source, place.target or "*"))
    return f"{source}-{target}"


def _shown(name: str) -> str:
    return "all directions" if name == ALL else name
