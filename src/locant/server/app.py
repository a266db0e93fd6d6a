"""The application: routes, the page to translate in, and what is around them."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from locant.errors import LocantError
from locant.server import metrics
from locant.server.clients import Gate, address_of, check_site
from locant.server.errors import RequestError
from locant.server.files import FileStore
from locant.server.models import Models
from locant.server.routes import OPERATIONS, PAGE, page
from locant.server.settings import ServerSettings
from locant.server.translating import TranslationService

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
_PATHS: dict[object, str] = {page: "/"} | {each.answer: each.path for each in OPERATIONS}
_NAMES = {404: "There is nothing at this address.", 405: "This address does not know this method."}


class Application(Starlette):
    """The server as an ASGI application; the arguments are those of :func:`build_app`.

    Attributes:
        settings: Of the server.
        service: Translates.
        gate: Lets clients in.
        files: Translated files.
    """

    def __init__(self, models: Models, settings: ServerSettings, files: FileStore, local: bool) -> None:
        self.settings, self.files = settings, files
        models = models.arranged(pivot=settings.pivot, glossaries=settings.glossaries)
        self.service = TranslationService(models, settings)
        self.gate = Gate(settings)

        @asynccontextmanager
        async def lifespan(app: object) -> AsyncIterator[None]:
            yield
            self.service.end()
            files.close()

        routes: list[Route | Mount] = [Route(each.path, each.answer, methods=[each.method]) for each in OPERATIONS]
        if settings.page:
            routes += [Route("/", page), Mount("/page", StaticFiles(directory=PAGE))]
        around = [Middleware(_Observed, settings.cors_origins if local else None)]
        if settings.cors_origins:
            cors = Middleware(
                CORSMiddleware,
                allow_origins=list(settings.cors_origins),
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type"],
                expose_headers=["Retry-After"],
            )
            around.insert(0, cors)
        if settings.trusted_proxies:
            trusted = list(map(str, settings.trusted_proxies))
            around.insert(0, Middleware(ProxyHeadersMiddleware, trusted_hosts=trusted))
        handlers = dict.fromkeys((LocantError, HTTPException, Exception), _answer_to)
        super().__init__(routes=routes, middleware=around, exception_handlers=handlers, lifespan=lifespan)
        self.router.redirect_slashes = False


class _Observed:
    """Gives every answer some headers, and an entry in the log and the metrics.

    Args:
        app: What answers.
        origins: Of a server of this machine alone, the sites with pages that may ask; ``None`` for other servers.
    """

    def __init__(self, app: ASGIApp, origins: tuple[str, ...] | None) -> None:
        self._app, self._origins = app, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.monotonic(), 500
        noted = scope.setdefault("state", {})
        noted["arrived"] = begun

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name for name, _ in message["headers"]}
                headers = [*message["headers"], *(header for header in _HEADERS if header[0] not in given)]
                message = {**message, "headers": headers}
            await send(message)

        try:
            if self._origins is not None:
                check_site(scope, self._origins)
            await self._app(scope, receive, send_on)
        except RequestError as error:
            response = await _answer_to(Request(scope), error)
            await response(scope, receive, send_on)
        finally:
            seconds = time.monotonic() - begun
            route = _PATHS.get(scope.get("endpoint"), "other")
            reason = noted.get("refused")
            metrics.REQUESTS.labels(route, status).inc()
            metrics.REQUEST_SECONDS.labels(route).observe(seconds)
            if reason:
                metrics.REFUSED.labels(reason).inc()
            entry = {
                "route": route,
                "method": scope["method"],
                "status": status,
                "seconds": round(seconds, 4),
                "client": noted.get("client") or address_of(scope),
                **noted.get("sizes", {}),
                **({"reason": reason} if reason else {}),
            }
            _LOG.info("request", extra=entry)


async def _answer_to(request: Request, error: Exception) -> Response:
    """Return the answer to a request that failed: a status and a sentence, as LibreTranslate words errors."""
    status, sentence, reason = 500, "The server failed to answer this request.", "error"
    headers: dict[str, str] = {}
    match error:
        case RequestError():
            status, sentence, reason = error.status, str(error), error.reason
            if error.retry_after is not None:
                headers["retry-after"] = str(error.retry_after)
            if status == 408:  # what is left of the body may never come
                headers["connection"] = "close"
        case HTTPException():
            status, sentence, reason = error.status_code, _NAMES.get(error.status_code, error.detail), "address"
            headers |= error.headers or {}
        case LocantError():
            sentence = str(error)
    request.scope["state"]["refused"] = reason
    return JSONResponse({"error": sentence}, status, headers)


def build_app(
    models: Models, settings: ServerSettings | None = None, *, files: FileStore | None = None, local: bool = False
) -> Application:
    """Return the server as an ASGI application.

    Its threads start with it, and end when its lifespan does.

    Args:
        models: What translates.
        settings: Of the server; where it listens matters not here.
        files: Where translated files are kept; by default in a temporary folder of its own.
        local: Whether it answers under names of this machine alone, and no pages of other sites.

    Raises:
        ConfigError: A glossary is for no direction of the models, or for several.
        DataError: A term of a glossary is wrong.
    """
    return Application(models, settings or ServerSettings(), files or FileStore(), local)
