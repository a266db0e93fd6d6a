"""The routes of the server, as LibreTranslate has them, and one that streams."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse

from locant.documents.formats import SUFFIXES, DocumentOptions, format_of
from locant.errors import DataError, LocantError
from locant.server.files import FileStore, NoRoomError
from locant.server.gate import Gate
from locant.server.identification import Identified, Identifier
from locant.server.metrics import Metrics
from locant.server.models import Way, language_name
from locant.server.reading import (
    DetectionAsked,
    FileAsked,
    RequestError,
    StreamAsked,
    TranslationAsked,
    parse,
    read_body,
    read_fields,
    read_form,
    shown_code,
)
from locant.server.settings import ServerSettings
from locant.server.timers import Limit, timers
from locant.server.translating import Translated, TranslationService
from locant.text.directions import Direction

_FRONTEND_TIMEOUT = 1000  # milliseconds that a page waits after a key stroke
_AUTO = "auto"
_MOMENT = 0.1  # seconds, after which a client may have gone that has not been answered

Result = TypeVar("Result")


@dataclass
class State:
    """What the routes of an application share.

    Attributes:
        settings: Of the server.
        service: Translates.
        gate: Lets clients in.
        files: Translated files.
        metrics: Numbers for Prometheus.
        identifier: Of languages; ``None`` where they are not identified.
        draining: Whether no more work is taken, because the process is about to end.
        retiring: Whether connections are closed after their next answer, because another process takes over.
        requests: Number of requests that are being answered.
    """

    settings: ServerSettings
    service: TranslationService
    gate: Gate
    files: FileStore
    metrics: Metrics
    identifier: Identifier | None
    draining: bool = False
    retiring: bool = False
    requests: int = 0
    started: float = field(default_factory=time.monotonic)


def state_of(request: Request) -> State:
    """Return what the routes share."""
    found: State = request.scope["state"]["locant"]
    return found


async def translate(request: Request) -> Response:
    """Translate a text, or a list of texts."""
    state = state_of(request)
    asked = parse(TranslationAsked, await _fields(request))
    client = _enter(request, asked.api_key)
    texts = [asked.q] if isinstance(asked.q, str) else asked.q
    _check_size(state, texts, state.settings.limits.characters, asked.alternatives)
    sources = await _sources(state, texts, asked.source, asked.target)
    routed = [(text, _way(state, source.code, asked.target)) for text, source in zip(texts, sources, strict=True)]
    work = _translate(state, routed, client, asked.format == "html", asked.alternatives)
    found = await _in_time(request, work)
    many = not isinstance(asked.q, str)

    def shaped(values: list[Any]) -> Any:
        return values if many else values[0]

    answer: dict[str, Any] = {"translatedText": shaped([each.text for each in found])}
    if asked.source == _AUTO:
        answer["detectedLanguage"] = shaped([_identified(source) for source in sources])
    if asked.alternatives:
        answer["alternatives"] = shaped([each.alternatives for each in found])
    _note(request, sum(map(len, texts)), len(texts))
    return JSONResponse(answer)


async def stream(request: Request) -> Response:
    """Translate a text and send its translation piece by piece, as server-sent events."""
    state = state_of(request)
    asked = parse(StreamAsked, await _fields(request))
    client = _enter(request, asked.api_key)
    _check_size(state, [asked.q], state.settings.limits.characters)
    (source,) = await _sources(state, [asked.q], asked.source, asked.target)
    way = _way(state, source.code, asked.target)
    _note(request, len(asked.q))
    start: dict[str, Any] = {"detectedLanguage": _identified(source)} if asked.source == _AUTO else {}
    if way is None:
        return _EventStream(_same(start, asked.q))
    pieces = state.service.stream(asked.q, way, client)
    # With the first piece it is known that the text was taken: a refusal still has its own status.
    start["sentences"], first = await _in_time(request, _first(pieces))
    return _EventStream(_events(state, start, first, pieces, _deadline(request)))


async def detect(request: Request) -> Response:
    """Return the languages that a text may be in."""
    state = state_of(request)
    asked = parse(DetectionAsked, await _fields(request))
    _enter(request, asked.api_key)
    _check_size(state, [asked.q], state.settings.limits.characters)
    if state.identifier is None:
        raise RequestError(400, "This server does not identify languages.")
    found: list[Identified] = await state.service.aside(state.identifier.identify, asked.q)
    return JSONResponse([_identified(each) for each in found])


async def translate_file(request: Request) -> Response:
    """Translate a document and return the address under which it can be fetched."""
    state = state_of(request)
    _knock(request)
    limits = state.settings.limits
    form = await read_form(request, limits.body_bytes, limits.body_seconds)
    asked = parse(FileAsked, form.fields)
    client = _enter(request, asked.api_key)
    if form.file is None:
        raise RequestError(400, "Invalid request: missing file parameter")
    name, content = form.file
    kind = format_of(name)
    if kind is None:
        raise RequestError(
            400, f"Invalid request: file format not supported. Known: {', '.join(SUFFIXES)}.", reason="file_kind"
        )
    if len(content) > limits.file_bytes:
        raise RequestError(
            413, f"The file is too large; at most {limits.file_bytes:,} bytes are read.", reason="file_size"
        )
    read = partial(kind.read, options=DocumentOptions(largest_unpacked=limits.unpacked_bytes))
    try:
        document = await state.service.aside(read, content)
    except DataError as error:
        raise RequestError(400, f"Invalid request: {error}", reason="file_kind") from None
    text = "\n".join("".join(item.text for item in passage) for passage in document.passages)
    _check_size(state, [text], limits.file_characters)
    (source,) = await _sources(state, [text], asked.source, asked.target)
    way = _way(state, source.code, asked.target)
    if way is not None:
        work = state.service.translate_document(document, read, way, client)
        content = await _in_time(request, work)
    path = PurePath(name)
    try:
        kept = await state.service.aside(state.files.keep, content, f"{path.stem}_{asked.target}{path.suffix.lower()}")
    except NoRoomError as error:
        raise RequestError(503, str(error), reason="files", retry_after=60) from None
    _note(request, len(text))
    return JSONResponse({"translatedFileUrl": str(request.url_for("download_file", name=kept))})


async def download_file(request: Request) -> Response:
    """Return a translated file."""
    found = state_of(request).files.find(request.path_params["name"])
    if found is None:
        raise RequestError(404, "There is no such file; translated files are kept for some minutes only.")
    path, name = found
    # Nothing but text is named as what it is: a browser that shows it would run what is in it.
    media_type = "text/plain; charset=utf-8" if name.endswith(".txt") else "application/octet-stream"
    return FileResponse(path, filename=name, media_type=media_type)


async def languages(request: Request) -> Response:
    """List the languages with those into which they can be translated."""
    models = state_of(request).service.models
    return JSONResponse(
        [{"code": code, "name": language_name(code), "targets": models.targets.get(code, [])} for code in models.codes]
    )


async def frontend_settings(request: Request) -> Response:
    """Return what a page needs to know."""
    state = state_of(request)
    first = next(iter(state.service.models.routes))
    source = _AUTO if state.identifier else first.source
    return JSONResponse(
        {
            "charLimit": state.settings.limits.characters,
            "frontendTimeout": _FRONTEND_TIMEOUT,
            "apiKeys": state.gate.asks_for_keys,
            "keyRequired": state.gate.asks_for_keys,
            "suggestions": False,
            "filesTranslation": True,
            "supportedFilesFormat": list(SUFFIXES),
            "language": {
                "source": {"code": source, "name": "Auto Detect" if source == _AUTO else language_name(source)},
                "target": {"code": first.target, "name": language_name(first.target)},
            },
        }
    )


async def suggest(request: Request) -> Response:
    """Refuse a suggestion: they are not kept."""
    raise RequestError(403, "Suggestions are disabled on this server.", reason="suggestion")


async def health(request: Request) -> Response:
    """Say whether the server takes work."""
    if state_of(request).draining:
        raise RequestError(503, "The server is being shut down.", reason="draining", retry_after=1)
    return JSONResponse({"status": "ok"})


async def metrics(request: Request) -> Response:
    """Return numbers for Prometheus; a server with API keys asks for one, as a bearer."""
    state = state_of(request)
    if state.gate.asks_for_keys:
        state.gate.knock(request)
        state.gate.enter(request, None)
    page = await state.service.aside(state.metrics.page)
    return Response(page, media_type="text/plain; version=0.0.4; charset=utf-8")


def _knock(request: Request) -> None:
    state = state_of(request)
    if state.draining:
        raise RequestError(
            503, "The server is being shut down. Try again in a moment.", reason="draining", retry_after=1
        )
    state.gate.knock(request)


def _enter(request: Request, key: str | None) -> str:
    client = state_of(request).gate.enter(request, key)
    request.scope["state"]["client_name"] = client
    return client


def _note(request: Request, characters: int, texts: int = 1) -> None:
    """Note for the log how much was asked for."""
    request.scope["state"]["noted"] = {"characters": characters, "texts": texts}


async def _fields(request: Request) -> Any:
    _knock(request)
    limits = state_of(request).settings.limits
    body = await read_body(request, limits.body_bytes, limits.body_seconds)
    return await read_fields(request, body)


def _check_size(state: State, texts: Sequence[str], most_characters: int, alternatives: int = 0) -> None:
    limits, characters = state.settings.limits, sum(map(len, texts))
    for size, limit, what in (
        (len(texts), limits.texts, "texts"),
        (characters, most_characters, "characters"),
        (alternatives, limits.alternatives, "alternatives"),
    ):
        if size > limit:
            raise RequestError(
                400, f"Invalid request: request ({size}) exceeds text limit ({limit}) of {what}", reason=what
            )
    state.metrics.characters.inc(characters)


async def _sources(state: State, texts: Sequence[str], source: str, target: str) -> list[Identified]:
    """Return the source language of each text."""
    models = state.service.models
    if target not in models.codes:
        raise RequestError(400, f"{shown_code(target)} is not supported", reason="language")
    if source != _AUTO:
        if source not in models.codes:
            raise RequestError(400, f"{shown_code(source)} is not supported", reason="language")
        return [Identified(source, 100.0)] * len(texts)
    if state.identifier is None:
        raise RequestError(400, "This server does not identify languages: name the source language.", reason="language")
    known = [code for code in models.codes if code == target or target in models.targets.get(code, ())]
    choose = state.identifier.choose
    return await state.service.aside(lambda: [choose(text, known) for text in texts])


def _way(state: State, source: str, target: str) -> Way | None:
    """Return the models for two languages; ``None`` where they are the same and no model translates within them."""
    way = state.service.models.ways.get(Direction(source, target))
    if way is None and source == target:
        return None
    if way is None:
        raise RequestError(
            400,
            f"{language_name(target)} ({target}) is not available as a target language from "
            f"{language_name(source)} ({source})",
            reason="language",
        )
    return way


async def _translate(
    state: State, texts: Sequence[tuple[str, Way | None]], client: str, markup: bool, alternatives: int
) -> list[Translated]:
    """Translate texts; those whose language is the target's stay as they are."""
    routed = [(text, way) for text, way in texts if way is not None]
    found = iter(await state.service.translate(routed, client, markup=markup, alternatives=alternatives))
    return [next(found) if way is not None else Translated(text, []) for text, way in texts]


