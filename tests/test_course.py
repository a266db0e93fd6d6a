"""The course in docs/course: its images are those that the commands below them draw, and every exercise has an answer.

Its code runs with that of all pages, in ``test_documentation.py``.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from course_images import FOLDER, course_images, draw
from pages import PAGES, ROOT, blocks
from PIL import Image

COURSE = ROOT / "docs" / "course"
CHAPTERS = [page for page in PAGES if page.parent == COURSE and page.name != "README.md"]
INDEX = COURSE / "README.md"
IMAGES = course_images()
LARGEST = 160_000  # bytes of an image
BLOCK = 12  # pixels: a letter or two
DIFFERENCE = 25  # of 255, of the mean of a block; a digit that changes makes more


def test_chapters_are_linked_in_their_order():
    linked = re.findall(r"\]\((\d-[\w-]+\.md)\)", INDEX.read_text(encoding="utf-8"))
    assert linked == [page.name for page in CHAPTERS]
    for before, after in itertools.pairwise(CHAPTERS):
        assert f"Next: [{after.name[0]}. " in before.read_text(encoding="utf-8")
        assert f"]({after.name})" in before.read_text(encoding="utf-8").splitlines()[-1]
        assert f"]({before.name})" in after.read_text(encoding="utf-8").splitlines()[-1]


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_exercises_have_answers_of_one_line(page):
    text = page.read_text(encoding="utf-8")
    number = page.name[0]
    exercises = re.findall(rf"^\*\*{number}\.(\d)\*\* ", text, re.MULTILINE)
    assert exercises == [str(each) for each in range(1, len(exercises) + 1)]
    assert 3 <= len(exercises) <= 5
    first = text[: text.index("## Exercises")].count("\n")
    answers = [block for block in blocks(page) if block.line > first]
    assert [block.language for block in answers] == ["python", "output"] * len(exercises)
    assert all(block.code.count("\n") == 1 for block in answers if block.language == "python")
    assert text.count("<details>\n<summary>Answer</summary>\n\n") == text.count("\n\n</details>\n") == len(exercises)


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
    assert np.abs(cut.mean(axis=(1, 3))).max() < DIFFERENCE, "draw it anew: python tests/support/course_images.py"
