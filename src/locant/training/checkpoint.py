"""Checkpoints: everything a killed run needs to go on as if nothing had happened.

A run keeps two kinds of states::

    checkpoints/step-00001000/   weights, optimiser and state; the newest two are kept, the older in case of damage
    snapshots/step-00001000.safetensors   weights alone, for averaging; the last or best few are kept

Both appear under their final name only when complete and flushed to disk. The first process writes
the whole state, also of a sharded model, so that any number of processes can resume from it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from safetensors.torch import load_file
from torch import Tensor

from locant.errors import CheckpointError
from locant.files import (
    file_digest,
    read_json,
    remove_folder,
    replacing_file,
    replacing_folder,
    sealed,
    write_tensors,
)
from locant.training.loop import Count, LoopProgress

_logger = logging.getLogger("locant")

_KEPT = 2
_FORMAT = 1
_WEIGHTS, _OPTIMIZER, STATE_FILE = "weights.safetensors", "optimizer.safetensors", "state.json"


Record = TypeVar("Record")


def from_plain_data(kind: type[Record], data: Any) -> Record:
    """Return a dataclass from plain data, or raise ValueError where a value is missing or of another kind."""
    try:
        return TypeAdapter(kind).validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


@dataclass(kw_only=True)
class ValidationScores:
    """How good a model is on the validation set.

    Attributes:
        loss: Negative log-likelihood, in nats a token.
        bleu: Of greedy translations, or ``None`` when none were made; of several languages the mean over the directions
            that are trained.
        chrf: Likewise.
        parts: BLEU of each part of a corpus that has several, by name.
    """

    __pydantic_config__ = ConfigDict(allow_inf_nan=False)

    loss: float
    bleu: float | None = None
    chrf: float | None = None
    parts: dict[str, float] = field(default_factory=dict)


@dataclass(kw_only=True)
class Snapshot(ValidationScores):
    """Weights saved at a validation, how good they were, and the digest of the file that holds them."""

    step: Count
    sha256: str = ""


@dataclass
class Progress(LoopProgress):
    """Where a run is; saved with every checkpoint.

    Attributes:
        epoch: Pass over the training data, from 0.
        batch: Batches of that pass already used.
        interval: Sums since the last row of metrics, so that a resumed row equals an uninterrupted one.
        snapshots: Weights kept for averaging.
        best: The best snapshot so far.
        validations: Validations done.
        since_best: Validations since the best one.
        stage: The stage of the corpus, from 0.
        stage_epoch: The epoch with which it began.
        validated: The step of the newest validation.
        validation_ended: When it ended, in seconds trained.
        validation_seconds: How long it took.
        averaged: Updates that the moving average of the weights has taken in, where there is one; those of a parent
            whose optimiser is kept are counted.
    """

    epoch: Count = 0
    batch: Count = 0
    interval: dict[str, float] = field(default_factory=dict)
    snapshots: list[Snapshot] = field(default_factory=list)
    best: Snapshot | None = None
    validations: Count = 0
    since_best: Count = 0
    stage: Count = 0
    stage_epoch: Count = 0
    validated: Count = 0
    validation_ended: float = 0.0
    validation_seconds: float = 0.0
    averaged: Count = 0

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Progress:
        """Build from plain data; raises KeyError without a step, and ValueError for a value of another kind."""
        # Earlier versions saved at validations alone, and an average counted the updates of its own run.
        return from_plain_data(cls, {"validated": data["step"], "averaged": data["step"], **data})


@dataclass
class Checkpoint:
    """The content of a checkpoint: weights by the names of the parameters, what the optimiser keeps, and the progress.

    ``optimizer`` also holds random states and the moving average of the weights. ``evaluated`` says whether the weights
    are those that are validated and published; a schedule-free optimiser computes gradients at others. Of one that was
    found in a ``folder``, :meth:`read` brings the tensors.
    """

    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    progress: Progress
    evaluated: bool = True
    folder: Path | None = None

    def read(self) -> Checkpoint:
        """Return it with the tensors that its folder holds."""
        assert self.folder is not None
        return replace(self, weights=load_file(self.folder / _WEIGHTS), optimizer=load_file(self.folder / _OPTIMIZER))


AVERAGE = "average/"
"""Begins the names of a checkpoint's tensors that hold the moving average of the weights."""


