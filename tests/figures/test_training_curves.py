import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from locant.errors import DataError
from locant.figures import svg, training_curves

SVG = "{http://www.w3.org/2000/svg}"


def training_row(step: int) -> dict[str, Any]:
    return {
        "kind": "training",
        "step": step,
        "loss": 9 - step / 100,
        "nll": 8 - step / 100,
        "learning_rate": step * 1e-5,
        "tokens_per_second": 9000.0 + step,
        "seconds": step * 6.0,
    }


def validation_row(step: int, bleu: float | None = 20.0, chrf: float | None = 50.0) -> dict[str, Any]:
    return {"kind": "validation", "step": step, "loss": 4.0, "bleu": bleu, "chrf": chrf, "seconds": step * 6.0}


ROWS = [training_row(10), training_row(20), training_row(30), validation_row(30), training_row(40), validation_row(40)]


@pytest.fixture(scope="module")
def figure() -> Any:
    return training_curves(ROWS)


def panels(figure: Any) -> dict[str, Any]:
    return {axes.get_title(loc="left"): axes for axes in figure.figure.axes if axes.axison}


def lines(axes: Any) -> dict[str, list[tuple[float, float]]]:
    return {line.get_label(): list(zip(*line.get_data(), strict=True)) for line in axes.lines}


def test_every_panel_shows_the_numbers_it_is_given(figure: Any) -> None:
    found = panels(figure)
    assert list(found) == ["Loss", "Validation translations", "Learning rate", "Speed"]
    assert lines(found["Loss"]) == {
        "training": [(10, 7.9), (20, 7.8), (30, 7.7), (40, 7.6)],
        "validation": [(30, 4.0), (40, 4.0)],
    }
    assert lines(found["Validation translations"]) == {
        "BLEU": [(30, 20.0), (40, 20.0)],
        "chrF": [(30, 50.0), (40, 50.0)],
    }
    (rate,) = lines(found["Learning rate"]).values()
    assert rate == [(step, pytest.approx(step * 1e-5)) for step in (10, 20, 30, 40)]
    (speed,) = lines(found["Speed"]).values()
    assert speed == [(step, 9000 + step) for step in (10, 20, 30, 40)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("pace", "unit", "last"), [(0.5, "seconds", 20), (6, "minutes", 4), (600, "hours", 6)])
def test_the_top_shows_the_time_trained(pace: float, unit: str, last: int) -> None:
    """At 6 seconds an update, 40 updates take 4 minutes, and 1 minute stands above update 10."""
    rows = [{**row, "seconds": row["step"] * pace} for row in ROWS]
    (top,) = panels(training_curves(rows))["Loss"].child_axes
    assert top.get_xlabel() == f"{unit} of training"
    size = {"seconds": 1, "minutes": 60, "hours": 3600}[unit]
    ticks = {
        float(label.get_text()): position
        for label, position in zip(top.get_xticklabels(), top.get_xticks(), strict=True)
    }
    assert max(ticks) == last
    for time, position in ticks.items():
        assert position == pytest.approx(time * size / pace)


def test_a_panel_without_numbers_is_left_out() -> None:
    plain = [training_row(10), validation_row(10, None, None), training_row(20)]
    assert list(panels(training_curves(plain))) == ["Loss", "Learning rate", "Speed"]
    assert list(panels(training_curves([validation_row(5)]))) == ["Loss", "Validation translations"]
    only_bleu = panels(training_curves([validation_row(5, chrf=None), validation_row(6, bleu=None, chrf=None)]))
    assert lines(only_bleu["Validation translations"]) == {"BLEU": [(5, 20.0)]}


def test_nothing_to_draw() -> None:
    with pytest.raises(DataError, match="has not reported any metrics yet"):
        training_curves([])


def test_svg_is_one_element_that_needs_nothing_else(figure: Any) -> None:
    text = svg(figure, name="curves", description='Loss < 8 & "more"')
    root = ET.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert root.attrib["role"] == "img"
    assert root[0].tag == f"{SVG}title"
    assert root[0].text == 'Loss < 8 & "more"'
    assert root.attrib["aria-labelledby"] == root[0].attrib["id"]
    assert not list(root.iter(f"{SVG}style")), "it would apply to the whole page"
    assert set(re.findall(r"https?://[^\"\s]*", text)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    assert len(ids) == len(set(ids))
    assert all(name.startswith("curves-") for name in ids)
    used = set(re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', text))
    assert used
    assert {a or b for a, b in used} <= set(ids)


@pytest.mark.parametrize(("bleu", "chrf"), [(1.0, 8.0), (30.0, 55.0)])
def test_the_legend_of_scores_hides_no_curve(bleu: float, chrf: float) -> None:
    rows = [training_row(1), *(validation_row(step, bleu, chrf + step / 100) for step in (20, 30, 40))]
    axes = panels(training_curves(rows))["Validation translations"]
    axes.figure.canvas.draw()
    legend = axes.get_legend().get_window_extent()
    for line in axes.lines:
        assert not line.get_path().transformed(line.get_transform()).intersects_bbox(legend, filled=False)
