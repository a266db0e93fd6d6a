"""What the explorer computes, what it refuses, and what its server says; all without a browser."""

import base64
import csv
import io
import json
import math
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dash", reason="the extra 'explore' is not installed")

from PIL import Image

from locant.app.explorer import build_app, listen
from locant.app.explorer.charts import chart
from locant.app.explorer.context_panels import inspect_text, layer_pictures, pictures, scaled_models, summary
from locant.app.explorer.limits import choice, number, text, whole
from locant.app.explorer.own_requests import own_names
from locant.app.explorer.panels import Circle, Clocks, Curves, Matrix, Odometer, Panel, Picture, Strips, as_csv
from locant.app.explorer.scheme_panels import PICTURES, Knobs, about
from locant.app.explorer.scheme_panels import pictures as scheme_pictures
from locant.errors import LocantError, MissingExtraError, UsageError
from locant.figures.bias import bias_schemes
from locant.positions import SCHEMES
from locant.positions.scaling import SCALINGS

SMALL = Knobs(16, 20, 500.0, 3, 2)
RATES = 500.0 ** (-np.arange(8) / 8)


def computed(pictures: Mapping[str, Picture]) -> dict[str, Panel]:
    return {name: picture.panel() for name, picture in pictures.items()}


def matrix(scheme: str, name: str = "heatmap", knobs: Knobs = SMALL) -> np.ndarray:
    panel = scheme_pictures(scheme, knobs)[name].panel()
    assert isinstance(panel, Matrix)
    return panel.values


def curves(panel: Panel) -> Curves:
    assert isinstance(panel, Curves)
    return panel


def test_sinusoids() -> None:
    shown = computed(scheme_pictures("sinusoidal", SMALL))
    assert list(shown) == list(PICTURES)
    angles = np.arange(20)[:, None] * RATES
    np.testing.assert_allclose(matrix("sinusoidal")[:, 0::2], np.sin(angles), atol=1e-7)
    np.testing.assert_allclose(matrix("sinusoidal")[:, 1::2], np.cos(angles), atol=1e-7)
    apart = np.cos((np.arange(20)[:, None] - np.arange(20))[..., None] * RATES).sum(-1)
    np.testing.assert_allclose(matrix("sinusoidal", "products"), apart, atol=1e-5)
    np.testing.assert_allclose(*curves(shown["distance"]).lines.values(), apart[3], atol=1e-5)
    waves, clocks = shown["waves"], shown["clocks"]
    assert isinstance(waves, Strips)
    assert isinstance(clocks, Clocks)
    for lines, rate in zip(waves.strips.values(), RATES, strict=True):
        np.testing.assert_allclose(lines["sine"], np.sin(waves.places * rate), atol=1e-9)
        np.testing.assert_allclose(lines["cosine"], np.cos(waves.places * rate), atol=1e-9)
    np.testing.assert_allclose(clocks.sine, np.sin(3 * RATES), atol=1e-7)
    np.testing.assert_allclose(clocks.cosine, np.cos(3 * RATES), atol=1e-7)
    np.testing.assert_allclose(clocks.wavelengths, 2 * np.pi / RATES)


def test_rotary() -> None:
    np.testing.assert_allclose(matrix("rotary"), np.cos(np.arange(20)[:, None] * RATES), atol=1e-7)
    decay = curves(scheme_pictures("rotary", SMALL)["distance"].panel()).lines
    np.testing.assert_allclose(decay["equal query and key"], np.cos(np.arange(20)[:, None] * RATES).mean(1), atol=1e-7)
    sums = [abs(sum(np.exp(1j * 7 * rate) for rate in RATES[:j])) for j in range(1, 9)]
    assert decay["decay of the bound"][7] == pytest.approx(sum(sums) / sum(range(1, 9)), rel=1e-9)


def test_alibi() -> None:
    slopes = 2.0 ** -np.arange(1, 9)[:, None]  # Press et al. 2022: for 8 heads 1/2, 1/4 ... 1/256
    np.testing.assert_allclose(matrix("alibi"), -slopes * np.arange(20), rtol=1e-6)


