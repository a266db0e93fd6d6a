"""Figures as files, and all of them as one page."""

from __future__ import annotations

import base64
import io
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from locant.app.gallery.catalogue import ENTRIES, check, draw
from locant.app.gallery.texts import TEXTS
from locant.app.gallery.trained import load_trained
from locant.errors import CheckpointError, ConfigError, DataError, LocantError, MissingExtraError, UsageError, nearest
from locant.figures import FigureData
from locant.figures.drawing import drawing
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
) -> dict[str, FigureData]:
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
    _check_format(image_format)
    for name in names:
        check(name, options or {})
    _check_folder(folder)
    drawn = {}
    for name in names:
        drawn[name] = draw(name, options)
        wrote(_write(folder, name, drawn[name], image_format))
    return drawn


def write_gallery(
    folder: Path,
    *,
    run: Path | None = None,
    text: str | None = None,
    image_format: str = "png",
    wrote: Callable[[Path], None] = lambda path: None,
    left_out: Callable[[str, LocantError], None] = lambda name, reason: None,
) -> None:
    """Write all figures with their default options, and a page that tells their story.

    The page, ``index.html``, is complete in itself: images are in it, and nothing is fetched.

    Args:
        folder: Where to write; made if it is not there.
        run: Run folder of a trained model, whose figures are added.
        text: Sentence whose attention is drawn.
        image_format: Of the separate files.
        wrote: Called with each file when it is complete.
        left_out: Called with the name of a figure that the run cannot have, and the reason.

    Raises:
        UsageError: The format is unknown, or ``text`` is given without ``run``.
        ConfigError: The model is no Transformer.
        MissingExtraError: matplotlib or jinja2 is not installed.
        CheckpointError: The folder cannot be written, or ``run`` holds no trained model.
    """
    _require_jinja()
    _check_format(image_format)
    _check_folder(folder)
    if text is not None and run is None:
        raise UsageError("--text belongs to the figures of a trained model; say which: --run FOLDER.")
    if run is not None:
        load_trained(run, "The page of a trained model")
    drawn = {}
    for name, entry in ENTRIES.items():
        if entry.needs_run and run is None:
            continue
        options: dict[str, Any] = {"run": run} if entry.needs_run else {}
        if text is not None and name == "attention":
            options["text"] = text
        try:
            drawn[name] = draw(name, options)
        except (ConfigError, DataError, CheckpointError) as reason:
            # What a run lacks for one figure (an evaluation, say) takes nothing from the others.
            if not entry.needs_run:
                raise
            left_out(name, reason)
        else:
            wrote(_write(folder, name, drawn[name], image_format))
    write_text(folder / PAGE, render_page(drawn, run=run))
    wrote(folder / PAGE)


def _check_format(image_format: str) -> None:
    if image_format not in FORMATS:
        raise UsageError(
            f"Unknown image format '{image_format}'.{nearest(image_format, FORMATS)} Known: {', '.join(FORMATS)}."
        )


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; figures are written to a folder.")


def _write(folder: Path, name: str, drawn: FigureData, image_format: str) -> Path:
    path = folder / f"{name}.{image_format}"
    with replacing_file(path) as temporary:
        temporary.write_bytes(image(drawn, image_format))
    return path


def image(drawn: FigureData, image_format: str) -> bytes:
    """Return a figure as the content of a file; the same figure gives the same bytes."""
    # A time of writing would make every file a new one.
    dates = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    content = io.BytesIO()
    with drawing():
        import matplotlib

        with matplotlib.rc_context({"svg.hashsalt": "locant", "svg.fonttype": "path"}):
            drawn.figure.savefig(content, format=image_format, dpi=_DOTS_PER_INCH, metadata=dates[image_format])
    return content.getvalue()


def render_page(drawn: Mapping[str, FigureData], *, run: Path | None = None) -> str:
    """Return the text of a page with these figures, in their order.

    Args:
        drawn: Figures by name.
        run: Folder of the trained model that some of them show.

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
        {
            "name": name,
            "words": TEXTS[name],
            "image": base64.b64encode(image(one, "svg")).decode("ascii"),
            "command": shlex.join(
                ["locant", "figures", name, *(["--run", str(run)] if ENTRIES[name].needs_run else []), "-o", "figures"]
            ),
        }
        for name, one in drawn.items()
    ]
    return environment.get_template("gallery.html").render(figures=figures, version=__version__)


def _require_jinja() -> None:
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise MissingExtraError("Writing a page of figures", "jinja2", "report") from None