def _deadline(request: Request) -> float:
    """Return when a request must have been answered, in the time of the event loop."""
    return float(request.scope["state"]["arrived"]) + state_of(request).settings.limits.request_seconds


def _too_slow(seconds: float) -> RequestError:
    return RequestError(504, f"The translation took longer than {seconds:g} seconds and was given up.", reason="time")


async def _in_time(request: Request, work: Awaitable[Result]) -> Result:
    """Return what comes of some work; when its time is over or the client goes away, give it up.

    Whether the client has gone is looked at after a moment, in which most work is done.
    """
    own, loop, known = asyncio.current_task(), asyncio.get_running_loop(), timers()
    assert own
    gone = False
    watching: asyncio.Task[None] | None = None

    async def watch() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        own.cancel()

    def begin() -> None:
        nonlocal watching
        watching = loop.create_task(watch())

    beginning = known.begin(loop.time() + _MOMENT, begin)
    try:
        with Limit(_deadline(request)):
            return await work
    except TimeoutError:
        raise _too_slow(state_of(request).settings.limits.request_seconds) from None
    except asyncio.CancelledError:
        if not gone:
            raise
        own.uncancel()
        raise RequestError(499, "The client has gone.", reason="gone") from None
    finally:
        known.end(beginning)
        if watching:
            watching.cancel()


