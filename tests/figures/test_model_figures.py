"""Figures of trained models, with numbers given: what is drawn is what was given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from locant.figures import (
    Curve,
    HeadBiases,
    HeadWeights,
    ProbeCurve,
    Refutation,
    WordPlane,
    attention,
    bias,
    probe,
    tutorial_errors,
    word_plus_position,
)

RANDOM = np.random.default_rng(0)


def weights(layers: int, heads: int, queries: int, keys: int) -> Any:
    values = RANDOM.random((layers, heads, queries, keys))
    return values / values.sum(-1, keepdims=True)


@pytest.fixture(scope="module")
def kinds() -> list[HeadWeights]:
    source, target = ["a", "bird", "sings"], ["(begin)", "ein", "Vogel", "singt-und-singt-und"]
    return [
        HeadWeights("Encoder", weights(2, 3, 3, 3), source, source),
        HeadWeights("Cross", weights(4, 3, 4, 3), target, source),
    ]


def test_attention_of_every_layer_and_head(kinds: list[HeadWeights]) -> None:
    drawn = attention(kinds)
    figure: Any = drawn.figure
    for axes, kind in zip(figure.axes, kinds, strict=False):
        layers, heads, queries, keys = kind.weights.shape
        assert len(axes.images) == layers * heads
        for number, image in enumerate(axes.images):
            np.testing.assert_array_equal(np.asarray(image.get_array()), kind.weights[divmod(number, heads)])
            assert (image.norm.vmin, image.norm.vmax) == (0, 1)
            # Each tick stands in the middle of a cell of this image and has the name of its token.
            left, right, low, high = image.get_extent()
            across = [(x, label.get_text()) for x, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)]
            inside = [(x - left, name) for x, name in across if left < x < right]
            assert inside == [(pytest.approx(i + 0.5), key) for i, key in enumerate(kind.keys)]
            down = [(y, label.get_text()) for y, label in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)]
            beside = [(y - high, name) for y, name in down if high < y < low]
            assert [round(y, 6) for y, _ in beside] == [i + 0.5 for i in range(queries)]
            for shown, given in zip(beside, kind.queries, strict=True):
                assert shown[1] == given if len(given) <= 14 else shown[1] == given[:13] + "…"
            assert right - left == keys
        assert {f"head {n}" for n in range(1, heads + 1)} <= {text.get_text() for text in axes.texts}
        assert {f"layer {n}" for n in range(1, layers + 1)} <= {text.get_text() for text in axes.texts}
    assert set(drawn.data) == {"Encoder", "Cross"}


def test_cells_have_one_size(kinds: list[HeadWeights]) -> None:
    """An image of one kind of attention can be compared with one of another."""
    figure: Any = attention(kinds).figure
    figure.draw_without_rendering()
    sizes = []
    for axes in figure.axes[: len(kinds)]:
        box, (low, high) = axes.get_window_extent(), axes.get_xlim()
        sizes.append(box.width / (high - low))
        assert box.height / abs(np.subtract(*axes.get_ylim())) == pytest.approx(sizes[-1])
        # Nothing of the letters lies outside the figure.
        tight = axes.get_tightbbox()
        assert tight.x0 >= 0
        assert tight.y0 >= 0
        assert tight.x1 <= figure.bbox.width
        assert tight.y1 <= figure.bbox.height
    assert sizes[0] == pytest.approx(sizes[1])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("equal", [True, False])
def test_words_with_their_positions(equal: bool) -> None:
    angles = np.arange(8) * 0.5
    positions = np.stack((np.sin(angles), np.cos(angles)), axis=1) * (1 if equal else np.arange(1, 9)[:, None])
    words = np.array([[0.0, 0.0], [5.0, 1.0]])
    norms = np.array([4.0, 5.0, 6.0]), np.hypot(*positions.T)
    plane = WordPlane("A pair", ("sine", "cosine"), words, positions)
    drawn = word_plus_position([plane], labels=["one", "two"], word_norms=norms[0], position_norms=norms[1])
    figure: Any = drawn.figure
    axes, lengths = figure.axes[:2]
    for word, places in zip(words, axes.collections, strict=True):
        np.testing.assert_allclose(np.asarray(places.get_offsets()), word + positions)
    assert [text.get_text() for text in axes.texts] == ["one", "two"]
    assert len(axes.patches) == (2 if equal else 0)
    counts = [bar.get_height() for bar in lengths.patches if bar.get_height()]
    assert sum(counts[:3]) == 3
    said = [text.get_text() for text in lengths.get_legend().get_texts()]
    assert said[0].endswith("median 5.0")
    assert said[1] == ("position codes, 1.0" if equal else "position codes, 1.0 to 8.0")


def test_probe_shows_both_conditions() -> None:
    kept = ProbeCurve("with", np.array([0.0, 0.9, 0.8]), np.array([9.0, 1.0, 2.0]))
    cut = ProbeCurve("without", np.array([0.0, 0.9, -3.0]), np.array([9.0, 1.0, 12.0]))
    drawn = probe(
        {"Encoder": [kept, cut]}, stages={"Encoder": ["words", "input", "layer 1"]}, guesses={"Encoder": 10.0}
    )
    figure: Any = drawn.figure
    above, below = figure.axes
    assert above.lines[0].get_ydata().tolist() == [0.0, 0.9, 0.8]
    assert above.lines[1].get_ydata().tolist() == [0.0, 0.9, 0.0]  # as bad as guessing, and worse
    assert drawn.data["r2 Encoder, without"].tolist() == [0.0, 0.9, -3.0]
    assert below.lines[1].get_ydata().tolist() == [9.0, 1.0, 12.0]
    assert below.get_ylim()[1] >= 12
    assert below.lines[2].get_ydata()[0] == 10.0


def test_refutations() -> None:
    curves = [Curve("one", np.array([1.0, 2.0, 4.0]), np.array([3.0, 1.0, 2.0]), marked=1, dotted=True)]
    drawn = tutorial_errors([Refutation("It falls", "it does not", curves, ("x", "y"), logarithmic="x")])
    figure: Any = drawn.figure
    axes = figure.axes[0]
    assert axes.get_title(loc="left") == "“It falls”"
    assert axes.texts[0].get_text() == "it does not"
    assert axes.lines[0].get_xydata().tolist() == [[1, 3], [2, 1], [4, 2]]
    assert axes.lines[1].get_xydata().tolist() == [[2, 1]]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "4"]
    assert drawn.data["It falls: one"].shape == (2, 3)


def test_biases_in_rows_alone() -> None:
    """Where no scheme is drawn with lines, there is no legend of heads."""
    values = RANDOM.normal(size=(2, 5))
    figure: Any = bias(np.arange(5.0), [HeadBiases("learned", values, stepped=True)]).figure
    np.testing.assert_array_equal(np.asarray(figure.axes[0].images[0].get_array()), values)
    assert not any(axes.get_legend() for axes in figure.axes)