@pytest.mark.parametrize("scheme", bias_schemes())
def test_each_bias_is_its_own(scheme: str) -> None:
    assert scheme_pictures(scheme, SMALL)["heatmap"].panel().title.startswith(SCHEMES[scheme].title)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_every_scheme_is_shown_or_says_why_not(scheme: str) -> None:
    shown, said = scheme_pictures(scheme, SMALL), about(scheme)
    assert said.startswith(f"{SCHEMES[scheme].title} ({SCHEMES[scheme].paper}) ")
    assert bool(shown) == (scheme != "none")
    assert ("dot products" in said) == (scheme == "rotary" or scheme in bias_schemes())
    assert ("nothing to draw" in said) == (not shown)


def test_a_bias_that_depends_on_contents_is_shown_by_its_scores() -> None:
    scores = matrix("shaw")
    assert scores.shape == (20, 20)
    assert not np.triu(scores, 1).any()
    # Shaw's keys depend on the distance, clipped at 16 tokens: the same along every diagonal, and beyond the clip.
    for distance in range(20):
        np.testing.assert_allclose(np.diagonal(scores, -distance), scores[distance, 0], atol=1e-5)
    np.testing.assert_allclose(scores[17:, 0], scores[16, 0], atol=1e-5)
    assert len(np.unique(scores[:17, 0].round(5))) == 17
    by_distance = curves(scheme_pictures("shaw", SMALL)["distance"].panel()).lines
    assert len(by_distance) == 4
    np.testing.assert_allclose(by_distance["content 1"], scores[-1, ::-1])


def test_numbers_and_digits() -> None:
    assert matrix("index")[:, 0].tolist() == list(range(20))
    assert ["".join(f"{bit:.0f}" for bit in row[4::-1]) for row in matrix("binary")] == [f"{p:05b}" for p in range(20)]


def odometer(scheme: str, knobs: Knobs) -> Odometer:
    panel = scheme_pictures(scheme, knobs)["odometer"].panel()
    assert isinstance(panel, Odometer)
    return panel


@pytest.mark.parametrize(
    ("position", "length", "expected"),
    [(50, 101, range(44, 57)), (3, 20, range(13)), (19, 20, range(7, 20)), (4, 5, range(5))],
)
@pytest.mark.parametrize("scheme", ["sinusoidal", "rotary", "binary"])
def test_the_odometer(scheme: str, position: int, length: int, expected: range) -> None:
    panel = odometer(scheme, Knobs(40, length, 500.0, position, 2))
    assert panel.marked == position
    assert panel.positions.tolist() == list(expected)
    written = [[str(one) for one in expected], [f"{one:b}" for one in expected]]
    widths = len(f"{length - 1}"), len(f"{length - 1:b}")
    for digits, numerals, width in zip((panel.digits, panel.bits), written, widths, strict=True):
        assert ["".join(map(str, row)) for row in digits] == [one.zfill(width) for one in numerals]
    if scheme == "binary":
        assert panel.sine.shape == panel.cosine.shape == (len(expected), 0)
        return
    assert panel.pairs.tolist() == [0, 3, 5, 8, 11, 14, 16, 19]
    rates = 500.0 ** (-panel.pairs / 20)
    np.testing.assert_allclose(panel.sine, np.sin(np.outer(expected, rates)), atol=1e-6)
    np.testing.assert_allclose(panel.cosine, np.cos(np.outer(expected, rates)), atol=1e-6)
    np.testing.assert_allclose(panel.wavelengths, 2 * np.pi / rates)


def test_the_bits_of_the_odometer_are_the_binary_code() -> None:
    panel = odometer("binary", SMALL)
    np.testing.assert_array_equal(panel.bits[:, ::-1], matrix("binary")[panel.positions, :5])


