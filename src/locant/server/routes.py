"""The routes of the server, as LibreTranslate has them; :mod:`locant.server.streaming` has one that it has not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from locant.documents import Document
from locant.documents.formats import SUFFIXES, DocumentOptions, format_of
from locant.errors import DataError
from locant.server.admission import (
    AUTO,
    check_size,
    enter,
    find_sources,
    find_way,
    note,
    read_asked,
    read_file,
    shown_language,
)
from locant.server.deadlines import in_time
from locant.server.files import NoRoomError
from locant.server.identification import Identified
from locant.server.models import language_name
from locant.server.reading import DetectionAsked, FileAsked, RequestError, TranslationAsked
from locant.server.state import State, state_of
from locant.server.translating import Translated

_FRONTEND_TIMEOUT = 1000  # milliseconds that a page waits after a key stroke
_METRICS = "the metrics"  # whoever asks for them counts as one client, called as no address or key is


async def translate(request: Request) -> Response:
    """Translate a text, or a list of texts."""
    state = state_of(request)
    asked = await read_asked(TranslationAsked, request)
    client = enter(request, asked.api_key)
    texts = [asked.q] if isinstance(asked.q, str) else asked.q
    check_size(state, texts, state.settings.limits.characters, asked.alternatives)
    sources, found = await in_time(request, _translate(state, asked, texts, client))
    many = not isinstance(asked.q, str)

    def shaped(values: list[Any]) -> Any:
        return values if many else values[0]

    answer: dict[str, Any] = {"translatedText": shaped([each.text for each in found])}
    if asked.source == AUTO:
        answer["detectedLanguage"] = shaped([shown_language(source) for source in sources])
    if asked.alternatives:
        answer["alternatives"] = shaped([each.alternatives for each in found])
    note(request, sum(map(len, texts)), len(texts))
    return Response(to_json(answer), media_type="application/json")


async def _translate(
    state: State, asked: TranslationAsked, texts: Sequence[str], client: str
) -> tuple[list[Identified], list[Translated]]:
    """Return the source language and the translation of each text; what is in the target's already stays as it is."""
    sources = await find_sources(state, client, texts, asked.source, asked.target)
    ways = [find_way(state, source.code, asked.target) for source in sources]
    routed = [(text, way) for text, way in zip(texts, ways, strict=True) if way is not None]
    markup, alternatives = asked.format == "html", asked.alternatives
    found = iter(await state.service.translate(routed, client, markup=markup, alternatives=alternatives))
    translated = [next(found) if way else Translated(text, []) for text, way in zip(texts, ways, strict=True)]
    return sources, translated


async def detect(request: Request) -> Response:
    """Return the languages that a text may be in."""
    state = state_of(request)
    asked = await read_asked(DetectionAsked, request)
    client = enter(request, asked.api_key)
    check_size(state, [asked.q], state.settings.limits.characters)
    if state.identifier is None:
        raise RequestError(400, "This server does not identify languages.")
    found: list[Identified]
    found = await in_time(request, state.service.threads.run(client, partial(state.identifier.identify, asked.q)))
    return JSONResponse([shown_language(each) for each in found])


async def translate_file(request: Request) -> Response:
    """Translate a document and return the address under which it can be fetched."""
    state = state_of(request)
    limits = state.settings.limits
    asked, form = await read_file(request)
    client = enter(request, asked.api_key)
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
    kept, characters = await in_time(request, _translate_file(state, asked, client, PurePath(name), content, read))
    note(request, characters)
    return JSONResponse({"translatedFileUrl": str(request.url_for("download_file", name=kept))})


async def _translate_file(
    state: State, asked: FileAsked, client: str, path: PurePath, content: bytes, read: Callable[[bytes], Document]
) -> tuple[str, int]:
    """Translate a document, and return the name under which it is kept and how many characters it had."""
    threads = state.service.threads
    try:
        document: Document = await threads.run(client, partial(read, content))
    except DataError as error:
        raise RequestError(400, f"Invalid request: {error}", reason="file_kind") from None
    text = "\n".join("".join(item.text for item in passage) for passage in document.passages)
    check_size(state, [text], state.settings.limits.file_characters)
    (source,) = await find_sources(state, client, [text], asked.source, asked.target, resumed=True)
    way = find_way(state, source.code, asked.target)
    if way is not None:
        content = await state.service.translate_document(document, read, way, client)
    keep = partial(state.files.keep, content, f"{path.stem}_{asked.target}{path.suffix.lower()}")
    try:
        return await threads.run(client, keep, resumed=True), len(text)
    except NoRoomError as error:
        raise RequestError(503, str(error), reason="files", retry_after=60) from None


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
    source = AUTO if state.identifier else first.source
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
                "source": {"code": source, "name": "Auto Detect" if source == AUTO else language_name(source)},
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
    page = await state.service.threads.run(_METRICS, state.metrics.page)
    return Response(page, media_type="text/plain; version=0.0.4; charset=utf-8")


def page_of(path: Path) -> Callable[[Request], Awaitable[Response]]:
    """Return a route that answers with a page."""
    content = path.read_bytes()

    async def page(request: Request) -> Response:
        return Response(content, media_type="text/html; charset=utf-8")

    return page
