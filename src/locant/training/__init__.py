"""Training: recipes, objective, schedule, loop, checkpoints, distribution."""

from locant.training.evaluation import Evaluation, evaluate_files, evaluate_run, load_run_evaluation
from locant.training.monitor import Monitor, SilentMonitor, StepReport, ValidationReport, read_metrics
from locant.training.objective import projected_cross_entropy
from locant.training.recipe import Recipe, builtin_recipes, load_recipe, save_recipe
from locant.training.run import RunSummary, resume_run, start_run
from locant.training.schedule import learning_rate
from locant.training.settings import TrainingSettings

__all__ = [
    "Evaluation",
    "Monitor",
    "Recipe",
    "RunSummary",
    "SilentMonitor",
    "StepReport",
    "TrainingSettings",
    "ValidationReport",
    "builtin_recipes",
    "evaluate_files",
    "evaluate_run",
    "learning_rate",
    "load_recipe",
    "load_run_evaluation",
    "projected_cross_entropy",
    "read_metrics",
    "resume_run",
    "save_recipe",
    "start_run",
]