@pytest.mark.parametrize("offset", [1, 2, 44, 1024])
@pytest.mark.parametrize("scheme", ["sinusoidal", "rotary"])
def test_the_circle(scheme: str, offset: int) -> None:
    panel = scheme_pictures(scheme, Knobs(16, 20, 500.0, 3, offset))["circle"].panel()
    assert isinstance(panel, Circle)
    places = np.array([3, 4, 5])
    assert panel.positions.tolist() == places.tolist()
    np.testing.assert_allclose(panel.codes, np.column_stack((np.sin(places), np.cos(places))), atol=1e-7)
    # Vaswani et al. 2017, section 3.5: the addition theorems of sine and cosine.
    turn = [[math.cos(offset), math.sin(offset)], [-math.sin(offset), math.cos(offset)]]
    np.testing.assert_allclose(panel.matrix, turn, atol=1e-12)
    ahead = np.column_stack((np.sin(places + offset), np.cos(places + offset)))
    np.testing.assert_allclose(panel.turned, ahead, atol=1e-6)
    np.testing.assert_allclose(panel.ahead, ahead, atol=1e-6)
    np.testing.assert_allclose(panel.angles, places)
    assert panel.turn == pytest.approx(offset)
    written = chart(panel)["layout"]["annotations"][-1]["text"].replace("\N{MINUS SIGN}", "-")
    assert f"[ {turn[0][0]:+.3f}  {turn[0][1]:+.3f} ;  {turn[1][0]:+.3f}  {turn[1][1]:+.3f} ]" in written
    head, numbers = parsed(panel)
    csv_of = dict(zip(head, numbers.T, strict=True))
    np.testing.assert_allclose(csv_of["cosine at p + k"], np.cos(places + offset), atol=1e-6)
    np.testing.assert_allclose(csv_of["M_k, row 2, column 1"], -math.sin(offset), atol=1e-12)


def test_only_some_schemes_have_an_odometer_and_a_circle() -> None:
    having = {scheme: set(scheme_pictures(scheme, SMALL)) & {"odometer", "circle"} for scheme in SCHEMES}
    both = {"odometer", "circle"}
    expected = {"sinusoidal": both, "rotary": both, "binary": {"odometer"}}
    assert {scheme: found for scheme, found in having.items() if found} == expected


@pytest.mark.sampled(8)
@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_a_picture_has_another_key_exactly_where_a_knob_changes_it(scheme: str) -> None:
    before = scheme_pictures(scheme, SMALL)
    for changed in (Knobs(16, 20, 500.0, 4, 2), Knobs(16, 20, 500.0, 3, 5), Knobs(20, 40, 600.0, 3, 2)):
        after = scheme_pictures(scheme, changed)
        for name in before:
            panels = before[name].panel(), after[name].panel()
            one, other = ((as_csv(panel), getattr(panel, "marked", None)) for panel in panels)
            same = [(picture[name].content, picture[name].marked) for picture in (before, after)]
            assert (same[0] == same[1]) == (one == other), name


def parsed(panel: Panel) -> tuple[list[str], np.ndarray]:
    head, *rows = csv.reader(io.StringIO(as_csv(panel)))
    return head, np.array([[float(cell) for cell in row] for row in rows])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_every_picture_can_be_drawn_and_downloaded(scheme: str) -> None:
    for name, panel in computed(scheme_pictures(scheme, SMALL)).items():
        assert name in PICTURES
        drawn = json.loads(json.dumps(chart(panel)))
        assert drawn["matrix"] if isinstance(panel, Matrix) else drawn["data"]
        assert panel.title
        assert panel.caption
        head, numbers = parsed(panel)
        if isinstance(panel, Matrix):
            assert len(head) == panel.values.shape[1] + 1
            np.testing.assert_array_equal(numbers[:, 1:], panel.values)
        elif isinstance(panel, Curves):
            np.testing.assert_array_equal(numbers[:, 1:].T, list(panel.lines.values()))
        else:
            assert numbers.shape[1] == len(head)


def test_an_image_has_the_colour_of_every_number_and_the_number_itself() -> None:
    values = np.array([[-2.0, -1.0, 0.0], [0.5, 1.0, 2.0]])
    drawn = chart(Matrix("t", "c", values, "a < b", "row", "column"))["matrix"]
    picture = Image.open(io.BytesIO(base64.b64decode(drawn["image"].split(",")[1]))).convert("RGB")
    colours = np.array(picture)
    assert colours.shape == (2, 3, 3)
    assert colours[0, 0].tolist() == [0x5E, 0x27, 0x00]
    assert colours[1, 2].tolist() == [0x00, 0x30, 0x4D]
    assert min(colours[0, 2]) >= 0xFA  # zero is white
    assert drawn["scale"]["ticks"] == [-2, -1, 0, 1, 2]
    assert drawn["names"] == ["row", "column", "a < b"]
    numbers = np.frombuffer(base64.b64decode(drawn["values"]), dtype="<f4")
    np.testing.assert_array_equal(numbers.reshape(2, 3), values)


