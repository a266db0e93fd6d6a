"""Figures as files, and all of them as one page."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from locant.app.gallery.catalogue import ENTRIES, check, draw
from locant.app.gallery.texts import TEXTS
from locant.errors import MissingExtraError, UsageError, nearest
from locant.figures import Drawn
from locant.figures.style import drawing
from locant.files import replacing_file, write_text
from locant.version import __version__

FORMATS = ("png", "svg", "pdf")
PAGE = "index.html"

_DOTS_PER_INCH = 200


def write_figures(
    names: Sequence[str],
    folder: Path,
    *,
    options: Mapping[str, Any] | None = None,
    image_format: str = "png",
    wrote: Callable[[Path], None] = lambda path: None,
) -> dict[str, Drawn]:
    """Draw figures and write one file each, ``NAME.FORMAT``; a file of that name is replaced.

    Args:
        names: Keys of :data:`~locant.app.gallery.ENTRIES`.
        folder: Where to write; made if it is not there.
        options: Options that all of these figures take.
        image_format: One of :data:`FORMATS`.
        wrote: Called with each file when it is complete.

    Returns:
        What was drawn, by name.

    Raises:
        UsageError: A name, an option or the format is unknown, or a value is out of range; nothing is written then.
        MissingExtraError: matplotlib is not installed.
        CheckpointError: The folder cannot be written.
    """
    if image_format not in FORMATS:
        raise UsageError(
            f"Unknown image format '{image_format}'.{nearest(image_format, FORMATS)} Known: {', '.join(FORMATS)}."
        )
    for name in names:
        check(name, options or {})
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; figures are written to a folder.")
    drawn = {}
    for name in names:
        drawn[name] = draw(name, options)
        path = folder / f"{name}.{image_format}"
        with replacing_file(path) as temporary:
            temporary.write_bytes(image(drawn[name], image_format))
        wrote(path)
    return drawn


def write_gallery(
    folder: Path, *, image_format: str = "png", wrote: Callable[[Path], None] = lambda path: None
) -> None:
    """Write all figures with their default options, and a page that tells their story.

    The page, ``index.html``, is complete in itself: images are in it, and nothing is fetched.

    Args:
        folder: Where to write; made if it is not there.
        image_format: Of the separate files.
        wrote: Called with each file when it is complete.

    Raises:
        UsageError: The format is unknown.
        MissingExtraError: matplotlib or jinja2 is not installed.
        CheckpointError: The folder cannot be written.
    """
    _require_jinja()
    drawn = write_figures(list(ENTRIES), folder, image_format=image_format, wrote=wrote)
    write_text(folder / PAGE, render_page(drawn))
    wrote(folder / PAGE)


def image(drawn: Drawn, image_format: str) -> bytes:
    """Return a figure as the content of a file; the same figure gives the same bytes."""
    # A time of writing would make every file a new one.
    dates = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    content = io.BytesIO()
    with drawing():
        import matplotlib

        with matplotlib.rc_context({"svg.hashsalt": "locant", "svg.fonttype": "path"}):
            drawn.figure.savefig(content, format=image_format, dpi=_DOTS_PER_INCH, metadata=dates[image_format])
    return content.getvalue()


def render_page(drawn: Mapping[str, Drawn]) -> str:
    """Return the text of a page with these figures, in their order.

    Raises:
        MissingExtraError: matplotlib or jinja2 is not installed.
    """
    _require_jinja()
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("locant.app"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    figures = [
        {"name": name, "words": TEXTS[name], "image": base64.b64encode(image(one, "svg")).decode("ascii")}
        for name, one in drawn.items()
    ]
    return environment.get_template("gallery.html").render(figures=figures, version=__version__)


def _require_jinja() -> None:
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise MissingExtraError("Writing a page of figures", "jinja2", "report") from None
