"""Page about longer contexts: what each scaling does to a rotary model, and what a model's own configuration means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from locant.app.explorer.charts import chart
from locant.app.explorer.context_panels import (
    LONGEST_CONFIG,
    PICTURES,
    WIDEST_HEAD,
    inspect_text,
    layer_pictures,
    pictures,
    scaled_models,
    summary,
)
from locant.app.explorer.pages.parts import (
    GRAPH,
    aria,
    attempt,
    cards,
    connect,
    controls,
    knob,
    message,
    room,
    send_text,
    table,
)
from locant.extension import Finding, Inspection

PAGE = "context"
_KNOBS = ("head", "base", "trained", "wanted")


def layout() -> Component:
    """Return the page."""
    knobs = html.Div(
        [
            knob(f"{PAGE}-head", "Head size", 128, f"2 to {WIDEST_HEAD}, even", step=2),
            knob(f"{PAGE}-base", "Base", 10000, "above 1; often called theta"),
            knob(f"{PAGE}-trained", "Trained length", 4096, "tokens"),
            knob(f"{PAGE}-wanted", "Wanted length", 32768, "tokens"),
        ],
        className="knobs",
    )
    return html.Div(
        [
            html.H1("Context"),
            html.P("A model with rotary positions shall read longer texts. What does each method do to its pairs?"),
            controls(knobs),
            message(PAGE),
            cards(PAGE, PICTURES),
            html.Section(id=f"{PAGE}-summary", className="card", **aria(label="Methods")),
            html.H2("What does a model's configuration mean?"),
            html.Div(
                [
                    html.Label("Paste a config.json", htmlFor=f"{PAGE}-config"),
                    dcc.Textarea(
                        id=f"{PAGE}-config", rows=8, spellCheck=False, placeholder='{"model_type": "llama", ...}'
                    ),
                    html.Button("Explain", id=f"{PAGE}-explain", type="button", className="action"),
                ],
                className="code",
            ),
            dcc.Store(id=f"{PAGE}-pasted"),
            html.Div(id=f"{PAGE}-meaning", role="status"),
        ]
    )


def register(app: Dash) -> None:
    """Connect the knobs."""
    inputs = [Input(f"{PAGE}-{name}", "value") for name in _KNOBS]
    connect(app, PAGE, PICTURES, inputs, pictures)

    @app.callback(Output(f"{PAGE}-summary", "children"), *inputs)
    def summarise(*values: Any) -> Component:
        models, _ = attempt(lambda: scaled_models(*values))
        return html.Div() if models is None else _summary(summary(models))

    send_text(app, PAGE, field="config", button="explain", store="pasted", longest=LONGEST_CONFIG)

    @app.callback(Output(f"{PAGE}-meaning", "children"), Input(f"{PAGE}-pasted", "data"), prevent_initial_call=True)
    def explain(pasted: Any) -> list[Component]:
        found, said = attempt(lambda: _meaning(inspect_text(pasted)))
        return [html.P(said, className="message", role="alert")] if found is None else found


def _summary(rows: Sequence[Sequence[str]]) -> Component:
    note = (
        "LongRoPE's factors are searched for each model; those of Phi-3-mini, found for 32 times its length, stand for "
        "them here, spread over the pairs. Paste a model's config.json to see its own."
    )
    return html.Div([html.H2("What becomes of the pairs"), table(rows, "Methods"), html.P(note)])


def _meaning(inspection: Inspection) -> list[Component]:
    declared = inspection.declared_length
    parts: list[Component] = [
        html.P(
            f"Model type {inspection.model_type or 'not stated'}, declared for "
            f"{f'{declared:,} tokens' if declared else 'an unknown length'}."
        )
    ]
    parts += map(_finding, inspection.findings) if inspection.findings else [html.P("Nothing was found wrong.")]
    parsed = inspection.parsed
    panels = layer_pictures(inspection)
    for layer, config in ({} if parsed is None else parsed.configs).items():
        figure = chart(panels[layer])
        share = f"{config.rotary_dim} of {config.head_dim} features of a head are rotated, layout {config.layout}, "
        parts.append(
            html.Section(
                [
                    html.H2(panels[layer].title),
                    html.P(f"{share}base {config.base:,.10g}; {config.describe()}."),
                    dcc.Graph(figure=figure, style=room(figure), config=GRAPH),
                    html.Div(html.Pre(str(config.explain())), className="scroll", tabIndex=0),
                ],
                className="card",
                **aria(label=f"{layer} layers"),
            )
        )
    return parts


def _finding(finding: Finding) -> Component:
    return html.Div(
        [html.P([html.Strong(f"{finding.severity}: "), finding.message]), html.P(finding.remedy)],
        className=f"finding {finding.severity}",
    )
