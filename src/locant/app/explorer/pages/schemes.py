"""Pages about positional schemes: one scheme by itself, and two side by side under the same knobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import Dash, Input, Output, html
from dash.development.base_component import Component

from locant.app.explorer.knobs import Choice, read_address
from locant.app.explorer.pages.parts import (
    addressed,
    attempt,
    cards,
    connect,
    connect_address,
    connect_knobs,
    controls,
    knob,
    message,
    options,
)
from locant.app.explorer.panels import Picture
from locant.app.explorer.scheme_panels import NUMBERS, PICTURES, Knobs, about, pictures, typical
from locant.positions import SCHEMES

_ENCODINGS, _COMPARE = "encodings", "compare"
_KNOBS = tuple(number.name for number in NUMBERS)
_FIRST = {"width": 64, "length": 64, "base": 10000, "position": 16, "offset": 2}
_SIDES = {"left": ("Left scheme", "code"), "right": ("Right scheme", "rotation")}


def _fields(page: str, values: Mapping[str, Any]) -> Component:
    """Return the fields that every page about schemes has."""
    return html.Div([knob(page, number, values[number.name]) for number in NUMBERS], className="knobs")


def encodings_layout(search: Any) -> Component:
    """Return the page of one scheme, with what an address says."""
    chosen = Choice(name="scheme", label="Scheme", values=list(SCHEMES))
    values, wrong = read_address(search, (chosen, *NUMBERS), {"scheme": typical("code"), **_FIRST})
    return html.Div(
        [
            html.H1("Encodings"),
            html.P("What a positional scheme tells a Transformer. Every knob redraws what it changes."),
            addressed(_ENCODINGS, ("scheme", *_KNOBS), wrong),
            controls(
                options(f"{_ENCODINGS}-scheme", "Scheme", list(SCHEMES), values["scheme"]),
                _fields(_ENCODINGS, values),
            ),
            html.P(id=f"{_ENCODINGS}-about"),
            message(_ENCODINGS),
            cards(_ENCODINGS, PICTURES),
        ]
    )


def register_encodings(app: Dash) -> None:
    """Connect the knobs of the page of one scheme."""
    inputs = [Input(f"{_ENCODINGS}-{name}", "value") for name in ("scheme", *_KNOBS)]
    connect(app, _ENCODINGS, PICTURES, inputs, _shown)
    connect_knobs(app, _ENCODINGS, NUMBERS)
    connect_address(app, _ENCODINGS, ("scheme", *_KNOBS))
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


def compare_layout(search: Any) -> Component:
    """Return the page of two schemes, with what an address says."""
    chosen = [Choice(name=side, label=label, values=list(SCHEMES)) for side, (label, _) in _SIDES.items()]
    first = {side: typical(kind) for side, (_, kind) in _SIDES.items()}
    values, wrong = read_address(search, (*chosen, *NUMBERS), {**first, **_FIRST})
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
    choices = [options(f"{_COMPARE}-{side}", label, list(SCHEMES), values[side]) for side, (label, _) in _SIDES.items()]
    return html.Div(
        [
            html.H1("Compare"),
            html.P("Two schemes side by side, of the same width and length."),
            addressed(_COMPARE, (*_SIDES, *_KNOBS), wrong),
            controls(*choices, _fields(_COMPARE, values)),
            html.Div(columns, className="columns"),
        ]
    )


def register_compare(app: Dash) -> None:
    """Connect the knobs to both sides of the page of two schemes."""
    shared = [Input(f"{_COMPARE}-{name}", "value") for name in _KNOBS]
    for side in _SIDES:
        inputs = [Input(f"{_COMPARE}-{side}", "value"), *shared]
        connect(app, f"{_COMPARE}-{side}", PICTURES, inputs, _shown)
        _connect_about(app, f"{_COMPARE}-{side}", inputs[0])
    connect_knobs(app, _COMPARE, NUMBERS)
    connect_address(app, _COMPARE, (*_SIDES, *_KNOBS))
