"""The progress bar of one long piece of work, as every command shows it that has one."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_PARTS = 10_000  # of the bar


class WorkBar:
    """Draws a bar on a terminal, and nothing elsewhere; used in a ``with`` block.

    Args:
        after: What follows the bar, a format of rich with ``{task.fields[name]}``.
        before: What stands before it.
    """

    def __init__(self, after: str, before: str = "") -> None:
        self.console = Console(stderr=True, highlight=False)
        self._bar = Progress(
            *([TextColumn(before)] if before else []),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn(after),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def show(self, done: float, **fields: Any) -> None:
        """Show the bar, or move it.

        Args:
            done: Share of the work, 0 to 1.
            fields: What the formats name.
        """
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task("", total=_PARTS, completed=round(_PARTS * done), **fields)
        else:
            self._bar.update(self._task, completed=_PARTS * done, **fields)