def test_the_picture_of_one_number_everywhere() -> None:
    drawn = chart(Matrix("t", "c", np.zeros((2, 2)), "value", "row", "column"))["matrix"]
    assert drawn["image"].startswith("data:image/png;base64,")
    assert drawn["scale"]["ticks"] == [0, 0.2, 0.4, 0.6, 0.8, 1]


def test_scalings() -> None:
    head, base, trained, factor = 64, 10000.0, 4096, 8.0
    models = scaled_models(head, base, trained, int(trained * factor))
    slowed = curves(pictures(head, base, trained, int(trained * factor))["slowed"].panel()).lines
    pair = np.arange(head // 2)
    assert list(slowed) == [scaling.title for name, scaling in SCALINGS.items() if name != "proportional"]
    assert len(slowed) == 8
    np.testing.assert_allclose(slowed["no scaling"], 1)
    np.testing.assert_allclose(slowed["PI"], factor)
    np.testing.assert_allclose(slowed["NTK-aware"], factor ** (2 * pair / (head - 2)), rtol=1e-9)
    wavelengths = 2 * math.pi * base ** (2 * pair / head)
    llama = np.clip((trained / wavelengths - 1) / (4 - 1), 0, 1)  # Llama 3's own factors, 1 and 4
    np.testing.assert_allclose(1 / slowed["Llama 3"], llama + (1 - llama) / factor, rtol=1e-9)
    # The code of Peng et al. 2023: a ramp over the pairs, from the one with 32 turns in training to that with one.
    first, last = (head * math.log(trained / (2 * math.pi * turns)) / (2 * math.log(base)) for turns in (32, 1))
    ramp = np.clip((pair - math.floor(first)) / (math.ceil(last) - math.floor(first)), 0, 1)
    for name in ("NTK-by-parts", "YaRN"):
        np.testing.assert_allclose(1 / slowed[name], 1 - ramp + ramp / factor, rtol=1e-9)
    scores = {row[0]: float(row[2]) for row in summary(models)[1:]}
    assert scores["YaRN"] == pytest.approx((0.1 * math.log(factor) + 1) ** 2, rel=1e-3)
    assert scores["PI"] == 1
    unseen = {row[0]: row[3] for row in summary(models)[1:]}
    assert unseen["PI"] == "none"
    assert unseen["no scaling"] == f"from token {trained:,}"


def test_the_labels_of_a_logarithmic_axis_are_whole_numbers() -> None:
    line = Curves("", "", np.arange(3), "", {"slowed": np.array([1.0, 8.0, 63.0])}, "", logarithmic=True)
    assert chart(line)["layout"]["yaxis"]["ticktext"][:7] == ["1", "2", "5", "10", "20", "50", "100"]
    wide = replace(line, lines={"turns": np.array([6.28, 1e6])})
    assert chart(wide)["layout"]["yaxis"]["dtick"] == 1


def test_a_pasted_configuration() -> None:
    config = {
        "model_type": "llama",
        "head_dim": 128,
        "rope_theta": 10000.0,
        "max_position_embeddings": 32768,
        "rope_scaling": {"type": "linear", "factor": 8.0},
    }
    inspection = inspect_text(json.dumps(config))
    assert inspection.declared_length == 32768
    (panel,) = layer_pictures(inspection).values()
    lines = curves(panel).lines
    np.testing.assert_allclose(lines["after"], 8 * lines["before"])
    np.testing.assert_allclose(lines["before"], 2 * np.pi * 10000 ** (np.arange(64) / 64))


@pytest.mark.parametrize(
    ("pasted", "said"),
    [
        ("", "is empty"),
        (None, "is empty"),
        ({"a": 1}, "is empty"),
        ("{", "The pasted text cannot be read as JSON"),
        ("[1]", "The pasted text must hold a JSON object"),
        ("[" * 100_000, "cannot be read as JSON"),
        ('{"a": ' + "9" * 100_000 + "}", "cannot be read as JSON"),
        ("\ud800", "cannot be read as JSON"),
        ("x" * 1_000_001, "longer than 1,000,000 characters"),
    ],
)
def test_pasted_nonsense(pasted: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        inspect_text(pasted)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llama", "head_dim": 10**9},
        {"model_type": "llama", "head_dim": 128, "rope_theta": math.nan},
        {"model_type": "llama", "head_dim": -2, "rope_theta": 1e308},
        {"model_type": "llama", "head_dim": 128, "max_position_embeddings": 10**400},
    ],
)
def test_a_pasted_configuration_that_cannot_be_right_is_a_finding(config: dict[str, Any]) -> None:
    inspection = inspect_text(json.dumps(config))
    assert inspection.parsed is None or layer_pictures(inspection)
    assert inspection.findings


