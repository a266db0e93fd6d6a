"""Comparisons from start to end: plan, trials, tables and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locant.errors import UsageError
from locant.files import write_text
from locant.lab.comparison import Comparison, Job, expand_tasks, load_comparison
from locant.lab.record import Check, Record, check_fairness, load_records
from locant.lab.runner import ComparisonCallback, run_comparison
from locant.lab.tables import ResultTable, csv_text, markdown, result_tables
from locant.lab.variants import all_schemes, registered


@dataclass(frozen=True)
class ComparisonResult:
    """What a comparison found.

    Attributes:
        folder: Where records and tables are.
        comparison: What was compared.
        records: The finished trials.
        tables: One for each task.
        checks: What must be the same for all variants, and whether it is.
        failures: The trials that failed, and why.
        written: The files with all tables; none where no trial has finished.
    """

    folder: Path
    comparison: Comparison
    records: list[Record]
    tables: list[ResultTable]
    checks: list[Check]
    failures: dict[Job, str]
    written: list[Path]

    @property
    def fair(self) -> bool:
        """Whether everything but the variant was the same in all trials."""
        return all(check.holds for check in self.checks)


def compare(
    tasks: str | Sequence[str] | None = None,
    schemes: str | Sequence[str] | None = None,
    *,
    output: Path | str,
    steps: int | None = None,
    minutes_each: float | None = None,
    seeds: int | None = None,
    device: str = "auto",
    at_once: int | None = None,
    settings: Mapping[str, Any] | None = None,
    callback: ComparisonCallback | None = None,
) -> ComparisonResult:
    """Compare positional schemes on tasks: run all trials that have no record yet, and write the tables.

    Args:
        tasks: Names of tasks or groups of them; without any, the comparison in ``output`` goes on as it is.
        schemes: Names of what to compare, with options perhaps (``rotary:base=500000``); ``all`` is every scheme, and
            without any each task compares its own.
        output: Folder of records and tables.
        steps: Updates that every trial trains for,
        minutes_each: or minutes.
        seeds: Seeds of every variant, 3 by default.
        device: ``auto``, ``cpu`` or ``cuda``.
        at_once: Trials that run at the same time; see :func:`~locant.lab.run_comparison`.
        settings: Of the tasks: ``{"train_length": 20, "model": {"layers": 2}}``; what is under the name of a task
            is for that task alone.
        callback: Called as it goes on.

    Raises:
        UsageError: The arguments do not say what to compare, or contradict each other or the folder.
        LocantError: A task cannot run, a text is missing for instance.

    Example:
        Schemes that copy rows of letters, trained on up to ten of them::

            result = compare("copy", ["none", "rotary", "alibi"], steps=3000, output="runs/copy")
            print(result.tables[0].rows)
    """
    if at_once is not None and at_once < 1:
        raise UsageError(f"--at-once must be at least 1; got {at_once}.")
    folder, tasks, schemes = Path(output), _names(tasks), _names(schemes)
    if (folder / "comparison.json").exists() and not tasks:
        if schemes or settings or steps or minutes_each:
            raise UsageError(
                f"{folder} holds a comparison; without --task it goes on as it is, so leave out everything but "
                "--seeds, --at-once and --device, or say it all again."
            )
        comparison = load_comparison(folder)
        comparison = comparison.model_copy(update={"seeds": seeds or comparison.seeds})
    elif not tasks:
        raise UsageError("Say what to compare on: --task NAME. `locant compare` alone lists the tasks.")
    elif (steps is None) == (minutes_each is None):
        raise UsageError("Say how long each trial trains: either --steps N or --minutes-each M.")
    else:
        variants = [one for name in schemes for one in (all_schemes() if name == "all" else (registered(name),))]
        plan = {
            "tasks": expand_tasks(tasks),
            "variants": list(dict.fromkeys(variants)),
            "seeds": 3 if seeds is None else seeds,
            "budget": {"steps": steps, "minutes": minutes_each},
            "options": dict(settings or {}),
        }
        comparison = Comparison.parse(plan, "comparison")
    failures = run_comparison(folder, comparison, device=device, at_once=at_once, callback=callback)
    trials = {(job.task, job.variant, job.seed) for job in comparison.jobs()}
    records = [one for one in load_records(folder) if (one.task, one.variant, one.seed) in trials]
    tables = result_tables(comparison, records)
    written = []
    if records:
        write_text(folder / "results.md", markdown(tables, records))
        write_text(folder / "results.csv", csv_text(records))
        written = [folder / f"results.{kind}" for kind in ("md", "csv")]
    return ComparisonResult(folder, comparison, records, tables, check_fairness(records), failures, written)


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return names, which may be separated by commas."""
    names = given.split(",") if isinstance(given, str) else given or ()
    return tuple(dict.fromkeys(name.strip() for name in names))
