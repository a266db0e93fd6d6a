"""What is around every page: its address, and the way to the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from locant.app.explorer.model_panels import Reader
from locant.app.explorer.pages import compare, context, encodings, translate
from locant.app.explorer.pages.parts import aria
from locant.version import __version__


def register(app: Dash, reader: Reader | None) -> None:
    """Give an application its pages.

    Args:
        app: The application.
        reader: A trained model, or ``None`` for no page that translates.
    """
    pages: dict[str, tuple[str, Callable[[], Component]]] = {
        "/": ("Encodings", encodings.layout),
        "/context": ("Context", context.layout),
        "/compare": ("Compare", compare.layout),
    }
    for page in (encodings, context, compare):
        page.register(app)
    if reader is not None:
        pages["/translate"] = ("Translate", lambda: translate.layout(reader))
        translate.register(app, reader)
    app.layout = html.Div(
        [
            html.A("Skip to the page", href="#page", className="skip"),
            html.Header([html.Strong("Locant explorer"), html.Nav(id="pages", **aria(label="Pages"))], className="top"),
            dcc.Location(id="address"),
            html.Main(id="page", tabIndex=-1),
            html.Footer(f"Locant {__version__}. Everything is computed on this machine."),
        ]
    )

    @app.callback(Output("page", "children"), Output("pages", "children"), Input("address", "pathname"))
    def turn(path: Any) -> tuple[Component, list[Component]]:
        links: list[Component] = [
            dcc.Link(name, href=address, className="current" if address == path else "")
            for address, (name, _) in pages.items()
        ]
        if path not in pages:
            return html.Div([html.H1("No such page"), html.P("Choose one of those above.")]), links
        return pages[path][1](), links
