"""The report of a comparison: tables, curves, ranks and the proof of fairness on one page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from locant.app.report import Block, Code, Fact, Facts, Figure, Report, Section, Table, Text, write_images, write_report
from locant.figures import FigureData, quality_by_length, svg
from locant.lab import Comparison, Record
from locant.lab.record import check_fairness
from locant.lab.tables import (
    ResultTable,
    Row,
    definitions,
    lines_of,
    rank_lines,
    result_tables,
    tables_by_length,
    verdict,
)

_WIDE = 20  # times the smallest value: where the largest one asks for logarithms


def comparison_report(comparison: Comparison, records: Sequence[Record], command: str) -> Report:
    """Build the report of a comparison from its records.

    Args:
        comparison: What was compared.
        records: What was found.
        command: The command line that runs it again.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    tables = result_tables(comparison, records)
    sections = [Section(f"{table.task.title} ({table.task.name})", _task(table)) for table in tables]
    if ranks := rank_lines(records):
        said = (
            "For every task and seed the variants are ranked by their mean exact match over all lengths; 1 would "
            "be first everywhere. Equal ones share the mean of their ranks, and a length that a scheme cannot reach "
            "counts as no right answer."
        )
        sections.append(Section("Mean reciprocal rank", [Table(ranks[0], ranks[1:]), Text([said])]))
    sections.append(Section("The same for all", _fairness(records)))
    sections.append(Section("How it was made", [_machine(comparison, records), Code(command, "Runs it again.")]))
    variants = list(dict.fromkeys(record.variant for record in records))
    return Report(
        title="Which scheme? A comparison",
        summary=(
            f"{len(variants)} variants ({', '.join(variants)}) on {len(tables)} "
            f"task{'s' if len(tables) != 1 else ''}, {comparison.seeds} seed{'s' if comparison.seeds != 1 else ''} "
            f"each, {comparison.budget} of training a trial. {' '.join(verdict(tables))} {_same(records)}"
        ),
        sections=sections,
    )


def _same(records: Sequence[Record]) -> str:
    if not all(check.holds for check in check_fairness(records)):
        return "Not everything but the variant was the same; see below."
    return "First batches, initial weights and sizes were the same."


def length_figures(table: ResultTable) -> Iterator[tuple[str, FigureData]]:
    """Yield a name and a figure against length, one for each condition of a task and each metric with curves."""
    trained = getattr(table.task, "train_length", None)
    exact = table.task.averages_lengths
    figures = [
        (metric, condition, lines)
        for key, metric in table.task.metrics.items()
        for condition in dict.fromkeys(row.condition for row in table.rows)
        if (lines := dict(_line(row, key) for row in table.rows if row.condition == condition and key in row.curves))
    ]
    for number, (metric, condition, lines) in enumerate(figures):
        values = [value for line in lines.values() for of_length in line.values() for value in of_length]
        if values:
            yield (
                f"{table.task.name}{f'-{number}' if number else ''}",
                quality_by_length(
                    lines,
                    title=f"{table.task.title}{f', {condition}' if condition else ''}",
                    length_label=f"length ({table.task.length_means})",
                    quality_label=metric.name,
                    trained=trained,
                    logarithmic_lengths=not (exact or metric.by_length),  # the others double from one to the next
                    # A scheme that fails beyond the trained length would press all others onto one line.
                    logarithmic_quality=not metric.higher_is_better and max(values) > _WIDE * min(values),
                    limits=(-3.0, 103.0) if exact else None,
                ),
            )


def _line(row: Row, metric: str) -> tuple[str, dict[int, list[float]]]:
    reached = {length: [v for v in values if v is not None] for length, values in row.curves[metric].items()}
    missing = [length for length, values in reached.items() if not values]
    label = row.variant + (f" (cannot from {missing[0]:,})" if missing and missing[0] != min(reached) else "")
    return label, reached


def _task(table: ResultTable) -> list[Block]:
    pictures = [
        Figure(svg(figure, name=name, description=f"{table.task.title}: quality against length"))
        for name, figure in length_figures(table)
    ]
    header, *rows = lines_of(table)
    numbers: list[Block] = [Table(header, rows), *([Text(table.notes)] if table.notes else [])]
    several = any(row.seeds > 1 for row in table.rows)
    bands = "Lines are means over seeds, bands reach from the worst seed to the best." if pictures and several else ""
    by_length: list[Block] = []
    for metric, lines in tables_by_length(table):
        by_length += [Text([f"{metric.name} against length:"]), Table(lines[0], lines[1:])]
    return [Text([*definitions(table), *([bands] if bands else [])]), *pictures, *numbers, *by_length]


def _fairness(records: Sequence[Record]) -> list[Block]:
    checks = check_fairness(records)
    kept = sum(check.holds for check in checks)
    rows = [[c.task, c.seed, c.what, "yes" if c.holds else "NO", c.common] for c in checks]
    return [
        Facts([Fact("checks that hold", f"{kept} of {len(checks)}", "first batch, initial weights, sizes")]),
        Table(["task", "seed", "what", "same", "value"], rows),
    ]


def _machine(comparison: Comparison, records: Sequence[Record]) -> Block:
    environments = {
        (
            record.device,
            record.environment["processor"],
            str(record.environment["threads"]),
            record.environment["packages"]["torch"],
            record.environment["locant"],
        )
        for record in records
    }
    hours = sum(record.wall_seconds for record in records) / 3600
    rows = [["budget of a trial", str(comparison.budget)], ["time of all trials together", f"{hours:.2f} hours"]]
    for device, processor, threads, torch, version in sorted(environments):
        rows.append(["machine", f"{device}, {processor}, {threads} threads a trial, torch {torch}, Locant {version}"])
    for name in comparison.tasks:
        rows.append([f"settings of {name}", _flat(comparison.build(name).to_dict())])
    return Table(["what", "value"], rows)


def _flat(settings: dict[str, object]) -> str:
    words = []
    for key, value in settings.items():
        words.append(f"{key} ({_flat(value)})" if isinstance(value, dict) else f"{key} {value}")
    return ", ".join(words)


def write_comparison_page(folder: Path, comparison: Comparison, records: Sequence[Record]) -> list[Path]:
    """Write all figures, and the report as ``report.html``, and return their paths.

    Raises:
        MissingExtraError: matplotlib is not installed.
        CheckpointError: The folder cannot be written.
    """
    tables, page = result_tables(comparison, records), folder / "report.html"
    written = write_images(folder, (named for table in tables for named in length_figures(table)))
    write_report(page, comparison_report(comparison, records, f"locant compare -o {folder}"))
    return [*written, page]
