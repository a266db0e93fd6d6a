"""Checkpoints: everything a killed run needs to go on as if nothing had happened.

A run keeps two kinds of states::

    checkpoints/step-00001000/   weights, optimiser and state; the newest two are kept, the older in case of damage
    snapshots/step-00001000.safetensors   weights alone, for averaging; the last or best few are kept

Both appear under their final name only when complete and flushed to disk. Of a sharded model each process writes a part
of the checkpoint, see ``sharded_checkpoint``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from safetensors.torch import load_file
from torch import Tensor

from locant.errors import CheckpointError
from locant.files import file_digest, read_json, remove_folder, replacing_folder, sealed, write_tensors
from locant.training.loop import LoopProgress
from locant.training.sharded_checkpoint import BackgroundSave, read_parts, read_whole, stored_shapes
from locant.training.snapshots import Snapshot, step_name, step_of

_logger = logging.getLogger("locant")

_KEPT = 2
_MOST = 2.0**53
_FORMAT = 1
_FORMAT_OF_PARTS = 2
_WEIGHTS, _OPTIMIZER, STATE_FILE = "weights.safetensors", "optimizer.safetensors", "state.json"
_PART_OF_WEIGHTS = "weights"
"""Begins the names of the weights in checkpoints in parts; other kinds are those of the optimiser."""


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
        validation_ended: When it ended, in seconds trained.
        validation_seconds: How long it took.
        averaged: Updates that the moving average of the weights has taken in, where there is one; those of a parent
            whose optimiser is kept are counted.
        rows: Rows that the log of metrics has; ``None`` where an earlier version did not count them.
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
    validation_ended: float = 0.0
    validation_seconds: float = 0.0
    averaged: int = 0
    rows: int | None = None

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Progress:
        """Build from plain data.

        Raises:
            KeyError: The step is missing.
            TypeError, ValueError: A value is of another kind, or a number is out of range.
        """
        # Scores may be anything that is finite, what is counted not.
        if any(not (0 if isinstance(each, int) else -_MOST) <= each < _MOST for each in _numbers(data)):
            raise ValueError("a number is out of range")
        # Earlier versions saved at validations alone, and an average counted the updates of its own run.
        return TypeAdapter(cls).validate_python({"validated": data["step"], "averaged": data["step"], **data})


def _numbers(data: Any) -> Iterator[float]:
    """Yield the numbers in plain data."""
    if isinstance(data, int | float):
        yield data
    elif isinstance(data, dict | list):
        for each in data.values() if isinstance(data, dict) else data:
            yield from _numbers(each)


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


@dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint on the disk that is as it was written.

    Attributes:
        folder: Where it is.
        progress: Where the run stood.
        evaluated: As of a :class:`Checkpoint`.
        in_parts: Whether it is of a sharded model.
    """

    folder: Path
    progress: Progress
    evaluated: bool
    in_parts: bool

    def read(self) -> Checkpoint:
        """Read all of it."""
        weights, optimizer = _tensors(self.folder, self.in_parts)
        return Checkpoint(weights, optimizer, self.progress, self.evaluated)

    def shapes_of_weights(self) -> dict[str, list[int]]:
        """Return the shapes of the weights by name; of a checkpoint in parts."""
        kept = ((path.partition("/"), shape) for path, shape in stored_shapes(self.folder).items())
        return {name: shape for (kind, _, name), shape in kept if kind == _PART_OF_WEIGHTS}

    def read_share(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Read this process's share of a checkpoint in parts.

        Args:
            weights: Those of the model by name, sharded; they are written in place.

        Returns:
            What the checkpoint holds besides, by name: sharded like the weights, or as it is.
        """
        wanted = {}
        for path in stored_shapes(self.folder):
            kind, _, name = path.partition("/")
            own = weights[name].detach()
            wanted[path] = own if kind == _PART_OF_WEIGHTS else torch.zeros_like(own)
        read_parts(self.folder, wanted)
        others = {path: each for path, each in wanted.items() if not path.startswith(f"{_PART_OF_WEIGHTS}/")}
        return {**others, **load_file(self.folder / _OPTIMIZER)}


def save_checkpoint(run: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint, then remove all but the newest two, and later ones, of a training that was gone back from.

    Raises:
        CheckpointError: The disk is full or not writable; earlier checkpoints stay.
    """
    folder = run / "checkpoints" / step_name(checkpoint.progress.step)
    write_state(folder, checkpoint.weights, checkpoint.optimizer, _about(checkpoint))
    _prune_checkpoints(folder)
    return folder


def save_checkpoint_in_parts(
    run: Path, checkpoint: Checkpoint, saving: BackgroundSave, then: Callable[[], None]
) -> None:
    """Begin to write the checkpoint of a sharded model, each process its part, as :func:`save_checkpoint` does.

    Args:
        run: The run folder, on a file system that all processes share.
        checkpoint: Its tensors may change when this returns.
        saving: Writes it.
        then: Called on the first process when it is written.

    Raises:
        CheckpointError: The disk is full or not writable, found now or while the checkpoint before was written.
    """
    folder = run / "checkpoints" / step_name(checkpoint.progress.step)
    about = _about(checkpoint)
    tensors = {f"{_PART_OF_WEIGHTS}/{name}": tensor for name, tensor in checkpoint.weights.items()}
    common = {}
    for name, tensor in checkpoint.optimizer.items():
        if hasattr(tensor, "full_tensor"):
            tensors[name] = tensor
        else:
            common[name] = tensor.detach().clone()

    def finish(temporary: Path, digests: dict[str, str]) -> None:
        write_tensors(temporary / _OPTIMIZER, common)
        digests = {**digests, _OPTIMIZER: file_digest(temporary / _OPTIMIZER)}
        _write_about(temporary, _FORMAT_OF_PARTS, digests, about)

    def finished() -> None:
        _prune_checkpoints(folder)
        then()

    saving.start(folder, tensors, finish, finished)


def _about(checkpoint: Checkpoint) -> dict[str, Any]:
    return {"progress": asdict(checkpoint.progress), "evaluated": checkpoint.evaluated}


def _prune_checkpoints(newest: Path) -> None:
    folders = checkpoint_folders(newest.parent.parent)
    end = folders.index(newest) + 1
    for other in (*folders[:end][:-_KEPT], *folders[end:]):
        remove_folder(other)


def find_checkpoint(folder: Path) -> StoredCheckpoint:
    """Verify a checkpoint, and read where the run stood.

    Raises:
        CheckpointError: A file is missing, or its content is not what was written.
    """
    about = _verified(folder)
    try:
        progress = Progress.from_dict(about["progress"])
        if step_of(folder.name) != progress.step:
            raise ValueError(f"it is of step {progress.step}")
    except (KeyError, TypeError, ValueError) as error:
        said = ", ".join(str(error).splitlines()[:2])
        raise _damaged(folder, f"{STATE_FILE} lacks what it should say ({said})") from None
    return StoredCheckpoint(folder, progress, about.get("evaluated", True), _in_parts(about))


def find_newest_checkpoint(run: Path) -> StoredCheckpoint | None:
    """Find the newest checkpoint of a run that is whole; ``None`` where there is none at all.

    Of each that is damaged a warning says so.

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
    """Write weights, the optimiser's tensors and plain data as one folder, which appears when all is on the disk.

    Raises:
        CheckpointError: The disk is full or not writable.
    """
    # A training that was resumed from an earlier checkpoint finds what it wrote before.
    with replacing_folder(folder, existing="replace") as temporary:
        write_tensors(temporary / _WEIGHTS, weights)
        write_tensors(temporary / _OPTIMIZER, optimizer)
        digests = {name: file_digest(temporary / name) for name in (_WEIGHTS, _OPTIMIZER)}
        _write_about(temporary, _FORMAT, digests, about)


def _write_about(folder: Path, number: int, digests: Mapping[str, str], about: Mapping[str, Any]) -> None:
    state = sealed({"format": number, "sha256": digests, **about})
    (folder / STATE_FILE).write_text(json.dumps(state, indent=2), encoding="utf-8")


def read_state(folder: Path) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_state` wrote, and verify it.

    Raises:
        CheckpointError: A file is missing, or its content is not what was written.
    """
    about = _verified(folder)
    return *_tensors(folder, _in_parts(about)), about


def read_about(folder: Path) -> dict[str, Any]:
    """Read the plain data that :func:`write_state` wrote, and verify it; the tensors are not looked at.

    Raises:
        CheckpointError: The file is missing, or its content is not what was written.
    """
    state = read_json(folder / STATE_FILE)
    if not isinstance(state, dict) or not isinstance(state.get("format", 1), int):
        raise _damaged(folder, f"{STATE_FILE} is not what was written")
    if state.get("format", 1) > _FORMAT_OF_PARTS:
        raise CheckpointError(
            f"The checkpoint {folder} has format {state['format']}, of a later version of Locant; this one reads "
            f"formats up to {_FORMAT_OF_PARTS}."
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


def _in_parts(about: Mapping[str, Any]) -> bool:
    return bool(about.get("format") == _FORMAT_OF_PARTS)


def _tensors(folder: Path, in_parts: bool) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return weights, and what else is kept, of a state."""
    if not in_parts:
        return load_file(folder / _WEIGHTS), load_file(folder / _OPTIMIZER)
    weights, others = {}, load_file(folder / _OPTIMIZER)
    for path, tensor in read_whole(folder).items():
        kind, _, name = path.partition("/")
        if kind == _PART_OF_WEIGHTS:
            weights[name] = tensor
        else:
            others[path] = tensor
    return weights, others


def _damaged(folder: Path, how: str) -> CheckpointError:
    return CheckpointError(f"The checkpoint {folder} is damaged: {how}.")


def checkpoint_folders(run: Path) -> list[Path]:
    """Return the complete checkpoints of a run, oldest first; what is not called as one is not taken for one."""
    found = [(step_of(path.name), path) for path in (run / "checkpoints").glob("step-*") if path.is_dir()]
    return [path for _, path in sorted((step, path) for step, path in found if step is not None)]
