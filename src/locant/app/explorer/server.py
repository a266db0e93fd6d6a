"""The application of all pages, and the server that a browser on this machine talks to."""

from __future__ import annotations

import errno
import socket
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.errors import LocantError, MissingExtraError, UsageError

if TYPE_CHECKING:
    from dash import Dash

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


def build_app(reader: Reader | None = None) -> Dash:
    """Return the explorer as an application.

    Args:
        reader: A trained model, for the page that translates; without one there is no such page.

    Raises:
        MissingExtraError: A package of the extra ``explore`` is not installed.
    """
    require_packages()
    from dash import Dash

    from locant.app.explorer.pages import shell

    app = Dash(
        __name__,
        title="Locant explorer",
        update_title="",
        assets_folder=str(Path(__file__).with_name("assets")),
        serve_locally=True,
        suppress_callback_exceptions=True,  # the knobs of a page exist while it is shown
    )
    shell.register(app, reader)
    _refuse_strangers(app)
    return app


def _refuse_strangers(app: Dash) -> None:
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

    def add_headers(response: Any) -> Any:
        response.headers["Content-Security-Policy"] = policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    server.after_request(add_headers)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens, for :func:`open_server`; connections wait until there is a server.

    Args:
        host: Address of this machine to listen at.
        port: Port to listen at; 0 for any that is free.

    Raises:
        UsageError: The port is taken or not allowed.
        LocantError: The host is not an address of this machine.
    """
    if not 0 <= port <= 65535:
        raise UsageError(f"--port must be 0 to 65535; got {port}.")
    try:
        # A name may stand for several addresses; the first one is meant.
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(f"Port {port} of {host} is in use. Choose another with --port, or 0 for any.") from None
        if error.errno == errno.EACCES:
            raise UsageError(f"Port {port} may not be used by you. Choose one above 1023 with --port.") from None
        raise LocantError(f"No server can listen at {host}, port {port}: {error.strerror or error}.") from None


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
