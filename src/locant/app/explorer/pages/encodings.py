"""One scheme: its code, waves, clocks, odometer, circle, dot products and decay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import Dash, Input, html
from dash.development.base_component import Component

from locant.app.explorer.encodings import LARGEST, PICTURES, SHOWN_SCHEMES, Knobs, pictures
from locant.app.explorer.pages.parts import controls, knob, message, options
from locant.app.explorer.pages.pictures import cards, connect
from locant.app.explorer.panels import Picture

PAGE = "encodings"
KNOBS = ("width", "length", "base", "position", "offset")


def knobs(page: str) -> Component:
    """Return the fields that every page about schemes has."""
    return html.Div(
        [
            knob(f"{page}-width", "Width d", 64, f"2 to {LARGEST:,}; even for waves", step=2),
            knob(f"{page}-length", "Length", 64, f"2 to {LARGEST:,} positions"),
            knob(f"{page}-base", "Base", 10000, "above 1; of the wavelengths"),
            knob(f"{page}-position", "Marked position", 16, "0 to length - 1"),
            knob(f"{page}-offset", "Offset k", 2, f"1 to {LARGEST:,}; from p to p + k on the circle"),
        ],
        className="knobs",
    )


def layout() -> Component:
    """Return the page."""
    return html.Div(
        [
            html.H1("Encodings"),
            html.P("What a positional scheme tells a Transformer. Every knob redraws what it changes."),
            controls(options(f"{PAGE}-scheme", "Scheme", SHOWN_SCHEMES, SHOWN_SCHEMES[0]), knobs(PAGE)),
            message(PAGE),
            cards(PAGE, PICTURES),
        ]
    )


def register(app: Dash) -> None:
    """Connect the knobs."""
    inputs = [Input(f"{PAGE}-{name}", "value") for name in ("scheme", *KNOBS)]
    connect(app, PAGE, PICTURES, inputs, shown)


def shown(scheme: Any, *values: Any) -> Mapping[str, Picture]:
    """Return the pictures for what a page sent; errors as for :func:`~locant.app.explorer.encodings.pictures`."""
    return pictures(scheme, Knobs.of_page(*values))
