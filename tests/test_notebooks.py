"""The notebooks of the course: their cells are the chapters' code, and run with the output that they show."""

from __future__ import annotations

import pytest
from pages import PAGES, ROOT, blocks
from site_notebooks import notebook

CHAPTERS = [page.relative_to(ROOT) for page in PAGES if page.parent.name == "course" and page.name != "README.md"]


@pytest.mark.parametrize("page", CHAPTERS, ids=str)
def test_cells_are_the_blocks_of_the_chapter(page):
    cells = [cell for cell in notebook(page, ROOT)["cells"] if cell["cell_type"] == "code"]
    assert ["".join(cell["source"]) + "\n" for cell in cells[1:]] == [
        block.code for block in blocks(ROOT / page) if block.language == "python"
    ]
    shown = ["".join(output["text"]) for cell in cells for output in cell["outputs"]]
    assert shown == [block.code for block in blocks(ROOT / page) if block.language == "output"]


def test_links_and_images_of_a_notebook_are_whole():
    text = "".join(line for cell in notebook(CHAPTERS[0], ROOT)["cells"] for line in cell["source"])
    assert "](../" not in text
    assert "https://raw.githubusercontent.com/locant/locant/main/docs/images/course/" in text
