"""Tables of results and mean reciprocal ranks, made of records alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean, stdev

from locant.lab.comparison import Comparison
from locant.lab.record import Record
from locant.lab.registry import COMPARISON_TASKS
from locant.lab.task import ComparisonTask, Metric, MetricValue, Published, Split

_LENGTHS_SHOWN = 6


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
    seeds: int
    parameters: int
    scheme_parameters: int
    steps: float
    tokens_per_second: float | None
    peak_memory: int


@dataclass(frozen=True)
class Curve:
    """Quality against length: for each length the value of every seed, ``None`` where the variant cannot."""

    variant: str
    condition: str
    values: dict[int, list[float | None]]


@dataclass(frozen=True)
class ResultTable:
    """All variants of a task.

    Attributes:
        task: With its configuration.
        columns: Names of the columns and the metric of each.
        rows: One for each variant and condition.
        curves: Of the first metric and of those that are shown at every length, by key.
        published: What others published, and the column it belongs to.
        notes: Reasons of cells that say "cannot".
    """

    task: ComparisonTask
    columns: dict[str, Metric]
    rows: list[Row]
    curves: dict[str, list[Curve]]
    published: list[tuple[str, Published]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def result_tables(comparison: Comparison, records: Iterable[Record]) -> list[ResultTable]:
    """Return one table for each task of a comparison that has records."""
    known = list(records)
    tables = []
    for name in comparison.tasks:
        of_task = [record for record in known if record.task == name]
        if of_task:
            tables.append(_table(comparison.build(name), _in_order(of_task, comparison.variants_of(name))))
    return tables


def _in_order(records: Sequence[Record], variants: Sequence[str]) -> dict[str, list[Record]]:
    found = {variant: [r for r in records if r.variant == variant] for variant in variants}
    return {variant: of_one for variant, of_one in found.items() if of_one}


def _table(task: ComparisonTask, records: dict[str, list[Record]]) -> ResultTable:
    everything = [m for of_one in records.values() for record in of_one for m in record.outcome.measurements]
    columns = _columns(task, everything)
    first = next(iter(task.metrics))
    curves: dict[str, list[Curve]] = {
        key: [] for key, metric in task.metrics.items() if key == first or metric.by_length
    }
    rows, notes = [], []
    for variant, of_one in records.items():
        cannot = next((record.outcome.cannot for record in of_one if record.outcome.cannot), "")
        conditions = dict.fromkeys(m.condition for record in of_one for m in record.outcome.measurements) or {"": None}
        for condition in conditions:
            cells = {}
            for column, (metric, select) in columns.items():
                cells[column] = _cell(of_one, metric, condition, select, cannot)
            rows.append(_row(variant, condition, cells, of_one))
            for key, of_metric in curves.items():
                of_metric.append(_curve(variant, condition, key, of_one))
            failed = {column: cell.reason for column, cell in cells.items() if cell.mean is None and cell.reason}
            reasons = [
                f"{column}: {failed[column]}" for column in sorted(failed, key=lambda c: not c.startswith("at "))
            ]
            if cannot:
                notes.append(f"{variant} cannot: {cannot}")
            elif reasons:
                notes.append(f"{' '.join((variant, condition)).strip()} cannot {reasons[0]}")
    metrics = {column: task.metrics[metric] for column, (metric, _) in columns.items()}
    text = next((record.outcome.text for of_one in records.values() for record in of_one), "")
    overall = {metric: column for column, (metric, select) in columns.items() if select == ("", None)}
    published = [(overall[line.metric], line) for line in task.published(text) if line.metric in overall]
    return ResultTable(task, metrics, rows, curves, published, list(dict.fromkeys(notes)))


_Selection = tuple[str, int | None]
"""A split to be averaged over and ``None``, or "" and a length (``None`` for all lengths together)."""


def _columns(task: ComparisonTask, measurements: Sequence[MetricValue]) -> dict[str, tuple[str, _Selection]]:
    """Return the columns of a table: metric and what is selected by each."""
    found: dict[str, tuple[str, _Selection]] = {}
    for key, metric in task.metrics.items():
        if any(m.metric == key and m.length is None for m in measurements):
            found[metric.name] = (key, ("", None))
    first = next(iter(task.metrics))
    splits: dict[str, list[int]] = {"seen": [], "unseen": []}
    for m in measurements:
        if m.metric == first and m.length is not None and m.split:
            splits[m.split].append(m.length)
    lengths = {split: sorted(set(of_split)) for split, of_split in splits.items()}
    if task.averages_lengths:
        found |= {split: (first, (split, None)) for split, of_split in lengths.items() if of_split}
    shown = [length for of_split in lengths.values() for length in evenly_spaced(of_split, _LENGTHS_SHOWN // 2)]
    if sum(map(len, lengths.values())) <= _LENGTHS_SHOWN:
        shown = [length for of_split in lengths.values() for length in of_split]
    return found | {f"at {length:,}": (first, ("", length)) for length in shown}


def evenly_spaced(lengths: Sequence[int], count: int) -> list[int]:
    """Return at most so many of the lengths, evenly spaced, the last among them."""
    step = max(1, -(-len(lengths) // count))
    return list(lengths[::-1][::step][::-1])


def _cell(records: Sequence[Record], metric: str, condition: str, select: _Selection, cannot: str) -> Cell:
    split, length = select
    values: list[float | None] = []
    reason = cannot
    for record in records:
        fitting = [
            m
            for m in record.outcome.measurements
            if m.metric == metric and m.condition == condition and (m.split == split if split else m.length == length)
        ]
        known = [m.value for m in fitting if m.value is not None]
        values.append(fmean(known) if known and len(known) == len(fitting) else None)
        reason = reason or next((m.reason for m in fitting if m.reason), "")
    return Cell.over(values, reason)


def _row(variant: str, condition: str, cells: dict[str, Cell], records: Sequence[Record]) -> Row:
    outcomes = [record.outcome for record in records]
    speeds = [outcome.tokens_per_second for outcome in outcomes if outcome.tokens_per_second]
    return Row(
        variant=variant,
        condition=condition,
        cells=cells,
        seeds=len(records),
        parameters=outcomes[0].parameters,
        scheme_parameters=outcomes[0].scheme_parameters,
        steps=fmean(outcome.steps for outcome in outcomes),
        tokens_per_second=fmean(speeds) if speeds else None,
        peak_memory=max(record.peak_memory for record in records),
    )


def _curve(variant: str, condition: str, metric: str, records: Sequence[Record]) -> Curve:
    values: dict[int, list[float | None]] = {}
    for record in records:
        for m in record.outcome.measurements:
            if m.metric == metric and m.condition == condition and m.length is not None:
                values.setdefault(m.length, []).append(m.value)
    return Curve(variant, condition, dict(sorted(values.items())))


PAPER_RANKS = {"none": 0.687, "t5": 0.549, "alibi": 0.502, "rotary-25": 0.330, "sinusoidal": 0.215}
"""Mean reciprocal ranks over all tasks in Kazemnejad et al. 2023, whose rotary baseline turns a quarter of a head."""


@dataclass(frozen=True)
class Rank:
    """How a variant does over all problems.

    Attributes:
        variant: Its name.
        all: Mean reciprocal rank among all variants.
        among_paper: The same among the five schemes of the paper, where all five were compared.
        paper: The paper's own number.
    """

    variant: str
    all: float
    among_paper: float | None
    paper: float | None


def mean_ranks(records: Iterable[Record], split: Split = "unseen") -> list[Rank]:
    """Return mean reciprocal ranks by exact match on unseen (or seen) lengths, best first.

    For every task and seed variants are ranked by their mean exact match over all lengths of the split. Equal ones
    share the mean of their ranks; a length that a variant cannot reach counts as no right answer. Only tasks and
    seeds that have all variants count.
    """
    scores = _scores_of_split(records, split)
    variants = list(dict.fromkeys(name for of_one in scores.values() for name in of_one))
    whole = [of_one for of_one in scores.values() if len(of_one) == len(variants)]
    if not whole or len(variants) < 2:
        return []
    everyone = _mean_reciprocal(whole, variants)
    papers = _mean_reciprocal(whole, list(PAPER_RANKS)) if set(PAPER_RANKS) <= set(variants) else {}
    ranks = [Rank(name, everyone[name], papers.get(name), PAPER_RANKS.get(name)) for name in variants]
    return sorted(ranks, key=lambda rank: -rank.all)


def agreement(ranks: Sequence[Rank]) -> str:
    """Say in one sentence which pairs of the paper's schemes stand in its order; empty where not all were compared."""
    ours = {rank.variant: rank.among_paper for rank in ranks if rank.among_paper is not None}
    if set(ours) != set(PAPER_RANKS):
        return ""
    pairs = list(combinations(PAPER_RANKS, 2))
    ties = [pair for pair in pairs if ours[pair[0]] == ours[pair[1]]]
    other = [f"{second} above {first}" for first, second in pairs if ours[first] < ours[second]]
    same = len(pairs) - len(other) - len(ties)
    said = f"Of the {len(pairs)} pairs of the paper's five schemes, {same} stand in its order"
    said += f", {len(ties)} {'is' if len(ties) == 1 else 'are'} equal here" if ties else ""
    return f"{said}; the other way round: {', '.join(other)}." if other else f"{said}."


def _scores_of_split(records: Iterable[Record], split: Split) -> dict[tuple[str, int], dict[str, float]]:
    """Return the mean over the lengths of a split for every task and seed, by variant."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for record in records:
        if record.task in COMPARISON_TASKS and COMPARISON_TASKS[record.task].averages_lengths:
            values = [m.value or 0.0 for m in record.outcome.measurements if m.split == split]
            found.setdefault((record.task, record.seed), {})[record.variant] = fmean(values) if values else 0.0
    return found


def _mean_reciprocal(scores: Sequence[dict[str, float]], variants: Sequence[str]) -> dict[str, float]:
    found: dict[str, list[float]] = {variant: [] for variant in variants}
    for of_one in scores:
        for variant in variants:
            own = of_one[variant]
            better = sum(of_one[other] > own for other in variants)
            equal = sum(of_one[other] == own for other in variants)
            found[variant].append(1 / (better + (1 + equal) / 2))
    return {variant: fmean(values) for variant, values in found.items()}