HOSTILE = [10**9, -1, 0, 1.5, math.nan, math.inf, -math.inf, None, "", "64", "DROP", [64], {"a": 1}, True, 10**5000]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: str(type(value).__name__))
def test_only_right_numbers_pass(value: Any) -> None:
    for check in (whole, number):
        if check is number and value == 1.5:
            continue
        with pytest.raises(UsageError, match=r"^Width must be a .*number from 1.* to 1,024; ") as caught:
            check("Width", value, 1, 1024)
        assert len(str(caught.value)) < 150
    assert whole("Width", 64.0, 1, 1024) == 64
    assert number("Base", 1.5, 1, 1024) == 1.5


@pytest.mark.parametrize("value", [None, "", "sinus", 3, ["a"], "x" * 10**6])
def test_only_known_choices_pass(value: Any) -> None:
    with pytest.raises(UsageError, match="must be one of sinusoidal, rotary") as caught:
        choice("Scheme", value, ["sinusoidal", "rotary"])
    assert len(str(caught.value)) < 200
    with pytest.raises(UsageError, match="Did you mean 'rotary'"):
        choice("Scheme", "rotari", ["sinusoidal", "rotary"])


@pytest.mark.parametrize("value", [None, "", "  \n", 3, "x" * 11])
def test_only_short_texts_pass(value: Any) -> None:
    with pytest.raises(UsageError):
        text("The sentence", value, 10)
    assert text("The sentence", "x" * 10, 10) == "x" * 10


def test_values_that_contradict_a_scheme() -> None:
    with pytest.raises(LocantError, match="even width"):
        scheme_pictures("sinusoidal", Knobs(7, 20, 10000.0, 3, 2))
    with pytest.raises(LocantError, match="16 known positions"):
        scheme_pictures("binary", Knobs(4, 20, 10000.0, 3, 2))
    with pytest.raises(UsageError, match="Marked position must be a whole number from 0 to 19; got 20"):
        Knobs.of_page(16, 20, 10000, 20, 2)
    with pytest.raises(UsageError, match="Offset k must be a whole number from 1 to 1,024; got 0"):
        Knobs.of_page(16, 20, 10000, 3, 0)
    with pytest.raises(UsageError, match="Wanted length must be a whole number from 4,096"):
        scaled_models(128, 10000, 4096, 2048)
    with pytest.raises(UsageError, match="Head size must be even"):
        scaled_models(127, 10000, 4096, 8192)


def ask(
    app: Any, values: list[Any], view: Any = PICTURES, drawn: Any = None, near: Any = (), changed: str = "width.value"
) -> dict[str, Any]:
    """What the page's own request says, with any values in it."""
    names = ("scheme", "width", "length", "base", "position", "offset")
    output = next(key for key in app.callback_map if "encodings-message.children" in key)
    outputs = [dict(zip(("id", "property"), part.rsplit(".", 1), strict=True)) for part in output[2:-2].split("...")]
    inputs = [
        {"id": f"encodings-{name}", "property": "value", "value": value}
        for name, value in zip(names, values, strict=True)
    ]
    inputs += [
        {"id": f"encodings-{name}", "property": "data", "value": a} for name, a in (("view", view), ("near", near))
    ]
    state = [{"id": "encodings-drawn", "property": "data", "value": {} if drawn is None else drawn}]
    state += [{"id": "encodings-fitted", "property": "data", "value": []}]
    body = {
        "output": output,
        "outputs": outputs,
        "inputs": inputs,
        "state": state,
        "changedPropIds": [f"encodings-{changed}"],
    }
    response = app.server.test_client().post("/_dash-update-component", json=body)
    assert response.status_code == 200
    return json.loads(response.data)["response"]


def sent(said: dict[str, Any]) -> Any:
    return said["encodings-pictures"]["data"]


def drawings(said: dict[str, Any]) -> set[str]:
    return set(sent(said)["pictures"])


def right(said: dict[str, Any]) -> set[str]:
    return {name for name, shown in sent(said)["drawn"].items() if shown["right"]}


