"""What ``locant evaluate-context`` shows: an estimate, a progress bar, and tables of the results."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from locant.cli.progress import WorkBar

_LINES = 20  # where there is no terminal for a bar


class EvaluationProgress(WorkBar):
    """Draws a progress bar on a terminal, and writes plain lines elsewhere."""

    def __init__(self) -> None:
        super().__init__("{task.fields[what]}")
        self._line = 0

    def on_plan(self, measurements: int, kept: int, seconds: float) -> None:
        """Say what is to come, and show the bar."""
        if kept == measurements:
            self.console.print(f"All {measurements:,} measurements are there already.")
            return
        from_before = f", of which {kept:,} are there already" if kept else ""
        self.console.print(
            f"{measurements:,} measurements{from_before}; about {duration(seconds)}. Ctrl-C loses nothing."
        )
        self.show(0.0, what="")

    def on_progress(self, done: float, what: str) -> None:
        """Move the bar."""
        self.show(done, what=what)
        if not self.console.is_terminal and int(done * _LINES) > self._line:
            self._line = int(done * _LINES)
            self.console.print(f"{100 * done:>3.0f}%  {what}", soft_wrap=True)


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
