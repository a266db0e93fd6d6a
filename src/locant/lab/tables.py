"""Tables of results and mean reciprocal ranks, made of records alone; as Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from locant.lab.comparison import COMPARISON_TASKS, Comparison
from locant.lab.record import Record, check_fairness
from locant.lab.task import ComparisonTask, Metric, MetricValue, Split

_LENGTHS_SHOWN = 6

_LEARNED = 90.0
"""Percent right on lengths of the training, from which on a task counts as learned."""


@dataclass(frozen=True)
class Cell:
    """A number over seeds.

    Attributes:
        mean: Of the seeds, or ``None`` where the variant cannot.
        spread: Standard deviation over the seeds; ``None`` for a single one.
        reason: Why there is no number.
    """

    mean: float | None
    spread: float | None = None
    reason: str = ""

    @classmethod
    def over(cls, values: Sequence[float | None], reason: str = "") -> Cell:
        """Return mean and spread of one value for each seed."""
        known = [value for value in values if value is not None]
        if len(known) < len(values) or not known:
            return cls(None, reason=reason)
        return cls(fmean(known), stdev(known) if len(known) > 1 else None)

    def shown(self, digits: int) -> str:
        """Return the number with its spread, or the word "cannot"."""
        if self.mean is None:
            return "cannot"
        spread = "" if self.spread is None else f" ±{self.spread:,.{digits}f}"
        return f"{self.mean:,.{digits}f}{spread}"


@dataclass(frozen=True)
class Row:
    """A variant under one condition.

    Attributes:
        variant: Its name.
        condition: What else was varied; empty where nothing was.
        cells: By column, in the order of the columns.
        curves: By metric that is shown at every length: for each length the value of every seed, ``None`` where the
            variant cannot.
        seeds: Number of records.
        parameters: Of the model.
        scheme_parameters: Those of them that belong to the variant.
        steps: Updates, mean of the seeds.
        tokens_per_second: Of training, mean of the seeds; ``None`` where nothing was trained.
        peak_memory: In bytes, largest of the seeds.
    """

    variant: str
    condition: str
    cells: dict[str, Cell]
    curves: dict[str, dict[int, list[float | None]]]
    seeds: int
    parameters: int
    scheme_parameters: int
    steps: float
    tokens_per_second: float | None
    peak_memory: int


@dataclass(frozen=True)
class ResultTable:
    """All variants of a task.

    Attributes:
        task: With its configuration.
        columns: Names of the columns and the metric of each.
        rows: One for each variant and condition.
        notes: Reasons of cells that say "cannot".
    """

    task: ComparisonTask
    columns: dict[str, Metric]
    rows: list[Row]
    notes: list[str]


@dataclass(frozen=True)
class _Column:
    """Which measurements of a metric a column is the mean of: those of a split, or of a length (of all together)."""

    metric: str
    length: int | None = None
    split: str = ""

    def of(self, measurements: Sequence[MetricValue]) -> tuple[float | None, str]:
        """Return the mean in one record, and why there is none."""
        fitting = [
            m
            for m in measurements
            if m.metric == self.metric and (m.split == self.split if self.split else m.length == self.length)
        ]
        known = [m.value for m in fitting if m.value is not None]
        reason = next((m.reason for m in fitting if m.reason), "")
        return fmean(known) if known and len(known) == len(fitting) else None, reason


def result_tables(comparison: Comparison, records: Iterable[Record]) -> list[ResultTable]:
    """Return one table for each task of a comparison that has records."""
    known, tables = list(records), []
    for name in comparison.tasks:
        variants = {
            variant: [record for record in known if (record.task, record.variant) == (name, variant)]
            for variant in comparison.variants_of(name)
        }
        found = {variant: of_one for variant, of_one in variants.items() if of_one}
        if found:
            tables.append(_table(comparison.build(name), found))
    return tables


def _table(task: ComparisonTask, records: dict[str, list[Record]]) -> ResultTable:
    columns = _columns(task, [m for of_one in records.values() for r in of_one for m in r.outcome.measurements])
    rows, notes = [], []
    for variant, of_one in records.items():
        outcomes = [record.outcome for record in of_one]
        cannot = next((outcome.cannot for outcome in outcomes if outcome.cannot), "")
        speeds = [outcome.tokens_per_second for outcome in outcomes if outcome.tokens_per_second]
        for condition in dict.fromkeys(m.condition for one in outcomes for m in one.measurements) or {"": None}:
            by_seed = [[m for m in outcome.measurements if m.condition == condition] for outcome in outcomes]
            cells = {}
            for name, column in columns.items():
                found = [column.of(measurements) for measurements in by_seed]
                reason = cannot or next((reason for _, reason in found if reason), "")
                cells[name] = Cell.over([value for value, _ in found], reason)
            rows.append(
                Row(
                    variant=variant,
                    condition=condition,
                    cells=cells,
                    curves=_curves(task, by_seed),
                    seeds=len(of_one),
                    parameters=outcomes[0].parameters,
                    scheme_parameters=outcomes[0].scheme_parameters,
                    steps=fmean(outcome.steps for outcome in outcomes),
                    tokens_per_second=fmean(speeds) if speeds else None,
                    peak_memory=max(record.peak_memory for record in of_one),
                )
            )
            failed = [name for name, cell in cells.items() if cell.mean is None and cell.reason]
            if failed and not cannot:
                name = min(failed, key=lambda name: not name.startswith("at "))
                notes.append(f"{' '.join((variant, condition)).strip()} cannot {name}: {cells[name].reason}")
        if cannot:
            notes.append(f"{variant} cannot: {cannot}")
    metrics = {name: task.metrics[column.metric] for name, column in columns.items()}
    return ResultTable(task, metrics, rows, list(dict.fromkeys(notes)))


def _curves(task: ComparisonTask, by_seed: Sequence[Sequence[MetricValue]]) -> dict[str, dict[int, list[float | None]]]:
    """Return the values by length of the first metric, and of those that are shown at every length."""
    shown = {next(iter(task.metrics)), *(key for key, metric in task.metrics.items() if metric.by_length)}
    found: dict[str, dict[int, list[float | None]]] = {}
    for m in (m for measurements in by_seed for m in measurements if m.metric in shown):
        if m.length is not None:
            found.setdefault(m.metric, {}).setdefault(m.length, []).append(m.value)
    return {metric: dict(sorted(values.items())) for metric, values in found.items()}


def _columns(task: ComparisonTask, measurements: Sequence[MetricValue]) -> dict[str, _Column]:
    """Return the columns of a table: metrics over all lengths, means of splits, and some lengths."""
    whole = {m.metric for m in measurements if m.length is None}
    found = {metric.name: _Column(key) for key, metric in task.metrics.items() if key in whole}
    first = next(iter(task.metrics))
    lengths = {
        split: sorted(
            {m.length for m in measurements if m.metric == first and m.split == split and m.length is not None}
        )
        for split in ("seen", "unseen")
    }
    if task.averages_lengths:
        found |= {split: _Column(first, split=split) for split, of_split in lengths.items() if of_split}
    if sum(map(len, lengths.values())) > _LENGTHS_SHOWN:  # of each split evenly spaced ones, the last among them
        half = _LENGTHS_SHOWN // 2
        lengths = {split: of_split[:: -max(1, -(-len(of_split) // half))][::-1] for split, of_split in lengths.items()}
    shown = [length for of_split in lengths.values() for length in of_split]
    return found | {f"at {length:,}": _Column(first, length) for length in shown}


def mean_ranks(records: Iterable[Record], split: Split) -> dict[str, float]:
    """Return the mean reciprocal rank of each variant by exact match on unseen (or seen) lengths, best first.

    For every task and seed variants are ranked by their mean exact match over all lengths of the split. Equal ones
    share the mean of their ranks; a length that a variant cannot reach counts as no right answer. Only tasks and
    seeds that have all variants count.
    """
    scores: dict[tuple[str, int], dict[str, float]] = {}
    for record in records:
        if record.task in COMPARISON_TASKS and COMPARISON_TASKS[record.task].averages_lengths:
            values = [m.value or 0.0 for m in record.outcome.measurements if m.split == split]
            scores.setdefault((record.task, record.seed), {})[record.variant] = fmean(values) if values else 0.0
    variants = list(dict.fromkeys(name for of_one in scores.values() for name in of_one))
    whole = [of_one for of_one in scores.values() if len(of_one) == len(variants)]
    if not whole or len(variants) < 2:
        return {}
    found: dict[str, list[float]] = {variant: [] for variant in variants}
    for of_one in whole:
        for variant in variants:
            better = sum(other > of_one[variant] for other in of_one.values())
            equal = sum(other == of_one[variant] for other in of_one.values())
            found[variant].append(1 / (better + (1 + equal) / 2))
    return dict(sorted(((name, fmean(ranks)) for name, ranks in found.items()), key=lambda one: -one[1]))


def rank_lines(records: Sequence[Record]) -> list[list[str]]:
    """Return header and rows of the table of mean reciprocal ranks; nothing where there are none."""
    unseen, seen = mean_ranks(records, "unseen"), mean_ranks(records, "seen")
    rows = [[variant, f"{rank:.3f}", f"{seen[variant]:.3f}"] for variant, rank in unseen.items()]
    return [["scheme", "unseen lengths", "seen lengths"], *rows] if rows else []


def verdict(tables: Sequence[ResultTable]) -> list[str]:
    """Say which variant is best at each task, and which have not learned it."""
    said = []
    for table in tables:
        column = "unseen" if "unseen" in table.columns else next(iter(table.columns))
        metric = table.columns[column]
        known = [(mean, row) for row in table.rows if (mean := row.cells[column].mean) is not None]
        if not known:
            continue
        value, best = (max if metric.higher_is_better else min)(known, key=lambda one: one[0])
        where = f" on {column} lengths" if column in ("seen", "unseen") else ""
        condition = f" ({best.condition})" if best.condition else ""
        said.append(
            f"{table.task.name}: {best.variant}{condition} is best{where}, {metric.name} {value:.{metric.digits}f}."
        )
        failed = [row.variant for row in table.rows if "seen" in row.cells and (row.cells["seen"].mean or 0) < _LEARNED]
        if failed:
            said.append(
                f"Not learned (below {_LEARNED:.0f}% on lengths of the training): {', '.join(dict.fromkeys(failed))}; "
                "longer training may change the order."
            )
    return said


def lines_of(table: ResultTable) -> list[list[str]]:
    """Return the header and all rows of a table as they are read."""
    conditions = any(row.condition for row in table.rows)
    cost = ("parameters", "of the scheme", "updates", "tokens/s", "memory (MB)", "seeds")
    lines = [["scheme", *(["condition"] if conditions else []), *table.columns, *cost]]
    for row in table.rows:
        results = [row.cells[column].shown(metric.digits) for column, metric in table.columns.items()]
        speed = "" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}"
        numbers = [f"{row.parameters:,}", f"{row.scheme_parameters:,}", f"{row.steps:,.0f}", speed]
        numbers += [f"{row.peak_memory / 1e6:,.0f}", str(row.seeds)]
        lines.append([row.variant, *([row.condition] if conditions else []), *results, *numbers])
    return lines


def tables_by_length(table: ResultTable) -> list[tuple[Metric, list[list[str]]]]:
    """Return a table with header for every metric that is shown at all its lengths; cells not measured are empty."""
    found = []
    for key, metric in table.task.metrics.items():
        lengths = sorted({length for row in table.rows for length in row.curves.get(key, {})})
        if metric.by_length and lengths:
            conditions = any(row.condition for row in table.rows)
            lines = [["scheme", *(["condition"] if conditions else []), *(f"{length:,}" for length in lengths)]]
            for row in table.rows:
                values = row.curves.get(key, {})
                cells = (Cell.over(values[at]).shown(metric.digits) if at in values else "" for at in lengths)
                lines.append([row.variant, *([row.condition] if conditions else []), *cells])
            found.append((metric, lines))
    return found


def definitions(table: ResultTable) -> list[str]:
    """Return what the numbers of a table are, exactly."""
    said = [f"{metric.name}: {metric.definition}" for metric in dict.fromkeys(table.columns.values())]
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
        parts += ["\n".join(definitions(table)) + "\n", _grid(lines_of(table)), *(f"{note}\n" for note in table.notes)]
        for metric, lines in tables_by_length(table):
            parts += [f"### {metric.name} against length\n", _grid(lines)]
    if ranks := rank_lines(records):
        parts += ["## Mean reciprocal rank\n", _grid(ranks)]
    if checks := check_fairness(records):
        rows = [[c.task, str(c.seed), c.what, "yes" if c.holds else "NO", c.common] for c in checks]
        parts += ["## The same for all\n", _grid([["task", "seed", "what", "same", "value"], *rows])]
    return "\n".join(parts) + "\n"


def _grid(lines: Sequence[Sequence[str]]) -> str:
    ruled = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in ruled) + "\n"


def csv_text(records: Iterable[Record]) -> str:
    """Return every single measurement as CSV, one a line."""
    text = io.StringIO()
    fields = ["task", "variant", "seed", "condition", "metric", "length", "split", "value", "reason"]
    rows = csv.DictWriter(text, fields, lineterminator="\n")
    rows.writeheader()
    for record in records:
        shared = {"task": record.task, "variant": record.variant, "seed": record.seed}
        rows.writerows({**shared, **measurement.to_dict()} for measurement in record.outcome.measurements)
        if record.outcome.cannot:
            rows.writerow({**shared, "reason": record.outcome.cannot})
    return text.getvalue()
