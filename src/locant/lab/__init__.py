"""The lab: fair comparisons of positional schemes. Tasks, trials, records, tables."""

from locant.lab.comparison import Comparison, load_comparison
from locant.lab.contenders import all_schemes
from locant.lab.record import Record, load_records
from locant.lab.registry import GROUPS, TASKS, build_task, expand_tasks
from locant.lab.runner import Failure, SilentWatcher, Watcher, run_comparison
from locant.lab.task import Budget, Measurement, Metric, Outcome, Task, Trial

__all__ = [
    "GROUPS",
    "TASKS",
    "Budget",
    "Comparison",
    "Failure",
    "Measurement",
    "Metric",
    "Outcome",
    "Record",
    "SilentWatcher",
    "Task",
    "Trial",
    "Watcher",
    "all_schemes",
    "build_task",
    "expand_tasks",
    "load_comparison",
    "load_records",
    "run_comparison",
]
