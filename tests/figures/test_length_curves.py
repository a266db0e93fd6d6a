"""Quality against length."""

import pytest

pytest.importorskip("matplotlib", reason="the extra 'figures' is not installed")

from locant.errors import DataError
from locant.figures import quality_by_length

LABELS = {"title": "t", "length_label": "l", "quality_label": "q"}


def _curves(count: int) -> dict[str, dict[int, list[float]]]:
    return {f"scheme {number}": {1: [number], 2: [number + 1.0]} for number in range(count)}


def _legend(curves: dict[str, dict[int, list[float]]]) -> list[str]:
    axes = quality_by_length(curves, **LABELS).figure.axes[0]
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_few_lines_keep_their_order() -> None:
    assert _legend(_curves(7)) == [f"scheme {number}" for number in range(7)]


def test_many_lines_are_listed_from_the_highest_to_the_lowest() -> None:
    assert _legend(_curves(12)) == [f"scheme {number}" for number in reversed(range(12))]


def test_no_two_of_all_schemes_look_alike() -> None:
    axes = quality_by_length(_curves(28), **LABELS).figure.axes[0]
    looks = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in axes.get_lines()}
    assert len(looks) == 28


def test_a_line_without_values_is_left_out() -> None:
    assert _legend({**_curves(1), "cannot": {1: []}}) == ["scheme 0"]
    with pytest.raises(DataError, match="not a single value"):
        quality_by_length({"cannot": {1: []}}, **LABELS)
