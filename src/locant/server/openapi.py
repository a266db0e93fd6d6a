"""The description of the server's interface, as OpenAPI and as a page."""

from __future__ import annotations

import html
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter

from locant.server.requests import Asked, DetectionAsked, FileAsked, StreamAsked, TranslationAsked
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


_JSON = "application/json"
_FORMS = (_JSON, "application/x-www-form-urlencoded")

# Of each route what it does, what is asked by which types of bodies, and what is answered as what.
_Route = tuple[str, type[Asked] | None, tuple[str, ...], Any, str]
_ROUTES: dict[str, _Route] = {
    "POST /translate": ("Translate a text, or a list of texts.", TranslationAsked, _FORMS, Translated, _JSON),
    "POST /translate/stream": (
        "Translate a text and send the translation as it comes: events start, piece, end or error.",
        StreamAsked, _FORMS, str, "text/event-stream",
    ),
    "POST /translate_file": (
        "Translate a document: text, Markdown, HTML, subtitles, JSON, PO, XLIFF, .docx or .odt.",
        FileAsked, ("multipart/form-data",), TranslatedFile, _JSON,
    ),
    "GET /download_file/{name}": ("Fetch a translated file.", None, (), str, "*/*"),
    "POST /detect": ("Identify the language of a text.", DetectionAsked, _FORMS, list[Detected], _JSON),
    "GET /languages": ("List the languages.", None, (), list[Language], _JSON),
    "GET /frontend/settings": ("Say what a page needs to know.", None, (), dict[str, Any], _JSON),
    "GET /health": ("Say whether the server takes work.", None, (), dict[str, Any], _JSON),
}  # fmt: skip


@lru_cache(maxsize=1)
def describe() -> dict[str, Any]:
    """Return the description of the interface, OpenAPI 3.1."""
    kinds: set[Any] = {kind for _, asked, _, answered, _ in _ROUTES.values() for kind in (asked, answered) if kind}
    adapters = [(str(kind), "validation", TypeAdapter(kind)) for kind in sorted(kinds | {Failure}, key=str)]
    schemas, shared = TypeAdapter.json_schemas(adapters, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]

    def content(kind: Any, *types: str) -> dict[str, Any]:
        return {"content": {each: {"schema": schemas[str(kind), "validation"]} for each in types}}

    paths: dict[str, Any] = {}
    for route, (summary, asked, types, answered, media_type) in _ROUTES.items():
        method, path = route.split()
        responses = {
            "200": {"description": "The answer.", **content(answered, media_type)},
            "default": {"description": "A failure.", **content(Failure, _JSON)},
        }
        operation: dict[str, Any] = {"summary": summary, "responses": responses}
        if asked:
            operation["requestBody"] = {"required": True, **content(asked, *types)}
        if "{name}" in path:
            operation["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
        paths[path] = {method.lower(): operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Locant", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {"schemas": shared["$defs"]},
    }


@lru_cache(maxsize=1)
def describe_as_page() -> str:
    """Return the description of the interface as a page."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Locant: interface</title>"
        "<meta name='viewport' content='width=device-width'></head><body><h1>Interface</h1>"
        f"<pre>{html.escape(_ABOUT)}</pre><p>The same for programs: <a href='openapi.json'>openapi.json</a>.</p>"
    ]
    for route, (summary, asked, types, *_) in _ROUTES.items():
        parts.append(f"<h2><code>{route}</code></h2><p>{html.escape(summary)}</p>")
        if asked:
            parts.append(f"<p>A body of the type {' or '.join(types)}:</p><dl>")
            schema = asked.model_json_schema()
            for name, about in schema["properties"].items():
                needed = " (required)" * (name in schema["required"])
                text = html.escape(about["description"])
                parts.append(f"<dt><code>{name}</code>{needed}</dt><dd>{text}</dd>")
            parts.append("</dl>")
    return "".join([*parts, "</body></html>"])
