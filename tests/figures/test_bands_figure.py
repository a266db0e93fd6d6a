"""The picture of a model's bands shows what it was given."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.axes import Axes

from locant.figures import LayerBands, bands


def _layer(name: str, trained: int | None) -> LayerBands:
    return LayerBands(
        name=name,
        note="scaling made up",
        wavelengths=np.array([6.0, 60.0, 600.0, 6000.0, 60000.0]),
        scaled=np.array([6.0, 60.0, 1200.0, 24000.0, math.inf]),
        fates=["kept", "kept", "blended", "interpolated", "still"],
        trained=trained,
        effective=8192,
    )


def _points(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    lines = {str(line.get_label()): line for line in axes.get_lines()}
    return {
        name: list(zip(map(float, line.get_xdata()), map(float, line.get_ydata()), strict=True))
        for name, line in lines.items()
    }


def test_every_pair_stands_at_its_wavelength() -> None:
    drawn = bands([_layer("full_attention", 2048), _layer("sliding_attention", None)], title="Model")
    first, second = drawn.figure.axes
    points = _points(first)
    assert points["before scaling"] == [(0, 6), (1, 60), (2, 600), (3, 6000), (4, 60000)]
    assert points["2 kept: all its angles are known"] == [(0, 6), (1, 60)]
    assert points["1 blended: slowed by less"] == [(2, 1200)]
    assert points["1 interpolated: no angle will be new"] == [(3, 24000)]
    assert points["1 still: never turned"] == [(4, 60000)]  # before the scaling it was there
    assert {y for _, y in points["trained: 2,048 tokens"]} == {2048}
    assert {y for _, y in points["made for: 8,192 tokens"]} == {8192}
    assert not any("trained" in name for name in _points(second))
    assert [axes.get_title(loc="left") for axes in (first, second)] == [
        "full_attention layers",
        "sliding_attention layers",
    ]
    assert list(drawn.data["fates full_attention"]) == ["kept", "kept", "blended", "interpolated", "still"]


def test_one_length_is_drawn_once() -> None:
    layer = _layer("all", 8192)
    (axes,) = bands([layer], title="Model").figure.axes
    assert [name for name in _points(axes) if "tokens" in name] == ["trained: 8,192 tokens"]
