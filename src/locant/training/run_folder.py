"""Run folders: which are new, which can be gone on with, and the files that say what a run is made of.

The files come in an order that lets a run that is killed between any two of them begin again or go on::

    .lock                the process that trains in the folder
    run.json             first: the folder is Locant's, and of which format
    cache/, tokenizer.*  the prepared text
    data.json, choices.json, environment.json
    recipe.yaml          last: from now on the run is gone on with, before it began again
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from locant.errors import CheckpointError
from locant.files import is_workplace, read_json, write_json
from locant.locks import LOCK_FILE, holding
from locant.runtime import environment
from locant.training import parallel
from locant.training.callback import PreparedReport
from locant.training.defaults import Choice
from locant.training.recipe import Recipe, save_recipe
from locant.version import __version__

FORMAT = 2
"""The format of run folders that this version writes; it goes on with earlier ones. 1 had no ``run.json``."""

MARK, _RECIPE, _ENVIRONMENT, _DATA = "run.json", "recipe.yaml", "environment.json", "data.json"


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Hold a run folder while this process trains in it; nothing stays of one where nothing was prepared.

    Raises:
        CheckpointError: Another process does; or the folder cannot be written.
    """
    with holding(folder, "training"):
        try:
            yield
        finally:
            if {each.name for each in folder.iterdir()} <= {MARK, LOCK_FILE}:
                (folder / MARK).unlink(missing_ok=True)


def has_run(folder: Path) -> bool:
    """Whether a folder holds a run that can be gone on with.

    Raises:
        CheckpointError: A later version of Locant has written it.
    """
    if (folder / MARK).exists():
        found = read_json(folder / MARK)
        number = found.get("format") if isinstance(found, dict) else None
        if not isinstance(number, int):
            raise CheckpointError(f"{folder / MARK} is not Locant's: it says no format. Choose another folder.")
        if number > FORMAT:
            raise CheckpointError(
                f"The run in {folder} was written by Locant {found.get('locant')} in format {number}; this is Locant "
                f"{__version__}, which reads formats up to {FORMAT}. Go on with it by that version or a later one."
            )
    return (folder / _RECIPE).exists()


def goes_on(folder: Path, *, may_begin: bool, may_go_on: bool) -> bool:
    """Return whether a folder holds a run that is gone on with; else it is empty, or holds what never began.

    Raises:
        CheckpointError: It holds no run and none may begin, or a run with which may not be gone on, or something else.
    """
    if has_run(folder):
        if may_go_on:
            return True
        raise CheckpointError(
            f"{folder} already holds a run. Go on with it by `{resume_command(folder)}`, or choose another folder for "
            "--output; --resume-if-exists begins or goes on, whichever it is."
        )
    began = (folder / MARK).exists()
    if not may_begin and began:
        raise CheckpointError(
            f"The run in {folder} was stopped before it had begun to train. Start it again with the command that it "
            f"was started with, --output {folder}."
        )
    if not may_begin:
        raise CheckpointError(f"There is no run to resume in {folder}: it holds no {_RECIPE}.")
    if not began and folder.exists():
        foreign = [each.name for each in folder.iterdir() if each.name != LOCK_FILE and not is_workplace(each)]
        if foreign:
            raise CheckpointError(f"{folder} is not empty (it holds {foreign[0]}). Choose a new folder for --output.")
    return False


def begin(folder: Path) -> None:
    """Mark a new folder as Locant's, before anything else is written.

    Raises:
        CheckpointError: The disk is full or not writable.
    """
    write_json(folder / MARK, {"format": FORMAT, "locant": __version__})


def record(recipe: Recipe, folder: Path, report: PreparedReport, choices: Sequence[Choice], step: int) -> None:
    """Write what a run is made of; once this is done, it can be gone on with from that many updates on.

    Raises:
        CheckpointError: The disk is full or not writable.
    """
    write_json(folder / _DATA, asdict(report))
    if choices:
        write_json(folder / "choices.json", [asdict(choice) for choice in choices])
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    session = {"since": since, "step": step, "processes": parallel.world_size(), **environment()}
    first = _informing(folder / _ENVIRONMENT) if (folder / _RECIPE).exists() else {}
    before = first.get("resumed", [])
    resumed = {**first, "resumed": [*(before if isinstance(before, list) else []), session]}
    write_json(folder / _ENVIRONMENT, resumed if first else session)
    save_recipe(recipe, folder / _RECIPE)


def recorded_fingerprint(folder: Path) -> str | None:
    """Return what identifies the text of a run that is gone on with; ``None`` where no record says it."""
    found = _informing(folder / _DATA).get("fingerprint")
    return found if isinstance(found, str) else None


def _informing(path: Path) -> dict[str, Any]:
    """Read a record without which a run goes on; nothing is known where it cannot be read."""
    with suppress(CheckpointError):
        found = read_json(path)
        return found if isinstance(found, dict) else {}
    return {}


def translate_command(model: Path, text: str | None, languages: Mapping[str, str]) -> str:
    """Return the command that translates a text.

    Args:
        model: The folder of the model.
        text: To translate; ``None`` leaves a place for it.
        languages: What a model for several languages is told, by side.

    Example:
        >>> translate_command(Path("runs/four"), "Guten Tag", {"source": "de", "target": "fr"})
        "locant translate runs/four --source-language de --target-language fr 'Guten Tag'"
    """
    words = ["locant", "translate", str(model)]
    for side, language in languages.items():
        words += [f"--{side}-language", language]
    if text is None:
        return f'{shlex.join(words)} "..."'
    if text.startswith("-"):
        words.append("--")  # or it is taken for an option
    return shlex.join([*words, text])


def evaluate_command(run: Path) -> str:
    """Return the command that evaluates a run."""
    return shlex.join(["locant", "evaluate", str(run)])


def resume_command(run: Path) -> str:
    """Return the command that goes on with a run."""
    return shlex.join(["locant", "train", "--resume", str(run)])
