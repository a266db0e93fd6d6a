"""Layout by comparison with images that were looked at; the numbers in figures have tests of their own.

An image differs where letters overlap, panels move or colours change. After a change that is meant, look at the new
images and keep them: ``LOCANT_NEW_LAYOUT=1 pytest tests/figures/test_layout.py``.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from locant.figures import FIGURES

IMAGES = Path(__file__).parent / "layout"
# Mean difference of a grey value, of 255, that other versions of the font renderer may make. Moving one of these images
# by a single pixel makes 3 to 6.
TOLERANCE = 2.0


def attention() -> dict[str, Any]:
    tokens = ["a", "very", "-long", "sentence", "(end)"]
    weights = np.tile(np.eye(5), (2, 3, 1, 1))
    return {"names": dict.fromkeys(("Encoder", "Cross"), (tokens, tokens)), "Encoder": weights, "Cross": weights}


def probe() -> dict[str, Any]:
    numbers: dict[str, Any] = {"guess Encoder": 10.0, "guess Decoder": 10.0}
    for stack in ("Encoder", "Decoder"):
        for condition, last in (("with residual connections", 0.9), ("without them", 0.2)):
            numbers[f"r2 {stack}, {condition}"] = np.array([0.0, 0.9, last])
            numbers[f"error {stack}, {condition}"] = np.array([9.0, 1.0, 9 - 9 * last])
    return numbers


def bias() -> dict[str, Any]:
    falling = -np.outer([0.5, 0.25, 0.125], np.arange(20.0))
    return {"stepped": {"Rows"}, "Lines": falling, "Rows": falling}


NUMBERS: dict[str, Callable[[], Mapping[str, Any]]] = {
    "circle": FIGURES["circle"].numbers,
    "clocks": lambda: FIGURES["clocks"].numbers(length=6, d_model=6),
    "attention": attention,
    "probe": probe,
    "bias": bias,
    "heatmap": lambda: {"table": np.sin(np.arange(20)[:, None] / 10 ** np.linspace(0, 2, 40)), "title": "Codes"},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NUMBERS)
def test_layout(name: str) -> None:
    content = io.BytesIO()
    FIGURES[name].drawn(NUMBERS[name]()).figure.savefig(content, format="png", dpi=50)
    found = Image.open(content).convert("L")
    path = IMAGES / f"{name}.png"
    if os.environ.get("LOCANT_NEW_LAYOUT"):
        found.quantize(32).save(path, optimize=True)
    kept = Image.open(path).convert("L")
    assert found.size == kept.size
    difference = np.abs(np.asarray(found, dtype=float) - np.asarray(kept, dtype=float))
    assert difference.mean() < TOLERANCE
