"""Checkpoints: everything a killed run needs to go on as if nothing had happened.

A run keeps two kinds of states::

    checkpoints/step-00001000/   weights, optimiser and state; the newest two are kept, the older in case of damage
    snapshots/step-00001000.safetensors   weights alone, for averaging; the last or best few are kept

Both appear under their final name only when complete and flushed to disk.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from locant.errors import CheckpointError
from locant.files import file_digest, read_json, replacing_file, replacing_folder, write_tensors
from locant.training.loop import LoopProgress

_logger = logging.getLogger("locant")

_KEPT = 2
_FORMAT = 1
_WEIGHTS, _OPTIMIZER, STATE_FILE = "weights.safetensors", "optimizer.safetensors", "state.json"


@dataclass(frozen=True)
class ValidationScores:
    """How good a model is on the validation set.

    Attributes:
        loss: Negative log-likelihood, in nats a token.
        bleu: Of greedy translations, or ``None`` when none were made; of several languages the mean over the directions
            that are trained.
        chrf: Likewise.
        parts: BLEU of each part of a corpus that has several, by name.
    """

    loss: float
    bleu: float | None = None
    chrf: float | None = None
    parts: dict[str, float] = field(default_factory=dict)


@dataclass
class Snapshot:
    """Weights saved at a validation, and how good they were."""

    step: int
    loss: float
    bleu: float | None = None
    chrf: float | None = None
    parts: dict[str, float] = field(default_factory=dict)


@dataclass
class Progress(LoopProgress):
    """Where a run stands; saved with every checkpoint.

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
    """

    epoch: int = 0
    batch: int = 0
    interval: dict[str, float] = field(default_factory=dict)
    snapshots: list[Snapshot] = field(default_factory=list)
    best: Snapshot | None = None
    validations: int = 0
    since_best: int = 0
    stage: int = 0
    stage_epoch: int = 0
    validated: int = 0

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Progress:
        """Build from plain data."""
        snapshots = [Snapshot(**item) for item in data.pop("snapshots")]
        best = data.pop("best")
        data.setdefault("validated", data["step"])  # earlier versions saved at validations alone
        return cls(**data, snapshots=snapshots, best=Snapshot(**best) if best else None)


@dataclass
class Checkpoint:
    """The content of a checkpoint.

    Attributes:
        weights: By the names of the parameters.
        optimizer: What the optimiser keeps of them, random states and the moving average, by name.
        progress: Where the run stands.
        evaluated: Whether the weights are those that are validated and published; else those at which gradients are
            computed, which differ for schedule-free optimisers.
    """

    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    progress: Progress
    evaluated: bool = True


def save_checkpoint(run: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint, then remove all but the newest two, and later ones, of a training that was gone back from.

    Raises:
        CheckpointError: The disk is full or not writable; earlier checkpoints stay.
    """
    folder = run / "checkpoints" / step_name(checkpoint.progress.step)
    about = {"progress": asdict(checkpoint.progress), "evaluated": checkpoint.evaluated}
    write_state(folder, checkpoint.weights, checkpoint.optimizer, about)
    folders = checkpoint_folders(run)
    end = folders.index(folder) + 1
    for other in (*folders[:end][:-_KEPT], *folders[end:]):
        shutil.rmtree(other)
    return folder


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint and verify it.

    Raises:
        CheckpointError: A file is missing, or its content is not what was written.
    """
    weights, optimizer, about = read_state(folder)
    try:
        return Checkpoint(weights, optimizer, Progress.from_dict(about["progress"]), about.get("evaluated", True))
    except (KeyError, TypeError) as error:
        raise _damaged(folder, f"{STATE_FILE} lacks what it should say ({error})") from None


def load_newest_checkpoint(run: Path) -> Checkpoint | None:
    """Read the newest checkpoint of a run that is whole; ``None`` where there is none at all.

    Of each that is damaged a warning says so.

    Raises:
        CheckpointError: All are damaged.
    """
    damaged: CheckpointError | None = None
    for folder in reversed(checkpoint_folders(run)):
        try:
            found = load_checkpoint(folder)
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
    """Write weights, the optimiser's tensors and plain data as one folder, which appears when all is on the disk.

    Raises:
        CheckpointError: The disk is full or not writable.
    """
    # A training that was resumed from an earlier checkpoint finds what it wrote before.
    with replacing_folder(folder, existing="replace") as temporary:
        write_tensors(temporary / _WEIGHTS, weights)
        write_tensors(temporary / _OPTIMIZER, optimizer)
        digests = {name: file_digest(temporary / name) for name in (_WEIGHTS, _OPTIMIZER)}
        state = {"format": _FORMAT, "sha256": digests, **about}
        (temporary / STATE_FILE).write_text(json.dumps(state, indent=2), encoding="utf-8")


def read_state(folder: Path) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_state` wrote, and verify it.

    Raises:
        CheckpointError: A file is missing, or its content is not what was written.
    """
    state = read_json(folder / STATE_FILE)
    if not isinstance(state, dict) or not isinstance(state.get("format", 1), int):
        raise _damaged(folder, f"{STATE_FILE} is not what was written")
    if state.get("format", 1) > _FORMAT:
        raise CheckpointError(
            f"The checkpoint {folder} has format {state['format']}, of a later version of Locant; this one reads "
            f"formats up to {_FORMAT}."
        )
    for name, digest in state.pop("sha256", {}).items():  # fine-tunings of earlier versions kept none
        if not (folder / name).is_file() or file_digest(folder / name) != digest:
            raise _damaged(folder, f"{name} is missing or differs from what was written")
    return load_file(folder / _WEIGHTS), load_file(folder / _OPTIMIZER), state


def _damaged(folder: Path, how: str) -> CheckpointError:
    return CheckpointError(f"The checkpoint {folder} is damaged: {how}.")


def checkpoint_folders(run: Path) -> list[Path]:
    """Return the complete checkpoints of a run, oldest first."""
    return sorted((run / "checkpoints").glob("step-*"))


def snapshot_path(run: Path, step: int) -> Path:
    """Return where the weights of a step are kept for averaging."""
    return run / "snapshots" / f"{step_name(step)}.safetensors"


def save_snapshot(run: Path, step: int, weights: dict[str, Tensor]) -> None:
    """Write weights for averaging."""
    with replacing_file(snapshot_path(run, step)) as temporary:
        write_tensors(temporary, weights)


def prune_snapshots(run: Path, kept: list[Snapshot]) -> None:
    """Delete snapshots that are not in ``kept``."""
    names = {snapshot_path(run, snapshot.step).name for snapshot in kept}
    for path in (run / "snapshots").glob("step-*.safetensors"):
        if path.name not in names:
            path.unlink()


def average_snapshots(run: Path, snapshots: list[Snapshot]) -> dict[str, Tensor]:
    """Return the mean of the snapshots' weights, computed in float64.

    Source: checkpoint averaging as in Vaswani et al. 2017, section 6.1.
    """
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
