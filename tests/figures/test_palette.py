"""Colours of figures and explorer can be told apart by people with any colour vision, or something else tells them."""

import itertools
import json
import re
from collections.abc import Sequence

import numpy as np
import pytest
from colour_vision import SEEN, contrast, lab, nearest_distance

from locant.app import Report, render_report
from locant.app.explore import page
from locant.figures.palette import (
    BLUE,
    BOTH_SIGNS,
    DARK,
    FAINT,
    GREEN,
    INK,
    ONE_SIGN,
    ORANGE,
    PAPER,
    PURPLE,
    SKY,
    VARIABLES,
    VERMILION,
    head_shades,
    line_style,
    scheme_line,
    styles_of,
)
from locant.positions import SCHEMES

APART = 12.0
"""From here on lines of two colours are told apart without looking twice."""

PALETTE = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, INK, FAINT)
DARK_PAGES = ("#1d2329", "#131416")
"""What is behind pictures on dark pages."""


def test_what_is_seen() -> None:
    np.testing.assert_allclose(lab("#ffffff"), [100, 0, 0], atol=0.02)
    assert nearest_distance("#d00000", "#008000") < np.linalg.norm(lab("#d00000") - lab("#008000")) / 2


def of_lines(palette: dict[str, str]) -> list[str]:
    """The colours of lines, of figures as of the explorer's pages, which are light or dark."""
    return [palette[line_style(number)["color"]] for number in range(7)]


LIGHT = {colour: colour for colour in VARIABLES}


@pytest.mark.parametrize("colours", [PALETTE, of_lines(LIGHT), of_lines(DARK)], ids=["figures", "light", "dark"])
def test_the_palette(colours: Sequence[str]) -> None:
    assert len(colours) >= 6
    assert min(nearest_distance(one, other) for one, other in itertools.combinations(colours, 2)) >= APART


def test_pages_have_the_colours_of_figures() -> None:
    """The same thing has the same colour in a figure, in a report and in the explorer, light and dark."""
    pages = (page(), render_report(Report("Title", "Summary", [])))
    for colour in (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY):
        declared = f"--{VARIABLES[colour]}: light-dark({colour}, {DARK[colour]});"
        assert all(declared in text for text in pages)


def test_heads_are_seen_on_any_page() -> None:
    shades = head_shades(8)
    assert len(set(shades)) == 8
    assert min(contrast(shade, page) for shade in shades for page in ("#ffffff", DARK[PAPER])) >= 2.5


def test_a_scheme_has_its_colour_whatever_it_is_compared_with() -> None:
    alone, other = styles_of(["rotary"]), styles_of(["other", "alibi", "rotary, base 500"])
    assert alone[0] == other[2]
    assert len({tuple(style.values()) for style in styles_of(list(SCHEMES))}) == len(SCHEMES)


def test_a_scheme_of_somebody_else_has_its_colour_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEMES, "ours", SCHEMES["none"])
    alone, among = styles_of(["ours"]), styles_of(["other", *SCHEMES])
    assert alone[0] == among[-1] == line_style(scheme_line("ours"))
    in_page = json.loads(re.search(r'id="styles">(.*?)</script>', page())[1])["schemes"]  # type: ignore[index]
    assert set(in_page) == set(SCHEMES)
    for name, style in in_page.items():
        assert style["color"] == f"var(--{VARIABLES[line_style(scheme_line(name))['color']]})"


@pytest.mark.parametrize("behind", DARK_PAGES)
def test_colours_on_a_dark_page_are_seen(behind: str) -> None:
    assert min(contrast(one, behind) for one in of_lines(DARK)[:6]) >= 4.5  # that of letters in WCAG 2.2


def test_signs_are_told_apart() -> None:
    for negative, positive in zip(BOTH_SIGNS[:3], BOTH_SIGNS[:3:-1], strict=True):
        assert nearest_distance(negative, positive) >= APART


@pytest.mark.parametrize("vision", SEEN)
@pytest.mark.parametrize("stops", [BOTH_SIGNS[:4], BOTH_SIGNS[:2:-1], ONE_SIGN[::-1]])
def test_maps_of_colours_become_lighter_towards_zero(vision: str, stops: Sequence[str]) -> None:
    lightness = [lab(colour, vision)[0] for colour in stops]
    assert np.diff(lightness).min() > 5
