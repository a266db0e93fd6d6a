"""Page of the Transformer itself: one token through every layer, and what is left when two words change places."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from locant.app.explorer.knobs import Choice, Flags, Knob, Number, Text, read_address
from locant.app.explorer.pages.parts import (
    addressed,
    attempt,
    cards,
    checks,
    connect,
    connect_address,
    connect_knobs,
    controls,
    knob,
    message,
    options,
)
from locant.app.explorer.scheme_panels import about
from locant.app.explorer.shown_models import LONGEST_SENTENCE, MOST_TOKENS, STACKS
from locant.app.explorer.transformer_panels import LATE, MASKS, MOST_PADDING, PARTS, PICTURES, Viewer
from locant.positions import SCHEMES

PAGE = "transformer"
_SENT = (
    "model",
    "stack",
    "sentence",
    "scheme",
    "mask",
    "padding",
    "heads",
    "parts",
    "layer",
    "head",
    "token",
    "first",
    "second",
)
_MOST = 64  # layers, and heads
_FOLLOWED = {"model", "stack", "sentence", "padding", "heads"}
_CLICKS = {  # each follows the token of that row or column
    "attention": ("token", "row"),
    "by-head": ("token", "column"),
    "left": ("token", "row"),
    "scores": ("token", "column"),
    "swap": ("token", "column"),
}
_PADDING = Number(
    name="padding", label="Padding tokens", lowest=0, highest=MOST_PADDING, hint=f"0 to {MOST_PADDING}, at the end"
)


def knobs(viewer: Viewer) -> list[Knob]:
    """Return what can be set on the page."""
    return [
        Choice(name="model", label="Model", values=list(viewer.models)),
        Choice(name="stack", label="Stack", values=STACKS),
        Text(name="sentence", label="The sentence", longest=LONGEST_SENTENCE),
        Choice(name="scheme", label="Scheme", values=list(SCHEMES)),
        Choice(name="mask", label="Mask", values=MASKS),
        _PADDING,
        Number(name="heads", label="Number of heads", lowest=1, highest=_MOST, hint=""),
        Flags(name="parts", label="In place", values=PARTS),
        Number(name="layer", label="Layer", lowest=1, highest=_MOST, hint=""),
        Number(name="head", label="Head", lowest=1, highest=_MOST, hint=""),
        Number(name="token", label="Token", lowest=1, highest=MOST_TOKENS + MOST_PADDING, hint=""),
        Number(name="first", label="The first word", lowest=1, highest=MOST_TOKENS, hint=""),
        Number(name="second", label="The second word", lowest=1, highest=MOST_TOKENS, hint=""),
    ]


def first_values(viewer: Viewer, model: str, stack: str) -> dict[str, Any]:
    """Return what the knobs are at first, for a stack of a model."""
    config, sentence = viewer.config(model), viewer.models[model].sentence
    given = viewer.read(model, stack, sentence)
    second = max(1, len(given.groups))
    first = min(2, second)
    return {
        "model": model,
        "stack": stack,
        "sentence": sentence,
        "scheme": config.position,
        "mask": _mask(stack),
        "padding": 0,
        "heads": config.heads,
        "parts": list(PARTS),
        "layer": 1,
        "head": 1,
        "token": min(2, len(given.tokens)),
        "first": first,
        "second": second,
    }


def _mask(stack: Any) -> str:
    """Return the mask that a stack has of itself."""
    return "causal" if stack == "decoder" else "none"


def layout(viewer: Viewer, search: Any) -> Component:
    """Return the page, with what an address says."""
    known = knobs(viewer)
    named, _ = read_address(search, known, {"model": next(iter(viewer.models))})
    values, wrong = read_address(search, known, first_values(viewer, named["model"], named.get("stack", STACKS[0])))
    model, stack = values["model"], values["stack"]
    sentence = html.Div(
        [
            html.Label("Sentence", htmlFor=f"{PAGE}-sentence"),
            dcc.Input(
                id=f"{PAGE}-sentence",
                type="text",
                value=values["sentence"],
                maxLength=LONGEST_SENTENCE,
                debounce=0.2,
                autoComplete="off",
            ),
        ],
        className="sentence",
    )
    tokens, words = _offered(viewer, model, stack, values["sentence"], values["padding"])
    swap = html.Fieldset(
        [
            html.Legend("Swap"),
            html.Div(
                [
                    _dropdown("first", "First word", words, values["first"]),
                    html.Span("with"),
                    _dropdown("second", "Second word", words, values["second"]),
                ],
                className="swap",
            ),
        ],
        className="options",
    )
    chosen = [
        options(f"{PAGE}-stack", "Stack", STACKS, stack),
        options(f"{PAGE}-layer", "Layer", range(1, viewer.layers(model, stack) + 1), values["layer"]),
        options(f"{PAGE}-head", "Head", range(1, values["heads"] + 1), values["head"]),
        options(f"{PAGE}-mask", "Mask", MASKS, values["mask"]),
        options(f"{PAGE}-heads", "Number of heads", _divisors(viewer, model), values["heads"]),
        checks(f"{PAGE}-parts", "In place", PARTS, values["parts"]),
        html.Div([knob(PAGE, _PADDING, values["padding"])], className="knobs"),
    ]
    return html.Div(
        [
            html.H1("Transformer"),
            html.P("One token through every layer, and what happens when two words change places."),
            addressed(PAGE, _SENT, wrong),
            controls(
                options(f"{PAGE}-model", "Model", list(viewer.models), model),
                sentence,
                swap,
                options(f"{PAGE}-token", "Follow", tokens, values["token"]),
                *chosen,
                options(f"{PAGE}-scheme", "Scheme", list(SCHEMES), values["scheme"]),
            ),
            html.P(id=f"{PAGE}-about"),
            message(PAGE),
            cards(PAGE, PICTURES, late=LATE, clicks=_CLICKS, fitted=[values[name] for name in _SENT]),
        ]
    )


def register(app: Dash, viewer: Viewer) -> None:
    """Connect the knobs."""
    inputs = [Input(f"{PAGE}-{name}", "value") for name in _SENT]
    connect(app, PAGE, PICTURES, inputs, viewer.pictures, partial(fitting, viewer))
    connect_knobs(app, PAGE, [_PADDING])
    connect_address(app, PAGE, _SENT)

    @app.callback(Output(f"{PAGE}-about", "children"), *(inputs[_SENT.index(one)] for one in ("model", "scheme")))
    def say(model: Any, scheme: Any) -> str:
        said, _ = attempt(lambda: f"{_described(viewer, model)} {about(scheme)}")
        return said or ""  # what is wrong with it stands in the page's message


def _described(viewer: Viewer, model: str) -> str:
    config, weights = viewer.config(model), viewer.models[model].weights
    return (
        f"{config.encoder_layers} encoder and {config.decoder_layers} decoder layers, {config.norm}-norm, "
        f"{config.d_model} features, {config.heads} heads, {weights}. Whatever is changed here, these weights stay."
    )


def fitting(
    viewer: Viewer, values: Sequence[Any], changed: Collection[str]
) -> tuple[list[Any], dict[str, dict[str, Any]]]:
    """Return the knobs as they follow those that have been turned, and what to set by id.

    A model comes with its sentence, scheme and heads, a stack with its mask and layers, a sentence with its tokens and
    words; whatever was chosen of them stays where there is such a one.

    Args:
        viewer: What can be shown.
        values: What a page sent, in the order of :func:`knobs`.
        changed: Ids of the knobs that have been turned.
    """
    now = dict(zip(_SENT, values, strict=True))
    turned = {name for name in _SENT if f"{PAGE}-{name}" in changed}
    first, _ = attempt(lambda: first_values(viewer, now["model"], now["stack"]))
    if first is None or not turned & _FOLLOWED:
        return list(values), {}
    offered: dict[str, list[Any]] = {}
    if "model" in turned:
        now |= {name: first[name] for name in ("sentence", "scheme", "heads")}
        offered["heads"] = _divisors(viewer, now["model"])
    if turned & {"model", "stack"}:
        now["mask"] = first["mask"]
        offered["layer"] = list(range(1, viewer.layers(now["model"], now["stack"]) + 1))
    if turned & {"model", "heads"} and isinstance(now["heads"], int) and 1 <= now["heads"] <= _MOST:
        offered["head"] = list(range(1, now["heads"] + 1))
    tokens, words = _offered(viewer, now["model"], now["stack"], now["sentence"], now["padding"])
    if tokens and turned & {"model", "stack", "sentence", "padding"}:
        offered |= {"token": tokens, "first": words, "second": words}
    for name, some in offered.items():
        known = [one["value"] if isinstance(one, dict) else one for one in some]
        if now[name] not in known and known:
            now[name] = known[-1]
    fields: dict[str, dict[str, Any]] = {f"{PAGE}-{name}": {"options": some} for name, some in offered.items()}
    for name, before in zip(_SENT, values, strict=True):
        if now[name] != before:
            fields.setdefault(f"{PAGE}-{name}", {})["value"] = now[name]
    return list(now.values()), fields


def _offered(viewer: Viewer, model: Any, stack: Any, sentence: Any, padding: Any) -> tuple[list[Any], list[Any]]:
    """Return the tokens that can be followed and the words that can be swapped; none where something is wrong."""
    given, _ = attempt(lambda: viewer.read(model, stack, sentence))
    if given is None:
        return [], []
    extra, _ = attempt(lambda: _PADDING.check(padding))
    tokens = [*given.tokens, *["(pad)"] * int(extra or 0)]
    words = [given.word(number) for number in range(1, len(given.groups) + 1)]
    return _numbered(tokens, numbers=False), _numbered(words, numbers=True)


def _numbered(names: Sequence[str], *, numbers: bool) -> list[Any]:
    return [{"label": f"{number} {name}" if numbers else name, "value": number} for number, name in enumerate(names, 1)]


def _divisors(viewer: Viewer, model: str) -> list[int]:
    """Return the numbers of heads that can be chosen: those that divide the width, up to 16 or the model's own."""
    config = viewer.config(model)
    return [heads for heads in range(1, max(16, config.heads) + 1) if config.d_model % heads == 0]


def _dropdown(name: str, label: str, offered: list[Any], value: Any) -> Component:
    return html.Div(
        [
            html.Label(label, htmlFor=f"{PAGE}-{name}", className="unseen"),
            dcc.Dropdown(offered, value, id=f"{PAGE}-{name}", clearable=False, searchable=False),
        ]
    )
