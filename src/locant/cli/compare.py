"""``locant compare``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from locant.lab import Comparison, Record
    from locant.lab.tables import ResultTable

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
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.usage = "locant compare [--task NAMES] [--schemes NAMES] [key=value ...] -o FOLDER [options]"
    parser.add_argument("settings", nargs="*", metavar="key=value", help="settings of the tasks")
    parser.add_argument("--task", metavar="NAMES", help="tasks or groups of tasks, separated by commas")
    parser.add_argument(
        "--schemes", metavar="NAMES", help="what to compare, separated by commas; all takes every scheme"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="seeds of every variant (default 3)")
    parser.add_argument("--steps", type=int, metavar="N", help="updates that every trial trains for")
    parser.add_argument("--minutes-each", type=float, metavar="M", help="or minutes that every trial trains for")
    parser.add_argument("--train-length", type=int, metavar="N", help="longest text trained on")
    parser.add_argument("--test-lengths", metavar="N,N,...", help="lengths to measure at")
    parser.add_argument("--text", type=Path, metavar="FILE", help="text of language-modelling and context-extension")
    parser.add_argument("--output", "-o", type=Path, metavar="FOLDER", help="where records, tables and the page go")
    parser.add_argument(
        "--at-once", type=int, metavar="N", help="trials at the same time (default: one a core, four a GPU)"
    )
    parser.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu or cuda")


def run(options: argparse.Namespace) -> int:
    """Run a comparison and write what came of it."""
    from locant.cli.progress import ComparisonProgress
    from locant.lab import load_records, run_comparison
    from locant.lab.tables import result_tables

    if options.output is None:
        if options.task or options.schemes:
            raise UsageError("Say where records and tables should go: --output FOLDER.")
        _list_tasks()
        return 0
    if options.at_once is not None and options.at_once < 1:
        raise UsageError(f"--at-once must be at least 1; got {options.at_once}.")
    comparison = _comparison(options)
    with ComparisonProgress() as bars:
        failures = run_comparison(
            options.output, comparison, device=options.device, at_once=options.at_once, callback=bars
        )
    jobs = {(job.task, job.variant, job.seed) for job in comparison.jobs()}
    records = [r for r in load_records(options.output) if (r.task, r.variant, r.seed) in jobs]
    tables = result_tables(comparison, records)
    _show(tables, records)
    _write(options.output, comparison, tables, records)
    return 1 if failures or not _show_fairness(records) else 0


def _comparison(options: argparse.Namespace) -> Comparison:
    from locant.lab import Comparison, all_schemes, expand_tasks, load_comparison
    from locant.training.recipe import apply_overrides

    settings = {**apply_overrides({}, options.settings), **_settings(options)}
    asked = options.task or options.schemes or settings or options.steps or options.minutes_each
    if (options.output / "comparison.json").exists() and not options.task:
        if asked:
            raise UsageError(
                f"{options.output} holds a comparison; without --task it goes on as it is, so leave out everything but "
                "--seeds, --at-once and --device, or say it all again."
            )
        saved = load_comparison(options.output)
        return saved.model_copy(update={"seeds": options.seeds}) if options.seeds else saved
    if not options.task:
        raise UsageError("Say what to compare on: --task NAME. `locant compare` alone lists the tasks.")
    if (options.steps is None) == (options.minutes_each is None):
        raise UsageError("Say how long each trial trains: either --steps N or --minutes-each M.")
    names = options.schemes.split(",") if options.schemes else []
    variants = [one for name in names for one in (all_schemes() if name == "all" else (name.strip(),))]
    return Comparison.parse(
        {
            "tasks": expand_tasks(tuple(name.strip() for name in options.task.split(","))),
            "variants": list(dict.fromkeys(variants)),
            "seeds": 3 if options.seeds is None else options.seeds,
            "budget": {"steps": options.steps, "minutes": options.minutes_each},
            "options": settings,
        },
        "comparison",
    )


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that are short for ``key=value``."""
    found: dict[str, Any] = {}
    if options.train_length is not None:
        found["train_length"] = options.train_length
    if options.test_lengths is not None:
        try:
            found["test_lengths"] = [int(length) for length in options.test_lengths.split(",")]
        except ValueError:
            raise UsageError(
                f"--test-lengths takes whole numbers separated by commas; got '{options.test_lengths}'."
            ) from None
    if options.text is not None:
        found["text"] = str(options.text)
    return found


