"""Pages about positional schemes: one scheme by itself, and two side by side under the same knobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import Dash, Input, Output, html
from dash.development.base_component import Component

from locant.app.explorer.pages.parts import attempt, cards, connect, controls, knob, message, options
from locant.app.explorer.panels import Picture
from locant.app.explorer.scheme_panels import LARGEST, PICTURES, Knobs, about, pictures
from locant.positions import SCHEMES

_ENCODINGS, _COMPARE = "encodings", "compare"
_KNOBS = ("width", "length", "base", "position", "offset")
_SIDES = {"left": ("Left scheme", "sinusoidal"), "right": ("Right scheme", "rotary")}


def _knobs(page: str) -> Component:
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


def encodings_layout() -> Component:
    """Return the page of one scheme."""
    return html.Div(
        [
            html.H1("Encodings"),
            html.P("What a positional scheme tells a Transformer. Every knob redraws what it changes."),
            controls(options(f"{_ENCODINGS}-scheme", "Scheme", list(SCHEMES), "sinusoidal"), _knobs(_ENCODINGS)),
            html.P(id=f"{_ENCODINGS}-about"),
            message(_ENCODINGS),
            cards(_ENCODINGS, PICTURES),
        ]
    )


def register_encodings(app: Dash) -> None:
    """Connect the knobs of the page of one scheme."""
    inputs = [Input(f"{_ENCODINGS}-{name}", "value") for name in ("scheme", *_KNOBS)]
    connect(app, _ENCODINGS, PICTURES, inputs, _shown)
    _connect_about(app, _ENCODINGS, inputs[0])


def _connect_about(app: Dash, page: str, scheme: Input) -> None:
    """Say what the chosen scheme does."""

    @app.callback(Output(f"{page}-about", "children"), scheme)
    def say(chosen: Any) -> str:
        said, _ = attempt(lambda: about(chosen))  # what is wrong with it stands in the page's message
        return said or ""


def _shown(scheme: Any, *values: Any) -> Mapping[str, Picture]:
    """Return the pictures for what a page sent; errors as for :func:`~locant.app.explorer.scheme_panels.pictures`."""
    return pictures(scheme, Knobs.of_page(*values))


def compare_layout() -> Component:
    """Return the page of two schemes."""
    columns = [
        html.Div(
            [
                html.P(id=f"{_COMPARE}-{side}-about"),
                message(f"{_COMPARE}-{side}"),
                cards(f"{_COMPARE}-{side}", PICTURES),
            ],
            className="column",
        )
        for side in _SIDES
    ]
    choices = [
        options(f"{_COMPARE}-{side}-scheme", label, list(SCHEMES), first) for side, (label, first) in _SIDES.items()
    ]
    return html.Div(
        [
            html.H1("Compare"),
            html.P("Two schemes side by side, of the same width and length."),
            controls(*choices, _knobs(_COMPARE)),
            html.Div(columns, className="columns"),
        ]
    )


def register_compare(app: Dash) -> None:
    """Connect the knobs to both sides of the page of two schemes."""
    shared = [Input(f"{_COMPARE}-{name}", "value") for name in _KNOBS]
    for side in _SIDES:
        inputs = [Input(f"{_COMPARE}-{side}-scheme", "value"), *shared]
        connect(app, f"{_COMPARE}-{side}", PICTURES, inputs, _shown)
        _connect_about(app, f"{_COMPARE}-{side}", inputs[0])
