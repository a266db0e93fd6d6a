"""Consoles on which names and texts appear as they are: without markup, emoji codes, or anything a terminal obeys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from locant.cli.messages import printable


class PlainConsole(Console):
    """A console that takes what it prints for text alone; styles are said beside it.

    Args:
        stderr: Whether it is standard error.
        soft_wrap: Whether long lines are left to the terminal.
    """

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        super().__init__(stderr=stderr, soft_wrap=soft_wrap, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string as rich's text."""
        return super().render_str(printable(text), **options)


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
        names: Columns from the left that hold words; those behind them hold numbers, and stand at the right.
        ruled: Whether a line stands below the headings.
    """
    table = Table(box=box.SIMPLE if ruled else None, padding=(0, 1, 0, 0) if ruled else (0, 2))
    for place, heading in enumerate(columns):
        table.add_column(heading, justify="left" if place < names else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
