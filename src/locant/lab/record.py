"""Records: one JSON file for every finished trial, and the proof that everything but the variant was the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locant.errors import CheckpointError, ConfigError
from locant.files import read_json
from locant.lab.task import Outcome
from locant.settings import Settings


class Record(Settings):
    """A finished trial.

    Attributes:
        task: Name of the task.
        variant: Name and options of what was compared.
        seed: Of data, order and initial weights.
        configuration: Settings of the task and the budget, defaults included.
        outcome: What was found.
        wall_seconds: Time of the whole trial, preparation and measuring included.
        peak_memory: Largest memory in bytes: of the process on CPU (libraries included), of tensors on CUDA.
        device: Where it ran.
        environment: Versions and machine.
        finished: When, ISO 8601 in UTC.
    """

    format: int = 1
    task: str
    variant: str
    seed: int
    configuration: dict[str, Any]
    outcome: Outcome
    wall_seconds: float
    peak_memory: int
    device: str
    environment: dict[str, Any]
    finished: str


_RENAMED = {"contender": "variant", "contenders": "variants", "clip_norm": "max_grad_norm"}
_RENAMED_OVERRIDES = {
    "training.clip_norm=": "training.max_grad_norm=",
    "training.accumulate=": "training.gradient_accumulation_steps=",
}


def with_new_names(data: Any) -> Any:
    """Return the plain data of a record or comparison with what earlier versions called otherwise renamed."""
    if isinstance(data, dict):
        return {_RENAMED.get(key, key): with_new_names(value) for key, value in data.items()}
    if isinstance(data, list):
        return [with_new_names(value) for value in data]
    if isinstance(data, str):
        for old, new in _RENAMED_OVERRIDES.items():
            if data.startswith(old):
                return new + data.removeprefix(old)
    return data


def record_path(folder: Path, task: str, variant: str, seed: int) -> Path:
    """Return where the record of a trial is kept."""
    return folder / "records" / task / re.sub(r"[^\w.=-]+", "_", variant) / f"seed-{seed}.json"


def load_record(path: Path) -> Record:
    """Read a record.

    Raises:
        CheckpointError: The file is missing or no record.
    """
    try:
        return Record.parse(with_new_names(read_json(path)), str(path))
    except ConfigError as error:
        raise CheckpointError(f"{error} Delete the file, and its trial runs again.") from None


def load_records(folder: Path) -> list[Record]:
    """Return all records of a comparison, ordered by file name."""
    return [load_record(path) for path in sorted((folder / "records").glob("*/*/seed-*.json"))]


@dataclass(frozen=True)
class Check:
    """One thing that must be the same for all variants of a task and a seed.

    Attributes:
        task: Name.
        seed: Which.
        what: What must be the same.
        values: What each variant has, shortened for reading.
    """

    task: str
    seed: int
    what: str
    values: dict[str, str]

    @property
    def holds(self) -> bool:
        """Whether it is the same."""
        return len(set(self.values.values())) == 1

    @property
    def common(self) -> str:
        """What all have, or what the variants have that differ."""
        if self.holds:
            return next(iter(self.values.values()))
        return ", ".join(f"{variant}: {value}" for variant, value in self.values.items())


def _by_budget_of_updates(record: Record) -> str:
    return f"{record.outcome.tokens:,}" if record.configuration.get("budget", {}).get("steps") else ""


def _parameters_outside_the_scheme(record: Record) -> str:
    outcome = record.outcome
    return f"{outcome.parameters - outcome.scheme_parameters:,}" if outcome.initial_weights else ""


_SAME_FOR_ALL: dict[str, Callable[[Record], str]] = {
    "text": lambda record: record.outcome.text[:12],
    "tokens trained on": _by_budget_of_updates,
    "first batch": lambda record: record.outcome.first_batch[:12],
    "initial weights": lambda record: record.outcome.initial_weights[:12],
    "parameters without the scheme's": _parameters_outside_the_scheme,
}


def check_fairness(records: Iterable[Record]) -> list[Check]:
    """Compare texts, tokens trained on, first batches, initial weights and sizes for every task and seed.

    Variants that cannot do a task are left out, and so are, for the weights, those that share none. Under a budget of
    minutes the number of tokens depends on the speed and is left out.
    """
    groups: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        if not record.outcome.cannot:
            groups.setdefault((record.task, record.seed), []).append(record)
    checks = []
    for (task, seed), group in sorted(groups.items()):
        for what, of_record in _SAME_FOR_ALL.items():
            values = {record.variant: value for record in group if (value := of_record(record))}
            if values:
                checks.append(Check(task, seed, what, values))
    return checks
