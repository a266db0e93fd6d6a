"""The course in docs/course: its images are those that the commands below them draw.

Its code, answers to exercises included, runs with that of all pages, in ``test_documentation.py``.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from course_images import FOLDER, course_images, draw
from pages import PAGES, ROOT
from PIL import Image

COURSE = ROOT / "docs" / "course"
CHAPTERS = [page for page in PAGES if page.parent == COURSE and page.name != "README.md"]
IMAGES = course_images()
LARGEST = 160_000  # bytes of an image
BLOCK = 12  # pixels: a letter or two
DIFFERENCE = 25  # of 255, of the mean of a block; a digit that changes makes more


def test_images_are_shown_with_what_draws_them_and_are_small():
    shown = [name for page in CHAPTERS for name in re.findall(r"images/course/([\w-]+)\.png", page.read_text("utf-8"))]
    assert shown == [image.name for image in IMAGES]
    assert sorted(FOLDER.glob("*")) == sorted(image.path for image in IMAGES)
    assert not [image.name for image in IMAGES if image.path.stat().st_size > LARGEST]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)
def test_images_are_what_the_commands_draw(image):
    drawn, kept = draw(image.command), Image.open(image.path).convert("RGB")
    assert kept.size == drawn.size
    difference = np.asarray(drawn, dtype=float) - np.asarray(kept, dtype=float)
    rows, columns = (size // BLOCK for size in difference.shape[:2])
    cut = difference[: rows * BLOCK, : columns * BLOCK].reshape(rows, BLOCK, columns, BLOCK, 3)
    assert np.abs(cut.mean(axis=(1, 3))).max() < DIFFERENCE, "draw it again: python tests/support/course_images.py"
