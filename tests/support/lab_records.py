"""Small settings and records with known numbers."""

from locant.lab import MetricValue, Outcome, Record

TINY = {"layers": 1, "d_model": 16, "d_ff": 16, "heads": 2}


def make_record(task: str, variant: str, seed: int, values: dict[int, float | None], trained: int = 2) -> Record:
    """A record of right answers by length."""
    measurements = tuple(
        MetricValue(
            metric="exact",
            value=value,
            length=length,
            split="seen" if length <= trained else "unseen",
            reason="" if value is not None else "the table ends",
        )
        for length, value in values.items()
    )
    outcome = Outcome(
        measurements=measurements,
        parameters=100,
        scheme_parameters=10,
        steps=5,
        tokens=600,
        training_seconds=2.0,
        first_batch="b" * 64,
        initial_weights="w" * 64,
    )
    return Record(
        task=task,
        variant=variant,
        seed=seed,
        configuration={},
        outcome=outcome,
        wall_seconds=3.0,
        peak_memory=5_000_000,
        device="cpu",
        environment={"processor": "p", "threads": 1, "packages": {"torch": "2"}, "locant": "0"},
        finished="2026-01-01T00:00:00+00:00",
    )
