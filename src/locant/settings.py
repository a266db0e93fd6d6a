"""The base of every configuration object: typed, validated, immutable, the same in Python and YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from locant.errors import ConfigError, nearest

_KIND = "kind"
"""The key that tells the members of a union apart."""
_TYPE = re.compile(r"(literal|tuple|list|dict|function-[a-z]+)\[.*\]")


class Settings(BaseModel):
    """Typed configuration whose unknown keys are errors that name the nearest known key.

    Building one with keyword arguments raises pydantic's ``ValidationError``; :meth:`parse` takes plain data (from
    YAML, JSON or the command line) and raises :class:`~locant.errors.ConfigError` with a readable message.
    """

    renamed: ClassVar[Mapping[str, str]] = {}
    """Keys of earlier versions and what they are called now; see :meth:`parse_saved`."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, protected_namespaces=())

    @classmethod
    def parse(cls, data: Any, where: str = "configuration") -> Self:
        """Validate plain data.

        Args:
            data: A mapping of plain values.
            where: Where the data came from (a file name, say), for messages.

        Returns:
            The validated settings.

        Raises:
            ConfigError: A key is unknown or missing, or a value is of the wrong type or out of range.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise ConfigError(explain(error, cls, where)) from None

    @classmethod
    def parse_saved(cls, data: Any, where: str = "configuration") -> Self:
        """Validate plain data that Locant has saved, perhaps an earlier version with other names of keys.

        Raises:
            ConfigError: As :meth:`parse`.
        """
        return cls.parse(_with_new_names(data, [cls]), where)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data that :meth:`parse` accepts, defaults included."""
        return self.model_dump(mode="json")


def explain(error: ValidationError, settings: type[BaseModel], where: str) -> str:
    """Turn a pydantic error into plain sentences, one for each wrong key."""
    sentences = []
    for item in error.errors(include_url=False):
        location = [str(part) for part in item["loc"]]
        keys, classes = _keys_and_classes(settings, location)
        key = ".".join(keys)
        if item["type"] == "too_short" and item["input"] and not item["ctx"]["actual_length"]:
            continue  # an entry of it is wrong, which is said by itself
        if item["type"] == "extra_forbidden":
            name, holders = location[-1], _keys_and_classes(settings, location[:-1])[1]
            known = {field for one in holders for field in one.model_fields}
            new = {old: new for one in holders for old, new in _renamed(one).items()}
            if name in new:
                hint = f" It is called '{new[name]}' now."
            else:
                hint = nearest(name, known) or f" Known keys: {', '.join(sorted(known))}."
            sentences.append(f"{where}: unknown key '{key}'.{hint}")
        elif item["type"] == "missing":
            sentences.append(f"{where}: the key '{key}' is missing.")
        elif item["type"].startswith("union_tag"):
            name = item["ctx"]["discriminator"].strip("'")
            found = f"is {item['ctx']['tag']!r}" if "tag" in item["ctx"] else "is missing"
            tags = ", ".join(f"'{tag}'" for one in classes for tag in _tags(one, name))
            sentences.append(f"{where}: '{key}.{name}' {found}. Known: {tags}.")
        else:
            message = item["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
            shown = "" if isinstance(item["input"], dict) else f" (got {item['input']!r})"
            named = f"'{key}': " if key else ""
            end = "" if message.endswith("?") and not shown else "."
            sentences.append(f"{where}: {named}{message.removesuffix('.')}{shown}{end}")
    return "\n".join(dict.fromkeys(sentences))


def _keys_and_classes(settings: type[BaseModel], location: Sequence[str]) -> tuple[list[str], list[type[BaseModel]]]:
    """Return a location as people write it, and the settings classes that may be there.

    Pydantic also names the member of a union that it tried, by its kind or by its type, which is no key.
    """
    keys: list[str] = []
    classes = [settings]
    for part in location:
        chosen = [one for one in classes if part in _tags(one, _KIND)] if len(classes) > 1 else []
        if chosen or _TYPE.fullmatch(part):
            classes = chosen or classes
            continue
        keys.append(part)
        fields = [one.model_fields[part].annotation for one in classes if part in one.model_fields]
        # A part that is no field is a place in a list, or a name in a mapping.
        classes = [found for annotation in fields for found in _settings_classes(annotation)] or classes
    return keys, classes


def _tags(settings: type[BaseModel], name: str) -> tuple[str, ...]:
    """Return the values of the field that tells the members of a union apart; none of a class without it."""
    return get_args(settings.model_fields[name].annotation) if name in settings.model_fields else ()


def _settings_classes(annotation: Any) -> list[type[BaseModel]]:
    """Return the settings classes that occur in a type annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in getattr(annotation, "__args__", ()) for found in _settings_classes(part)]


def _renamed(settings: type[BaseModel]) -> Mapping[str, str]:
    return settings.renamed if issubclass(settings, Settings) else {}


def _with_new_names(data: Any, classes: list[type[BaseModel]]) -> Any:
    """Return plain data for one of the settings classes with the keys of earlier versions renamed."""
    if not isinstance(data, dict):
        return data
    new = {old: new for one in classes for old, new in _renamed(one).items()}
    found = {}
    for key, value in data.items():
        name = new.get(key, key)
        annotations = [one.model_fields[name].annotation for one in classes if name in one.model_fields]
        inner = [found for annotation in annotations for found in _settings_classes(annotation)]
        found[name] = _with_new_names(value, inner) if inner else value
    return found
