"""The description of the server's interface, as OpenAPI and as a page."""

from __future__ import annotations

import html
from functools import lru_cache
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter

from locant.server.requests import DetectionAsked, FileAsked, StreamAsked, TranslationAsked
from locant.version import __version__


class _Error(BaseModel):
    error: str


class _Language(BaseModel):
    code: str
    name: str
    targets: list[str]


class _Detected(BaseModel):
    language: str
    confidence: Annotated[float, Field(ge=0, le=100)]


class _Translated(BaseModel):
    translatedText: str | list[str]  # noqa: N815 - LibreTranslate's name, like the next ones
    alternatives: list[str] | list[list[str]] = []
    detectedLanguage: _Detected | list[_Detected] = []  # noqa: N815


class _File(BaseModel):
    translatedFileUrl: str  # noqa: N815


_FAILURES = {
    400: "A field is missing or wrong, a language is not supported, a limit is exceeded, or an API key is missing.",
    403: "The API key is wrong, this is not offered, or a page of another site asks.",
    404: "There is no such file.",
    408: "The body did not arrive in time.",
    413: "The body or the file is too large.",
    415: "The body is of another type.",
    429: "Too many requests, or too many wrong keys; `Retry-After` says when to try again.",
    500: "The translation failed.",
    503: "The queue is full, or the server is being shut down; `Retry-After` says when to try again.",
    504: "The translation took too long and was given up.",
}
_WORK = (400, 403, 408, 413, 415, 429, 500, 503, 504)
_FORMS = ("application/json", "application/x-www-form-urlencoded")
_JSON = "application/json"

# Of each route what it does, what is asked by which types of bodies, what is answered as what, and how it fails.
_Route = tuple[str, type[BaseModel] | None, tuple[str, ...], Any, str, tuple[int, ...]]
_ROUTES: dict[str, _Route] = {
    "POST /translate": ("Translate a text, or a list of texts.", TranslationAsked, _FORMS, _Translated, _JSON, _WORK),
    "POST /translate/stream": (
        "Translate a text and send the translation as it comes: events start, piece, end or error.",
        StreamAsked, _FORMS, str, "text/event-stream", _WORK,
    ),
    "POST /translate_file": (
        "Translate a document: text, Markdown, HTML, subtitles, JSON, PO, XLIFF, .docx or .odt.",
        FileAsked, ("multipart/form-data",), _File, _JSON, _WORK,
    ),
    "GET /download_file/{name}": ("Fetch a translated file.", None, (), bytes, "application/octet-stream", (403, 404)),
    "POST /detect": ("Identify the language of a text.", DetectionAsked, _FORMS, list[_Detected], _JSON, _WORK),
    "GET /languages": ("List the languages.", None, (), list[_Language], _JSON, (403,)),
    "GET /frontend/settings": ("Say what a page needs to know.", None, (), dict[str, Any], _JSON, (403,)),
    "GET /health": ("Say whether the server takes work.", None, (), dict[str, Any], _JSON, (403, 503)),
}  # fmt: skip


def _schema(kind: Any) -> dict[str, Any]:
    """Return the schema of a type, whole in itself."""
    found = TypeAdapter(kind).json_schema()
    parts = found.pop("$defs", {})

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            return whole(parts[value["$ref"].rpartition("/")[2]])
        return {key: whole(each) for key, each in value.items() if key != "title"}

    whole_schema: dict[str, Any] = whole(found)
    return whole_schema


@lru_cache(maxsize=1)
def describe() -> dict[str, Any]:
    """Return the description of the interface, OpenAPI 3.1."""
    paths: dict[str, Any] = {}
    for route, (summary, asked, types, answered, media_type, failures) in _ROUTES.items():
        method, path = route.split()
        operation: dict[str, Any] = {"summary": summary}
        if asked:
            schema = _schema(asked)
            if asked is FileAsked:
                schema["properties"]["file"] = {"type": "string", "format": "binary", "description": "The file."}
                schema["required"].append("file")
            operation["requestBody"] = {"required": True, "content": {kind: {"schema": schema} for kind in types}}
        if "{name}" in path:
            operation["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
        content = {media_type: {"schema": _schema(answered)}}
        if answered is bytes:
            content["text/plain"] = {"schema": {"type": "string"}}
        responses = {"200": {"description": "The answer.", "content": content}}
        for status in failures:
            responses[str(status)] = {
                "description": _FAILURES[status], "content": {_JSON: {"schema": _schema(_Error)}}
            }  # fmt: skip
        paths[path] = {method.lower(): {**operation, "responses": responses}}
    about = "Machine translation, with the interface of LibreTranslate."
    return {
        "openapi": "3.1.0",
        "info": {"title": "Locant", "version": __version__, "description": about},
        "paths": paths,
    }


@lru_cache(maxsize=1)
def describe_as_page() -> str:
    """Return the description of the interface as a page."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Locant: interface</title>"
        "<meta name='viewport' content='width=device-width'></head><body><h1>Interface</h1>"
        "<p>The same for programs: <a href='openapi.json'>openapi.json</a>.</p>"
    ]
    for path, methods in describe()["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {html.escape(path)}</code></h2><p>{operation['summary']}</p>")
            for kind, content in operation.get("requestBody", {}).get("content", {}).items():
                schema = content["schema"]
                fields = [
                    (name, about.get("description", ""), name in schema["required"])
                    for name, about in schema["properties"].items()
                ]
                parts.append(f"<h3><code>{kind}</code></h3><dl>")
                parts += [
                    f"<dt><code>{name}</code>{' (required)' * needed}</dt><dd>{html.escape(text)}</dd>"
                    for name, text, needed in fields
                ]
                parts.append("</dl>")
            answers = operation["responses"].items()
            told = [f"<dt>{status}</dt><dd>{html.escape(answer['description'])}</dd>" for status, answer in answers]
            parts += ["<h3>Answers</h3><dl>", *told, "</dl>"]
    return "".join([*parts, "</body></html>"])
