"""The description of the server's interface, as OpenAPI and as a page."""

from __future__ import annotations

import html
from functools import lru_cache
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from locant.server.reading import DetectionAsked, FileAsked, StreamAsked, TranslationAsked
from locant.version import __version__

_TEXT: dict[str, Any] = {"type": "string"}
_ERROR: dict[str, Any] = {"type": "object", "properties": {"error": _TEXT}, "required": ["error"]}
_LANGUAGE: dict[str, Any] = {
    "type": "object",
    "properties": {"code": _TEXT, "name": _TEXT, "targets": {"type": "array", "items": _TEXT}},
    "required": ["code", "name", "targets"],
}
_DETECTED: dict[str, Any] = {
    "type": "object",
    "properties": {"language": _TEXT, "confidence": {"type": "number", "minimum": 0, "maximum": 100}},
    "required": ["language", "confidence"],
}
_STRINGS: dict[str, Any] = {"type": "array", "items": _TEXT}
_TRANSLATED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "translatedText": {"anyOf": [_TEXT, _STRINGS]},
        "alternatives": {"anyOf": [_STRINGS, {"type": "array", "items": _STRINGS}]},
        "detectedLanguage": {"anyOf": [_DETECTED, {"type": "array", "items": _DETECTED}]},
    },
    "required": ["translatedText"],
}
_FILE: dict[str, Any] = {
    "type": "object",
    "properties": {"translatedFileUrl": _TEXT},
    "required": ["translatedFileUrl"],
}
_FAILURES = {
    400: "A field is missing or wrong, a language is not supported, a limit is exceeded, or an API key is missing.",
    403: "The API key is wrong, or this is not offered.",
    408: "The body did not arrive in time.",
    413: "The body or the file is too large.",
    415: "The body is of another type.",
    429: "Too many requests, or too many wrong keys; `Retry-After` says when to try again.",
    500: "The translation failed.",
    503: "The queue is full, or the server is being shut down; `Retry-After` says when to try again.",
    504: "The translation took too long and was given up.",
}
_WORK = tuple(_FAILURES)


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _schema(kind: type[BaseModel]) -> dict[str, Any]:
    found = kind.model_json_schema()
    found.pop("title", None)
    return found


def _body(kind: type[BaseModel], *types: str) -> dict[str, Any]:
    return {"required": True, "content": {one: {"schema": _schema(kind)} for one in types}}


def _answers(content: dict[str, Any], explained: str, *failures: int) -> dict[str, Any]:
    found: dict[str, Any] = {"200": {"description": explained, "content": content}}
    for status in failures:
        found[str(status)] = {"description": _FAILURES[status], "content": _json(_ERROR)}
    return found


@lru_cache(maxsize=1)
def describe() -> dict[str, Any]:
    """Return the description of the interface, OpenAPI 3.1."""
    both = ("application/json", "application/x-www-form-urlencoded")
    upload = _schema(FileAsked)
    upload["properties"] = {"file": {"type": "string", "format": "binary"}, **upload["properties"]}
    upload["required"] = ["file", *upload["required"]]
    paths: dict[str, Any] = {
        "/translate": {
            "post": {
                "summary": "Translate a text, or a list of texts.",
                "requestBody": _body(TranslationAsked, *both),
                "responses": _answers(_json(_TRANSLATED), "The translations.", *_WORK),
            }
        },
        "/translate/stream": {
            "post": {
                "summary": "Translate a text and send the translation as it comes: events start, piece, end or error.",
                "requestBody": _body(StreamAsked, *both),
                "responses": _answers({"text/event-stream": {"schema": _TEXT}}, "Server-sent events.", *_WORK),
            }
        },
        "/translate_file": {
            "post": {
                "summary": "Translate a document: text, Markdown, HTML, subtitles, JSON, PO, XLIFF, .docx or .odt.",
                "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": upload}}},
                "responses": _answers(_json(_FILE), "Where the translated file can be fetched.", *_WORK),
            }
        },
        "/download_file/{name}": {
            "get": {
                "summary": "Fetch a translated file.",
                "parameters": [{"name": "name", "in": "path", "required": True, "schema": _TEXT}],
                "responses": {
                    **_answers(
                        {
                            "text/plain": {"schema": _TEXT},
                            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
                        },
                        "The file.",
                    ),
                    "404": {"description": "There is no such file.", "content": _json(_ERROR)},
                },
            }
        },
        "/detect": {
            "post": {
                "summary": "Identify the language of a text.",
                "requestBody": _body(DetectionAsked, *both),
                "responses": _answers(
                    _json({"type": "array", "items": _DETECTED}), "Languages, most probable first.", *_WORK
                ),
            }
        },
        "/languages": {
            "get": {
                "summary": "List the languages.",
                "responses": _answers(_json({"type": "array", "items": _LANGUAGE}), "Languages with their targets."),
            }
        },
        "/frontend/settings": {
            "get": {
                "summary": "What a page needs to know.",
                "responses": _answers(_json({"type": "object"}), "Limits and languages to begin with."),
            }
        },
        "/health": {
            "get": {
                "summary": "Whether the server takes work.",
                "responses": _answers(_json({"type": "object"}), "It does.", 503),
            }
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Locant",
            "version": __version__,
            "description": "Machine translation, with the interface of LibreTranslate.",
        },
        "paths": paths,
    }


async def specification(request: Request) -> Response:
    """Return the description of the interface."""
    return JSONResponse(describe())


async def docs_page(request: Request) -> Response:
    """Return the description of the interface as a page."""
    return Response(_page(), media_type="text/html; charset=utf-8")


@lru_cache(maxsize=1)
def _page() -> str:
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Locant: interface</title>"
        "<meta name='viewport' content='width=device-width'></head><body><h1>Interface</h1>"
        "<p>The same for programs: <a href='openapi.json'>openapi.json</a>.</p>"
    ]
    for path, methods in describe()["paths"].items():
        for method, operation in methods.items():
            parts.append(
                f"<h2><code>{method.upper()} {html.escape(path)}</code></h2><p>{_text(operation['summary'])}</p>"
            )
            for kind, content in operation.get("requestBody", {}).get("content", {}).items():
                parts.append(f"<h3><code>{kind}</code></h3><dl>{_fields(content['schema'])}</dl>")
            parts.append("<h3>Answers</h3><dl>")
            for status, answer in operation["responses"].items():
                parts.append(f"<dt>{status}</dt><dd>{_text(answer['description'])}</dd>")
            parts.append("</dl>")
    return "".join([*parts, "</body></html>"])


def _fields(schema: dict[str, Any]) -> str:
    rows = []
    for name, about in schema.get("properties", {}).items():
        needed = " (required)" if name in schema.get("required", ()) else ""
        rows.append(f"<dt><code>{name}</code>{needed}</dt><dd>{_text(about.get('description', 'The file.'))}</dd>")
    return "".join(rows)


def _text(text: str) -> str:
    parts = html.escape(text, quote=False).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
