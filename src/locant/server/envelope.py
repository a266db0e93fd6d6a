"""The envelope of every answer: headers, an entry in the log and the metrics, and a plain sentence for what fails."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Mapping
from functools import lru_cache

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from locant.errors import LocantError
from locant.server.gate import address_of
from locant.server.logs import RequestRecord, where_it_failed
from locant.server.reading import RequestError
from locant.server.state import State
from locant.server.tickets import QueueFullError, SchedulerClosedError, TooManySentencesError

_LOG = logging.getLogger("locant.server")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
_HOST = re.compile(rb"[A-Za-z0-9._-]{1,255}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
_NAMES = {404: "There is nothing at this address.", 405: "This address does not know this method."}


class Envelope:
    """The outermost part of the application.

    Args:
        app: What answers.
        state: What the routes share.
    """

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app, self._state = app, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.monotonic(), 0
        noted = scope.setdefault("state", {})
        noted["locant"], noted["arrived"] = self._state, asyncio.get_running_loop().time()

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                raw = message["headers"] = list(message["headers"])
                given = {name for name, _ in raw}
                raw += [header for header in _HEADERS if header[0] not in given]
                # What is left of a body that was refused is not read.
                unread = status in (408, 413, 503) and not noted.get("body_read")
                if unread or self._state.retiring or self._state.draining:
                    MutableHeaders(raw=raw)["connection"] = "close"
            await send(message)

        self._state.requests += 1
        try:
            if not _is_host(_host(scope)):
                raise RequestError(400, "The header Host is not the name of a host.", reason="host")
            if self._state.requests > self._state.settings.limits.connections:
                raise RequestError(
                    503, "The server has too many connections. Try again later.", reason="connections", retry_after=1
                )
            await self._app(scope, receive, send_on)
        except Exception as error:
            if not isinstance(error, (LocantError, HTTPException)):
                _LOG.error("a request failed", extra=where_it_failed(error))
            if not status:
                await answer_error(Request(scope), error)(scope, receive, send_on)
        finally:
            self._state.requests -= 1
            self._note(scope, status, time.monotonic() - begun)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        noted = scope["state"]
        metrics = self._state.metrics
        metrics.answered(route, status, seconds)
        if reason := noted.get("refused"):
            metrics.refused.labels(reason).inc()
        if not _LOG.isEnabledFor(logging.INFO):
            return
        entry: dict[str, int | float | str] = {
            "route": route,
            "method": scope["method"] if scope["method"].isalpha() else "other",
            "status": status,
            "seconds": round(seconds, 4),
            "client": noted.get("client_name") or address_of(scope),
            **noted.get("noted", {}),
        }
        if reason:
            entry["reason"] = reason
        _LOG.handle(RequestRecord(entry))


def _host(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"host":
            return bytes(value)
    return b"localhost"


@lru_cache(maxsize=256)
def _is_host(name: bytes) -> bool:
    return _HOST.fullmatch(name) is not None


def answer_error(request: Request, error: Exception) -> Response:
    """Return the answer to a request that failed: a status and a sentence."""
    status, sentence, reason, headers = 500, "The server failed to answer this request.", "error", {}
    if isinstance(error, RequestError):
        status, sentence, reason = error.status, str(error), error.reason
        if error.retry_after is not None:
            headers["retry-after"] = str(error.retry_after)
    elif isinstance(error, QueueFullError):
        status, sentence, reason, headers = 503, str(error), "queue", {"retry-after": str(error.retry_after)}
    elif isinstance(error, TooManySentencesError):
        status, sentence, reason = 400, str(error), "sentences"
    elif isinstance(error, SchedulerClosedError):
        status, sentence, reason, headers = 503, str(error), "draining", {"retry-after": "1"}
    elif isinstance(error, HTTPException):
        status, sentence, reason = error.status_code, _NAMES.get(error.status_code, error.detail), "address"
        headers = dict(error.headers or {})
    elif isinstance(error, LocantError):
        sentence = str(error)
    request.scope.setdefault("state", {})["refused"] = reason
    return json_error(status, sentence, headers)


def json_error(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as LibreTranslate words it."""
    body = json.dumps({"error": sentence}).encode()
    return Response(body, status, dict(headers or {}), media_type="application/json")
