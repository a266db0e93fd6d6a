"""The description of the server's interface, as OpenAPI and as a page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field, TypeAdapter

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
        summary: What it does, in a sentence.
        answered: What is answered: a type, as JSON, or else the name of a media type.
        asked: What is asked for.
    """

    method: str
    path: str
    summary: str
    answered: Any
    asked: type[Asked] | None = None


def describe(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the description of the interface, OpenAPI 3.1."""
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
        operation: dict[str, Any] = {"summary": each.summary, "responses": responses}
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


def describe_as_page(operations: Sequence[Operation]) -> str:
    """Return the description of the interface as a page."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Locant: interface</title>"
        "<meta name='viewport' content='width=device-width'></head><body><h1>Interface</h1>"
        f"<pre>{html.escape(_ABOUT)}</pre><p>The same for programs: <a href='openapi.json'>openapi.json</a>.</p>"
    ]
    for each in operations:
        parts.append(f"<h2><code>{each.method} {each.path}</code></h2><p>{html.escape(each.summary)}</p>")
        fields = each.asked.model_fields.items() if each.asked else ()
        parts += [f"<p><code>{name}</code> {html.escape(field.description or '')}</p>" for name, field in fields]
    return "".join([*parts, "</body></html>"])