def average_in(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Return the moving average that a checkpoint keeps, by the names of the weights; empty where it keeps none."""
    return {
        name.removeprefix(AVERAGE): state for name, state in checkpoint.optimizer.items() if name.startswith(AVERAGE)
    }


def save_checkpoint(run: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint, then remove all but the newest two, and later ones, of a training that was gone back from."""
    folder = run / "checkpoints" / step_name(checkpoint.progress.step)
    about = {"progress": asdict(checkpoint.progress), "evaluated": checkpoint.evaluated}
    write_state(folder, checkpoint.weights, checkpoint.optimizer, about)
    folders = checkpoint_folders(run)
    end = folders.index(folder) + 1
    for other in (*folders[:end][:-_KEPT], *folders[end:]):
        remove_folder(other)
    return folder


def find_checkpoint(folder: Path) -> Checkpoint:
    """Verify a checkpoint, and read where the run was; raises CheckpointError where it is damaged."""
    about = _verified(folder)
    try:
        progress = Progress.from_dict(about["progress"])
        if step_of(folder.name) != progress.step:
            raise ValueError(f"it is of step {progress.step}")
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(folder, f"{STATE_FILE} lacks what it should say ({error})") from None
    return Checkpoint({}, {}, progress, about.get("evaluated", True), folder)


def find_newest_checkpoint(run: Path) -> Checkpoint | None:
    """Find the newest checkpoint of a run that is whole, with a warning of each that is damaged; ``None`` without any.

    Raises:
        CheckpointError: All are damaged.
    """
    damaged: CheckpointError | None = None
    for folder in reversed(checkpoint_folders(run)):
        try:
            found = find_checkpoint(folder)
        except CheckpointError as error:
            damaged = damaged or error
            continue
        if damaged:
            _logger.warning(f"{damaged} Going on from {folder} instead.")
        return found
    if damaged:
        raise CheckpointError(
            f"{damaged} No other checkpoint of the run is whole. Delete the folder {run / 'checkpoints'} to train from "
            "the beginning."
        )
    return None


def write_state(
    folder: Path, weights: Mapping[str, Tensor], optimizer: Mapping[str, Tensor], about: Mapping[str, Any]
) -> None:
    """Write weights, the optimiser's tensors and plain data as one folder, which appears when all is on the disk."""
    # A training that was resumed from an earlier checkpoint finds what it wrote before.
    with replacing_folder(folder, existing="replace") as temporary:
        write_tensors(temporary / _WEIGHTS, weights)
        write_tensors(temporary / _OPTIMIZER, optimizer)
        digests = {name: file_digest(temporary / name) for name in (_WEIGHTS, _OPTIMIZER)}
        state = sealed({"format": _FORMAT, "sha256": digests, **about})
        (temporary / STATE_FILE).write_text(json.dumps(state, indent=2), encoding="utf-8")


def read_state(folder: Path) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_state` wrote, and verify it; raises CheckpointError where it is damaged."""
    about = _verified(folder)
    return load_file(folder / _WEIGHTS), load_file(folder / _OPTIMIZER), about


def read_about(folder: Path) -> dict[str, Any]:
    """Read the plain data that :func:`write_state` wrote; raises CheckpointError where it is damaged."""
    state = read_json(folder / STATE_FILE)
    if not isinstance(state, dict) or not isinstance(state.get("format", 1), int):
        raise _damaged(folder, f"{STATE_FILE} is not what was written")
    if state.get("format", 1) != _FORMAT:
        raise CheckpointError(
            f"The checkpoint {folder} has format {state['format']}, of another version of Locant; this one reads "
            f"format {_FORMAT}."
        )
    if not isinstance(state.get("sha256", {}), dict):
        raise _damaged(folder, f"{STATE_FILE} is not what was written")
    return state


def _verified(folder: Path) -> dict[str, Any]:
    """Return the plain data of a state whose files are what was written."""
    state = read_about(folder)
    for name, digest in state.pop("sha256", {}).items():  # fine-tunings of earlier versions kept none
        if not (folder / name).is_file() or file_digest(folder / name) != digest:
            raise _damaged(folder, f"{name} is missing or differs from what was written")
    return state


def _damaged(folder: Path, how: str) -> CheckpointError:
    return CheckpointError(f"The checkpoint {folder} is damaged: {how}.")


def checkpoint_folders(run: Path) -> list[Path]:
    """Return the complete checkpoints of a run, oldest first; what is not called as one is not taken for one."""
    found = [(step_of(path.name), path) for path in (run / "checkpoints").glob("step-*") if path.is_dir()]
    return [path for _, path in sorted((step, path) for step, path in found if step is not None)]


def snapshot_path(run: Path, step: int) -> Path:
    """Return where the weights of a step are kept for averaging."""
    return run / "snapshots" / f"{step_name(step)}.safetensors"


def save_snapshot(run: Path, step: int, weights: dict[str, Tensor]) -> str:
    """Write weights for averaging, and return the digest of the file."""
    with replacing_file(snapshot_path(run, step)) as temporary:
        write_tensors(temporary, weights)
        return file_digest(temporary)


def whole_snapshots(run: Path, snapshots: list[Snapshot]) -> list[Snapshot]:
    """Return those snapshots that are as they were written; a warning tells of each of the others."""
    whole = []
    for each in snapshots:
        path = snapshot_path(run, each.step)
        # Earlier versions kept no digests.
        if path.is_file() and each.sha256 in ("", file_digest(path)):
            whole.append(each)
        else:
            _logger.warning(f"{path} is missing or differs from what was written, so it is not used.")
    return whole


def prune_snapshots(run: Path, kept: list[Snapshot]) -> None:
    """Delete snapshots that are not in ``kept``."""
    steps = {snapshot.step for snapshot in kept}
    for path in (run / "snapshots").glob("step-*.safetensors"):
        if step_of(path.stem) not in (None, *steps):
            path.unlink()


def average_snapshots(run: Path, snapshots: list[Snapshot]) -> dict[str, Tensor]:
    """Return the mean of the snapshots' weights, computed in float64 (Vaswani et al. 2017, section 6.1)."""
    total: dict[str, Tensor] = {}
    dtypes = {}
    for snapshot in snapshots:
        for name, tensor in load_file(snapshot_path(run, snapshot.step)).items():
            dtypes[name] = tensor.dtype
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(snapshots)).to(dtypes[name]) for name, tensor in total.items()}


def step_name(step: int) -> str:
    """Return the name of what is kept of a step."""
    return f"step-{step:08d}"


def step_of(name: str) -> int | None:
    """Return the step of which a name is, ``None`` for one that :func:`step_name` does not give."""
    number = name.removeprefix("step-")
    step = int(number) if number.isascii() and number.isdecimal() and len(number) < 20 else None
    return step if step is not None and step_name(step) == name else None
