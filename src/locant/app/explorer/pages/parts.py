"""What pages are made of: knobs with labels, cards with a picture and its data, and what connects them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dash import Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component

from locant.app.explorer.charts import chart
from locant.app.explorer.panels import Panel, as_csv
from locant.errors import LocantError

_LOG = logging.getLogger(__name__)

GRAPH: Any = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
}


def aria(**names: str) -> Any:
    """Return attributes that tell a screen reader what an element is."""
    return {f"aria-{name}": value for name, value in names.items()}


def knob(name: str, label: str, value: float, hint: str, *, step: int = 1) -> Component:
    """Return a field for a number, with its label and what it takes."""
    return html.Div(
        [
            html.Label(label, htmlFor=name),
            dcc.Input(id=name, type="number", value=value, step=step, autoComplete="off"),
            html.Small(hint),
        ],
        className="knob",
    )


def options(name: str, legend: str, values: Sequence[str], chosen: str) -> Component:
    """Return a group of which one is chosen, with the mouse or the arrow keys."""
    return html.Fieldset(
        [html.Legend(legend), dcc.RadioItems(list(values), chosen, id=name, inline=True)], className="options"
    )


def controls(*parts: Component) -> Component:
    """Return knobs as a group; no form, which the Enter key would send off and so load the page anew."""
    return html.Div(list(parts), className="controls", role="group", **aria(label="Knobs"))


def message(page: str) -> Component:
    """Return the place where a page says what is wrong."""
    return html.P(id=f"{page}-message", className="message", role="alert", hidden=True)


def cards(page: str, names: Sequence[str]) -> Component:
    """Return a card for each picture, hidden until there is something in it, and what downloads their data."""
    return html.Div([*(_card(page, name) for name in names), dcc.Download(id=f"{page}-download")], className="cards")


def _card(page: str, name: str) -> Component:
    own = f"{page}-{name}"
    return html.Section(
        [
            html.H2(id=f"{own}-title"),
            html.P(id=f"{own}-caption"),
            dcc.Graph(id=own, config=GRAPH),
            html.Button("Data as CSV", id=f"{own}-csv", type="button"),
        ],
        id=f"{own}-card",
        hidden=True,
        className="card",
        **aria(labelledby=f"{own}-title"),
    )


def table(rows: Sequence[Sequence[str]], name: str) -> Component:
    """Return a table, names of columns first; it scrolls by itself where it is too wide."""
    head, *body = rows
    content = html.Table(
        [
            html.Thead(html.Tr([html.Th(cell, scope="col") for cell in head])),
            html.Tbody([html.Tr([html.Td(cell) for cell in row]) for row in body]),
        ]
    )
    return html.Div(content, className="scroll", tabIndex=0, role="group", **aria(label=name))


def connect(
    app: Dash,
    page: str,
    names: Sequence[str],
    inputs: Sequence[Input],
    compute: Callable[..., Mapping[str, Panel]],
) -> None:
    """Draw a page's pictures anew whenever a knob changes, and hand out their numbers.

    What the user can mend is said on the page and leaves the pictures as they were.

    Args:
        app: The application.
        page: Prefix of the ids, as given to :func:`message` and :func:`cards`.
        names: Names of the pictures.
        inputs: The knobs.
        compute: Takes the values of the knobs and returns panels by some of the names.
    """
    outputs = [
        output
        for name in names
        for output in (
            Output(f"{page}-{name}", "figure"),
            Output(f"{page}-{name}", "style"),
            Output(f"{page}-{name}-title", "children"),
            Output(f"{page}-{name}-caption", "children"),
            Output(f"{page}-{name}-card", "hidden"),
        )
    ]

    @app.callback(Output(f"{page}-message", "children"), Output(f"{page}-message", "hidden"), *outputs, *inputs)
    def draw(*values: Any) -> list[Any]:
        found, said = attempt(lambda: compute(*values))
        if found is None:
            return [said, False, *[no_update] * len(outputs)]
        drawn: list[Any] = ["", True]
        for name in names:
            panel = found.get(name)
            if panel is None:
                drawn += [*[no_update] * 4, True]
            else:
                figure = chart(panel)
                drawn += [figure, room(figure), panel.title, panel.caption, False]
        return drawn

    @app.callback(
        Output(f"{page}-download", "data"),
        *(Input(f"{page}-{name}-csv", "n_clicks") for name in names),
        *(State(knob.component_id, knob.component_property) for knob in inputs),
        prevent_initial_call=True,
    )
    def download(*sent: Any) -> Any:
        clicks, values = sent[: len(names)], sent[len(names) :]
        name = str(ctx.triggered_id).removeprefix(f"{page}-").removesuffix("-csv")
        found, _ = attempt(lambda: compute(*values))
        if not any(clicks) or found is None or name not in found:
            return no_update
        return {"content": as_csv(found[name]), "filename": f"{page}-{name}.csv", "type": "text/csv"}


def send_text(app: Dash, page: str, *, field: str, button: str, store: str, longest: int) -> None:
    """Send what is in a field when a button is pressed.

    A longer text is cut before it travels, one character beyond what the server takes, so that it will be refused.
    """
    app.clientside_callback(  # type: ignore[no-untyped-call]
        f"(clicks, text) => clicks ? (text || '').slice(0, {longest + 1}) : window.dash_clientside.no_update",
        Output(f"{page}-{store}", "data"),
        Input(f"{page}-{button}", "n_clicks"),
        State(f"{page}-{field}", "value"),
        prevent_initial_call=True,
    )


def room(figure: dict[str, Any]) -> dict[str, str]:
    """Return the style of an element in which a figure is as high as it wants to be; its width follows the page."""
    return {"height": f"{figure['layout']['height']}px"}


def attempt(compute: Callable[[], Any]) -> tuple[Any, str]:
    """Return what a computation gives, or ``None`` and what to tell the user."""
    try:
        return compute(), ""
    except LocantError as error:
        return None, str(error)
    except Exception:
        # A page may send anything; whatever slips through the checks must neither stop the server nor show its inside.
        _LOG.exception("The explorer could not answer a request.")
        return None, "That could not be computed. The terminal in which the explorer runs says why."
