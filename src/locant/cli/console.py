"""What commands show: names and texts as they are, without anything a terminal obeys; tables; how far work is."""

from __future__ import annotations

import sys
import time
from collections.abc import Hashable, Iterable
from typing import Any, Self

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from locant.cli.messages import printable

_LINES = 20  # of a whole bar, where there is no terminal
_SHORT = 3.0  # seconds of work of which no line is written


class PlainConsole(Console):
    """A console that takes what it prints for text alone, without markup and emoji codes; styles are said beside it.

    Args:
        stderr: Whether it is standard error.
        soft_wrap: Whether long lines are left to the terminal.
    """

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        super().__init__(stderr=stderr, soft_wrap=soft_wrap, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string as rich's text."""
        return super().render_str(printable(text), **options)

    def say(self, text: str) -> None:
        """Print sentences whose lines are left to the terminal."""
        self.print(text, soft_wrap=True)


def print_table(
    console: Console,
    columns: Iterable[str],
    rows: Iterable[Iterable[str | Text]],
    *,
    names: int = 9,
    ruled: bool = True,
) -> None:
    """Print a table.

    Args:
        console: Where to.
        columns: Their headings.
        rows: Their cells.
        names: Columns from the left that hold words; those behind them hold numbers, and are at the right.
        ruled: Whether a line is below the headings.
    """
    table = Table(box=box.SIMPLE if ruled else None, padding=(0, 1, 0, 0) if ruled else (0, 2))
    for place, heading in enumerate(columns):
        table.add_column(heading, justify="left" if place < names else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


class WorkBar:
    """Shows how far work is and how long it takes; used in a ``with`` block, at whose end bars stay as they are.

    On a terminal these are bars; elsewhere it is a line now and then, once the work has lasted some seconds.

    Args:
        what: What is done until the first bar is shown, or all the time, of which nobody knows how far it is.

    Attributes:
        console: Where lines are written that stay.
    """

    def __init__(self, what: str = "") -> None:
        self.console = PlainConsole(stderr=True)
        self._bars = Progress(
            TextColumn("{task.fields[before]}", markup=False),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[after]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=self.console,
            redirect_stdout=sys.stdout.isatty(),  # what is printed there goes above the bars, but not out of a file
            disable=not self.console.is_terminal,
        )
        self._what = what
        self._bar_of: dict[Hashable, tuple[TaskID, float]] = {}
        self._lines = 0

    def __enter__(self) -> Self:
        if self._what:
            self.show(0.0, before=self._what, task=self)
        return self

    def __exit__(self, *error: object) -> None:
        self.remove(self)
        self._bars.stop()

    def show(
        self, done: float, after: str = "", *, before: str = "", task: Hashable = None, lines: bool = True
    ) -> None:
        """Show a bar, or move it.

        Args:
            done: Share of the work, 0 to 1; at 0, where it is not known yet, the bar moves to and fro.
            after: What is behind the bar.
            before: What is before it.
            task: Which of several bars.
            lines: Whether lines are written where there is no terminal.
        """
        if task not in self._bar_of:
            self.remove(self)
            self._bars.start()
            bar = self._bars.add_task("", total=None, before=before, after=after, left="")
            self._bar_of[task] = bar, time.monotonic()
        bar, begun = self._bar_of[task]
        total, left = (1.0, "left") if done else (None, "")
        self._bars.update(bar, total=total, completed=min(1.0, done), after=after, before=before, left=left)
        due = lines and not self.console.is_terminal and int(done * _LINES) > self._lines
        if due and time.monotonic() - begun > _SHORT:
            self._lines = int(done * _LINES)
            self.console.say("  ".join(filter(None, (before, f"{100 * done:>3.0f}%", after))))

    def remove(self, task: Hashable) -> None:
        """Remove one of several bars, where it is shown; what follows begins again."""
        self._lines = 0
        if task in self._bar_of:
            self._bars.remove_task(self._bar_of.pop(task)[0])


def format_duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
