"""The images of the course; run as a program, this draws them again with the commands below them.

``python tests/support/course_images.py [NAME ...]`` draws all of them, or those of the given names.
"""

from __future__ import annotations

import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from pages import PAGES, ROOT, locant_arguments, simple_commands
from PIL import Image

from locant.cli import command_parser
from locant.figures import draw_figure, get_figure

FOLDER = ROOT / "docs" / "images" / "course"
_SHOWN = re.compile(r"!\[[^\]]+\]\(\.\./images/course/([\w-]+)\.png\)\n\n\*Drawn by\* `(locant figures [^`]+)`")
_WIDTH = 1200  # pixels, for a column of some 800 points
_COLOURS = 256  # which makes a file a quarter of its size with all of them


@dataclass(frozen=True)
class CourseImage:
    """An image of a chapter.

    Attributes:
        page: The chapter.
        name: Name of the file, without its ending.
        command: What draws it, as the chapter says it.
    """

    page: Path
    name: str
    command: str

    @property
    def path(self) -> Path:
        """The file."""
        return FOLDER / f"{self.name}.png"


def course_images() -> list[CourseImage]:
    """Return the images with a command below them, in the order of the chapters."""
    return [
        CourseImage(page, name, command)
        for page in PAGES
        if page.parent == ROOT / "docs" / "course"
        for name, command in _SHOWN.findall(page.read_text(encoding="utf-8"))
    ]


def draw(command: str) -> Image.Image:
    """Return what ``locant figures NAME ... -o figures`` draws, in the size of the course."""
    (words,) = simple_commands(command)
    typed = command_parser("figures").parse_intermixed_args((locant_arguments(words) or [])[1:])
    (name,) = typed.names
    options = {option: getattr(typed, option) for option in get_figure(name).options}
    figure = draw_figure(name, **{option: value for option, value in options.items() if value is not None})
    content = io.BytesIO()
    figure.figure.savefig(content, format="png", dpi=_WIDTH / figure.figure.get_figwidth())
    return Image.open(content).convert("RGB")


def save(image: CourseImage) -> None:
    """Draw an image and write its file."""
    few = draw(image.command).quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
    few.save(image.path, optimize=True)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for each in course_images():
        if not sys.argv[1:] or each.name in sys.argv[1:]:
            save(each)
