"""A comparison: which tasks, variants and seeds, and everything else that is the same for all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from locant.errors import ConfigError
from locant.files import read_json, write_json
from locant.lab.record import Record, load_record, record_path, with_new_names
from locant.lab.registry import COMPARISON_TASKS, build_task
from locant.lab.task import ComparisonTask
from locant.settings import Settings
from locant.training import Budget

_FILE = "comparison.json"


class Comparison(Settings):
    """What is compared; the file ``comparison.json`` of a folder.

    Attributes:
        tasks: Names.
        variants: Names, with options perhaps; empty for each task's own.
        seeds: Number of seeds, counted from 1.
        budget: Of every trial.
        options: Fields of the tasks.
    """

    tasks: tuple[str, ...] = Field(min_length=1)
    variants: tuple[str, ...] = ()
    seeds: int = Field(3, ge=1, le=10_000)
    budget: Budget
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.budget.steps is None) == (self.budget.minutes is None):
            raise ConfigError("give either steps or minutes")
        return self

    def build(self, name: str) -> ComparisonTask:
        """Return a task with the options of the comparison.

        Raises:
            ConfigError: The task or an option is unknown, or a value is wrong.
        """
        return build_task(name, self.options)

    def variants_of(self, name: str) -> tuple[str, ...]:
        """Return what is compared in a task."""
        return self.variants or COMPARISON_TASKS[name].default_variants()

    def configuration(self, name: str) -> dict[str, Any]:
        """Return what the record of a trial keeps: all settings that decide its result."""
        return {"task": self.build(name).to_dict(), "budget": self.budget.to_dict()}

    def check_names(self) -> None:
        """Raise where a task, a variant or an option cannot be.

        Raises:
            ConfigError: An unknown or wrong one; the nearest known one is named.
        """
        for name in self.tasks:
            task = self.build(name)
            for variant in self.variants_of(name):
                task.check_variant(variant)

    def jobs(self) -> list[Job]:
        """Return every trial, all variants of a seed before the next seed."""
        return [
            Job(name, variant, seed)
            for seed in range(1, self.seeds + 1)
            for name in self.tasks
            for variant in dict.fromkeys(self.variants_of(name))
        ]


@dataclass(frozen=True)
class Job:
    """One trial to run; without a variant, what a task prepares for a seed."""

    task: str
    variant: str
    seed: int

    def __str__(self) -> str:
        """Say it in words."""
        return f"{self.task}, {self.variant or 'preparation'}, seed {self.seed}"


def require_same_way(folder: Path, comparison: Comparison) -> None:
    """Raise ConfigError where a folder holds a comparison that trains or measures in another way."""
    if (folder / _FILE).exists():
        old, new = (_flat(one.to_dict()) for one in (load_comparison(folder), comparison))
        for key in sorted({*old, *new}):
            if key.startswith(("budget", "options")) and old.get(key) != new.get(key):
                raise ConfigError(
                    f"The comparison in {folder} has {key} {old.get(key, 'at its default')}, but "
                    f"{new.get(key, 'the default')} is asked for. Trials of one folder differ in task, variant and "
                    "seed alone: give another folder."
                )


def save_comparison(folder: Path, comparison: Comparison) -> None:
    """Write a comparison into its folder, which keeps what it has.

    Raises:
        ConfigError: The folder holds a comparison that trains or measures in another way.
        CheckpointError: The folder cannot be written.
    """
    require_same_way(folder, comparison)
    write_json(folder / _FILE, comparison.to_dict())


def load_comparison(folder: Path) -> Comparison:
    """Read the comparison of a folder.

    Raises:
        CheckpointError: There is none.
        ConfigError: The file was changed to something that cannot be.
    """
    return Comparison.parse(with_new_names(read_json(folder / _FILE)), str(folder / _FILE))


def finished_record(folder: Path, comparison: Comparison, job: Job) -> Record | None:
    """Return the record of a trial, or ``None`` where it has to run.

    Raises:
        ConfigError: There is one, but of another configuration.
        CheckpointError: There is a file that is no record.
    """
    path = record_path(folder, job.task, job.variant, job.seed)
    if not path.exists():
        return None
    record = load_record(path)
    old, new = _flat(record.configuration), _flat(comparison.configuration(job.task))
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            raise ConfigError(
                f"The record {path} was made with {key} {old.get(key)}, but {new.get(key)} is asked for. "
                "Give another folder, or move the record away."
            )
    return record


def _flat(data: Any, prefix: str = "") -> dict[str, Any]:
    """Return the leaves of nested mappings under dotted names."""
    if not isinstance(data, dict):
        return {prefix: data}
    found: dict[str, Any] = {}
    for key, value in data.items():
        found |= _flat(value, f"{prefix}.{key}" if prefix else key)
    return found
