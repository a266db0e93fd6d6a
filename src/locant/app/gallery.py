"""The gallery: every figure on one page that tells the story of positions. Needs the extra ``report``."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from locant.app.errata import PAGE as ERRATA_PAGE
from locant.app.errata import refuted_by, write_errata
from locant.app.rendering import render_template
from locant.errors import CheckpointError, ConfigError, DataError, LocantError, UsageError
from locant.figures import FIGURES, FigureData, save_figure, svg
from locant.figures.animations import ANIMATIONS, animation
from locant.figures.files import require_folder, require_format, write_slides
from locant.figures.registry import acts
from locant.figures.trained import load_trained
from locant.files import replacing_file, write_text
from locant.lazy import require_package

PAGE = "index.html"


def write_gallery(
    folder: Path,
    *,
    run: Path | None = None,
    text: str | None = None,
    image_format: str = "png",
    slides: bool = False,
    processes: int = 1,
    wrote: Callable[[Path], None] = lambda path: None,
    left_out: Callable[[str, LocantError], None] = lambda name, reason: None,
    progress: Callable[[float, str], None] = lambda share, name: None,
) -> None:
    """Write all figures with their default options, a page that tells their story, and the page of errata.

    Beside the figures are the animations, ``NAME.gif``.

    The pages, ``index.html`` and ``errata.html``, are complete in themselves: images are in them, and nothing is
    fetched.

    Args:
        folder: Where to write; made if it is not there.
        run: Run folder of a trained model, whose figures are added.
        text: Sentence that is drawn where a figure shows one.
        image_format: Of the separate files.
        slides: Whether these are slides, see :func:`~locant.figures.write_figures`.
        processes: How many draw side by side. More than one are new interpreters, so that a script that wants them must
            be guarded by ``if __name__ == "__main__"``.
        wrote: Called with each file when it is complete.
        left_out: Called with the name of a figure that the run cannot have, and the reason.
        progress: Called with the share of the work that is done and the name of what is next.

    Raises:
        UsageError: The format is unknown, or ``text`` is given without ``run``.
        ConfigError: The model is no Transformer.
        MissingExtraError: matplotlib or jinja2 is not installed.
        CheckpointError: The folder cannot be written, or ``run`` holds no trained model.
    """
    require_package("jinja2", "Writing a page of figures")
    require_format(image_format)
    require_folder(folder)
    if text is not None and run is None:
        raise UsageError("--text belongs to the figures of a trained model; say which: --run FOLDER.")
    if run is not None:
        load_trained(run, "of a page")
    jobs: dict[str, dict[str, Any]] = {}
    for name, figure in FIGURES.items():
        if run is not None or not figure.needs_run:
            jobs[name] = {"run": run} if figure.needs_run else {}
            if text is not None and name == "attention":
                jobs[name]["text"] = text
    images: dict[str, str] = {}
    moving: dict[str, bytes] = {}
    following = [*jobs, PAGE]
    progress(0.0, following[0])
    draw = partial(_draw, folder=folder, image_format=image_format, slides=slides)
    for number, (name, drawn) in enumerate(zip(jobs, _outcomes(draw, jobs, processes), strict=True), start=1):
        if isinstance(drawn, LocantError):
            left_out(name, drawn)
        else:
            images[name], gif, paths = drawn
            moving |= {name: gif} if gif else {}
            for path in paths:
                wrote(path)
        progress(number / len(jobs), following[number])
    write_errata(folder, gallery=PAGE, drawn=images, wrote=wrote)
    write_text(folder / PAGE, _page(images, moving, run, ERRATA_PAGE))
    wrote(folder / PAGE)


_Outcome = tuple[str, bytes | None, list[Path]] | LocantError


def _outcomes(
    draw: Callable[[str, dict[str, Any]], _Outcome], jobs: Mapping[str, dict[str, Any]], processes: int
) -> Iterator[_Outcome]:
    """Yield what is drawn for each name with its options, in their order."""
    if processes == 1:
        yield from map(draw, jobs, jobs.values())
        return
    # A fork of a process whose libraries have threads may hang for ever.
    start_fresh = get_context("spawn")
    try:
        with ProcessPoolExecutor(processes, start_fresh, torch.set_num_threads, (1,)) as pool:
            yield from pool.map(draw, jobs, jobs.values())
    except BrokenProcessPool:
        raise LocantError(
            "A process that drew figures was ended by the system, perhaps for lack of memory. Draw them one by one: "
            "locant figures NAME."
        ) from None


def _draw(name: str, options: dict[str, Any], *, folder: Path, image_format: str, slides: bool) -> _Outcome:
    """Write a figure's files; return what the page shows and the files, or why the run cannot have the figure."""
    figure = FIGURES[name]
    try:
        drawn = figure(**options)
    except (ConfigError, DataError, CheckpointError) as reason:
        # What a run lacks for one figure (an evaluation, say) takes nothing from the others.
        if not figure.needs_run:
            raise
        return reason
    image, paths, gif = _element(name, drawn), [folder / f"{name}.{image_format}"], None
    if slides:
        paths = list(write_slides(figure, folder, options, image_format))
    else:
        save_figure(drawn, paths[0])
    if name in ANIMATIONS:
        gif = animation(name)
        paths.append(folder / f"{name}.gif")
        with replacing_file(paths[-1]) as temporary:
            temporary.write_bytes(gif)
    return image, gif, paths


def _element(name: str, figure: FigureData) -> str:
    """Return a figure as an element of the page whose id is ``NAME-drawn``."""
    drawn = svg(figure, name=f"{name}-svg", description=FIGURES[name].caption.text)
    return drawn.replace("<svg ", f'<svg id="{name}-drawn" ', 1)


def render_gallery(figures: Mapping[str, FigureData], *, run: Path | None = None, errata: str | None = None) -> str:
    """Return the text of a page with these figures, in their order.

    Args:
        figures: Figures by name.
        run: Folder of the trained model that some of them show.
        errata: Page of errata beside it, to which figures are linked.

    Raises:
        MissingExtraError: matplotlib or jinja2 is not installed.
    """
    return _page({name: _element(name, figure) for name, figure in figures.items()}, {}, run, errata)


def _page(images: Mapping[str, str], moving: Mapping[str, bytes], run: Path | None, errata: str | None) -> str:
    """Return the text of a page with these figures and animations."""
    shown = {
        name: {
            "name": name,
            "caption": FIGURES[name].caption,
            "image": image,
            "size": re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', image).groups(),  # type: ignore[union-attr]
            "moving": base64.b64encode(moving[name]).decode("ascii") if name in moving else "",
            "moves": ANIMATIONS[name][0] if name in moving else "",
            "command": _command(name, run),
            "refutes": refuted_by(name) if errata else [],
        }
        for name, image in images.items()
    }
    story = {act: [shown[name] for name in names] for act, names in acts(shown).items()}
    return render_template("gallery.html", "a page of figures", story=story, errata=errata)


def _command(name: str, run: Path | None) -> str:
    of_a_run = ["--run", str(run)] if FIGURES[name].needs_run else []
    return shlex.join(["locant", "figures", name, *of_a_run, "-o", "figures"])