def _identified(language: Identified) -> dict[str, Any]:
    return {"confidence": language.confidence, "language": language.code}


async def _first(pieces: AsyncIterator[str | int]) -> tuple[str | int, str | None]:
    """Return the number of sentences, and the first piece."""
    sentences, found = await anext(pieces), await anext(pieces, None)
    return sentences, None if found is None else str(found)


class _EventStream(StreamingResponse):
    """Server-sent events, which a proxy is asked not to gather."""

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


async def _same(start: dict[str, Any], text: str) -> AsyncIterator[bytes]:
    yield _event("start", {**start, "sentences": 0})
    yield _event("piece", {"text": text})
    yield _event("end", {})


async def _events(
    state: State, start: dict[str, Any], first: str | None, pieces: Any, deadline: float
) -> AsyncIterator[bytes]:
    yield _event("start", start)
    async with aclosing(pieces):
        try:
            if first is not None:
                yield _event("piece", {"text": first})
            while True:
                async with asyncio.timeout_at(deadline):
                    piece = await anext(pieces, None)
                if piece is None:
                    break
                yield _event("piece", {"text": piece})
        except TimeoutError:
            yield _event("error", {"error": str(_too_slow(state.settings.limits.request_seconds))})
            return
        except LocantError as error:
            yield _event("error", {"error": str(error)})
            return
    yield _event("end", {})


def page_of(path: Path) -> Callable[[Request], Awaitable[Response]]:
    """Return a route that answers with a page."""
    content = path.read_bytes()

    async def page(request: Request) -> Response:
        return Response(content, media_type="text/html; charset=utf-8")

    return page
