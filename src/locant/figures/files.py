"""Figures as files: PNG, SVG and PDF, the same bytes for the same figure; whole, or as slides."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from locant.errors import UsageError, nearest
from locant.figures.drawing import SLIDE, SLIDE_LETTERS, Axes, Figure, FigureData, drawing, settle, svg_text, wrapped
from locant.figures.registry import RegisteredFigure, get_figure
from locant.files import replacing_file

FORMATS = ("png", "svg", "pdf")

_DOTS_PER_INCH = 200
_SLIDE_PIXELS = 1920


def write_figures(
    names: Sequence[str],
    folder: Path,
    *,
    options: Mapping[str, Any] | None = None,
    image_format: str = "png",
    slides: bool = False,
    wrote: Callable[[Path], None] = lambda path: None,
) -> dict[str, FigureData]:
    """Draw figures and write one file each, ``NAME.FORMAT``; a file of that name is replaced.

    Args:
        names: Keys of :data:`~locant.figures.FIGURES`.
        folder: Where to write; made if it is not there.
        options: Options that all of these figures take.
        image_format: One of :data:`FORMATS`.
        slides: Write slides instead, ``NAME-1.FORMAT`` and so on, see :func:`slides_of`.
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
        figure = get_figure(name)
        if slides:
            for path in write_slides(figure, folder, options or {}, image_format):
                wrote(path)
            continue
        written[name] = figure(**(options or {}))
        path = folder / f"{name}.{image_format}"
        save_figure(written[name], path)
        wrote(path)
    return written


def require_format(image_format: str) -> None:
    """Raise UsageError for a format that figures are not written in."""
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


@drawing()
def save_figure(figure: FigureData, path: Path, *, dots_per_inch: float = _DOTS_PER_INCH) -> None:
    """Write a figure in the format that its file's name ends in; a file that is there is replaced.

    An SVG has no background, so that it suits a page of any light colour; PNG and PDF are on white.

    Args:
        figure: The figure.
        path: A file that ends in ``.png``, ``.svg`` or ``.pdf``.
        dots_per_inch: Of a PNG.

    Raises:
        UsageError: The file has another ending.
        CheckpointError: The file cannot be written.
    """
    require_image_path(path)
    image_format = path.suffix.lower().lstrip(".")
    stream = io.BytesIO()
    if image_format == "svg":
        stream.write(svg_text(figure).encode())
    else:
        # A time of writing would make every file a new one.
        metadata = {"CreationDate": None} if image_format == "pdf" else {}
        figure.figure.savefig(stream, format=image_format, dpi=dots_per_inch, metadata=metadata)
    with replacing_file(path) as temporary:
        temporary.write_bytes(stream.getvalue())


def write_slides(
    figure: RegisteredFigure, folder: Path, options: Mapping[str, Any], image_format: str
) -> Iterator[Path]:
    """Write the slides of a figure and yield their files; arguments and errors as for :func:`write_figures`."""
    for number, slide in enumerate(slides_of(figure, options), start=1):
        path = folder / f"{figure.name}-{number}.{image_format}"
        save_figure(slide, path, dots_per_inch=_SLIDE_PIXELS / SLIDE[0])
        yield path


def slides_of(figure: RegisteredFigure, options: Mapping[str, Any]) -> Iterator[FigureData]:
    """Yield a figure as slides of 16 to 9, whose letters have 24 points or more on a slide 13.33 inches wide.

    Each panel is a slide by itself, or the whole figure with a smaller example is one.

    Args:
        figure: The figure.
        options: Its options.
    """
    if isinstance(figure.slides, Mapping):
        yield _on_a_slide(figure(**{**figure.slides, **options}).figure)
        return
    shown = replace(figure, draw=figure.slides or figure.draw)(**options).figure
    shown.suptitle("")
    for legend in list(shown.legends):  # each panel has its own
        legend.remove()
    for panel in shown.axes:
        if panel.axison or panel.texts:
            for axes in shown.axes:
                axes.set_visible(axes is panel)
            _enlarge(panel)
            yield _on_a_slide(shown)


@drawing()
def _enlarge(panel: Axes) -> None:
    """Give a panel the whole sheet, the names of its axes that a neighbour had, and a legend."""
    from matplotlib.gridspec import GridSpec
    from matplotlib.text import Text

    figure: Any = panel.get_figure(root=True)
    panel.set_subplotspec(GridSpec(1, 1, figure=figure)[0])
    for grouper, axis in ((panel.get_shared_x_axes(), panel.xaxis), (panel.get_shared_y_axes(), panel.yaxis)):
        names = [getattr(each, f"get_{axis.axis_name}label")() for each in grouper.get_siblings(panel)]
        axis.set_label_text(next(filter(None, (axis.get_label_text(), *names)), ""))
    panel.tick_params(labelbottom=True, labelleft=True)
    title = panel.get_title(loc="left")
    for text in panel.get_children():
        if isinstance(text, Text) and title and text.get_text() == title:
            text.set_text(wrapped(title, 48))
    if panel.images and panel.texts:
        panel.set_aspect("auto")  # cells with numbers in them are wider than high
    if len(panel.get_legend_handles_labels()[1]) > 1 and not panel.get_legend():
        panel.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


@drawing()
def _on_a_slide(figure: Figure) -> FigureData:
    """Lay a figure out again on a small sheet of 16 to 9 with letters that can be read on it."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.text import Text

    figure.set_size_inches(*SLIDE)
    for text in figure.findobj(Text):
        text.set_fontsize(max(SLIDE_LETTERS, text.get_fontsize()))
    figure.set_layout_engine(ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.12))
    return settle(figure, {})
