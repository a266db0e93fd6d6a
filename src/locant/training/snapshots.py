"""Snapshots: weights of a run that are kept for averaging, the last or best few."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from locant.files import file_digest, replacing_file, write_tensors

_logger = logging.getLogger("locant")


@dataclass
class Snapshot:
    """Weights saved at a validation, how good they were, and the digest of the file that holds them."""

    step: int
    loss: float
    bleu: float | None = None
    chrf: float | None = None
    parts: dict[str, float] = field(default_factory=dict)
    sha256: str = ""


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


def step_of(name: str) -> int | None:
    """Return the step of which a name is, ``None`` for one that :func:`step_name` does not give."""
    number = name.removeprefix("step-")
    step = int(number) if number.isascii() and number.isdecimal() and len(number) < 20 else None
    return step if step is not None and step_name(step) == name else None
