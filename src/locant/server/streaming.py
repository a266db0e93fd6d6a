"""The route that sends a translation piece by piece, as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from locant.errors import LocantError
from locant.server.admission import AUTO, check_size, enter, find_sources, find_way, note, read_asked, shown_language
from locant.server.deadlines import deadline_of, in_time, too_slow
from locant.server.reading import StreamAsked
from locant.server.state import State, state_of


async def stream(request: Request) -> Response:
    """Translate a text and send its translation piece by piece, as server-sent events."""
    state = state_of(request)
    asked = await read_asked(StreamAsked, request)
    client = enter(request, asked.api_key)
    check_size(state, [asked.q], state.settings.limits.characters)
    note(request, len(asked.q))
    # With the first piece it is known that the text was taken: a refusal still has its own status.
    events = await in_time(request, _begin(state, asked, client, deadline_of(request)))
    return _EventStream(events)


async def _begin(state: State, asked: StreamAsked, client: str, deadline: float) -> AsyncIterator[bytes]:
    """Return the events of a stream whose first piece is there."""
    (source,) = await find_sources(state, client, [asked.q], asked.source, asked.target)
    way = find_way(state, source.code, asked.target)
    start: dict[str, Any] = {"detectedLanguage": shown_language(source)} if asked.source == AUTO else {}
    if way is None:
        return _same(start, asked.q)
    pieces = state.service.stream(asked.q, way, client)
    start["sentences"], first = await anext(pieces), await anext(pieces, None)
    return _events(state, start, first, pieces, deadline)


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
    state: State, start: dict[str, Any], first: str | int | None, pieces: Any, deadline: float
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
            yield _event("error", {"error": str(too_slow(state.settings.limits.request_seconds))})
            return
        except LocantError as error:
            yield _event("error", {"error": str(error)})
            return
    yield _event("end", {})
