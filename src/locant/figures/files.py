"""Figures as files: PNG, SVG and PDF, the same bytes for the same figure."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from locant.errors import UsageError, nearest
from locant.figures.drawing import FigureData, drawing
from locant.figures.registry import get_figure
from locant.files import replacing_file

FORMATS = ("png", "svg", "pdf")

_DOTS_PER_INCH = 200


def write_figures(
    names: Sequence[str],
    folder: Path,
    *,
    options: Mapping[str, Any] | None = None,
    image_format: str = "png",
    wrote: Callable[[Path], None] = lambda path: None,
) -> dict[str, FigureData]:
    """Draw figures and write one file each, ``NAME.FORMAT``; a file of that name is replaced.

    Args:
        names: Keys of :data:`~locant.figures.FIGURES`.
        folder: Where to write; made if it is not there.
        options: Options that all of these figures take.
        image_format: One of :data:`FORMATS`.
        wrote: Called with each file when it is complete.

    Returns:
        The figures and their numbers, by name.

    Raises:
        UsageError: A name, an option or the format is unknown, or a value is out of range; nothing is written then.
        MissingExtraError: matplotlib is not installed.
        CheckpointError: The folder cannot be written.
    """
    require_format(image_format)
    for name in names:
        get_figure(name).check(options or {})
    require_folder(folder)
    written = {}
    for name in names:
        written[name] = get_figure(name)(**(options or {}))
        path = folder / f"{name}.{image_format}"
        save_figure(written[name], path)
        wrote(path)
    return written


def require_format(image_format: str) -> None:
    """Raise UsageError for a format that is none of :data:`FORMATS`."""
    if image_format not in FORMATS:
        raise UsageError(
            f"Unknown image format '{image_format}'.{nearest(image_format, FORMATS)} Known: {', '.join(FORMATS)}."
        )


def require_folder(folder: Path) -> None:
    """Raise UsageError for a file where a folder is wanted."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; figures are written to a folder.")


def require_image_path(path: Path) -> None:
    """Raise UsageError for a file whose name does not end in a format that can be drawn."""
    if path.suffix.lower().lstrip(".") not in FORMATS:
        raise UsageError(f"A figure is written to a file that ends in .{', .'.join(FORMATS)}; got {path}.")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the name of a file for the figure.")


def save_figure(figure: FigureData, path: Path, *, dots_per_inch: int = _DOTS_PER_INCH) -> None:
    """Write a figure in the format that its file's name ends in; a file that is there is replaced.

    Args:
        figure: The figure.
        path: A file that ends in ``.png``, ``.svg`` or ``.pdf``.
        dots_per_inch: Of a PNG.

    Raises:
        UsageError: The file has another ending.
        CheckpointError: The file cannot be written.
    """
    require_image_path(path)
    with replacing_file(path) as temporary:
        temporary.write_bytes(image(figure, path.suffix.lower().lstrip("."), dots_per_inch=dots_per_inch))


def image(figure: FigureData, image_format: str, *, dots_per_inch: int = _DOTS_PER_INCH) -> bytes:
    """Return a figure as the content of a file; the same figure gives the same bytes."""
    # A time of writing would make every file a new one.
    dates = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    content = io.BytesIO()
    with drawing():
        import matplotlib

        with matplotlib.rc_context({"svg.hashsalt": "locant", "svg.fonttype": "path"}):
            figure.figure.savefig(content, format=image_format, dpi=dots_per_inch, metadata=dates[image_format])
    return content.getvalue()
