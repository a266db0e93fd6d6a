"""Figures that explain the sinusoids: sine alone and turning pairs."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from locant.figures import draw_figure


def exact(position: int, width: int) -> np.ndarray:
    with mpmath.workdps(40):
        angles = [position / mpmath.mpf(10000) ** (mpmath.mpf(2 * pair) / width) for pair in range(width // 2)]
        return np.array([float(f(angle)) for angle in angles for f in (mpmath.sin, mpmath.cos)])


def test_sine_alone_has_no_linear_map() -> None:
    drawn = draw_figure("sine-alone", d_model=16, length=400)
    rates = 10000.0 ** (-np.arange(8) / 8)
    angles = np.outer(np.arange(465), rates)
    both = np.hstack((np.sin(angles), np.cos(angles)))
    for k in (1, 7, 64):
        for name, table in (("8 sines", np.sin(angles)), ("8 sines and 8 cosines", both)):
            now, later = table[:400], table[k : k + 400]
            solved = np.linalg.lstsq(now, later, rcond=None)[0]
            left = np.linalg.norm(later - now @ solved) / np.linalg.norm(later)
            assert drawn.data[name][k] == pytest.approx(left, abs=1e-7)
    assert drawn.data["8 sines and 8 cosines"].max() < 1e-9
    assert drawn.data["8 sines"][1:].min() > 0.2
    assert drawn.data["16 sines, of twice as many waves"][1:].min() > 0.15


def test_one_sine_leaves_the_sine_of_the_offset() -> None:
    drawn = draw_figure("sine-alone", d_model=2, length=4000)
    np.testing.assert_allclose(drawn.data["1 sines"], np.abs(np.sin(np.arange(65.0))), atol=2e-3)
    marks = [line for line in drawn.figure.axes[0].lines if line.get_markersize() == 9]
    (x, y), (other, far) = (line.get_xydata()[0] for line in marks)
    assert abs(x - other) < 0.02
    assert abs(y - far) > 1
    first = int(drawn.figure.axes[0].texts[0].get_text().split("\n")[0].removeprefix("p = "))  # the upper one
    assert (x, y) == pytest.approx((math.sin(first), math.sin(first + 2)))


def test_turning_pairs_at_the_width_of_the_paper() -> None:
    drawn = draw_figure("turning-pairs")
    turned = [float(49 * mpmath.mpf(10000) ** (mpmath.mpf(-pair) / 256)) for pair in range(256)]
    np.testing.assert_allclose(drawn.data["angles"], turned, rtol=1e-12)
    counts = [sum(angle > threshold for angle in turned) for threshold in (0.1, 1)]
    said = [text.get_text() for text in drawn.figure.axes[0].texts]
    assert counts == [173, 109]
    assert said == ["173 of 256 pairs", "109 of 256 pairs"]
    waves = np.outer(np.arange(50), np.array(turned) / 49)
    np.testing.assert_allclose(drawn.data["spreads"], [np.sin(waves).std(0), np.cos(waves).std(0)], atol=1e-7)
    for row, threshold in zip(drawn.data["shares"], (0.1, 1), strict=True):
        length = drawn.data["lengths"][90]
        share = np.mean([(length - 1) * angle / 49 > threshold for angle in turned])
        assert row[90] == pytest.approx(share)
