"""A comparison: which tasks, variants and seeds, and everything else that is the same for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from locant.errors import ConfigError
from locant.files import read_json, write_json
from locant.lab.context_extension import ContextExtensionTask
from locant.lab.language_modelling import LanguageModellingTask
from locant.lab.length_generalisation import LENGTH_TASKS
from locant.lab.record import Record, load_record, record_path, with_new_names
from locant.lab.task import ComparisonTask
from locant.lab.translation import HeadsTask, TranslationTask
from locant.lab.variants import require_known
from locant.settings import Settings
from locant.training import Budget
from locant.training.recipe import merged

COMPARISON_TASKS: dict[str, type[ComparisonTask]] = {
    **LENGTH_TASKS,
    LanguageModellingTask.name: LanguageModellingTask,
    ContextExtensionTask.name: ContextExtensionTask,
    TranslationTask.name: TranslationTask,
    HeadsTask.name: HeadsTask,
}
"""Every task by name."""

TASK_GROUPS: dict[str, tuple[str, ...]] = {"length-generalisation": tuple(LENGTH_TASKS)}
"""Several tasks under one name."""


def expand_tasks(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of tasks with groups replaced by their members, each once.

    Raises:
        ConfigError: A name is unknown (the nearest known one is named).
    """
    for name in names:
        require_known(name, [*COMPARISON_TASKS, *TASK_GROUPS], "task")
    return tuple(dict.fromkeys(task for name in names for task in TASK_GROUPS.get(name, (name,))))


def build_task(name: str, options: Mapping[str, Any] | None = None) -> ComparisonTask:
    """Build a task from plain data.

    Args:
        name: A key of :data:`COMPARISON_TASKS`.
        options: Fields that differ from the task's defaults, those of nested settings too. What is under the name
            of a task is for that task alone, and comes before what is for all.

    Raises:
        ConfigError: The name or an option is unknown (the nearest known one is named), or a value is out of range.
    """
    require_known(name, list(COMPARISON_TASKS), "task")
    given = dict(options or {})
    own = {task: given.pop(task) for task in COMPARISON_TASKS if task in given}.get(name, {})
    if not isinstance(own, dict):
        raise ConfigError(f"The settings of the task '{name}' are key=value each, as in {name}.train_length=8.")
    settings = merged(merged(COMPARISON_TASKS[name]().to_dict(), given), own)
    return COMPARISON_TASKS[name].parse(settings, f"task {name}")


@dataclass(frozen=True)
class Job:
    """One trial to run; without a variant, what a task prepares for a seed."""

    task: str
    variant: str
    seed: int

    def __str__(self) -> str:
        """Say it in words."""
        return f"{self.task}, {self.variant or 'preparation'}, seed {self.seed}"


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

    def jobs(self) -> list[Job]:
        """Return every trial, all variants of a seed before the next seed."""
        return [
            Job(name, variant, seed)
            for seed in range(1, self.seeds + 1)
            for name in self.tasks
            for variant in dict.fromkeys(self.variants_of(name))
        ]

    def finished_record(self, folder: Path, job: Job) -> Record | None:
        """Return the record of a trial, or ``None`` where it has to run.

        Raises:
            ConfigError: There is one, but of another configuration.
            CheckpointError: There is a file that is no record.
        """
        path = record_path(folder, job.task, job.variant, job.seed)
        if not path.exists():
            return None
        record = load_record(path)
        kept = dict(record.configuration)
        # Settings that there were not yet had what is their default now.
        kept["task"] = COMPARISON_TASKS[job.task].parse(kept.get("task", {}), str(path)).to_dict()
        _require_same(kept, self.configuration(job.task), f"The record {path}")
        return record


_FILE = "comparison.json"


def save_comparison(folder: Path, comparison: Comparison) -> None:
    """Write a comparison into its folder, which keeps what it has.

    Raises:
        ConfigError: The folder holds a comparison that trains or measures in another way.
        CheckpointError: The folder cannot be written.
    """
    if (folder / _FILE).exists():
        kept, asked = load_comparison(folder).to_dict(), comparison.to_dict()
        for part in ("budget", "options"):
            _require_same({part: kept[part]}, {part: asked[part]}, f"The comparison in {folder}")
    write_json(folder / _FILE, comparison.to_dict())


def load_comparison(folder: Path) -> Comparison:
    """Read the comparison of a folder.

    Raises:
        CheckpointError: There is none.
        ConfigError: The file was changed to something that cannot be.
    """
    return Comparison.parse(with_new_names(read_json(folder / _FILE)), str(folder / _FILE))


def _require_same(kept: dict[str, Any], asked: dict[str, Any], holder: str) -> None:
    """Raise ConfigError, naming the key, where what a folder holds was made with other settings than are asked for."""
    old, new = _flat(kept), _flat(asked)
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            raise ConfigError(
                f"{holder} has {key} {old.get(key, 'at its default')}, but {new.get(key, 'the default')} is asked for. "
                "Trials of one folder differ in task, variant and seed alone: give another folder."
            )


def _flat(data: Any, prefix: str = "") -> dict[str, Any]:
    """Return the leaves of nested mappings under dotted names."""
    if not isinstance(data, dict):
        return {prefix: data}
    parts = (_flat(value, f"{prefix}.{key}" if prefix else key) for key, value in data.items())
    return {key: value for part in parts for key, value in part.items()}
