"""The application: routes, the page to translate in, and what is around them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from locant.errors import LocantError
from locant.server import routes, streaming
from locant.server.envelope import Envelope, answer_error
from locant.server.files import FileStore
from locant.server.gate import Gate
from locant.server.glossaries import with_glossaries
from locant.server.identification import Identifier
from locant.server.metrics import Metrics
from locant.server.models import Models
from locant.server.openapi import docs_page, specification
from locant.server.rates import Rates
from locant.server.settings import ServerSettings
from locant.server.state import State
from locant.server.translating import TranslationService

_PAGE = Path(__file__).with_name("page")


class Application(Starlette):
    """Routes in an :class:`~locant.server.envelope.Envelope`, which answers whatever fails.

    Starlette's own layers, which look for failures as well, would take a tenth of the time of a request.
    """

    def build_middleware_stack(self) -> ASGIApp:
        """Return the routes with what was asked for around them."""
        app: ASGIApp = ByAddress(self.router)
        for layer, arguments, options in reversed(self.user_middleware):
            app = layer(app, *arguments, **options)
        return app


class ByAddress:
    """Finds the routes of addresses without parameters at once, where the router would try one after the other.

    Args:
        router: Answers all other requests.
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self._known = {
            (method, route.path): route
            for route in router.routes
            if isinstance(route, Route) and not route.param_convertors
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        route = self._known.get((scope.get("method", ""), scope.get("path", "")))
        if route is None or scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        scope.update(route=route, router=self._router, endpoint=route.endpoint, path_params={})
        await route.app(scope, receive, send)


class Endpoint:
    """Answers requests with what a function returns.

    Args:
        answer: Returns the answer.
    """

    def __init__(self, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        response = await self._answer(Request(scope, receive, send))
        await response(scope, receive, send)


def build_app(
    models: Models,
    settings: ServerSettings | None = None,
    *,
    rates: Rates | None = None,
    files: FileStore | None = None,
) -> Application:
    """Return the server as an ASGI application.

    Its threads start with it, and end when its lifespan does.

    Args:
        models: What translates.
        settings: Of the server; where it listens matters not here.
        rates: Counts of requests that several processes have in common; by default of this one.
        files: Where translated files are kept; by default in a temporary folder of its own.
    """
    settings = settings or ServerSettings()
    models = with_glossaries(models, settings.glossaries).by_way_of(settings.pivot)
    limits = settings.limits
    metrics = Metrics()
    state = State(
        settings=settings,
        service=TranslationService(models, settings, [metrics.of_model(name) for name in models.names]),
        gate=Gate(settings, rates or Rates()),
        files=files or FileStore(60 * limits.file_minutes, limits.files),
        metrics=metrics,
        identifier=Identifier(models.codes) if settings.identify else None,
    )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        state.service.end()
        state.files.close()

    middleware = [Middleware(Envelope, state=state)]
    if settings.trusted_proxies:
        middleware.insert(0, Middleware(ProxyHeadersMiddleware, trusted_hosts=list(settings.trusted_proxies)))
    if settings.cors_origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(settings.cors_origins),
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type"],
                expose_headers=["Retry-After"],
            )
        )
        # Within that layer, so that what fails has its headers, too.
        handlers: dict[Any, Any] = {HTTPException: answer_error, LocantError: answer_error}
        middleware.append(Middleware(ExceptionMiddleware, handlers=handlers))
    app = Application(routes=_routes(settings), middleware=middleware, lifespan=lifespan)
    app.router.redirect_slashes = False
    app.state.locant = state
    return app


def _routes(settings: ServerSettings) -> list[BaseRoute]:
    found: list[BaseRoute] = [
        _route("POST", "/translate", routes.translate),
        _route("POST", "/translate/stream", streaming.stream),
        _route("POST", "/translate_file", routes.translate_file),
        _route("GET", "/download_file/{name}", routes.download_file),
        _route("POST", "/detect", routes.detect),
        _route("POST", "/suggest", routes.suggest),
        _route("GET", "/languages", routes.languages),
        _route("GET", "/frontend/settings", routes.frontend_settings),
        _route("GET", "/health", routes.health),
        _route("GET", "/metrics", routes.metrics),
        _route("GET", "/spec", specification),
        _route("GET", "/openapi.json", specification),
        _route("GET", "/docs", docs_page),
    ]
    if settings.page and (_PAGE / "index.html").is_file():
        found.append(_route("GET", "/", routes.page_of(_PAGE / "index.html")))
        found.append(Mount("/page", StaticFiles(directory=_PAGE)))
    return found


def _route(method: str, path: str, answer: Callable[[Request], Awaitable[Response]]) -> Route:
    return Route(path, Endpoint(answer), methods=[method], name=answer.__name__)
