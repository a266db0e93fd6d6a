"""Page about longer contexts: what each scaling does to a rotary model, and what a model's own configuration means."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from locant.app.explorer.charts import chart
from locant.app.explorer.context_panels import (
    EXAMPLE_CONFIG,
    LONGEST_CONFIG,
    NUMBERS,
    PICTURES,
    inspect_text,
    layer_pictures,
    pictures,
    scaled_models,
    summary,
)
from locant.app.explorer.knobs import Text, read_address
from locant.app.explorer.pages.parts import (
    LONGEST_ADDRESSED,
    addressed,
    aria,
    attempt,
    cards,
    connect,
    connect_address,
    connect_knobs,
    controls,
    knob,
    message,
    picture,
    send_text,
    table,
)
from locant.extension import Finding, Inspection

PAGE = "context"
_NAMES = tuple(number.name for number in NUMBERS)
_FIRST = {"head": 128, "base": 10000, "trained": 4096, "wanted": 32768, "config": EXAMPLE_CONFIG}
_NOT_ADDRESSED = (
    f"This text is longer than {LONGEST_ADDRESSED:,} characters, so it does not stand in the address: a link to this "
    "page shows everything but it."
)


def layout(search: Any) -> Component:
    """Return the page, with what an address says."""
    pasted = Text(name="config", label="The configuration", longest=LONGEST_CONFIG)
    values, wrong = read_address(search, (*NUMBERS, pasted), _FIRST)
    knobs = html.Div([knob(PAGE, number, values[number.name]) for number in NUMBERS], className="knobs")
    return html.Div(
        [
            html.H1("Context"),
            html.P("A model with rotary positions shall read longer texts. What does each method do to its pairs?"),
            addressed(PAGE, (*_NAMES, "config"), wrong, {"config": EXAMPLE_CONFIG}),
            controls(knobs),
            message(PAGE),
            cards(PAGE, PICTURES),
            html.Section(id=f"{PAGE}-summary", className="card", **aria(label="Methods")),
            html.H2("What does a model's configuration mean?"),
            html.Div(
                [
                    html.Label("Paste a config.json", htmlFor=f"{PAGE}-config"),
                    dcc.Textarea(
                        id=f"{PAGE}-config",
                        rows=12,
                        value=values["config"],
                        spellCheck=False,
                        placeholder='{"model_type": "llama", ...}',
                    ),
                    html.Button("Explain", id=f"{PAGE}-explain", type="button", className="action"),
                ],
                className="code",
            ),
            dcc.Store(id=f"{PAGE}-pasted", data=values["config"]),
            html.Div(id=f"{PAGE}-meaning", role="status"),
        ]
    )


def register(app: Dash) -> None:
    """Connect the knobs."""
    inputs = [Input(f"{PAGE}-{name}", "value") for name in _NAMES]
    connect(app, PAGE, PICTURES, inputs, pictures)
    connect_knobs(app, PAGE, NUMBERS)
    connect_address(app, PAGE, (*_NAMES, "config"), {"config": ("pasted", "data")})

    @app.callback(Output(f"{PAGE}-summary", "children"), *inputs)
    def summarise(*values: Any) -> Component:
        models, _ = attempt(lambda: scaled_models(*values))
        return html.Div() if models is None else _summary(summary(models))

    send_text(app, PAGE, field="config", button="explain", store="pasted", longest=LONGEST_CONFIG)

    @app.callback(Output(f"{PAGE}-meaning", "children"), Input(f"{PAGE}-pasted", "data"))
    def explain(pasted: Any) -> list[Component]:
        found, said = attempt(lambda: _meaning(inspect_text(pasted)))
        if found is None:
            return [html.P(said, className="message", role="alert")]
        return found if len(pasted) <= LONGEST_ADDRESSED else [html.P(_NOT_ADDRESSED), *found]


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
    parts += [html.P(sentence) for sentence in (() if parsed is None else parsed.layers_without())]
    for layer, config in ({} if parsed is None else parsed.configs).items():
        which = "" if parsed is None else parsed.layers_with(layer)
        share = f"{config.rotary_dim} of {config.head_dim} features of a head are rotated, layout {config.layout}, "
        parts.append(
            html.Section(
                [
                    html.H2(panels[layer].title),
                    *([html.P(f"{which[0].upper()}{which[1:]}.")] if which else []),
                    html.P(f"{share}base {config.base:,.10g}; {config.describe()}."),
                    picture(chart=json.dumps(chart(panels[layer]))),
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
