"""Colours of figures and explorer can be told apart by people with any colour vision, or something else tells them."""

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from colour_vision import SEEN, contrast, distance, lab, nearest_distance

import locant.app
from locant.figures.palette import (
    BLUE,
    BOTH_SIGNS,
    DARK,
    FAINT,
    GREEN,
    INK,
    ONE_SIGN,
    ORANGE,
    PURPLE,
    SKY,
    VARIABLES,
    VERMILION,
    scheme_line,
    styles_of,
)
from locant.positions import SCHEMES

APART = 10.0
"""CIEDE2000 from which on lines of two colours are told apart without looking twice."""

PALETTE = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, INK, FAINT)
DARK_PAGES = ("#1d2329", "#131416")
"""What is behind pictures on dark pages."""


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [  # printed by Sharma, Wu and Dalal (2005), table 1
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, -1.3802, -84.2814), (50, 0, -82.7485), 1.0),
        ((50, 2.49, -0.001), (50, -2.49, 0.0011), 7.2195),
        ((50, 2.5, 0), (73, 25, -18), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((2.0776, 0.0795, -1.135), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_distance_of_colours(one: tuple[float, ...], other: tuple[float, ...], expected: float) -> None:
    assert distance(np.array(one), np.array(other)) == pytest.approx(expected, abs=1e-4)


def test_what_is_seen() -> None:
    np.testing.assert_allclose(lab("#ffffff"), [100, 0, 0], atol=0.02)
    assert nearest_distance("#d00000", "#008000") < distance(lab("#d00000"), lab("#008000")) / 2


def of_pages(colours: str) -> list[str]:
    """The colours of lines on the explorer's pages, which are light or dark."""
    style = (Path(locant.app.__file__).parent / "pages" / "style.css").read_text("utf-8")
    light, dark = re.findall(r":root[^{]*\{([^}]*)\}", style)[::2]
    variables = dict(re.findall(r"--(\w+): (#\w+)", light if colours == "light" else dark))
    lines = re.findall(r"^\.line-\d.*--c: (?:var\(--(\w+)\)|(#\w+))", style, re.MULTILINE)
    return [variables.get(name, colour) for name, colour in lines]


@pytest.mark.parametrize("colours", [PALETTE, of_pages("light"), of_pages("dark")], ids=["figures", "light", "dark"])
def test_the_palette(colours: Sequence[str]) -> None:
    assert len(colours) >= 6
    assert min(nearest_distance(one, other) for one, other in itertools.combinations(colours, 2)) >= APART


@pytest.mark.parametrize("page", ["pages/style.css", "templates/report.css"])
def test_pages_have_the_colours_of_figures(page: str) -> None:
    """The same thing has the same colour in a figure, in a report and in the explorer, light and dark."""
    style = (Path(locant.app.__file__).parent / page).read_text("utf-8")
    light, dark = re.findall(r":root[^{]*\{([^}]*)\}", style)[:2]
    for of_page, palette in ((light, dict(zip(VARIABLES, VARIABLES, strict=True))), (dark, DARK)):
        variables = dict(re.findall(r"--(\w+): (#\w+)", of_page))
        for colour in (BLUE, VERMILION, GREEN, ORANGE, PURPLE):
            assert variables[VARIABLES[colour]].lower() == palette[colour].lower()


def test_a_scheme_has_its_colour_whatever_it_is_compared_with() -> None:
    assert set(SCHEME_LINES) <= set(SCHEMES)
    alone, other = styles_of(["rotary"]), styles_of(["other", "alibi", "rotary, base 500"])
    assert alone[0] == other[2]
    assert len({tuple(style.values()) for style in styles_of(list(SCHEMES))}) == len(SCHEMES)


@pytest.mark.parametrize("page", DARK_PAGES)
def test_colours_on_a_dark_page_are_seen(page: str) -> None:
    assert min(contrast(one, page) for one in of_pages("dark")) >= 4.5  # that of letters in WCAG 2.2


def test_signs_are_told_apart() -> None:
    for negative, positive in zip(BOTH_SIGNS[:3], BOTH_SIGNS[:3:-1], strict=True):
        assert nearest_distance(negative, positive) >= APART


@pytest.mark.parametrize("vision", SEEN)
@pytest.mark.parametrize("stops", [BOTH_SIGNS[:4], BOTH_SIGNS[:2:-1], ONE_SIGN[::-1]])
def test_maps_of_colours_become_lighter_towards_zero(vision: str, stops: Sequence[str]) -> None:
    lightness = [lab(colour, vision)[0] for colour in stops]
    assert np.diff(lightness).min() > 5
