"""What the page about the Transformer computes, says and refuses, and what stands in the address; without a browser."""

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
import torch

pytest.importorskip("dash", reason="the extra 'explore' is not installed")

from locant.analysis import trace_stack
from locant.app.explorer import build_app
from locant.app.explorer.charts import chart
from locant.app.explorer.knobs import Choice, Flags, Number, Text, read_address
from locant.app.explorer.model_panels import Reader
from locant.app.explorer.panels import Cells, Matrix, Panel, as_csv
from locant.app.explorer.shown_models import EXAMPLE, TRAINED, ExampleModel, StackInput, shown_models
from locant.app.explorer.swap_panels import swapped_places
from locant.app.explorer.transformer_panels import PICTURES, Viewer
from locant.errors import LocantError, UsageError
from locant.positions import SCHEMES

NAMES = (
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
FIRST: dict[str, Any] = dict(
    zip(
        NAMES,
        (
            EXAMPLE,
            "encoder",
            ExampleModel.sentence,
            "sinusoidal",
            "none",
            0,
            3,
            ["scaling", "residuals"],
            1,
            1,
            2,
            2,
            5,
        ),
        strict=True,
    )
)
BOTH = ("encoder", "decoder")


@pytest.fixture(scope="module")
def viewer() -> Viewer:
    return Viewer(shown_models(None))


@pytest.fixture(scope="module")
def app() -> Any:
    return build_app()


def shown(viewer: Viewer, *names: str, **knobs: Any) -> list[Panel]:
    """Pictures of the page with some knobs turned."""
    pictures = viewer.pictures(*(FIRST | knobs).values())
    return [pictures[name].panel() for name in names]


def matrix(viewer: Viewer, name: str, **knobs: Any) -> np.ndarray:
    (panel,) = shown(viewer, name, **knobs)
    assert isinstance(panel, Matrix | Cells)
    return panel.values


def rows(viewer: Viewer, name: str, **knobs: Any) -> dict[str, np.ndarray]:
    (panel,) = shown(viewer, name, **knobs)
    assert isinstance(panel, Matrix | Cells)
    assert panel.rows is not None
    return dict(zip(panel.rows, panel.values, strict=True))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stack", BOTH)
@pytest.mark.parametrize("padding", [0, 2])
def test_every_picture_can_be_drawn_and_downloaded(viewer: Viewer, stack: str, padding: int) -> None:
    pictures = viewer.pictures(*(FIRST | {"stack": stack, "padding": padding, "mask": "causal"}).values())
    assert list(pictures) == [name for name in PICTURES if name != "cross" or stack == "decoder"]
    for picture in pictures.values():
        panel = picture.panel()
        assert set(json.loads(json.dumps(chart(panel)))) in ({"data", "layout"}, {"matrix"})
        assert panel.title
        assert panel.caption
        head, *lines = as_csv(panel).splitlines()
        assert lines
        assert head


@pytest.mark.sampled(8)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_is_shown_or_refused_in_a_sentence(viewer: Viewer, scheme: str) -> None:
    for stack in BOTH:
        if scheme == "axial-rotary":  # turns pairs of features for each of two axes
            with pytest.raises(LocantError, match="2"):
                matrix(viewer, "swap", scheme=scheme, stack=stack)
            continue
        changes = matrix(viewer, "swap", scheme=scheme, stack=stack)
        assert changes.any() == (scheme not in ("none", "cope"))  # CoPE begins with zeros
        assert not changes[0].any()  # the words themselves move with their places


def test_without_positions_a_swap_changes_nothing(viewer: Viewer) -> None:
    (panel,) = shown(viewer, "swap", scheme="none")
    assert isinstance(panel, Matrix)
    assert not panel.values.any()
    assert "Nothing changes at all" in panel.caption
    assert not matrix(viewer, "swapped", scheme="none").any()
    assert matrix(viewer, "swap", scheme="none", mask="causal").any()  # order leaks through the causal mask
    by_scheme = rows(viewer, "schemes")
    assert not by_scheme["none"].any()
    assert by_scheme["sinusoidal"].all()
    np.testing.assert_allclose(by_scheme["sinusoidal"], matrix(viewer, "swap").mean(1)[1:], rtol=1e-3)


def test_only_what_moves_is_told_another_position(viewer: Viewer) -> None:
    told = rows(viewer, "swap")["told position"]
    assert np.flatnonzero(told).tolist() == [1, 4]
    assert rows(viewer, "swap")["layer 1"].all()  # the others look at what has moved


def test_the_scores_of_a_token(viewer: Viewer) -> None:
    steps = rows(viewer, "scores", mask="causal", head=2, token=3)
    assert list(steps) == ["q · k", "/ √2", "mask", "softmax"]
    np.testing.assert_allclose(steps["/ √2"], steps["q · k"] / np.sqrt(2), rtol=1e-6)
    assert np.isneginf(steps["mask"]).tolist() == [False, False, False, True, True]
    expected = np.exp(steps["mask"]) / np.exp(steps["mask"]).sum()
    np.testing.assert_allclose(steps["softmax"], expected, rtol=1e-5)
    np.testing.assert_allclose(matrix(viewer, "attention", mask="causal", head=2)[2], steps["softmax"])
    assert list(rows(viewer, "scores", parts=["residuals"])) == ["q · k", "mask", "softmax"]
    assert "+ bias" in rows(viewer, "scores", scheme="alibi")
    drawn = chart(shown(viewer, "scores", mask="causal", token=3)[0])["matrix"]
    assert len(drawn["sizes"]) == 4
    numbers = np.frombuffer(base64.b64decode(drawn["values"]), dtype="<f4").reshape(4, 5)
    assert np.isneginf(numbers[2]).tolist() == [False, False, False, True, True]


def test_the_way_of_a_token(viewer: Viewer) -> None:
    steps = rows(viewer, "path", token=4)
    model = viewer.models[EXAMPLE].model
    attention: Any = model.encoder.layers[0].self_attention
    received = torch.from_numpy(steps["receives"]).float()
    with torch.no_grad():
        for name, part in zip("QKV", attention.query_key_value(received).chunk(3), strict=True):
            np.testing.assert_allclose(steps[name], part, atol=1e-5)
        mixed = attention.output(torch.from_numpy(steps["heads, side by side"]).float())
    np.testing.assert_allclose(steps["· W_O"], mixed, atol=1e-5)
    streams = rows(viewer, "stream", token=4)
    np.testing.assert_allclose(streams["told position"], steps["receives"])
    np.testing.assert_allclose(streams["1 feed-forward"], list(steps.values())[-1])


def test_padding_is_hidden_or_not(viewer: Viewer) -> None:
    alone = matrix(viewer, "stream")
    np.testing.assert_allclose(matrix(viewer, "stream", padding=3, mask="padding"), alone, atol=1e-5)
    assert not np.allclose(matrix(viewer, "stream", padding=3), alone, atol=1e-2)


def test_what_residual_connections_carry(viewer: Viewer) -> None:
    with_them, without = matrix(viewer, "left"), matrix(viewer, "left", parts=["scaling"])
    np.testing.assert_allclose(with_them[:, 0], 1, rtol=1e-6)
    assert with_them[:, -1].mean() > without[:, -1].mean() + 0.1
    stream = matrix(viewer, "stream", token=3)
    expected = stream @ stream[0] / np.linalg.norm(stream, axis=1) / np.linalg.norm(stream[0])
    np.testing.assert_allclose(with_them[2], expected, rtol=1e-5)


@pytest.mark.parametrize("word", ["dog", "Ω", "\ud800"])
def test_a_word_has_the_same_vector_everywhere(word: str) -> None:
    model = ExampleModel()
    alone, among = model.read(word, "encoder").words, model.read(f"a new {word}", "encoder").words
    torch.testing.assert_close(alone[0], among[2])


@pytest.mark.parametrize(("swap", "expected"), [(None, range(7)), ((1, 3), [0, 5, 4, 1, 2, 3, 6]), ((2, 2), range(7))])
def test_words_of_several_tokens_change_places(swap: tuple[int, int] | None, expected: Any) -> None:
    groups = ((1, 2, 3), (4,), (5,))
    given = StackInput(tuple("(abcde)"), torch.zeros(7, 2), groups, torch.zeros(2))
    assert swapped_places(given, swap) == list(expected)


def test_a_trained_run(reader: Reader) -> None:
    viewer = Viewer(shown_models(reader))
    assert list(viewer.models) == [TRAINED, EXAMPLE]
    sentence = viewer.models[TRAINED].sentence
    assert sentence.split()
    model = viewer.models[TRAINED].model
    for stack, layers in (("encoder", 1), ("decoder", 2)):
        knobs = {"model": TRAINED, "stack": stack, "sentence": "two red three four", "heads": 2, "second": 1}
        knobs |= {"mask": "causal" if stack == "decoder" else "none", "first": 1, "layer": layers}
        given = viewer.read(TRAINED, stack, "two red three four")
        if stack == "encoder":
            assert len(given.groups) == 4
            joined = [given.word(number) for number in range(1, 5)]
            assert joined == ["two", "red", "three", "four"]
        # The model's own scheme, with its own weights.
        own = trace_stack(model.encoder if stack == "encoder" else model.decoder, given.words, given.memory)
        shown_weights = matrix(viewer, "attention", **knobs)
        np.testing.assert_allclose(shown_weights, own.layers[layers - 1].attention.weights[0], atol=1e-6)


WRONG: list[dict[str, Any]] = [
    {"model": "gpt"},
    {"stack": "middle"},
    {"sentence": " "},
    {"sentence": "x" * 501},
    {"sentence": "a " * 13},
    {"sentence": None},
    {"scheme": "sinus"},
    {"mask": "all"},
    {"padding": 9},
    {"padding": None},
    {"heads": 4},
    {"heads": 10**9},
    {"parts": "scaling"},
    {"parts": [{"a": 1}]},
    {"layer": 3},
    {"head": 4},
    {"token": 6},
    {"token": 1.5},
    {"first": 0},
    {"second": 6},
    {"scheme": "rotary", "heads": 2},
]


@pytest.mark.parametrize("knobs", WRONG, ids=str)
def test_wrong_values_are_told_in_a_sentence(viewer: Viewer, knobs: dict[str, Any]) -> None:
    with pytest.raises(LocantError) as caught:
        viewer.pictures(*(FIRST | knobs).values())
    assert len(str(caught.value)) < 400
    assert "Traceback" not in str(caught.value)


def request(app: Any, output: str, inputs: Mapping[str, Any], state: Mapping[str, Any], changed: str) -> Any:
    """What the server answers to a page; names are those of components and properties."""
    callback = next(key for key in app.callback_map if output in key)
    outputs = [
        dict(zip(("id", "property"), part.split("@")[0].rsplit(".", 1), strict=True))
        for part in callback.strip(".").split("...")
    ]

    def sent(values: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [
            {**dict(zip(("id", "property"), name.rsplit(".", 1), strict=True)), "value": one}
            for name, one in values.items()
        ]

    body = {
        "output": callback,
        "outputs": outputs,
        "inputs": sent(inputs),
        "state": sent(state),
        "changedPropIds": [changed],
    }
    response = app.server.test_client().post("/_dash-update-component", json=body)
    assert response.status_code == 200
    return json.loads(response.data)["response"]


def draw(app: Any, drawn: Any = None, **knobs: Any) -> Any:
    inputs = {f"transformer-{name}.value": value for name, value in (FIRST | knobs).items()}
    inputs |= {"transformer-view.data": list(PICTURES), "transformer-near.data": []}
    state = {"transformer-drawn.data": drawn or {}, "transformer-fitted.data": list(FIRST.values())}
    return request(app, "transformer-message.children", inputs, state, "transformer-view.data")


def drawings(said: Any) -> set[str]:
    return set(sent(said)["pictures"]) if "transformer-pictures" in said else set()


def sent(said: Any) -> Any:
    return said["transformer-pictures"]["data"]


def test_only_what_a_knob_changes_is_sent(app: Any) -> None:
    first = draw(app)
    assert drawings(first) == set(PICTURES) - {"cross"}
    drawn = sent(first)["drawn"]
    token = draw(app, drawn, token=3)
    assert drawings(token) == {"attention", "scores", "path", "by-head", "stream", "left"}
    for name in ("attention", "left"):
        assert sent(token)["pictures"][name]["marked"]["row"] == 2  # only the frame moves
    assert drawings(draw(app, drawn, layer=2)) == {"swapped", "attention", "scores", "path"}
    assert drawings(draw(app, drawn, head=2)) == {"swapped", "attention", "scores"}
    assert drawings(draw(app, drawn, scheme="alibi")) == set(PICTURES) - {"cross", "schemes"}
    wrong = draw(app, drawn, token=77)
    assert wrong["transformer-message"] == {
        "children": "Token must be a whole number from 1 to 5; got 77.",
        "hidden": False,
    }
    assert not drawings(wrong)


def test_the_numbers_of_a_picture_are_handed_out(app: Any) -> None:
    body = {"picture": "attention", "knobs": list(FIRST.values())}
    answer = app.server.test_client().post("/cells/transformer", json=body)
    weights = np.frombuffer(answer.data, dtype="<f4").reshape(5, 5)
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-6)


def test_choices_follow_the_knob_that_is_turned_in_one_answer(app: Any) -> None:
    # Whatever request brings them: the first one after a knob was turned may have been overtaken by another.
    said = sent(draw(app, sentence="one two", padding=1, token=5))
    assert {"swap", "attention"} <= set(said["pictures"])
    fields = said["fields"]
    assert [one["label"] for one in fields["transformer-token"]["options"]] == ["one", "two", "(pad)"]
    assert [one["label"] for one in fields["transformer-second"]["options"]] == ["1 one", "2 two"]
    assert fields["transformer-token"]["value"] == 3
    assert fields["transformer-second"]["value"] == 2
    assert "value" not in fields["transformer-first"]
    said = sent(draw(app, stack="decoder", layer=9))
    assert "cross" in said["pictures"]
    assert said["fields"]["transformer-mask"] == {"value": "causal"}
    assert said["fields"]["transformer-layer"] == {"options": [1, 2], "value": 2}
    assert "transformer-sentence" not in said["fields"]
    said = sent(draw(app, heads=1, head=3))
    assert said["fields"] == {"transformer-head": {"options": [1], "value": 1}}
    assert not sent(draw(app))["fields"]
    wrong = draw(app, sentence=" ")
    assert "empty" in wrong["transformer-message"]["children"]


PAGES = ["/", "/context", "/compare", "/transformer"]


def turn(app: Any, path: str, search: Any) -> tuple[dict[str, Any], list[str]]:
    """Values of a page's fields by id, and what the page says about its address."""
    inputs = {"address.pathname": path, "address.search": search}
    page = request(app, "page.children", inputs, {}, "address.pathname")["page"]["children"]
    values, said = {}, []

    def walk(part: Any) -> None:
        if isinstance(part, list):
            for one in part:
                walk(one)
        elif isinstance(part, dict):
            properties = part.get("props", {})
            if "value" in properties and "id" in properties:
                values[properties["id"]] = properties["value"]
            if properties.get("role") == "alert" and not properties.get("hidden"):
                said.extend(one["props"]["children"] for one in properties["children"])
            walk(properties.get("children"))

    walk(page)
    return values, said


ADDRESSES: list[tuple[str, dict[str, Any]]] = [
    ("/", {"scheme": "alibi", "width": 32, "length": 40, "base": 500.5, "position": 3, "offset": 7}),
    ("/context", {"head": 64, "base": 500000.0, "trained": 8192, "wanted": 65536, "config": '{"a": "ü&="}\n'}),
    (
        "/compare",
        {"left": "shaw", "right": "binary", "width": 32, "length": 40, "base": 500.5, "position": 3, "offset": 7},
    ),
    (
        "/transformer",
        FIRST | {"sentence": "a & b = c ü", "token": 3, "second": 4, "scheme": "rotary", "stack": "decoder"},
    ),
    ("/transformer", FIRST | {"parts": []}),
]


@pytest.mark.parametrize(
    ("path", "state"), ADDRESSES, ids=[f"{path} {number}" for number, (path, _) in enumerate(ADDRESSES)]
)
def test_an_address_says_what_a_page_shows(app: Any, path: str, state: dict[str, Any]) -> None:
    written = {name: ".".join(value) if isinstance(value, list) else value for name, value in state.items()}
    values, said = turn(app, path, f"?{urlencode(written)}")
    page = {"/": "encodings"}.get(path, path[1:])
    assert {name: values[f"{page}-{name}"] for name in state} == state
    assert not said


@pytest.mark.sampled(15)
@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(
    "search", ["", None, 7, {"a": 1}, "?", "?&&&=", "?%zz=%", "?a" * 200, "?" + "a=1&" * 200, "?\ud800=1"]
)
def test_a_page_opens_whatever_the_address(app: Any, path: str, search: Any) -> None:
    values, said = turn(app, path, search)
    assert values == turn(app, path, "")[0]
    assert all(len(one) < 300 for one in said)


def test_what_is_wrong_in_an_address_is_said(app: Any) -> None:
    values, said = turn(app, "/", "?widht=3&width=abc&length=99999&scheme=rotari&base=nan&offset=3&offset=4")
    assert values["encodings-width"] == 64
    assert values["encodings-offset"] == 3
    assert said == [
        "There is nothing called 'widht' on this page. Did you mean 'width'?",
        "Width d must be a whole number from 2 to 1,024; got 'abc'.",
        "Length must be a whole number from 2 to 1,024; got 99999.",
        said[3],
        "Base must be a number from 1.1 to 1e+12; got nan.",
        "The address says 'offset' twice; the first is taken.",
    ]
    assert said[3].startswith("Scheme must be one of none, sinusoidal")
    assert said[3].endswith("got 'rotari'. Did you mean 'rotary'?")


def test_knobs_read_what_they_write() -> None:
    knobs = (
        Number(name="n", label="N", lowest=0, highest=9, hint=""),
        Choice(name="c", label="C", values=["a", "b"]),
        Flags(name="f", label="F", values=["x", "y"]),
        Text(name="t", label="T", longest=5),
    )
    first: dict[str, Any] = {"n": 1, "c": "a", "f": ["x"], "t": "text"}
    assert read_address("?n=4&c=b&f=y.x.y&t=%C3%BC", knobs, first) == (
        {"n": 4, "c": "b", "f": ["x", "y"], "t": "ü"},
        [],
    )
    assert read_address("?f=", knobs, first)[0]["f"] == []
    _, wrong = read_address("?n=10&c=&f=z&t=longer", knobs, first)
    assert len(wrong) == 4
    with pytest.raises(UsageError):
        knobs[2].check("x")
