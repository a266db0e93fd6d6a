"""Two schemes side by side under the same knobs."""

from __future__ import annotations

from dash import Dash, Input, html
from dash.development.base_component import Component

from locant.app.explorer.encodings import PICTURES, SHOWN_SCHEMES
from locant.app.explorer.pages.encodings import KNOBS, knobs, shown
from locant.app.explorer.pages.parts import controls, message, options
from locant.app.explorer.pages.pictures import cards, connect

PAGE = "compare"
_SIDES = {"left": ("Left scheme", "sinusoidal"), "right": ("Right scheme", "rotary")}


def layout() -> Component:
    """Return the page."""
    columns = [
        html.Div([message(f"{PAGE}-{side}"), cards(f"{PAGE}-{side}", PICTURES)], className="column") for side in _SIDES
    ]
    choices = [options(f"{PAGE}-{side}-scheme", label, SHOWN_SCHEMES, first) for side, (label, first) in _SIDES.items()]
    return html.Div(
        [
            html.H1("Compare"),
            html.P("Two schemes side by side, of the same width and length."),
            controls(*choices, knobs(PAGE)),
            html.Div(columns, className="columns"),
        ]
    )


def register(app: Dash) -> None:
    """Connect the knobs to both sides."""
    shared = [Input(f"{PAGE}-{name}", "value") for name in KNOBS]
    for side in _SIDES:
        inputs = [Input(f"{PAGE}-{side}-scheme", "value"), *shared]
        connect(app, f"{PAGE}-{side}", PICTURES, inputs, shown)
