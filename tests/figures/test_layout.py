"""Layout by comparison with images that were looked at; the numbers in figures have tests of their own.

An image differs where letters overlap, panels move or colours change. After a change that is meant, look at the new
images and keep them: ``LOCANT_NEW_LAYOUT=1 pytest tests/figures/test_layout.py``.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from locant.figures import HeadBiases, HeadWeights, ProbeCurve, attention, bias, circle, clocks, heatmap, probe

IMAGES = Path(__file__).parent / "layout"
# Mean difference of a grey value, of 255, that other versions of the font renderer may make. Moving one of these images
# by a single pixel makes 3 to 6.
TOLERANCE = 2.0


def angles(count: int) -> Any:
    return np.arange(count)[:, None] * np.array([1.0, 0.1, 0.01])


def drawn_circle() -> Any:
    codes = np.stack((np.sin(np.arange(6.0)), np.cos(np.arange(6.0))), axis=1)
    matrix = np.array([[np.cos(2), np.sin(2)], [-np.sin(2), np.cos(2)]])
    return circle(codes, matrix, codes[[2, 3]], angles=np.arange(6.0), k=2, marked=(0, 1))


def drawn_clocks() -> Any:
    positions = np.arange(6)
    digits, bits = positions[:, None], positions[:, None] // np.array([4, 2, 1]) % 2
    waves = 2 * np.pi * np.array([1.0, 10.0, 100.0])
    return clocks(positions, digits, bits, np.sin(angles(6)), np.cos(angles(6)), wavelengths=waves)


def drawn_attention() -> Any:
    tokens = ["a", "very", "-long", "sentence", "(end)"]
    weights = np.tile(np.eye(5), (2, 3, 1, 1))
    return attention([HeadWeights("Encoder", weights, tokens, tokens), HeadWeights("Cross", weights, tokens, tokens)])


def drawn_probe() -> Any:
    curves = [
        ProbeCurve("with residual connections", np.array([0.0, 0.9, 0.9]), np.array([9.0, 1.0, 1.0])),
        ProbeCurve("without them", np.array([0.0, 0.9, 0.2]), np.array([9.0, 1.0, 8.0])),
    ]
    stages = ["words alone", "input", "layer 1"]
    stacks = {"Encoder": curves, "Decoder": curves}
    return probe(stacks, stages=dict.fromkeys(stacks, stages), guesses=dict.fromkeys(stacks, 10.0))


def drawn_bias() -> Any:
    falling = -np.outer([0.5, 0.25, 0.125], np.arange(20.0))
    return bias(np.arange(20.0), [HeadBiases("Lines", falling), HeadBiases("Rows", falling, stepped=True)])


FIGURES: dict[str, Callable[[], Any]] = {
    "circle": drawn_circle,
    "clocks": drawn_clocks,
    "attention": drawn_attention,
    "probe": drawn_probe,
    "bias": drawn_bias,
    "heatmap": lambda: heatmap(np.sin(np.arange(20)[:, None] / 10 ** np.linspace(0, 2, 40)), title="Codes"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FIGURES)
def test_layout(name: str) -> None:
    content = io.BytesIO()
    FIGURES[name]().figure.savefig(content, format="png", dpi=50)
    found = Image.open(content).convert("L")
    path = IMAGES / f"{name}.png"
    if os.environ.get("LOCANT_NEW_LAYOUT"):
        found.quantize(32).save(path, optimize=True)
    kept = Image.open(path).convert("L")
    assert found.size == kept.size
    difference = np.abs(np.asarray(found, dtype=float) - np.asarray(kept, dtype=float))
    assert difference.mean() < TOLERANCE
