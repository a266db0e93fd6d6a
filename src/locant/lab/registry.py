"""Every task by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from locant.errors import ConfigError, nearest
from locant.lab.context_extension import ContextExtension
from locant.lab.language_modelling import LanguageModelling
from locant.lab.length_generalisation import LENGTH_TASKS
from locant.lab.task import Task
from locant.lab.translation import Translation

TASKS: dict[str, type[Task]] = {
    **LENGTH_TASKS,
    LanguageModelling.name: LanguageModelling,
    ContextExtension.name: ContextExtension,
    Translation.name: Translation,
}

GROUPS: dict[str, tuple[str, ...]] = {"length-generalisation": tuple(LENGTH_TASKS)}
"""Several tasks under one name."""


def expand_tasks(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of tasks with groups replaced by their members, each once.

    Raises:
        ConfigError: A name is unknown (the nearest known one is named).
    """
    found: dict[str, None] = {}
    for name in names:
        _require(name, [*TASKS, *GROUPS])
        found |= dict.fromkeys(GROUPS.get(name, (name,)))
    return tuple(found)


def build_task(name: str, options: Mapping[str, Any] | None = None) -> Task:
    """Build a task from plain data.

    Raises:
        ConfigError: The name or an option is unknown (the nearest known one is named), or a value is out of range.
    """
    _require(name, TASKS)
    return TASKS[name].parse(dict(options or {}), f"task {name}")


def _require(name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise ConfigError(f"Unknown task '{name}'.{nearest(name, known)} Known: {', '.join(known)}.")
