"""The proof that everything but the variant was the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from locant.lab.record import Record


@dataclass(frozen=True)
class Check:
    """One thing that must be the same for all variants of a task and a seed.

    Attributes:
        task: Name.
        seed: Which.
        what: What must be the same.
        values: What each variant has, shortened for reading.
    """

    task: str
    seed: int
    what: str
    values: dict[str, str]

    @property
    def holds(self) -> bool:
        """Whether it is the same."""
        return len(set(self.values.values())) == 1

    @property
    def common(self) -> str:
        """What all have, or what the variants have that differ."""
        if self.holds:
            return next(iter(self.values.values()))
        return ", ".join(f"{variant}: {value}" for variant, value in self.values.items())


def check_fairness(records: Iterable[Record]) -> list[Check]:
    """Compare texts, tokens trained on, first batches, initial weights and sizes for every task and seed.

    Variants that cannot do a task are left out, and so are, for the weights, those that share none. Under a budget of
    minutes the number of tokens depends on the speed and is left out.
    """
    groups: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        if not record.outcome.cannot:
            groups.setdefault((record.task, record.seed), []).append(record)
    checks = []
    for (task, seed), group in sorted(groups.items()):
        sharing = [record for record in group if record.outcome.initial_weights]
        batches = {r.variant: r.outcome.first_batch[:12] for r in group}
        weights = {r.variant: r.outcome.initial_weights[:12] for r in sharing}
        sizes = {r.variant: f"{r.outcome.parameters - r.outcome.scheme_parameters:,}" for r in sharing}
        texts = {r.variant: r.outcome.text[:12] for r in group if r.outcome.text}
        counted = [r for r in group if r.configuration.get("budget", {}).get("steps")]
        tokens = {r.variant: f"{r.outcome.tokens:,}" for r in counted}
        found = {
            "text": texts,
            "tokens trained on": tokens,
            "first batch": batches,
            "initial weights": weights,
            "parameters without the scheme's": sizes,
        }
        checks += [Check(task, seed, what, values) for what, values in found.items() if values]
    return checks
