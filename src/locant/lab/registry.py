"""Every task by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from locant.errors import ConfigError, nearest
from locant.lab.context_extension import ContextExtensionTask
from locant.lab.heads import HeadsTask
from locant.lab.language_modelling import LanguageModellingTask
from locant.lab.length_generalisation import LENGTH_TASKS
from locant.lab.task import ComparisonTask
from locant.lab.translation import TranslationTask

COMPARISON_TASKS: dict[str, type[ComparisonTask]] = {
    **LENGTH_TASKS,
    LanguageModellingTask.name: LanguageModellingTask,
    ContextExtensionTask.name: ContextExtensionTask,
    TranslationTask.name: TranslationTask,
    HeadsTask.name: HeadsTask,
}

TASK_GROUPS: dict[str, tuple[str, ...]] = {"length-generalisation": tuple(LENGTH_TASKS)}
"""Several tasks under one name."""


def expand_tasks(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of tasks with groups replaced by their members, each once.

    Raises:
        ConfigError: A name is unknown (the nearest known one is named).
    """
    found: dict[str, None] = {}
    for name in names:
        _require(name, [*COMPARISON_TASKS, *TASK_GROUPS])
        found |= dict.fromkeys(TASK_GROUPS.get(name, (name,)))
    return tuple(found)


def build_task(name: str, options: Mapping[str, Any] | None = None) -> ComparisonTask:
    """Build a task from plain data.

    Args:
        name: A key of :data:`COMPARISON_TASKS`.
        options: Fields that differ from the task's defaults, those of nested settings too. What stands under the name
            of a task is for that task alone, and comes before what is for all.

    Raises:
        ConfigError: The name or an option is unknown (the nearest known one is named), or a value is out of range.
    """
    _require(name, COMPARISON_TASKS)
    given = dict(options or {})
    own = {task: given.pop(task) for task in COMPARISON_TASKS if task in given}.get(name, {})
    if not isinstance(own, dict):
        raise ConfigError(f"The settings of the task '{name}' are key=value each, as in {name}.train_length=8.")
    settings = _merged(_merged(COMPARISON_TASKS[name]().to_dict(), given), own)
    return COMPARISON_TASKS[name].parse(settings, f"task {name}")


def _merged(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return nested settings with changes."""
    found = dict(settings)
    for key, value in changes.items():
        old = found.get(key)
        found[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return found


def _require(name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise ConfigError(f"Unknown task '{name}'.{nearest(name, known)} Known: {', '.join(known)}.")
