"""The application of all pages, and the server that a browser on this machine talks to."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.app.explorer.own_requests import own_names, reason_to_refuse
from locant.errors import MissingExtraError
from locant.runtime import listen
from locant.version import __version__

if TYPE_CHECKING:
    from dash import Dash
    from dash.development.base_component import Component

    from locant.app.explorer.model_panels import Reader

_THREADS = 4
_MOST_CONNECTIONS = 50
_LARGEST_REQUEST = 4_000_000

_PACKAGES = {"dash": "dash", "PIL": "pillow", "waitress": "waitress"}


def require_packages() -> None:
    """Raise MissingExtraError unless the packages of the extra ``explore`` are installed."""
    for module, package in _PACKAGES.items():
        try:
            import_module(module)
        except ImportError:
            raise MissingExtraError("The explorer", package, "explore") from None


def build_app(reader: Reader | None = None, *, host: str = "127.0.0.1") -> Dash:
    """Return the explorer as an application.

    Args:
        reader: A trained model, to translate and to look into; without one there is no page that translates.
        host: Where it will listen; requests under other names than this machine's are refused.

    Raises:
        MissingExtraError: A package of the extra ``explore`` is not installed.
    """
    require_packages()
    from dash import Dash

    app = Dash(
        __name__,
        title="Locant explorer",
        update_title="",
        assets_folder=str(Path(__file__).with_name("assets")),
        serve_locally=True,
        suppress_callback_exceptions=True,  # the knobs of a page exist while it is shown
    )
    _add_pages(app, reader)
    _add_plotly(app)
    _refuse_strangers(app, own_names(host))
    return app


def _add_pages(app: Dash, reader: Reader | None) -> None:
    """Give an application its pages, and what is around every page.

    Args:
        app: The application.
        reader: A trained model, or ``None`` for no page that translates.
    """
    from dash import Input, Output, dcc, html

    from locant.app.explorer.pages import context, schemes, transformer, translate
    from locant.app.explorer.pages.parts import aria
    from locant.app.explorer.shown_models import shown_models
    from locant.app.explorer.transformer_panels import Viewer

    viewer = Viewer(shown_models(reader))
    pages: dict[str, tuple[str, Callable[[Any], Component]]] = {
        "/": ("Encodings", schemes.encodings_layout),
        "/context": ("Context", context.layout),
        "/compare": ("Compare", schemes.compare_layout),
        "/transformer": ("Transformer", lambda search: transformer.layout(viewer, search)),
    }
    for register in (schemes.register_encodings, context.register, schemes.register_compare):
        register(app)
    transformer.register(app, viewer)
    if reader is not None:
        pages["/translate"] = ("Translate", lambda search: translate.layout(reader, search))
        translate.register(app, reader)
    app.layout = html.Div(
        [
            html.A("Skip to the page", href="#page", className="skip"),
            html.Header(
                [
                    html.Strong("Locant explorer"),
                    html.Nav(id="pages", **aria(label="Pages")),
                    html.Button("Light / dark", id="colours", type="button", className="colours"),
                ],
                className="top",
            ),
            dcc.Location(id="address", refresh=False),
            html.Main(id="page", tabIndex=-1),
            html.Footer(f"Locant {__version__}. Everything is computed on this machine."),
        ]
    )

    @app.callback(
        Output("page", "children"),
        Output("pages", "children"),
        Input("address", "pathname"),
        Input("address", "search"),
    )
    def turn(path: Any, search: Any) -> tuple[Component, list[Component]]:
        links: list[Component] = [
            dcc.Link(name, href=address, className="current" if address == path else "")
            for address, (name, _) in pages.items()
        ]
        if path not in pages:
            return html.Div([html.H1("No such page"), html.P("Choose one of those above.")]), links
        return pages[path][1](search), links


def _add_plotly(app: Dash) -> None:
    """Hand out plotly's script, which ``assets/pictures.js`` asks for when a picture needs it."""
    from flask import Response, send_file

    script = files("plotly") / "package_data" / "plotly.min.js"

    def plotly() -> Response:
        return send_file(str(script), mimetype="text/javascript", max_age=0)  # unchanged, it is not sent again

    server: Any = app.server
    server.add_url_rule("/plotly.min.js", "plotly", plotly)


def _refuse_strangers(app: Dash, names: Collection[str]) -> None:
    """Tell browsers to fetch nothing from anywhere else, and refuse requests that no page makes."""
    server: Any = app.server
    server.config["MAX_CONTENT_LENGTH"] = _LARGEST_REQUEST
    policy = "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' {' '.join(app.csp_hashes())}",
            "style-src 'self' 'unsafe-inline'",  # plotly and the pages' components set styles
            "img-src 'self' data: blob:",
            "frame-ancestors 'none'",
        )
    )

    def check() -> Any:
        import flask

        sent = flask.request.headers
        if reason := reason_to_refuse(sent.get("Host", ""), sent.get("Origin"), names):
            return flask.Response(f"{reason}\n", status=403, mimetype="text/plain")
        return None

    def add_headers(response: Any) -> Any:
        response.headers["Content-Security-Policy"] = policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    server.before_request(check)
    server.after_request(add_headers)


def open_server(app: Dash, listener: socket.socket) -> Any:
    """Return a server; its ``run()`` answers until it is interrupted, ``effective_port`` is its port.

    Args:
        app: The application.
        listener: From :func:`listen`.
    """
    from waitress import create_server

    return create_server(
        app.server,
        sockets=[listener],
        threads=_THREADS,
        connection_limit=_MOST_CONNECTIONS,
        max_request_body_size=_LARGEST_REQUEST,
        ident="locant",
    )


def serve(
    folder: Path | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8050,
    device: str = "auto",
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve the explorer until it is interrupted.

    Args:
        folder: Of a run or of a saved model, for the page that translates; without one there is no such page.
        host: Address of this machine to listen at.
        port: Port to listen at; 0 for any that is free.
        device: Of the model: auto, cpu or cuda.
        ready: Called with the address of the pages before the first answer.

    Raises:
        MissingExtraError: A package of the extra ``explore`` is not installed.
        LocantError: As for :func:`listen`, or the folder holds no trained model.
    """
    require_packages()
    with listen(host, port) as listener:  # complains before a model is loaded
        reader = None
        if folder is not None:
            from locant.app.explorer.model_panels import Reader

            reader = Reader.from_folder(folder, device=device)
        server = open_server(build_app(reader, host=host), listener)
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{server.effective_port}/")
        server.run()  # until Ctrl-C
        server.close()
