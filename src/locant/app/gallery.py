"""The gallery: every figure on one page that tells the story of positions. Needs the extra ``report``."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from locant.app.errata import PAGE as ERRATA_PAGE
from locant.app.errata import refuted_by, write_errata
from locant.app.rendering import render_template, require_jinja
from locant.errors import CheckpointError, ConfigError, DataError, LocantError, UsageError
from locant.figures import FIGURES, FigureData, save_figure
from locant.figures.files import image, require_folder, require_format
from locant.figures.registry import acts
from locant.figures.trained import load_trained
from locant.files import write_text

PAGE = "index.html"

_SMALL = 20
"""Dots per inch of the small images."""

_OF_A_SENTENCE = ("attention", "embedding-sum")


@dataclass(frozen=True)
class _Order:
    """A figure that is to be drawn with these options, and the file that it is written to."""

    name: str
    options: Mapping[str, Any]
    path: Path


@dataclass(frozen=True)
class _Drawn:
    """A figure as the page shows it: SVG, and a small PNG that leads to it."""

    whole: bytes
    small: bytes

    @classmethod
    def of(cls, figure: FigureData) -> _Drawn:
        return cls(image(figure, "svg"), image(figure, "png", dots_per_inch=_SMALL))


def write_gallery(
    folder: Path,
    *,
    run: Path | None = None,
    text: str | None = None,
    image_format: str = "png",
    processes: int = 1,
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
        processes: How many draw side by side. More than one are started anew, so that a script which asks for them must
            be guarded by ``if __name__ == "__main__"``.
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
    orders = []
    for name, figure in FIGURES.items():
        if figure.needs_run and run is None:
            continue
        options: dict[str, Any] = {"run": run} if figure.shows_run and run is not None else {}
        if text is not None and name in _OF_A_SENTENCE:
            options["text"] = text
        orders.append(_Order(name, options, folder / f"{name}.{image_format}"))
    images: dict[str, _Drawn] = {}
    for order, drawn in zip(orders, _outcomes(orders, processes), strict=True):
        if isinstance(drawn, _Drawn):
            images[order.name] = drawn
            wrote(order.path)
        else:
            left_out(order.name, drawn)
    write_errata(folder, gallery=PAGE, drawn=images, wrote=wrote)
    write_text(folder / PAGE, _page(images, run, ERRATA_PAGE))
    wrote(folder / PAGE)


def _outcomes(orders: Sequence[_Order], processes: int) -> Iterator[_Drawn | LocantError]:
    """Yield what :func:`_draw` returns for each, in their order."""
    if processes == 1:
        yield from map(_draw, orders)
        return
    # A fork of a process whose libraries have threads may stand still for ever.
    start_anew = get_context("spawn")
    try:
        with ProcessPoolExecutor(processes, start_anew, torch.set_num_threads, (1,)) as pool:
            yield from pool.map(_draw, orders)
    except BrokenProcessPool:
        raise LocantError(
            "A process that drew figures was ended by the system, perhaps for lack of memory. Draw them one by one: "
            "locant figures NAME."
        ) from None


def _draw(order: _Order) -> _Drawn | LocantError:
    """Write a figure's file and return what the page shows of it, or the reason why the run cannot have it."""
    figure = FIGURES[order.name]
    try:
        drawn = figure(**order.options)
    except (ConfigError, DataError, CheckpointError) as reason:
        # What a run lacks for one figure (an evaluation, say) takes nothing from the others.
        if not figure.shows_run:
            raise
        return reason
    save_figure(drawn, order.path)
    return _Drawn.of(drawn)


def render_gallery(figures: Mapping[str, FigureData], *, run: Path | None = None, errata: str | None = None) -> str:
    """Return the text of a page with these figures, in their order.

    Args:
        figures: Figures by name.
        run: Folder of the trained model that some of them show.
        errata: Page of errata beside it, to which figures are linked.

    Raises:
        MissingExtraError: matplotlib or jinja2 is not installed.
    """
    return _page({name: _Drawn.of(figure) for name, figure in figures.items()}, run, errata)


def _page(images: Mapping[str, _Drawn], run: Path | None, errata: str | None) -> str:
    """Return the text of a page with these figures."""
    shown = {
        name: {
            "name": name,
            "caption": FIGURES[name].caption,
            "image": base64.b64encode(drawn.whole).decode("ascii"),
            "small": base64.b64encode(drawn.small).decode("ascii"),
            "command": _command(name, run),
            "refutes": refuted_by(name) if errata else [],
        }
        for name, drawn in images.items()
    }
    story = {act: [shown[name] for name in names] for act, names in acts(shown).items()}
    return render_template("gallery.html", "a page of figures", story=story, errata=errata)


def _command(name: str, run: Path | None) -> str:
    of_a_run = ["--run", str(run)] if FIGURES[name].shows_run and run is not None else []
    return shlex.join(["locant", "figures", name, *of_a_run, "-o", "figures"])
