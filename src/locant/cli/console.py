"""Consoles on which names and texts appear as they are: without markup, emoji codes, or anything a terminal obeys."""

from __future__ import annotations

from typing import Any

from rich.console import Console
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