def _list_tasks() -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from locant.lab import COMPARISON_TASKS, TASK_GROUPS

    console = Console(highlight=False)
    table = Table("task", "what", "a length counts", "compared by default", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for name, task in COMPARISON_TASKS.items():
        table.add_row(name, task.title, task.length_means, ", ".join(task.default_variants()))
    console.print(table)
    for name, members in TASK_GROUPS.items():
        console.print(f"{name} is all of {', '.join(members)}.")


def _show(tables: list[ResultTable], records: list[Record]) -> None:
    from rich.console import Console

    from locant.lab.ranks import mean_ranks
    from locant.lab.rendering import definitions, quality_and_cost, rank_rows, rank_sentences, tables_by_length

    console = Console(highlight=False, markup=False)
    for table in tables:
        console.print(f"\n{table.task.title} ({table.task.name})", style="bold")
        for lines in quality_and_cost(table):
            _print_grid(console, lines)
        for sentence in (*definitions(table), *table.notes):
            console.print(sentence, style="dim")
        for metric, lines in tables_by_length(table):
            _print_grid(console, lines, f"{metric.name} against length")
    if mean_ranks(records):
        columns, rows = rank_rows(records)
        _print_grid(console, [columns, *rows], "Mean reciprocal rank")
        for sentence in rank_sentences(records):
            console.print(sentence, style="dim")


def _print_grid(console: Console, lines: list[list[str]], title: str = "") -> None:
    """Print a table with a header, in several parts where it is wider than the terminal."""
    from rich import box
    from rich.table import Table

    names = 2 if lines[0][1] == "condition" else 1
    widths = [2 + max(map(len, column)) for column in zip(*lines, strict=True)]
    if title:
        console.print(f"\n{title}", style="italic")
    for part in _parts(widths, names, console.width - 2):
        shown = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
        for index in part:
            shown.add_column(lines[0][index], justify="left" if index < names else "right", no_wrap=True)
        for cells in lines[1:]:
            shown.add_row(*(cells[index] for index in part))
        console.print(shown)


def _parts(widths: list[int], names: int, room: int) -> list[list[int]]:
    """Return the columns of each part of a table: its first ones, and as many others as there is room for."""
    parts: list[list[int]] = []
    for index in range(names, len(widths)):
        if not parts or sum(widths[other] for other in (*parts[-1], index)) > room:
            parts.append(list(range(names)))
        parts[-1].append(index)
    return parts


def _show_fairness(records: list[Record]) -> bool:
    from rich.console import Console

    from locant.lab.fairness import check_fairness

    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    checks = check_fairness(records)
    broken = [check for check in checks if not check.holds]
    for check in broken:
        console.print(f"Not a fair comparison: {check.task}, seed {check.seed}, {check.what}: {check.common}.")
    if checks and not broken:
        console.print("The same for all: first batch, initial weights and size but for the scheme's own parameters.")
    return not broken


def _write(folder: Path, comparison: Comparison, tables: list[ResultTable], records: list[Record]) -> None:
    from locant.app import comparison_report, write_comparison_figures, write_report
    from locant.errors import MissingExtraError
    from locant.files import write_json, write_text
    from locant.lab.rendering import as_data, csv_text, markdown

    write_text(folder / "results.md", markdown(tables, records))
    write_text(folder / "results.csv", csv_text(records))
    write_json(folder / "results.json", as_data(tables, records))
    written = ["results.md", "results.csv", "results.json"]
    try:
        written += [path.name for path in write_comparison_figures(folder, tables)]
        write_report(folder / "report.html", comparison_report(comparison, records, f"locant compare -o {folder}"))
        written.append("report.html")
    except MissingExtraError as error:
        print(f"No figures and no page: {error}")
    print(f"Wrote {', '.join(written)} in {folder}.")
