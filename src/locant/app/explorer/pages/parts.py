"""What pages are made of: knobs with labels, tables, places for messages; and the answer to a user's mistake."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

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
