"""Page of a trained model: its translations, the attention behind them, and what its layers know of positions."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from locant.app.explorer.knobs import Choice, Knob, Number, Text, read_address
from locant.app.explorer.model_panels import LONGEST_SENTENCE, MOST_TRANSLATIONS, PARTS, PICTURES, Reader
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
    send_text,
    table,
)

PAGE = "translate"
_TEXT = Text(name="sentence", label="The sentence", longest=LONGEST_SENTENCE)
_COUNT = Number(
    name="count", label="Translations", lowest=1, highest=MOST_TRANSLATIONS, hint=f"1 to {MOST_TRANSLATIONS}"
)
_PART = Choice(name="part", label="Attention", values=PARTS)


def _numbers(reader: Reader) -> list[Number]:
    """Return the numbers that can be set for a model."""
    if not reader.layers:
        return [_COUNT]
    layers = max(reader.layers.values())
    return [
        _COUNT,
        Number(name="layer", label="Layer", lowest=1, highest=layers, hint=f"1 to {layers}"),
        Number(name="head", label="Head", lowest=1, highest=reader.heads, hint=f"1 to {reader.heads}"),
    ]


def _names(reader: Reader) -> list[str]:
    return ["sentence", *(["part"] if reader.layers else []), *(number.name for number in _numbers(reader))]


def layout(reader: Reader, search: Any) -> Component:
    """Return the page for a model, with what an address says."""
    first = {"sentence": reader.example, "count": 4, "head": 1}
    if reader.layers:
        first |= {"part": "cross", "layer": max(reader.layers.values())}
    everything: list[Knob] = [_TEXT, _PART, *_numbers(reader)]
    known = [one for one in everything if one.name in first]
    values, wrong = read_address(search, known, first)
    attributes: Any = {"lang": reader.translator.source_language or ""}
    sentence = html.Div(
        [
            html.Label("Sentence", htmlFor=f"{PAGE}-sentence"),
            dcc.Textarea(id=f"{PAGE}-sentence", rows=3, value=values["sentence"], **attributes),
            html.Button("Translate", id=f"{PAGE}-go", type="button", className="action"),
        ]
    )
    fields: list[Component] = [knob(PAGE, number, values[number.name]) for number in _numbers(reader)]
    if reader.layers:
        fields.insert(1, options(f"{PAGE}-part", "Attention", PARTS, values["part"]))
    return html.Div(
        [
            html.H1("Translate"),
            html.P("One sentence through the model that was given."),
            sentence,
            dcc.Store(id=f"{PAGE}-sent", data=values["sentence"] or None),
            addressed(PAGE, _names(reader), wrong),
            html.Div(id=f"{PAGE}-found", role="status"),
            controls(*fields),
            message(PAGE),
            cards(PAGE, PICTURES),
        ]
    )


def register(app: Dash, reader: Reader) -> None:
    """Connect the knobs to a model."""
    connect_knobs(app, PAGE, _numbers(reader))
    connect_address(app, PAGE, _names(reader), {"sentence": ("sent", "data")})
    send_text(app, PAGE, field="sentence", button="go", store="sent", longest=LONGEST_SENTENCE)
    asked = [Input(f"{PAGE}-sent", "data"), Input(f"{PAGE}-count", "value")]

    @app.callback(Output(f"{PAGE}-found", "children"), *asked)
    def translate(sentence: Any, count: Any) -> list[Component]:
        if sentence is None:
            return []
        reading, said = attempt(lambda: reader.read(sentence, count))
        if reading is None:  # where there are pictures, they come with a message of their own
            return [] if reader.layers else [html.P(said, className="message", role="alert")]
        best, *_ = reading.translations
        rows = [("score", "translation"), *((f"{one.score:.4f}", one.text) for one in reading.translations)]
        attributes: Any = {"lang": reader.translator.target_language or ""}
        return [
            html.P(best.text, className="translation", **attributes),
            table(rows, "Translations, best first"),
        ]

    if reader.layers:
        inputs = [*asked, *(Input(f"{PAGE}-{name}", "value") for name in ("part", "layer", "head"))]
        connect(app, PAGE, PICTURES, inputs, reader.pictures)
