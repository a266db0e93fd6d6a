from locant.lab.compare import ComparisonResult as ComparisonResult
from locant.lab.compare import compare as compare
from locant.lab.comparison import COMPARISON_TASKS as COMPARISON_TASKS
from locant.lab.comparison import TASK_GROUPS as TASK_GROUPS
from locant.lab.comparison import Comparison as Comparison
from locant.lab.comparison import build_task as build_task
from locant.lab.comparison import expand_tasks as expand_tasks
from locant.lab.comparison import load_comparison as load_comparison
from locant.lab.problems import PROBLEMS as PROBLEMS
from locant.lab.problems import Problem as Problem
from locant.lab.record import Record as Record
from locant.lab.record import load_records as load_records
from locant.lab.runner import ComparisonCallback as ComparisonCallback
from locant.lab.runner import run_comparison as run_comparison
from locant.lab.tables import ResultTable as ResultTable
from locant.lab.tables import result_tables as result_tables
from locant.lab.task import ComparisonTask as ComparisonTask
from locant.lab.task import Metric as Metric
from locant.lab.task import MetricValue as MetricValue
from locant.lab.task import Outcome as Outcome
from locant.lab.task import Trial as Trial
from locant.lab.variants import all_schemes as all_schemes
from locant.training import Budget as Budget

__all__ = ["Comparison", "ComparisonTask", "Outcome", "compare", "load_records", "result_tables", "run_comparison"]
