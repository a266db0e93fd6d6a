"""Tables as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from locant.lab.record import Record, check_fairness
from locant.lab.tables import Cell, ResultTable, Row, agreement, mean_ranks
from locant.lab.task import Metric, Split

COST_COLUMNS = ("parameters", "of the scheme", "updates", "tokens/s", "memory (MB)", "seeds")


def header(table: ResultTable) -> list[str]:
    """Return the names of a table's columns."""
    condition = ["condition"] if any(row.condition for row in table.rows) else []
    return ["scheme", *condition, *table.columns, *COST_COLUMNS]


def row_texts(table: ResultTable, row: Row) -> list[str]:
    """Return the cells of a row, ready to be read."""
    condition = [row.condition] if any(other.condition for other in table.rows) else []
    results = [row.cells[column].shown(metric.digits) for column, metric in table.columns.items()]
    speed = "" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}"
    cost = [f"{row.parameters:,}", f"{row.scheme_parameters:,}", f"{row.steps:,.0f}", speed]
    return [row.variant, *condition, *results, *cost, f"{row.peak_memory / 1e6:,.0f}", str(row.seeds)]


def published_texts(table: ResultTable) -> list[list[str]]:
    """Return rows with what others published, empty where they have no number."""
    names = header(table)
    return [
        [f"{line.what} (published)", *(f"{line.value:g}" if name == column else "" for name in names[1:])]
        for column, line in table.published
    ]


def quality_and_cost(table: ResultTable) -> tuple[list[list[str]], list[list[str]]]:
    """Return two tables with headers, because one would be wider than a terminal or a page."""
    lines = [header(table), *(row_texts(table, row) for row in table.rows)]
    cost = len(lines[0]) - len(COST_COLUMNS)
    names = cost - len(table.columns)
    quality = [line[:cost] for line in (*lines, *published_texts(table))]
    return quality, [line[:names] + line[cost:] for line in lines]


def tables_by_length(table: ResultTable) -> list[tuple[Metric, list[list[str]]]]:
    """Return a table with header for every metric that is shown at all its lengths; cells not measured are empty."""
    found = []
    for key, curves in table.curves.items():
        metric = table.task.metrics[key]
        lengths = sorted({length for curve in curves for length in curve.values})
        if metric.by_length and lengths:
            condition = ["condition"] if any(curve.condition for curve in curves) else []
            lines = [["scheme", *condition, *(f"{length:,}" for length in lengths)]]
            for curve in curves:
                cells = [
                    Cell.over(curve.values[at]).shown(metric.digits) if at in curve.values else "" for at in lengths
                ]
                lines.append([curve.variant, *([curve.condition] if condition else []), *cells])
            found.append((metric, lines))
    return found


def definitions(table: ResultTable) -> list[str]:
    """Return what the numbers of a table are, exactly."""
    said = [f"{metric.name}: {metric.definition}" for metric in dict.fromkeys(table.columns.values())]
    said += [f"{line.what} (published): {line.how}." for _, line in table.published]
    if table.task.averages_lengths:
        said.append("Seen and unseen: mean over all test lengths up to the trained one, and beyond it.")
    if any(row.seeds > 1 for row in table.rows):
        said.append("Mean and standard deviation over seeds.")
    return [f"Lengths count {table.task.length_means}.", *said]


def markdown(tables: Iterable[ResultTable], records: Sequence[Record]) -> str:
    """Return all tables as Markdown."""
    parts = []
    for table in tables:
        parts.append(f"## {table.task.title} (`{table.task.name}`)\n")
        parts.append("\n".join(definitions(table)) + "\n")
        parts.append(_grid(header(table), [*(row_texts(table, row) for row in table.rows), *published_texts(table)]))
        parts += [f"{note}\n" for note in table.notes]
        for metric, lines in tables_by_length(table):
            parts += [f"### {metric.name} against length\n", _grid(lines[0], lines[1:])]
    if mean_ranks(records):
        parts.append("## Mean reciprocal rank\n")
        parts.append(_grid(*rank_rows(records)))
        parts += [f"{sentence}\n" for sentence in rank_sentences(records)]
    checks = check_fairness(records)
    if checks:
        parts.append("## The same for all\n")
        rows = [[c.task, str(c.seed), c.what, "yes" if c.holds else "NO", c.common] for c in checks]
        parts.append(_grid(["task", "seed", "what", "same", "value"], rows))
    return "\n".join(part for part in parts if part.strip()) + "\n"


def rank_rows(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the table of mean reciprocal ranks."""
    columns = ["scheme", "unseen lengths", "seen lengths", "unseen, among the paper's five", "Kazemnejad et al. 2023"]
    seen = {rank.variant: rank for rank in mean_ranks(records, "seen")}
    rows = [
        [r.variant, f"{r.all:.3f}", f"{seen[r.variant].all:.3f}", _optional(r.among_paper), _optional(r.paper)]
        for r in mean_ranks(records)
    ]
    return columns, rows


def rank_sentences(records: Sequence[Record]) -> list[str]:
    """Say where the ranks stand in the paper's order, for unseen and for seen lengths."""
    splits: tuple[Split, ...] = ("unseen", "seen")
    said = [(split, agreement(mean_ranks(records, split))) for split in splits]
    return [f"{split.capitalize()} lengths: {sentence}" for split, sentence in said if sentence]


def csv_text(records: Iterable[Record]) -> str:
    """Return every single measurement as CSV, one a line."""
    text = io.StringIO()
    fields = ["task", "variant", "seed", "condition", "metric", "length", "split", "value", "reason"]
    rows = csv.DictWriter(text, fields, lineterminator="\n")
    rows.writeheader()
    for record in records:
        shared = {"task": record.task, "variant": record.variant, "seed": record.seed}
        for measurement in record.outcome.measurements:
            rows.writerow({**shared, **measurement.to_dict()})
        if record.outcome.cannot:
            rows.writerow({**shared, "reason": record.outcome.cannot})
    return text.getvalue()


def as_data(tables: Iterable[ResultTable], records: Sequence[Record]) -> dict[str, Any]:
    """Return all tables as plain data for JSON."""
    return {
        "tables": [
            {
                "task": table.task.name,
                "configuration": table.task.to_dict(),
                "definitions": definitions(table),
                "columns": list(table.columns),
                "rows": [asdict(row) for row in table.rows],
                "published": [{"column": column, **asdict(line)} for column, line in table.published],
                "by_length": {metric.name: lines for metric, lines in tables_by_length(table)},
                "notes": table.notes,
            }
            for table in tables
        ],
        "mean_reciprocal_ranks": {
            "unseen": [asdict(rank) for rank in mean_ranks(records)],
            "seen": [asdict(rank) for rank in mean_ranks(records, "seen")],
        },
        "same_for_all": [{**asdict(check), "holds": check.holds} for check in check_fairness(records)],
    }


def _optional(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _grid(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
