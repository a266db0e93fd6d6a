"""The application: routes, the page to translate in, and what is around them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from locant.errors import LocantError
from locant.server.clients import Gate, Rates, address_of, check_envelope
from locant.server.errors import RequestError
from locant.server.files import FileStore
from locant.server.logs import where_it_failed
from locant.server.metrics import Metrics
from locant.server.models import Models
from locant.server.routes import PAGE, ROUTES, page
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
_PATHS: dict[object, str] = {page: "/"} | {answer: path for (_, path), answer in ROUTES.items()}
_NAMES = {404: "There is nothing at this address.", 405: "This address does not know this method."}


class Application:
    """The server as an ASGI application.

    Around the routes are headers, an entry in the log and the metrics, and a plain sentence for what fails. The
    arguments are those of :func:`build_app`.

    Attributes:
        settings: Of the server.
        service: Translates.
        gate: Lets clients in.
        files: Translated files.
        metrics: Numbers for Prometheus.
        requests: Number of requests that are being answered.
        metrics_page: The page of metrics that is being made, which all have that ask for it meanwhile.
    """

    def __init__(
        self, models: Models, settings: ServerSettings, rates: Rates, files: FileStore, *, local: bool = False
    ) -> None:
        self.settings, self.files, self.metrics = settings, files, Metrics()
        models = models.arranged(pivot=settings.pivot, glossaries=settings.glossaries)
        self.service = TranslationService(models, settings, self.metrics)
        self.gate = Gate(settings, rates)
        self.requests = 0
        self.metrics_page: asyncio.Task[bytes] | None = None
        self._origins = settings.cors_origins if local else None

        @asynccontextmanager
        async def lifespan(app: object) -> AsyncIterator[None]:
            yield
            self.service.end()
            files.close()
            rates.close()

        routes: list[Route | Mount] = [Route(path, answer, methods=[way]) for (way, path), answer in ROUTES.items()]
        if settings.page:
            routes += [Route("/", page), Mount("/page", StaticFiles(directory=PAGE))]
        self._router = Router(routes, redirect_slashes=False, lifespan=lifespan)
        self._outermost: ASGIApp = self._answer
        if settings.cors_origins:
            self._outermost = CORSMiddleware(
                self._outermost,
                allow_origins=list(settings.cors_origins),
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type"],
                expose_headers=["Retry-After"],
            )
        if proxies := settings.trusted_proxies:
            self._outermost = ProxyHeadersMiddleware(self._outermost, trusted_hosts=list(proxies))  # type: ignore[arg-type,assignment]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._outermost(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        begun, status = time.monotonic(), 0
        scope["app"] = self
        noted = scope.setdefault("state", {})
        noted["arrived"] = asyncio.get_running_loop().time()

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name for name, _ in message["headers"]}
                headers = [*message["headers"], *(header for header in _HEADERS if header[0] not in given)]
                # What is left of a body that was refused is not read.
                if status in (408, 413, 415, 503) and not noted.get("body_read"):
                    headers.append((b"connection", b"close"))
                message = {**message, "headers": headers}
            await send(message)

        self.requests += 1
        try:
            check_envelope(scope, self._origins)
            if self.requests > self.settings.limits.connections:
                raise RequestError(
                    503, "The server has too many connections. Try again later.", reason="connections", retry_after=1
                )
            await self._router(scope, receive, send_on)
        except Exception as error:
            if not isinstance(error, (LocantError, HTTPException)):
                _LOG.error("a request failed", extra=where_it_failed(error))
            if not status:
                await _shown(error, scope)(scope, receive, send_on)
        finally:
            self.requests -= 1
            self._note(scope, status, time.monotonic() - begun)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        noted = scope["state"]
        route = _PATHS.get(scope.get("endpoint"), "other")
        reason = noted.get("refused")
        self.metrics.answered(route, status, seconds, reason)
        if _LOG.isEnabledFor(logging.INFO):
            entry = {
                "route": route,
                "method": scope["method"] if scope["method"].isalpha() else "other",
                "status": status,
                "seconds": round(seconds, 4),
                "client": noted.get("client") or address_of(scope),
                **noted.get("sizes", {}),
                **({"reason": reason} if reason else {}),
            }
            _LOG.info("request", extra=entry)


def _shown(error: Exception, scope: Scope) -> Response:
    """Return the answer to a request that failed: a status and a sentence, as LibreTranslate words errors."""
    status, sentence, reason, headers = 500, "The server failed to answer this request.", "error", {}
    match error:
        case RequestError():
            status, sentence, reason = error.status, str(error), error.reason
            if error.retry_after is not None:
                headers = {"retry-after": str(error.retry_after)}
        case HTTPException():
            status, sentence, reason = error.status_code, _NAMES.get(error.status_code, error.detail), "address"
            headers = dict(error.headers or {})
        case LocantError():
            sentence = str(error)
    scope["state"]["refused"] = reason
    return JSONResponse({"error": sentence}, status, headers)


def build_app(
    models: Models,
    settings: ServerSettings | None = None,
    *,
    rates: Rates | None = None,
    files: FileStore | None = None,
    local: bool = False,
) -> Application:
    """Return the server as an ASGI application.

    Its threads start with it, and end when its lifespan does.

    Args:
        models: What translates.
        settings: Of the server; where it listens matters not here.
        rates: Counts of requests that several processes have in common; by default of this one.
        files: Where translated files are kept; by default in a temporary folder of its own.
        local: Whether it answers under names of this machine alone, and no pages of other sites.

    Raises:
        ConfigError: A glossary is for no direction of the models, or for several.
        DataError: A term of a glossary is wrong.
    """
    settings = settings or ServerSettings()
    limits = settings.limits
    files = files or FileStore(60 * limits.file_minutes, limits.files, limits.files_bytes)
    return Application(models, settings, rates or Rates(), files, local=local)
