"""What the pictures of an evaluation by length show is what was measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from locant.app.context_report import perplexity_curves, retrieval_grid


def test_perplexity_curves() -> None:
    lengths = [2048, 8192, 12000]
    measured = {"none": [5.0, 6.0, None], "yarn": [5.5, 5.0, 4000.0]}
    results: dict[str, Any] = {
        "settings": {"methods": list(measured), "lengths": lengths},
        "trained_length": 8192,
        "perplexity": [
            {"method": name, "metric": "whole", "perplexity": one} for name, of in measured.items() for one in of
        ],
    }
    axes = perplexity_curves(results, "whole").figure.axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    top = axes.get_ylim()[1]
    assert top == pytest.approx(20 * 5.0)  # beyond it a curve stays at the edge
    assert list(lines["none"].get_xdata()) == lengths
    np.testing.assert_allclose(np.asarray(lines["none"].get_ydata(), float), [5.0, 6.0, top])
    np.testing.assert_allclose(np.asarray(lines["yarn"].get_ydata(), float), [5.5, 5.0, top])
    assert any(list(line.get_xdata()) == [8192, 8192] for line in axes.get_lines())
    assert [text.get_text() for text in axes.get_xticklabels()] == ["2k", "8k", "12,000"]


def test_the_heat_map_says_every_share() -> None:
    scores = np.array([[1.0, 0.3], [0.0, 0.7], [0.5, 1.0]])
    rows = [
        {"test": "passkey", "method": "none", "depth": depth / 2, "length": length, "score": scores[depth, column]}
        for depth in range(3)
        for column, length in enumerate((1024, 4096))
    ]
    axes = retrieval_grid({"settings": {"lengths": [1024, 4096]}, "retrieval": rows}, "passkey", "none").figure.axes[0]
    cells = {text.get_position(): text.get_text() for text in axes.texts}
    assert cells == {(column, row): f"{scores[row, column]:.0%}" for row in range(3) for column in range(2)}
    assert [text.get_text() for text in axes.get_yticklabels()] == ["0%", "50%", "100%"]
    np.testing.assert_array_equal(np.asarray(axes.images[0].get_array()), scores)
