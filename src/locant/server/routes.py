"""The routes of the server, as LibreTranslate has them, and one that sends a translation piece by piece."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse

from locant.documents.formats import SUFFIXES, DocumentOptions, format_of
from locant.errors import DataError, LocantError
from locant.languages import find_language, meant_language
from locant.server.errors import RequestError
from locant.server.metrics import CHARACTERS, metrics_page
from locant.server.models import Identified, Way, identify, identify_among, language_name
from locant.server.openapi import Detected, Language, Operation, Translated, TranslatedFile, describe
from locant.server.requests import DetectionAsked, FileAsked, Parsed, StreamAsked, TranslationAsked, read_request
from locant.text.tokenizer_pair import Direction

if TYPE_CHECKING:
    from locant.server.app import Application

PAGE = Path(__file__).with_name("page")
"""The folder of the page to translate in."""

_AUTO = "auto"  # the code of a source language that is to be identified
_BODY_SECONDS = 30.0  # in which a body must arrive
_MOST_UNPACKED = 20_000_000  # bytes of a file that is packed (.docx, .odt), unpacked
_MOMENT = 0.5  # seconds, after which a client may have gone that has not been answered
_FRONTEND_TIMEOUT = 1000  # milliseconds that a page waits after a key stroke

Result = TypeVar("Result")


async def translate(request: Request) -> Response:
    """Translate a text, or a list of texts."""
    app, asked, client = await _asked(TranslationAsked, request)
    many = not isinstance(asked.q, str)
    texts = [asked.q] if isinstance(asked.q, str) else asked.q
    _check_size(request, texts, app.settings.limits.characters, asked.alternatives)

    async def work() -> tuple[list[Identified], list[list[str]]]:
        sources = await _sources(app, client, texts, asked.source, asked.target)
        ways = [_way(app, source.language, asked.target) for source in sources]
        routed = [(text, way) for text, way in zip(texts, ways, strict=True) if way]
        markup, alternatives = asked.format == "html", asked.alternatives
        found = iter(await app.service.translate(routed, client, markup=markup, alternatives=alternatives))
        # What is in the target language already stays as it is.
        return sources, [next(found) if way else [text] for text, way in zip(texts, ways, strict=True)]

    sources, found = await _in_time(request, work())

    def shaped(values: list[Any]) -> Any:
        return values if many else values[0]

    answer: dict[str, Any] = {"translatedText": shaped([best for best, *_ in found])}
    if asked.source == _AUTO:
        answer["detectedLanguage"] = shaped([source._asdict() for source in sources])
    if asked.alternatives:
        answer["alternatives"] = shaped([others for _, *others in found])
    return Response(to_json(answer), media_type="application/json")


async def stream(request: Request) -> Response:
    """Translate a text and send its translation piece by piece, as server-sent events."""
    app, asked, client = await _asked(StreamAsked, request)
    _check_size(request, [asked.q], app.settings.limits.characters)
    start: dict[str, Any] = {}
    pieces: AsyncIterator[str | int]

    async def begin() -> str | int | None:
        nonlocal pieces
        (source,) = await _sources(app, client, [asked.q], asked.source, asked.target)
        if asked.source == _AUTO:
            start["detectedLanguage"] = source._asdict()
        way = _way(app, source.language, asked.target)
        pieces = app.service.stream(asked.q, way, client) if way else _same(asked.q)
        start["sentences"] = await anext(pieces)
        return await anext(pieces, None)

    # With the first piece it is known that the text was taken: a refusal still has its own status.
    first = await _in_time(request, begin())

    async def events() -> AsyncIterator[bytes]:
        yield _event("start", start)
        piece = first
        async with aclosing(pieces):  # type: ignore[type-var]
            try:
                while piece is not None:
                    yield _event("piece", {"text": piece})
                    async with asyncio.timeout(_seconds_left(request)):
                        piece = await anext(pieces, None)
            except TimeoutError:
                yield _event("error", {"error": str(_too_slow(app))})
            except LocantError as error:
                yield _event("error", {"error": str(error)})
            else:
                yield _event("end", {})

    # A proxy is asked not to gather them.
    return StreamingResponse(events(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def _same(text: str) -> AsyncIterator[str | int]:
    yield 0
    yield text


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


async def detect(request: Request) -> Response:
    """Return the languages that a text may be in."""
    app, asked, client = await _asked(DetectionAsked, request)
    _check_size(request, [asked.q], app.settings.limits.characters)
    work = partial(identify, asked.q, app.service.models.codes)
    found = await _in_time(request, app.service.threads.run(client, work))
    return JSONResponse([each._asdict() for each in found])


async def translate_file(request: Request) -> Response:
    """Translate a document and return the address under which it can be fetched."""
    app, asked, client = await _asked(FileAsked, request)
    limits, threads = app.settings.limits, app.service.threads
    name, content = asked.file
    kind = format_of(name)
    if kind is None:
        sentence = f"Invalid request: file format not supported. Known: {', '.join(SUFFIXES)}."
        raise RequestError(400, sentence, reason="file_kind")
    if len(content) > limits.file_bytes:
        sentence = f"The file is too large; at most {limits.file_bytes:,} bytes are read."
        raise RequestError(413, sentence, reason="file_size")
    read = partial(kind.read, options=DocumentOptions(largest_unpacked=_MOST_UNPACKED))

    async def work() -> str:
        try:
            document = await threads.run(client, partial(read, content))
        except DataError as error:
            raise RequestError(400, f"Invalid request: {error}", reason="file_kind") from None
        text = "\n".join("".join(item.text for item in passage) for passage in document.passages)
        _check_size(request, [text], limits.file_bytes)
        (source,) = await _sources(app, client, [text], asked.source, asked.target)
        way = _way(app, source.language, asked.target)
        translated = await app.service.translate_document(document, read, way, client) if way else content
        path = PurePath(name)
        keep = partial(app.files.keep, translated, f"{path.stem}_{asked.target}{path.suffix.lower()}", client)
        return await threads.run(client, keep)

    kept = await _in_time(request, work())
    return JSONResponse({"translatedFileUrl": str(request.url_for("download_file", name=kept))})


async def download_file(request: Request) -> Response:
    """Return a translated file."""
    found = request.app.files.find(request.path_params["name"])
    if found is None:
        raise RequestError(404, "There is no such file; translated files are kept for some minutes only.")
    path, name = found
    # Nothing but text is named as what it is: a browser that shows it would run what is in it.
    media_type = "text/plain; charset=utf-8" if name.endswith(".txt") else "application/octet-stream"
    return FileResponse(path, filename=name, media_type=media_type)


async def languages(request: Request) -> Response:
    """List the languages with those into which they can be translated."""
    models = request.app.service.models
    return JSONResponse(
        [{"code": code, "name": language_name(code), "targets": models.targets.get(code, [])} for code in models.codes]
    )


async def frontend_settings(request: Request) -> Response:
    """Return what a page needs to know."""
    app = request.app
    first = next(iter(app.service.models.routes))
    return JSONResponse(
        {
            "charLimit": app.settings.limits.characters,
            "frontendTimeout": _FRONTEND_TIMEOUT,
            "apiKeys": app.gate.asks_for_keys,
            "keyRequired": app.gate.asks_for_keys,
            "suggestions": False,
            "filesTranslation": True,
            "supportedFilesFormat": list(SUFFIXES),
            "language": {
                "source": {"code": _AUTO, "name": "Auto Detect"},
                "target": {"code": first.target, "name": language_name(first.target)},
            },
        }
    )


async def suggest(request: Request) -> Response:
    """Refuse a suggestion: they are not kept."""
    raise RequestError(403, "Suggestions are disabled on this server.", reason="suggestion")


async def health(request: Request) -> Response:
    """Say that the server takes work; one that ends takes no requests."""
    return JSONResponse({"status": "ok"})


async def metrics(request: Request) -> Response:
    """Return numbers for Prometheus; a server with API keys asks for one, as a bearer."""
    if request.app.gate.asks_for_keys:
        request.app.gate.client_of(request)
    content = await asyncio.to_thread(metrics_page)
    return Response(content, media_type="text/plain; version=0.0.4; charset=utf-8")


async def specification(request: Request) -> Response:
    """Return the description of the interface."""
    return JSONResponse(describe(OPERATIONS))


async def page(request: Request) -> Response:
    """Return the page to translate in."""
    return FileResponse(PAGE / "index.html", media_type="text/html; charset=utf-8")


OPERATIONS = [
    Operation("POST", "/translate", translate, Translated, TranslationAsked),
    Operation("POST", "/translate/stream", stream, "text/event-stream", StreamAsked),
    Operation("POST", "/translate_file", translate_file, TranslatedFile, FileAsked),
    Operation("GET", "/download_file/{name}", download_file, "*/*"),
    Operation("POST", "/detect", detect, list[Detected], DetectionAsked),
    Operation("GET", "/languages", languages, list[Language]),
    Operation("GET", "/frontend/settings", frontend_settings, dict[str, Any]),
    Operation("GET", "/health", health, dict[str, Any]),
    Operation("POST", "/suggest", suggest),
    Operation("GET", "/metrics", metrics),
    Operation("GET", "/spec", specification),
    Operation("GET", "/openapi.json", specification),
    Operation("GET", "/docs", specification),
]
"""What the server does."""


async def _asked(kind: type[Parsed], request: Request) -> tuple[Application, Parsed, str]:
    """Let a client in, and return what it asks for, and its name."""
    app = request.app
    asked = await read_request(kind, request, app.settings.limits.body_bytes, _BODY_SECONDS)
    return app, asked, app.gate.client_of(request, asked.api_key)


def _check_size(request: Request, texts: Sequence[str], most_characters: int, alternatives: int = 0) -> None:
    """Refuse what is more than may be asked for, and count what is not."""
    app, characters = request.app, sum(map(len, texts))
    limits = app.settings.limits
    for size, limit, what in (
        (len(texts), limits.texts, "texts"),
        (characters, most_characters, "characters"),
        (alternatives, limits.alternatives, "alternatives"),
    ):
        if size > limit:
            raise RequestError(
                400, f"Invalid request: request ({size}) exceeds text limit ({limit}) of {what}", reason=what
            )
    CHARACTERS.inc(characters)
    request.scope["state"]["sizes"] = {"characters": characters, "texts": len(texts)}


async def _sources(app: Application, client: str, texts: Sequence[str], source: str, target: str) -> list[Identified]:
    """Return the source language of each text."""
    models = app.service.models

    def known(code: str) -> str:
        if found := models.find(code):
            return found
        named = code if re.fullmatch(r"[A-Za-z0-9_-]{1,40}", code) else "this language"
        hint = f".{meant}" if (meant := meant_language(code)) else ""
        raise RequestError(400, f"{named} is not supported{hint}", reason="language")

    wanted = known(target)
    if source != _AUTO:
        return [Identified(known(source), 100.0)] * len(texts)
    among = [code for code in models.codes if code == wanted or wanted in models.targets.get(code, ())]
    return await app.service.threads.run(client, lambda: [identify_among(text, among) for text in texts])


def _way(app: Application, source: str, target: str) -> Way | None:
    """Return the models for two languages; ``None`` where they are the same and no model translates within them."""
    models = app.service.models
    found = models.find(target, models.targets.get(source, ()))
    if found:
        return models.ways[Direction(source, found)]
    if find_language(target, [source]):
        return None
    raise RequestError(
        400,
        f"{language_name(target)} ({target}) is not available as a target language from "
        f"{language_name(source)} ({source})",
        reason="language",
    )


def _seconds_left(request: Request) -> float:
    """Return the time in which a request must be answered."""
    return float(request.scope["state"]["arrived"]) + request.app.settings.limits.request_seconds - time.monotonic()


def _too_slow(app: Application) -> RequestError:
    seconds = app.settings.limits.request_seconds
    return RequestError(504, f"The translation took longer than {seconds:g} seconds and was given up.", reason="time")


async def _in_time(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return what comes of some work; when its time is over or the client goes away, give it up."""
    working = asyncio.ensure_future(work)
    try:
        while True:
            done, _ = await asyncio.wait([working], timeout=max(0.0, min(_MOMENT, _seconds_left(request))))
            if done:
                return working.result()
            if _seconds_left(request) <= 0:
                raise _too_slow(request.app)
            if await request.is_disconnected():
                raise RequestError(499, "The client has gone.", reason="gone")
    finally:
        working.cancel()
