"""The way of a request until its texts are translated: the gate, limits of size, its languages, its models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from starlette.requests import Request

from locant.languages import find_language, meant_language
from locant.server.gate import address_of
from locant.server.identification import Identified
from locant.server.models import Models, Way, language_name
from locant.server.reading import (
    FileAsked,
    Form,
    Parsed,
    RequestError,
    parse,
    read_body,
    read_fields,
    read_form,
    shown_code,
)
from locant.server.state import State, state_of
from locant.text.directions import Direction

AUTO = "auto"
"""The code of a source language that is to be identified."""

_SMALL = 20_000  # bytes of the largest body that is taken apart in the event loop

Result = TypeVar("Result")


def knock(request: Request) -> None:
    """Let an address in that has not asked too often, unless the server is about to end."""
    state = state_of(request)
    if state.draining:
        raise RequestError(
            503, "The server is being shut down. Try again in a moment.", reason="draining", retry_after=1
        )
    state.gate.knock(request)


def enter(request: Request, key: str | None) -> str:
    """Let in whoever has a key, or everybody where none is needed, and return the name of the client."""
    client = state_of(request).gate.enter(request, key)
    request.scope["state"]["client_name"] = client
    return client


def note(request: Request, characters: int, texts: int = 1) -> None:
    """Note for the log how much was asked for."""
    request.scope["state"]["noted"] = {"characters": characters, "texts": texts}


async def read_asked(kind: type[Parsed], request: Request) -> Parsed:
    """Return the checked fields of a request that may be read."""

    async def read(body: bytes) -> Parsed:
        return parse(kind, await read_fields(request, body))

    return await _read(request, read)


async def read_file(request: Request) -> tuple[FileAsked, Form]:
    """Return the checked fields of a form that may be read, and the form."""

    async def read(body: bytes) -> tuple[FileAsked, Form]:
        form = await read_form(request, body)
        return parse(FileAsked, form.fields), form

    return await _read(request, read)


async def _read(request: Request, read: Callable[[bytes], Coroutine[Any, Any, Result]]) -> Result:
    """Return what is made of the body of a request; of a large one in a thread, for it may take a second."""
    knock(request)
    state = state_of(request)
    limits = state.settings.limits
    body = await read_body(request, limits.body_bytes, limits.body_seconds)
    if len(body) <= _SMALL:
        return await read(body)
    found: Result = await state.service.threads.run(address_of(request.scope), lambda: asyncio.run(read(body)))
    return found


def check_size(state: State, texts: Sequence[str], most_characters: int, alternatives: int = 0) -> None:
    """Refuse what is more than may be asked for, and count what is not."""
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


async def find_sources(
    state: State, client: str, texts: Sequence[str], source: str, target: str, *, resumed: bool = False
) -> list[Identified]:
    """Return the source language of each text; ``resumed`` where something has been done for the request already."""
    models = state.service.models
    wanted = _known(models, target)
    if source != AUTO:
        return [Identified(_known(models, source), 100.0)] * len(texts)
    if state.identifier is None:
        raise RequestError(400, "This server does not identify languages: name the source language.", reason="language")
    known = [code for code in models.codes if code == wanted or wanted in models.targets.get(code, ())]
    choose = state.identifier.choose
    found: list[Identified]
    found = await state.service.threads.run(client, lambda: [choose(text, known) for text in texts], resumed=resumed)
    return found


def _known(models: Models, code: str) -> str:
    """Return what the models call a language."""
    found = find_language(code, models.codes)
    if found is None:
        hint = f".{meant}" if (meant := meant_language(code)) else ""
        raise RequestError(400, f"{shown_code(code)} is not supported{hint}", reason="language")
    return found


def find_way(state: State, source: str, target: str) -> Way | None:
    """Return the models for two languages; ``None`` where they are the same and no model translates within them.

    Args:
        state: Of the server.
        source: The code of the source language, as the models have it.
        target: That of the target language, as it was asked for.
    """
    models = state.service.models
    found = find_language(target, models.targets.get(source, ()))
    way = models.ways[Direction(source, found)] if found else None
    if way is None and find_language(target, [source]):
        return None
    if way is None:
        raise RequestError(
            400,
            f"{language_name(target)} ({target}) is not available as a target language from "
            f"{language_name(source)} ({source})",
            reason="language",
        )
    return way


def shown_language(language: Identified) -> dict[str, Any]:
    """Return a language as answers have it."""
    return {"confidence": language.confidence, "language": language.code}
