"""The description of the server's interface, as OpenAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from locant.server.requests import Asked, FileAsked
from locant.version import __version__

_ABOUT = """Machine translation, with the interface of LibreTranslate. A failure is `{"error": "a sentence"}`:

- 400: A field is missing or wrong, a language is not supported, a limit is exceeded, or an API key is missing.
- 403: The API key is wrong, this is not offered, or a page of another site asks.
- 404: There is no such file.
- 408: The body did not arrive in time.
- 413: The body or the file is too large.
- 415: The body is of another type.
- 429: Too many requests, or too many wrong keys; `Retry-After` says when to try again.
- 500: The translation failed.
- 503: The queue is full, or the server is being shut down; `Retry-After` says when to try again.
- 504: The translation took too long and was given up.
"""


class Failure(BaseModel):  # noqa: D101 - these are the schemas of answers
    error: str


class Language(BaseModel):  # noqa: D101
    code: str
    name: str
    targets: list[str]


class Detected(BaseModel):  # noqa: D101
    language: str
    confidence: Annotated[float, Field(ge=0, le=100)]


class Translated(BaseModel):  # noqa: D101
    translatedText: str | list[str]  # noqa: N815 - LibreTranslate's name, like the next ones
    alternatives: list[str] | list[list[str]] = []
    detectedLanguage: Detected | list[Detected] = []  # noqa: N815


class TranslatedFile(BaseModel):  # noqa: D101
    translatedFileUrl: str  # noqa: N815


class Operation(NamedTuple):
    """A method at a path.

    Attributes:
        method: Of HTTP.
        path: As Starlette and OpenAPI write it.
        answer: What answers; its docstring says what it does.
        answered: What is answered: a type, as JSON, or the name of a media type; ``None`` for what is not described.
        asked: What is asked for.
    """

    method: str
    path: str
    answer: Callable[[Request], Awaitable[Response]]
    answered: Any = None
    asked: type[Asked] | None = None


def describe(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the description of the interface, OpenAPI 3.1."""
    operations = [each for each in operations if each.answered]
    kinds = dict.fromkeys([Failure, *(kind for each in operations for kind in (each.asked, each.answered) if kind)])
    adapters = [(str(kind), "validation", TypeAdapter(str if isinstance(kind, str) else kind)) for kind in kinds]
    schemas, shared = TypeAdapter.json_schemas(adapters, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]

    def content(kind: Any, *types: str) -> dict[str, Any]:
        named = (kind,) if isinstance(kind, str) else types or ("application/json",)
        return {"content": {each: {"schema": schemas[str(kind), "validation"]} for each in named}}

    paths: dict[str, Any] = {}
    for each in operations:
        responses = {
            "200": {"description": "The answer.", **content(each.answered)},
            "default": {"description": "A failure.", **content(Failure)},
        }
        operation: dict[str, Any] = {"summary": each.answer.__doc__, "responses": responses}
        if each.asked:
            is_file = issubclass(each.asked, FileAsked)
            types = ("multipart/form-data",) if is_file else ("application/json", "application/x-www-form-urlencoded")
            operation["requestBody"] = {"required": True, **content(each.asked, *types)}
        if "{name}" in each.path:
            operation["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
        paths[each.path] = {each.method.lower(): operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Locant", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {"schemas": shared["$defs"]},
    }
