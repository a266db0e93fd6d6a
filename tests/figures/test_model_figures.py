"""Figures of trained models, with numbers given: what is drawn is what was given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from locant.figures import FIGURES

RANDOM = np.random.default_rng(0)
SOURCE, TARGET = ["a", "bird", "sings"], ["(begin)", "ein", "Vogel", "singt"]


def weights(layers: int, heads: int, queries: int, keys: int) -> Any:
    values = RANDOM.random((layers, heads, queries, keys))
    return values / values.sum(-1, keepdims=True)


def test_attention_of_every_layer_and_head() -> None:
    kinds = {"Encoder": (weights(2, 3, 3, 3), (SOURCE, SOURCE)), "Cross": (weights(4, 3, 4, 3), (TARGET, SOURCE))}
    given = {kind: values for kind, (values, _) in kinds.items()}
    drawn = FIGURES["attention"].drawn({"names": {kind: names for kind, (_, names) in kinds.items()}, **given})
    figure: Any = drawn.figure
    assert set(drawn.data) == set(kinds)
    panels = [axes for axes in figure.findobj(Axes) if axes.images]  # colour bars have none
    cells = [(kind, *place) for kind, (values, _) in kinds.items() for place in np.ndindex(values.shape[:2])]
    for axes, (kind, layer, head) in zip(panels, cells, strict=True):
        values, (rows, columns) = kinds[kind]
        (image,) = axes.images
        np.testing.assert_array_equal(np.asarray(image.get_array()), values[layer, head])
        assert (image.norm.vmin, image.norm.vmax) == (0, 1)
        # Each tick stands in the middle of a cell and has the name of its token.
        shown = ([] if head else rows, columns if layer == len(values) - 1 else [])
        for axis, names in zip((axes.yaxis, axes.xaxis), shown, strict=True):
            assert axis.get_ticklocs().tolist() == list(range(len(names)))
            assert [label.get_text() for label in axis.get_ticklabels()] == names
        box = axes.get_window_extent()
        assert box.width / values.shape[3] == pytest.approx(box.height / values.shape[2])
        tight = axes.get_tightbbox()  # nothing of the letters lies outside the figure
        assert min(tight.x0, tight.y0) >= 0
        assert tight.x1 <= figure.bbox.width
        assert tight.y1 <= figure.bbox.height


def test_the_probe_cuts_off_what_is_worse_than_a_guess() -> None:
    numbers: dict[str, Any] = {}
    for stack in ("Encoder", "Decoder"):
        numbers |= {f"r2 {stack}, with residual connections": np.array([0.0, 0.9, 0.8])}
        numbers |= {f"r2 {stack}, without them": np.array([0.0, 0.9, -3.0])}
        numbers |= {f"error {stack}, with residual connections": np.array([9.0, 1.0, 2.0])}
        numbers |= {f"error {stack}, without them": np.array([9.0, 1.0, 12.0]), f"guess {stack}": 10.0}
    above, _, below, _ = FIGURES["probe"].drawn(numbers).figure.axes
    assert above.lines[1].get_ydata().tolist() == [0.0, 0.9, 0.0]
    assert below.lines[1].get_ydata().tolist() == [9.0, 1.0, 12.0]
    assert below.get_ylim()[1] >= 12
    assert below.lines[2].get_ydata()[0] == 10.0
