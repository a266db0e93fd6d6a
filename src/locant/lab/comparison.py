"""A comparison: which tasks, contenders and seeds, and everything else that is the same for all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from locant.errors import ConfigError
from locant.files import read_json, write_json
from locant.lab.record import Record, load_record, record_path
from locant.lab.registry import TASKS, build_task
from locant.lab.task import Budget, Task
from locant.settings import Settings

_FILE = "comparison.json"


class Comparison(Settings):
    """What is compared; the file ``comparison.json`` of a folder.

    Attributes:
        tasks: Names.
        contenders: Names, with options perhaps; empty for each task's own.
        seeds: Number of seeds, counted from 1.
        budget: Of every trial.
        options: Fields of the tasks.
    """

    tasks: tuple[str, ...] = Field(min_length=1)
    contenders: tuple[str, ...] = ()
    seeds: int = Field(3, ge=1)
    budget: Budget
    options: dict[str, Any] = Field(default_factory=dict)

    def build(self, name: str) -> Task:
        """Return a task with the options of the comparison.

        Raises:
            ConfigError: The task or an option is unknown, or a value is wrong.
        """
        return build_task(name, self.options)

    def contenders_of(self, name: str) -> tuple[str, ...]:
        """Return what is compared in a task."""
        return self.contenders or TASKS[name].default_contenders()

    def configuration(self, name: str) -> dict[str, Any]:
        """Return what the record of a trial keeps: all settings that decide its result."""
        return {"task": self.build(name).to_dict(), "budget": self.budget.to_dict()}

    def check_names(self) -> None:
        """Raise where a task, a contender or an option cannot be.

        Raises:
            ConfigError: An unknown or wrong one; the nearest known one is named.
        """
        for name in self.tasks:
            task = self.build(name)
            for contender in self.contenders_of(name):
                task.check_contender(contender)

    def jobs(self) -> list[Job]:
        """Return every trial, all contenders of a seed before the next seed."""
        return [
            Job(name, contender, seed)
            for seed in range(1, self.seeds + 1)
            for name in self.tasks
            for contender in dict.fromkeys(self.contenders_of(name))
        ]


@dataclass(frozen=True)
class Job:
    """One trial to run; without a contender, what a task prepares for a seed."""

    task: str
    contender: str
    seed: int

    def __str__(self) -> str:
        """Say it in words."""
        return f"{self.task}, {self.contender or 'preparation'}, seed {self.seed}"


def require_same_way(folder: Path, comparison: Comparison) -> None:
    """Raise ConfigError where a folder holds a comparison that trains or measures in another way."""
    if (folder / _FILE).exists():
        old, new = (_flat(one.to_dict()) for one in (load_comparison(folder), comparison))
        for key in sorted({*old, *new}):
            if key.startswith(("budget", "options")) and old.get(key) != new.get(key):
                raise ConfigError(
                    f"The comparison in {folder} has {key} {old.get(key, 'at its default')}, but "
                    f"{new.get(key, 'the default')} is asked for. Trials of one folder differ in task, contender and "
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
    return Comparison.parse(read_json(folder / _FILE), str(folder / _FILE))


def finished_record(folder: Path, comparison: Comparison, job: Job) -> Record | None:
    """Return the record of a trial, or ``None`` where it has to run.

    Raises:
        ConfigError: There is one, but of another configuration.
        CheckpointError: There is a file that is no record.
    """
    path = record_path(folder, job.task, job.contender, job.seed)
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
