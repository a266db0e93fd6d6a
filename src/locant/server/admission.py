"""The way of a request until its texts are translated: the gate, limits of size, its languages, its models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from locant.server.identification import Identified
from locant.server.models import Way, language_name
from locant.server.reading import RequestError, read_body, read_fields, shown_code
from locant.server.state import State, state_of
from locant.text.directions import Direction

AUTO = "auto"
"""The code of a source language that is to be identified."""


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


async def read_asked(request: Request) -> Any:
    """Return the fields of a request that may be read."""
    knock(request)
    limits = state_of(request).settings.limits
    body = await read_body(request, limits.body_bytes, limits.body_seconds)
    return await read_fields(request, body)


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
    if target not in models.codes:
        raise RequestError(400, f"{shown_code(target)} is not supported", reason="language")
    if source != AUTO:
        if source not in models.codes:
            raise RequestError(400, f"{shown_code(source)} is not supported", reason="language")
        return [Identified(source, 100.0)] * len(texts)
    if state.identifier is None:
        raise RequestError(400, "This server does not identify languages: name the source language.", reason="language")
    known = [code for code in models.codes if code == target or target in models.targets.get(code, ())]
    choose = state.identifier.choose
    found: list[Identified]
    found = await state.service.threads.run(client, lambda: [choose(text, known) for text in texts], resumed=resumed)
    return found


def find_way(state: State, source: str, target: str) -> Way | None:
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


def shown_language(language: Identified) -> dict[str, Any]:
    """Return a language as answers have it."""
    return {"confidence": language.confidence, "language": language.code}