@pytest.fixture(scope="module")
def app() -> Any:
    return build_app()


LARGE = ["sinusoidal", 512, 512, 10000, 5, 2]


def test_only_pictures_in_view_are_computed_and_sent(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("locant.app.explorer.scheme_panels.measure_geometry")  # what the dot products need
    knobs = [*LARGE[:1], 510, *LARGE[2:]]
    said = ask(app, knobs, view=["heatmap", "distance", "nothing"], near=["products"])
    assert said["encodings-message"] == {"children": "", "hidden": True}
    assert drawings(said) == right(said) == {"heatmap", "distance"}
    assert sent(said)["names"] == list(PICTURES)
    assert drawings(ask(app, LARGE, view=[])) == set()


def test_pictures_nearly_in_view_are_sent_when_asked_for(app: Any) -> None:
    drawn = sent(ask(app, LARGE, view=["heatmap"]))["drawn"]
    said = ask(app, LARGE, view=["heatmap"], near=["waves", "circle"], drawn=drawn, changed="near.data")
    assert drawings(said) == {"waves", "circle"}
    assert right(said) == {"heatmap", "waves", "circle"}


def test_only_pictures_that_a_knob_changes_are_sent(app: Any) -> None:
    drawn = sent(ask(app, LARGE))["drawn"]
    assert set(drawn) == set(PICTURES)
    assert drawings(ask(app, LARGE, drawn=drawn)) == set()
    position = ask(app, [*LARGE[:4], 6, 2], drawn=drawn)
    assert drawings(position) == {"distance", "waves", "clocks", "odometer", "circle"}
    assert sent(position)["drawn"]["heatmap"] == drawn["heatmap"]
    assert drawings(ask(app, [*LARGE[:5], 3], drawn=drawn)) == {"circle"}
    assert drawings(ask(app, [*LARGE[:3], 500, 5, 2], drawn=drawn)) == set(PICTURES) - {"circle"}
    fewer = ask(app, ["alibi", *LARGE[1:]], drawn=drawn)
    assert sent(fewer)["names"] == ["heatmap", "distance"]


def test_what_is_no_longer_right_is_known(app: Any) -> None:
    drawn = sent(ask(app, LARGE))["drawn"]
    said = ask(app, [*LARGE[:4], 6, 2], view=["distance"], drawn=drawn)
    assert right(said) == {"heatmap", "distance", "products"}
    back = ask(app, LARGE, view=[], drawn=sent(said)["drawn"])
    assert right(back) == set(PICTURES) - {"distance"}
    assert sent(ask(app, LARGE, drawn=drawn))["drawn"] == drawn


@pytest.mark.parametrize("scheme", ["sinusoidal", "rotary", "learned"])
def test_only_the_mark_moves_along_the_waves(app: Any, scheme: str) -> None:
    first = ask(app, [scheme, 16, 64, 10000, 5, 2])
    (before,) = sent(first)["pictures"]["waves"]["chart"]["layout"]["shapes"]
    second = ask(app, [scheme, 16, 64, 10000, 6, 2], drawn=sent(first)["drawn"])
    shapes = [before | {"x0": 6, "x1": 6}]
    assert sent(second)["pictures"]["waves"] == {"marked": {"row": 6, "shapes": shapes}}


def test_the_numbers_of_a_large_matrix_are_handed_out_when_asked_for(app: Any) -> None:
    said = ask(app, LARGE)
    assert said["encodings-message"] == {"children": "", "hidden": True}
    assert len(json.dumps(said)) < 1_500_000  # two images of a quarter of a million cells, and the waves
    angles = np.arange(512)[:, None] * 10000.0 ** (-np.arange(256) / 256)
    by_distance = np.cos(angles).sum(1)
    apart = by_distance[abs(np.subtract.outer(np.arange(512), np.arange(512)))]
    code = np.stack((np.sin(angles), np.cos(angles)), axis=-1).reshape(512, 512)
    for name, expected in (("heatmap", code), ("products", apart)):
        drawn = sent(said)["pictures"][name]["chart"]["matrix"]
        assert "values" not in drawn
        source = drawn["source"]
        answer = app.server.test_client().post(source["address"], json=source["body"])
        numbers = np.frombuffer(answer.data, dtype="<f4").reshape(512, 512)
        np.testing.assert_allclose(numbers, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"picture": "heatmap"},
        {"picture": "clocks", "knobs": ["sinusoidal", 8, 8, 10, 1, 1]},
        {"picture": "heatmap", "knobs": ["sinusoidal", 10**9, 8, 10, 1, 1]},
        {"picture": ["a"], "knobs": {"a": 1}},
    ],
)
def test_wrong_requests_for_numbers_are_refused(app: Any, body: Any) -> None:
    assert app.server.test_client().post("/cells/encodings", json=body).status_code == 400


