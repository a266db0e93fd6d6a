"""Which scheme comes first how often: mean reciprocal rank over tasks and seeds, as in Kazemnejad et al. 2023."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from locant.lab.record import Record
from locant.lab.registry import COMPARISON_TASKS
from locant.lab.task import Split

PAPER = {"none": 0.687, "t5": 0.549, "alibi": 0.502, "rotary-25": 0.330, "sinusoidal": 0.215}
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
    scores = _scores(records, split)
    variants = list(dict.fromkeys(name for of_one in scores.values() for name in of_one))
    whole = [of_one for of_one in scores.values() if len(of_one) == len(variants)]
    if not whole or len(variants) < 2:
        return []
    everyone = _mean_reciprocal(whole, variants)
    papers = _mean_reciprocal(whole, list(PAPER)) if set(PAPER) <= set(variants) else {}
    ranks = [Rank(name, everyone[name], papers.get(name), PAPER.get(name)) for name in variants]
    return sorted(ranks, key=lambda rank: -rank.all)


def agreement(ranks: Sequence[Rank]) -> str:
    """Say in one sentence which pairs of the paper's schemes stand in its order; empty where not all were compared."""
    ours = {rank.variant: rank.among_paper for rank in ranks if rank.among_paper is not None}
    if set(ours) != set(PAPER):
        return ""
    pairs = list(combinations(PAPER, 2))
    ties = [pair for pair in pairs if ours[pair[0]] == ours[pair[1]]]
    other = [f"{second} above {first}" for first, second in pairs if ours[first] < ours[second]]
    same = len(pairs) - len(other) - len(ties)
    said = f"Of the {len(pairs)} pairs of the paper's five schemes, {same} stand in its order"
    said += f", {len(ties)} {'is' if len(ties) == 1 else 'are'} equal here" if ties else ""
    return f"{said}; the other way round: {', '.join(other)}." if other else f"{said}."


def _scores(records: Iterable[Record], split: Split) -> dict[tuple[str, int], dict[str, float]]:
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
