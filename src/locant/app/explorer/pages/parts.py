"""Parts of pages: knobs with labels, tables, messages, and cards with pictures that are drawn when they are in view."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component
from flask import Response, abort, request

from locant.app.explorer.charts import chart
from locant.app.explorer.knobs import Number
from locant.app.explorer.panels import Cells, Matrix, Picture, as_csv
from locant.app.explorer.theme import marks, raw
from locant.errors import LocantError

Compute = Callable[..., Mapping[str, Picture]]
Fit = Callable[[Sequence[Any], Collection[str]], tuple[Sequence[Any], Mapping[str, Mapping[str, Any]]]]

_LOG = logging.getLogger(__name__)

SLIDER_PLACES = 1000
LONGEST_ADDRESSED = 4000  # characters of a text that stands in the address


def aria(**names: str) -> Any:
    """Return attributes that tell a screen reader what an element is."""
    return {f"aria-{name}": value for name, value in names.items()}


def knob(page: str, number: Number, value: Any) -> Component:
    """Return a field for a number and a slider, with its label and what it takes; ``assets/knobs.js`` joins the two."""
    name = f"{page}-{number.name}"
    attributes: Any = {"data-spec": json.dumps(_slider(page, number))}
    return html.Div(
        [
            html.Label(number.label, htmlFor=name),
            dcc.Input(
                id=name, type="number", value=value, step="any" if number.fraction else number.step, autoComplete="off"
            ),
            # Whoever does not see the slider, or has no pointer, has the field above it.
            html.Div(
                dcc.Input(id=f"{name}-slider", type="range", min=0, max=SLIDER_PLACES, step=1, value=0),
                className="slider",
                **aria(hidden="true"),
                **attributes,
            ),
            html.Small(number.hint),
        ],
        className="knob",
    )


def _slider(page: str, number: Number) -> dict[str, Any]:
    """Return what ``assets/knobs.js`` needs to know about a slider."""
    return {
        "field": f"{page}-{number.name}",
        "lowest": number.lowest,
        "highest": number.highest,
        "step": 0 if number.fraction else number.step,
        "scale": number.scale,
        "below": f"{page}-{number.below}" if number.below else "",
    }


def connect_knobs(app: Dash, page: str, numbers: Sequence[Number]) -> None:
    """Move the sliders of a page to what stands in their fields."""
    for number in numbers:
        below = [Input(f"{page}-{number.below}", "value")] if number.below else []
        spec = json.dumps(_slider(page, number))
        app.clientside_callback(  # type: ignore[no-untyped-call]
            f"(value, below) => window.dash_clientside.explorer.slide(value, below, {spec})",
            Output(f"{page}-{number.name}-slider", "value"),
            Input(f"{page}-{number.name}", "value"),
            *below,
        )


def connect_address(
    app: Dash, page: str, names: Sequence[str], stored: Mapping[str, tuple[str, str]] | None = None
) -> None:
    """Keep the values of a page's knobs in the address, so that a link to it shows the same.

    Args:
        app: The application.
        page: Prefix of the ids.
        names: Names of the knobs.
        stored: Component and property of those that are not the ``value`` of a component of their name.
    """
    found = [(stored or {}).get(name, (name, "value")) for name in names]
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("explorer", "write"),
        Output(f"{page}-written", "data"),  # a callback without an output would not run when a page is turned to
        *(Input(f"{page}-{where}", what) for where, what in found),
        State(f"{page}-names", "data"),
    )


def addressed(
    page: str, names: Sequence[str], wrong: Sequence[str], unsaid: Mapping[str, str] | None = None
) -> Component:
    """Return what a page needs to keep its knobs in the address, and what was wrong with the address it came from.

    Args:
        page: Prefix of the ids.
        names: Names of the knobs, in the order of :func:`connect_address`.
        wrong: Sentences about the address.
        unsaid: Values that need not stand in it, because they are there at first.
    """
    said = html.Div([html.P(one) for one in wrong], className="message", role="alert")
    kept = {"names": list(names), "unsaid": dict(unsaid or {}), "longest": LONGEST_ADDRESSED}
    stores = [dcc.Store(id=f"{page}-names", data=kept), dcc.Store(id=f"{page}-written")]
    return html.Div([*stores, *([said] if wrong else [])])


def options(name: str, legend: str, values: Sequence[Any], chosen: Any) -> Component:
    """Return a group of which one is chosen, with the mouse or the arrow keys."""
    return html.Fieldset(
        [html.Legend(legend), dcc.RadioItems(list(values), chosen, id=name, inline=True)], className="options"
    )


def checks(name: str, legend: str, values: Sequence[str], chosen: Sequence[str]) -> Component:
    """Return a group of which any are chosen."""
    return html.Fieldset(
        [html.Legend(legend), dcc.Checklist(list(values), list(chosen), id=name, inline=True)], className="options"
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


def picture(**attributes: str) -> Component:
    """Return a place in which ``assets/pictures.js`` draws, with attributes ``data-...`` that tell it more."""
    more: Any = {f"data-{name}": value for name, value in attributes.items()}
    return html.Div(html.Div(className="picture", **more), className="plot")


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


def cards(
    page: str,
    names: Sequence[str],
    *,
    late: Collection[str] = (),
    clicks: Mapping[str, tuple[str, str]] | None = None,
    fitted: Sequence[Any] = (),
) -> Component:
    """Return a card for each picture, hidden until there is something in it, and what downloads their data.

    Args:
        page: Prefix of the ids.
        names: Names of the pictures.
        late: Those that take long, and are drawn when all others in view are right.
        clicks: By name of a matrix the knob that a click on a cell sets, and whether to its ``row`` or its ``column``.
        fitted: What the knobs are at first, on a page where knobs follow others.
    """
    attributes: Any = {"data-page": page}
    found = clicks or {}
    return html.Div(
        [
            *(_card(page, name, late=name in late, click=found.get(name)) for name in names),
            dcc.Download(id=f"{page}-download"),
            dcc.Store(id=f"{page}-view", data=[]),
            dcc.Store(id=f"{page}-near", data=[]),
            dcc.Store(id=f"{page}-pictures"),
            dcc.Store(id=f"{page}-drawn", data={}),
            dcc.Store(id=f"{page}-fitted", data=list(fitted)),
        ],
        className="cards",
        **attributes,
    )


def _card(page: str, name: str, *, late: bool, click: tuple[str, str] | None) -> Component:
    own = f"{page}-{name}"
    attributes: Any = {"data-picture": name, **({"data-late": ""} if late else {}), **aria(labelledby=f"{own}-title")}
    clicked = {"sets": f"{page}-{click[0]}", "by": click[1]} if click else {}
    return html.Section(
        [
            html.H2(id=f"{own}-title"),
            html.P(id=f"{own}-caption"),
            html.Div(picture(file=own, **clicked), id=own),
            html.Button("Data as CSV", id=f"{own}-csv", type="button"),
        ],
        id=f"{own}-card",
        hidden=True,
        className="card",
        **attributes,
    )


def connect(
    app: Dash, page: str, names: Sequence[str], inputs: Sequence[Input], compute: Compute, fit: Fit | None = None
) -> None:
    """Draw a page's pictures anew when a knob changes them and they are in view, and hand out their numbers.

    ``assets/view.js`` tells which are in view, and when these are drawn which others are nearly so. ``pictures.js``
    draws what is sent; a component of Dash for every picture would take longer than that. The page remembers what each
    picture shows as long as it is right; where only the mark in it moves, no more than that is sent. What the user can
    mend is said on the page and leaves the pictures as they were.

    Args:
        app: The application.
        page: Prefix of the ids, as given to :func:`cards` and to :func:`message`.
        names: Names of the pictures.
        inputs: The knobs.
        compute: Takes the values of the knobs and returns pictures by some of the names.
        fit: Takes the values of the knobs and the ids of those that have been turned. Returns the values as the others
            follow them, and by id the properties to set: one answer instead of one for every knob that follows. Turned
            is what differs from the knobs of the last answer that the page has shown: an answer that is overtaken by
            the next request is never shown, and its knobs would be followed by none.
    """

    @app.callback(
        Output(f"{page}-message", "children"),
        Output(f"{page}-message", "hidden"),
        Output(f"{page}-pictures", "data"),
        *inputs,
        Input(f"{page}-view", "data"),
        Input(f"{page}-near", "data"),
        State(f"{page}-drawn", "data"),
        State(f"{page}-fitted", "data"),
    )
    def draw(*sent: Any) -> list[Any]:
        *values, view, near, drawn, fitted = sent
        # A knob that is turned changes what is in view at once; what is nearly so is asked for later.
        later = near if f"{page}-near.data" in ctx.triggered_prop_ids else []

        def answer() -> dict[str, Any]:
            knobs, fields = fit(values, _turned(inputs, values, fitted)) if fit else (values, {})
            source = {"address": _address(page), "knobs": knobs}
            return _drawings(compute(*knobs), [*view, *later], drawn, source) | {
                "fields": fields,
                "fitted": list(knobs),
            }

        found, said = attempt(answer)
        return [said, False, no_update] if found is None else ["", True, found]

    app.clientside_callback(  # type: ignore[no-untyped-call]
        f"(sent) => sent ? window.dash_clientside.pictures.show(sent, {json.dumps(page)}) "
        ": [window.dash_clientside.no_update, window.dash_clientside.no_update]",
        Output(f"{page}-drawn", "data"),
        Output(f"{page}-fitted", "data"),
        Input(f"{page}-pictures", "data"),
    )

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


def _turned(inputs: Sequence[Input], values: Sequence[Any], fitted: Sequence[Any]) -> set[str]:
    """Return the ids of the knobs that are not what they were when others last followed them."""
    known = zip(inputs, values, fitted, strict=True)
    return {str(knob.component_id) for knob, value, before in known if value != before}


def _drawings(
    pictures: Mapping[str, Picture], wanted: Sequence[str], drawn: Mapping[str, Any], source: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the names of all pictures, what to draw of some, and what every picture then shows.

    Args:
        pictures: All that there are.
        wanted: Names of those to be drawn, unless they are right.
        drawn: What every picture shows, as returned before.
        source: Where to ask for the numbers of a matrix, and with which knobs.
    """
    drawings, shown = {}, {}
    for name, picture in pictures.items():
        before = _Shown(**drawn[name]) if name in drawn else None
        now = _Shown(picture.content, picture.marked)
        if name in wanted and before != now:
            same = before is not None and before.content == now.content
            drawings[name] = _moved_mark(picture) if same else _drawing(name, picture, source)
            before = now
        if before is not None:
            shown[name] = asdict(replace(before, right=before == now))
    return {"names": list(pictures), "pictures": drawings, "drawn": shown}


@dataclass(frozen=True)
class _Shown:
    """What a picture shows on a page, and whether that is what the knobs say."""

    content: str
    marked: float | None
    right: bool = field(default=True, compare=False)


def _moved_mark(picture: Picture) -> dict[str, Any]:
    return {"marked": {"row": picture.marked, "shapes": marks(picture.marked)}}


def _drawing(name: str, picture: Picture, source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a picture's chart, title and caption."""
    panel = picture.panel()
    asked = {"address": source["address"], "body": {"picture": name, "knobs": source["knobs"]}}
    return {"chart": chart(panel, asked), "title": panel.title, "caption": panel.caption}


def _address(page: str) -> str:
    return f"/cells/{page}"


def _hand_out(app: Dash, page: str, compute: Compute) -> None:
    """Answer with the numbers of a matrix to what its image says to send."""

    def cells() -> Response:
        asked: Any = request.get_json()
        panel, said = attempt(lambda: compute(*asked["knobs"])[asked["picture"]].panel())
        if not isinstance(panel, Matrix | Cells):
            abort(400, said)
        return Response(raw(panel.values), mimetype="application/octet-stream")

    server: Any = app.server
    server.add_url_rule(_address(page), f"cells of {page}", cells, methods=["POST"])
