"""What ``locant evaluate-context`` shows: an estimate, a progress bar, and tables of the results."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

_PARTS = 10_000  # of the bar
_LINES = 20  # where there is no terminal for a bar
_console = Console(stderr=True, highlight=False)


class EvaluationProgress:
    """Draws a progress bar on a terminal, and writes plain lines elsewhere."""

    def __init__(self) -> None:
        self._bar = Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[what]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=_console,
            disable=not _console.is_terminal,
        )
        self._task: TaskID | None = None
        self._line = 0

    def __enter__(self) -> EvaluationProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def on_plan(self, measurements: int, kept: int, seconds: float) -> None:
        """Say what is to come, and show the bar."""
        if kept == measurements:
            _console.print(f"All {measurements:,} measurements are there already.")
            return
        from_before = f", of which {kept:,} are there already" if kept else ""
        _console.print(f"{measurements:,} measurements{from_before}; about {duration(seconds)}. Ctrl-C loses nothing.")
        self._bar.start()
        self._task = self._bar.add_task("", total=_PARTS, what="")

    def on_progress(self, done: float, what: str) -> None:
        """Move the bar."""
        if self._task is not None:
            self._bar.update(self._task, completed=_PARTS * done, what=what)
        if not _console.is_terminal and int(done * _LINES) > self._line:
            self._line = int(done * _LINES)
            _console.print(f"{100 * done:>3.0f}%  {what}", soft_wrap=True)


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def show_results(results: dict[str, Any]) -> None:
    """Print the tables."""
    console = Console(highlight=False)
    lengths = results["settings"]["lengths"]
    for metric in dict.fromkeys(row["metric"] for row in results["perplexity"]):
        rows = [row for row in results["perplexity"] if row["metric"] == metric]
        console.print(f"\n[bold]Perplexity, {metric}[/bold]")
        console.print(results["definitions"]["perplexity"][metric])
        _show_table(console, lengths, {(row["method"], row["length"]): _number(row["perplexity"]) for row in rows})
    for test in dict.fromkeys(row["test"] for row in results["retrieval"]):
        for method in results["settings"]["methods"]:
            rows = [row for row in results["retrieval"] if row["test"] == test and row["method"] == method]
            console.print(f"\n[bold]{test}[/bold], {method}: found")
            cells = {(_depth(row["depth"]), row["length"]): f"{row['score']:.0%}" for row in rows}
            _show_table(console, lengths, cells, first="depth")
    for row in results["ruler"]:
        length = row["effective_length"]
        reached = f"{length:,} tokens" if length else "none of the lengths"
        threshold = results["definitions"]["ruler_threshold"]
        console.print(f"\nEffective length, {row['method']}: {reached} (mean of the tasks at least {threshold:.1%}).")


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3f}"


def _depth(depth: float | None) -> str:
    return "any" if depth is None else f"{depth:.0%}"


def _show_table(
    console: Console, lengths: list[int], cells: dict[tuple[str, int], str], *, first: str = "method"
) -> None:
    table = Table(first, *(f"{length:,}" for length in lengths), box=box.SIMPLE, padding=(0, 1, 0, 0))
    for column in table.columns[1:]:
        column.justify = "right"
    for name in dict.fromkeys(name for name, _ in cells):
        table.add_row(name, *(cells.get((name, length), "") for length in lengths))
    console.print(table)
