"""Figures as files: PNG, SVG and PDF, the same bytes for the same figure; whole, or as slides."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from locant.errors import UsageError, nearest
from locant.figures.drawing import SLIDE, SLIDE_LETTERS, Axes, FigureData, drawing, settle, svg_text, wrapped
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

    Each panel is a slide by itself, or the whole figure with a smaller example is one. A drawing whose letters have
    fixed places says itself how it is cut into slides.

    Args:
        figure: The figure.
        options: Its options.
    """
    figure.check(options)
    if callable(figure.slides):
        numbers = figure.numbers(**options)
        with drawing():
            for sheet in figure.slides(**numbers):
                yield settle(sheet, {})
        return
    drawn = figure(**{**(figure.slides or {}), **options})
    shown = drawn.figure
    with drawing():
        if figure.slides is None:
            shown.suptitle("")
        named = any(axes.get_legend_handles_labels()[1] for axes in shown.axes)
        for panel in [axes for axes in shown.axes if axes.get_label() != "<colorbar>"]:
            if figure.slides is None and (panel.axison or panel.texts or (panel.get_legend() and not named)):
                for axes in shown.axes:
                    axes.set_visible(axes is panel)
                for legend in shown.legends:  # of all panels, if this one has what it explains
                    shown_here = panel.get_legend_handles_labels()[1]
                    legend.set_visible(bool(shown_here))
                    legend.set_in_layout(bool(shown_here))
                _enlarge(panel)
                _lay_out(drawn)
                yield drawn
        if figure.slides is not None:
            _lay_out(drawn)
            yield drawn


def _enlarge(panel: Axes) -> None:
    """Give a panel the whole sheet, and the names of its axes that a neighbour had."""
    from matplotlib.gridspec import GridSpec
    from matplotlib.text import Annotation

    figure: Any = panel.get_figure(root=True)
    panel.set_subplotspec(GridSpec(1, 1, figure=figure)[0])
    for grouper, axis in ((panel.get_shared_x_axes(), panel.xaxis), (panel.get_shared_y_axes(), panel.yaxis)):
        names = [getattr(each, f"get_{axis.axis_name}label")() for each in grouper.get_siblings(panel)]
        axis.set_label_text(next(filter(None, (axis.get_label_text(), *names)), ""))
        axis.set_tick_params(labelbottom=True, labelleft=True) if len(names) > 1 else None
    lines = 0
    for note in panel.texts:
        if isinstance(note, Annotation) and note.xyann == (0, 6):  # what is below a heading
            note.set_text(wrapped(" ".join(note.get_text().split()), 54))
            lines = note.get_text().count("\n") + 1
    if panel.get_title(loc="left"):
        panel.set_title(wrapped(panel.get_title(loc="left"), 44), loc="left", pad=9 + 16 * lines)
    if panel.images and panel.texts:
        panel.set_aspect("auto")  # cells with numbers in them are wider than high
    if (legend := panel.get_legend()) and not panel.axison:
        legend.set_bbox_to_anchor((0.0, 1.0))
    if len(panel.get_legend_handles_labels()[1]) > 1 and not legend and not figure.legends:
        many = len(panel.get_legend_handles_labels()[1]) > 5  # too many to leave room for beside the lines
        panel.legend(**{"loc": "center left", "bbox_to_anchor": (1.01, 0.5)} if many else {"loc": "best"})


def _lay_out(drawn: FigureData) -> None:
    """Lay a figure out again on a small sheet of 16 to 9 with letters that can be read on it."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.text import Text

    figure = drawn.figure
    figure.set_size_inches(*SLIDE)
    for text in figure.findobj(Text):
        text.set_fontsize(max(SLIDE_LETTERS, text.get_fontsize()))
    figure.set_layout_engine(ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.12))
    settle(figure, {})
    for axes in figure.axes:  # names of rows that would lie on each other: every second, third ...
        names = axes.get_yticklabels()
        if axes.get_visible() and axes.axison and axes.images and len(names) > 1:
            apart = axes.get_window_extent().height / len(names)
            every = math.ceil(max(name.get_window_extent().height for name in names) / apart)
            if every > 1:
                axes.set_yticks(axes.get_yticks()[::every], [name.get_text() for name in names[::every]])
