"""The gallery: every figure on one page that tells the story of positions. Needs the extra ``report``."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from locant.app.errata import PAGE as ERRATA_PAGE
from locant.app.errata import refuted_by, write_errata
from locant.app.rendering import render_template, require_jinja
from locant.errors import CheckpointError, ConfigError, DataError, LocantError, UsageError
from locant.figures import FIGURES, FigureData, save_figure
from locant.figures.files import image, require_folder, require_format
from locant.figures.trained import load_trained
from locant.files import write_text

PAGE = "index.html"

_OF_A_SENTENCE = ("attention", "embedding-sum")


def write_gallery(
    folder: Path,
    *,
    run: Path | None = None,
    text: str | None = None,
    image_format: str = "png",
    wrote: Callable[[Path], None] = lambda path: None,
    left_out: Callable[[str, LocantError], None] = lambda name, reason: None,
) -> None:
    """Write all figures with their default options, a page that tells their story, and the page of errata.

    The pages, ``index.html`` and ``errata.html``, are complete in themselves: images are in them, and nothing is
    fetched.

    Args:
        folder: Where to write; made if it is not there.
        run: Run folder of a trained model, whose figures are added.
        text: Sentence that is drawn where a figure shows one.
        image_format: Of the separate files.
        wrote: Called with each file when it is complete.
        left_out: Called with the name of a figure that the run cannot have, and the reason.

    Raises:
        UsageError: The format is unknown, or ``text`` is given without ``run``.
        ConfigError: The model is no Transformer.
        MissingExtraError: matplotlib or jinja2 is not installed.
        CheckpointError: The folder cannot be written, or ``run`` holds no trained model.
    """
    require_jinja("a page of figures")
    require_format(image_format)
    require_folder(folder)
    if text is not None and run is None:
        raise UsageError("--text belongs to the figures of a trained model; say which: --run FOLDER.")
    if run is not None:
        load_trained(run, "The page of a trained model")
    figures = {}
    for name, figure in FIGURES.items():
        if figure.needs_run and run is None:
            continue
        options: dict[str, Any] = {"run": run} if figure.needs_run else {}
        if text is not None and name in _OF_A_SENTENCE:
            options["text"] = text
        try:
            figures[name] = figure(**options)
        except (ConfigError, DataError, CheckpointError) as reason:
            # What a run lacks for one figure (an evaluation, say) takes nothing from the others.
            if not figure.needs_run:
                raise
            left_out(name, reason)
        else:
            path = folder / f"{name}.{image_format}"
            save_figure(figures[name], path)
            wrote(path)
    write_errata(folder, gallery=PAGE, drawn=figures, wrote=wrote)
    write_text(folder / PAGE, render_gallery(figures, run=run, errata=ERRATA_PAGE))
    wrote(folder / PAGE)


def render_gallery(figures: Mapping[str, FigureData], *, run: Path | None = None, errata: str | None = None) -> str:
    """Return the text of a page with these figures, in their order.

    Args:
        figures: Figures by name.
        run: Folder of the trained model that some of them show.
        errata: Page of errata beside it, to which figures are linked.

    Raises:
        MissingExtraError: matplotlib or jinja2 is not installed.
    """
    shown = [
        {
            "name": name,
            "caption": FIGURES[name].caption,
            "image": base64.b64encode(image(figure, "svg")).decode("ascii"),
            "command": _command(name, run),
            "refutes": refuted_by(name) if errata else [],
        }
        for name, figure in figures.items()
    ]
    return render_template("gallery.html", "a page of figures", figures=shown, errata=errata)


def _command(name: str, run: Path | None) -> str:
    of_a_run = ["--run", str(run)] if FIGURES[name].needs_run else []
    return shlex.join(["locant", "figures", name, *of_a_run, "-o", "figures"])
