"""Cards with pictures, what draws them when they are in view, and what hands out their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dash import Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component
from flask import Response, abort, request

from locant.app.explorer.charts import chart
from locant.app.explorer.looks import LAYOUT, raw
from locant.app.explorer.pages.parts import GRAPH, aria, attempt, room
from locant.app.explorer.panels import Matrix, Panel, Picture
from locant.app.explorer.tables import as_csv

Compute = Callable[..., Mapping[str, Picture]]


def cards(page: str, names: Sequence[str]) -> Component:
    """Return a card for each picture, hidden until there is something in it, and what downloads their data."""
    attributes: Any = {"data-page": page}
    return html.Div(
        [
            *(_card(page, name) for name in names),
            dcc.Download(id=f"{page}-download"),
            dcc.Store(id=f"{page}-view", data=[]),
            dcc.Store(id=f"{page}-drawn", data={}),
        ],
        className="cards",
        **attributes,
    )


def _card(page: str, name: str) -> Component:
    own = f"{page}-{name}"
    attributes: Any = {"data-picture": name, **aria(labelledby=f"{own}-title")}
    return html.Section(
        [
            html.H2(id=f"{own}-title"),
            html.P(id=f"{own}-caption"),
            dcc.Graph(id=own, config=GRAPH, style={"height": f"{LAYOUT['height']}px"}),
            html.Button("Data as CSV", id=f"{own}-csv", type="button"),
        ],
        id=f"{own}-card",
        hidden=True,
        className="card",
        **attributes,
    )


def connect(app: Dash, page: str, names: Sequence[str], inputs: Sequence[Input], compute: Compute) -> None:
    """Draw a page's pictures anew when a knob changes them and they are in view, and hand out their numbers.

    ``assets/view.js`` tells which are in view, and the page remembers what each of them shows. What the user can mend
    is said on the page and leaves the pictures as they were.

    Args:
        app: The application.
        page: Prefix of the ids, as given to :func:`cards` and to :func:`~locant.app.explorer.pages.parts.message`.
        names: Names of the pictures.
        inputs: The knobs.
        compute: Takes the values of the knobs and returns pictures by some of the names.
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

    @app.callback(
        Output(f"{page}-message", "children"),
        Output(f"{page}-message", "hidden"),
        Output(f"{page}-drawn", "data"),
        *outputs,
        *inputs,
        Input(f"{page}-view", "data"),
        State(f"{page}-drawn", "data"),
    )
    def draw(*sent: Any) -> list[Any]:
        *values, view, drawn = sent
        found, said = attempt(lambda: _look(compute(*values), view, drawn))
        if found is None:
            return [said, False, *[no_update] * (1 + len(outputs))]
        pictures, panels = found
        answer: list[Any] = ["", True, drawn | {name: pictures[name].key for name in panels} if panels else no_update]
        for name in names:
            if name in panels:
                source = {"address": _address(page), "body": {"picture": name, "knobs": values}}
                figure = chart(panels[name], source)
                answer += [figure, room(figure), panels[name].title, panels[name].caption, False]
            else:
                answer += [*[no_update] * 4, name not in pictures]
        return answer

    @app.callback(
        Output(f"{page}-download", "data"),
        *(Input(f"{page}-{name}-csv", "n_clicks") for name in names),
        *(State(knob.component_id, knob.component_property) for knob in inputs),
        prevent_initial_call=True,
    )
    def download(*sent: Any) -> Any:
        clicks, values = sent[: len(names)], sent[len(names) :]
        name = str(ctx.triggered_id).removeprefix(f"{page}-").removesuffix("-csv")
        pictures, _ = attempt(lambda: compute(*values))
        if not any(clicks) or pictures is None or name not in pictures:
            return no_update
        content = as_csv(pictures[name].panel())
        return {"content": content, "filename": f"{page}-{name}.csv", "type": "text/csv"}

    _hand_out(app, page, compute)


def _look(
    pictures: Mapping[str, Picture], view: list[str], drawn: Mapping[str, str]
) -> tuple[Mapping[str, Picture], dict[str, Panel]]:
    """Return the pictures, and the panels of those in view that show something else by now."""
    wanted = {name: picture for name, picture in pictures.items() if name in view and drawn.get(name) != picture.key}
    return pictures, {name: picture.panel() for name, picture in wanted.items()}


def _address(page: str) -> str:
    return f"/cells/{page}"


def _hand_out(app: Dash, page: str, compute: Compute) -> None:
    """Answer with the numbers of a matrix to what its image says to send."""

    def cells() -> Response:
        asked: Any = request.get_json()
        panel, said = attempt(lambda: compute(*asked["knobs"])[asked["picture"]].panel())
        if not isinstance(panel, Matrix):
            abort(400, said)
        return Response(raw(panel.values), mimetype="application/octet-stream")

    server: Any = app.server
    server.add_url_rule(_address(page), f"cells of {page}", cells, methods=["POST"])
