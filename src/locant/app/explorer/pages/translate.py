"""Page of a trained model: its translations, the attention behind them, and what its layers know of positions."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from locant.app.explorer.model_panels import LONGEST_SENTENCE, MOST_TRANSLATIONS, PARTS, PICTURES, Reader
from locant.app.explorer.pages.parts import attempt, cards, connect, controls, knob, message, options, send_text, table

PAGE = "translate"


def layout(reader: Reader) -> Component:
    """Return the page for a model."""
    attributes: Any = {"lang": reader.translator.source_language or ""}
    sentence = html.Div(
        [
            html.Label("Sentence", htmlFor=f"{PAGE}-sentence"),
            dcc.Textarea(id=f"{PAGE}-sentence", rows=3, **attributes),
            html.Button("Translate", id=f"{PAGE}-go", type="button", className="action"),
        ]
    )
    fields: list[Component] = [knob(f"{PAGE}-count", "Translations", 4, f"1 to {MOST_TRANSLATIONS}")]
    if reader.layers:
        layers = max(reader.layers.values())
        fields += [
            options(f"{PAGE}-part", "Attention", PARTS, "cross"),
            knob(f"{PAGE}-layer", "Layer", layers, f"1 to {layers}"),
            knob(f"{PAGE}-head", "Head", 1, f"1 to {reader.heads}"),
        ]
    return html.Div(
        [
            html.H1("Translate"),
            html.P("One sentence through the model that was given."),
            sentence,
            dcc.Store(id=f"{PAGE}-sent"),
            html.Div(id=f"{PAGE}-found", role="status"),
            controls(*fields),
            message(PAGE),
            cards(PAGE, PICTURES),
        ]
    )


def register(app: Dash, reader: Reader) -> None:
    """Connect the knobs to a model."""
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