@pytest.mark.parametrize(("view", "drawn"), [(None, {}), ({"a": 1}, {}), ("heatmap", []), ([["a"], 1], 3), (3, None)])
def test_nonsense_about_what_is_in_view(app: Any, view: Any, drawn: Any) -> None:
    for changed in ("width.value", "near.data"):
        assert "encodings-message" in ask(app, LARGE, view=view, drawn=drawn, near=view, changed=changed)


@pytest.mark.parametrize("value", HOSTILE[:-1], ids=str)
def test_hostile_requests_are_told_what_is_wrong(app: Any, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("locant.app.explorer.scheme_panels.scheme_code")  # nothing is computed
    for scheme, width, length in (("sinusoidal", value, 64), ("sinusoidal", 64, value), (value, 64, 64)):
        said = ask(app, [scheme, width, length, 10000, 5, 2])
        assert "must be" in said["encodings-message"]["children"]
        assert said["encodings-message"]["hidden"] is False
        assert "encodings-heatmap" not in said  # the picture stays


def test_a_surprise_is_logged_and_not_shown(
    app: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(*_: Any, **__: Any) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr("locant.app.explorer.scheme_panels.code_table", breaks)
    said = ask(app, ["learned", 62, 63, 10000, 5, 2])["encodings-message"]["children"]
    assert "could not be computed" in said
    assert "secret" not in said
    assert "a secret" in caplog.text


def test_too_large_a_request_is_refused(app: Any) -> None:
    response = app.server.test_client().post("/_dash-update-component", json="x" * 4_000_001)
    assert response.status_code == 413


def test_browsers_are_told_to_fetch_nothing_from_elsewhere(app: Any) -> None:
    response = app.server.test_client().get("/")
    assert "default-src 'self'" in response.headers["Content-Security-Policy"]
    assert b"http://" not in response.data
    assert b"https://" not in response.data


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost:8050", None, 200),
        ("127.0.0.1:8050", "http://127.0.0.1:8050", 200),
        ("[::1]:8050", "http://[::1]:8050", 200),
        ("LOCALHOST.:8050", "http://localhost.:8050", 200),
        ("192.168.7.9:8050", None, 200),
        ("attacker.example:8050", None, 403),
        ("attacker.example:8050", "http://attacker.example:8050", 403),
        ("127.0.0.1.attacker.example", None, 403),
        ("[::1", None, 403),
        ("", None, 403),
        ("localhost:8050", "http://attacker.example", 403),
        ("localhost:8050", "http://localhost:8051", 403),
        ("localhost:8050", "null", 403),
        ("localhost:8050", "http://[::1", 403),
    ],
)
def test_only_the_own_pages_are_answered(app: Any, host: str, origin: str | None, status: int) -> None:
    headers = {"Host": host} | ({"Origin": origin} if origin else {})
    for answer in (
        app.server.test_client().get("/", headers=headers),
        app.server.test_client().get("/_dash-layout", headers=headers),
    ):
        assert answer.status_code == status
        assert b"Traceback" not in answer.data
    posted = app.server.test_client().post("/_dash-update-component", json={}, headers=headers)
    assert (posted.status_code == 403) == (status == 403)


def test_a_named_host_is_answered_under_its_name() -> None:
    assert "shown.example" in own_names("shown.example")
    assert socket.gethostname().lower() in own_names("0.0.0.0")
    assert socket.gethostname().lower() not in own_names("127.0.0.1") - {"localhost"}


def test_ports() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match="is in use"):
        listen("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(UsageError, match="0 to 65535"):
        listen("127.0.0.1", 65536)
    with pytest.raises(LocantError, match="No server can listen"):
        listen("not an address", 0)


@pytest.mark.parametrize("package", ["dash", "PIL", "waitress"])
def test_missing_packages(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"locant\[explore\]"):
        build_app()
