"""``locant compare``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from locant.cli.arguments import add_device, add_output, parse_names
from locant.errors import UsageError

if TYPE_CHECKING:
    from locant.cli.console import PlainConsole
    from locant.lab import ComparisonResult

_EPILOG = """examples:
  locant compare --task copy --schemes none,rotary,alibi --minutes-each 1 -o runs/copy
  locant compare --task length-generalisation --schemes all --steps 3000 -o runs/lengths
  locant compare --task language-modelling --text book.txt --schemes rotary,t5 --steps 2000 -o runs/book
  locant compare --task context-extension --text book.txt --steps 2000 fine_tune_steps=50 -o runs/extension
  locant compare -o runs/copy                    (goes on where it stopped, or makes the tables again)
  locant compare                                 (lists the tasks)

A scheme may have options: rotary:base=500000. key=value changes any setting of the tasks, as in model.layers=2,
TASK.key=value of one alone, as in addition.train_length=5."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = _EPILOG
    parser.usage = "locant compare [--task NAMES] [--schemes NAMES] [key=value ...] -o FOLDER [options]"
    add = parser.add_argument
    add("settings", nargs="*", metavar="key=value", help="settings of the tasks")
    add("--task", metavar="NAMES", help="tasks or groups of tasks, separated by commas")
    add("--schemes", metavar="NAMES", help="what to compare, separated by commas; all takes every scheme")
    add("--seeds", type=int, metavar="N", help="seeds of every variant (default 3)")
    add("--steps", type=int, metavar="N", help="updates that every trial trains for")
    add("--minutes-each", type=float, metavar="M", help="or minutes that every trial trains for")
    add("--train-length", type=int, metavar="N", help="longest text trained on")
    add("--test-lengths", type=_lengths, metavar="N,N,...", help="lengths to measure at")
    add("--text", metavar="FILE", help="text of language-modelling and context-extension")
    add_output(parser, "FOLDER", "of records, tables and the page (default: runs/NAMES)")
    add("--at-once", type=int, metavar="N", help="trials at the same time (default: one a core, four a GPU)")
    add_device(parser)


def run(options: argparse.Namespace) -> int:
    """Run a comparison, show its tables and write its page."""
    from locant.app import write_comparison_page
    from locant.cli.progress import ComparisonProgress
    from locant.errors import MissingExtraError
    from locant.lab import compare
    from locant.training.recipe import apply_overrides

    if options.output is None:
        if not options.task:
            if options.schemes:
                raise UsageError("Say what to compare on: --task NAME. `locant compare` alone lists the tasks.")
            _list_tasks()
            return 0
        options.output = Path("runs", "-".join(parse_names(options.task)))
    short = {key: getattr(options, key) for key in ("train_length", "test_lengths", "text")}
    settings = apply_overrides({}, options.settings) | {key: each for key, each in short.items() if each is not None}
    with ComparisonProgress("preparing") as progress:
        result = compare(
            options.task,
            options.schemes,
            output=options.output,
            steps=options.steps,
            minutes_each=options.minutes_each,
            seeds=options.seeds,
            device=options.device,
            at_once=options.at_once,
            settings=settings,
            callback=progress,
        )
    if result.records:
        _show(result)
        written = result.written
        try:
            written += write_comparison_page(result.folder, result.comparison, result.records)
        except MissingExtraError as error:
            print(f"No figures and no page: {error}")
        print(f"Wrote {', '.join(path.name for path in written)} in {result.folder}.")
    else:
        print("No trial has finished, so no tables and no page were written.", file=sys.stderr)
    _show_fairness(result)
    return 1 if result.failures or not result.fair else 0


def _lengths(text: str) -> list[int]:
    try:
        return [int(length) for length in text.split(",")]
    except ValueError:
        raise UsageError(f"--test-lengths takes whole numbers separated by commas; got '{text}'.") from None


def _list_tasks() -> None:
    from locant.cli.console import PlainConsole, print_table
    from locant.lab import COMPARISON_TASKS, TASK_GROUPS

    console = PlainConsole()
    print_table(
        console,
        ("task", "what", "a length counts", "compared by default"),
        (
            (name, task.title, task.length_means, ", ".join(task.default_variants()))
            for name, task in COMPARISON_TASKS.items()
        ),
    )
    for name, members in TASK_GROUPS.items():
        console.print(f"{name} is all of {', '.join(members)}.")


def _show(result: ComparisonResult) -> None:
    from locant.cli.console import PlainConsole
    from locant.lab.tables import definitions, lines_of, rank_lines, tables_by_length

    console = PlainConsole()
    for table in result.tables:
        console.print(f"\n{table.task.title} ({table.task.name})", style="bold")
        print_grid(console, lines_of(table))
        for sentence in (*definitions(table), *table.notes):
            console.print(sentence, style="dim")
        for metric, lines in tables_by_length(table):
            print_grid(console, lines, f"{metric.name} against length")
    if ranks := rank_lines(result.records):
        print_grid(console, ranks, "Mean reciprocal rank")


def print_grid(console: PlainConsole, lines: list[list[str]], title: str = "") -> None:
    """Print a table with a header, in several parts where it is wider than the terminal."""
    from locant.cli.console import print_table

    names = 2 if lines[0][1] == "condition" else 1
    widths = [2 + max(map(len, column)) for column in zip(*lines, strict=True)]
    if title:
        console.print(f"\n{title}", style="italic")
    for part in _parts(widths, names, console.width - 2):
        first, *rest = ([cells[index] for index in part] for cells in lines)
        print_table(console, first, rest, names=names)


def _parts(widths: list[int], names: int, room: int) -> list[list[int]]:
    """Return the columns of each part of a table: its first ones, and as many others as there is room for."""
    parts: list[list[int]] = []
    for index in range(names, len(widths)):
        if not parts or sum(widths[other] for other in (*parts[-1], index)) > room:
            parts.append(list(range(names)))
        parts[-1].append(index)
    return parts


def _show_fairness(result: ComparisonResult) -> None:
    from locant.cli.console import PlainConsole

    console = PlainConsole(stderr=True, soft_wrap=True)
    for check in result.checks:
        if not check.holds:
            console.print(f"Not a fair comparison: {check.task}, seed {check.seed}, {check.what}: {check.common}.")
    if result.checks and result.fair:
        console.print("The same for all: first batch, initial weights and size but for the scheme's own parameters.")
