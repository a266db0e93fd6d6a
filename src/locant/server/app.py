"""The application: routes, the page to translate in, and what is around them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from locant.errors import LocantError
from locant.server import routes
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
from locant.server.translating import TranslationService

_PAGE = Path(__file__).with_name("page")


def build_app(
    models: Models,
    settings: ServerSettings | None = None,
    *,
    rates: Rates | None = None,
    files: FileStore | None = None,
) -> Starlette:
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
    state = routes.State(
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
    handlers: dict[Any, Any] = {HTTPException: answer_error, LocantError: answer_error}
    app = Starlette(routes=_routes(settings), middleware=middleware, exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False
    app.state.locant = state
    return app


def _routes(settings: ServerSettings) -> list[BaseRoute]:
    found: list[BaseRoute] = [
        Route("/translate", routes.translate, methods=["POST"]),
        Route("/translate/stream", routes.stream, methods=["POST"]),
        Route("/translate_file", routes.translate_file, methods=["POST"]),
        Route("/download_file/{name}", routes.download_file, name="download_file"),
        Route("/detect", routes.detect, methods=["POST"]),
        Route("/suggest", routes.suggest, methods=["POST"]),
        Route("/languages", routes.languages),
        Route("/frontend/settings", routes.frontend_settings),
        Route("/health", routes.health),
        Route("/metrics", routes.metrics),
        Route("/spec", specification),
        Route("/openapi.json", specification),
        Route("/docs", docs_page),
    ]
    if settings.page and (_PAGE / "index.html").is_file():
        found += [Route("/", routes.page_of(_PAGE / "index.html")), Mount("/page", StaticFiles(directory=_PAGE))]
    return found
