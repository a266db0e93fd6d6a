from locant.kernels.projected_cross_entropy import projected_cross_entropy as projected_cross_entropy
from locant.training.before_after import BeforeAfter as BeforeAfter
from locant.training.before_after import TestComparison as TestComparison
from locant.training.before_after import load_before_after as load_before_after
from locant.training.budget import Budget as Budget
from locant.training.callback import PreparedReport as PreparedReport
from locant.training.callback import StepReport as StepReport
from locant.training.callback import TrainingCallback as TrainingCallback
from locant.training.callback import ValidationReport as ValidationReport
from locant.training.callback import read_metrics as read_metrics
from locant.training.defaults import Choice as Choice
from locant.training.defaults import TrainingPlan as TrainingPlan
from locant.training.evaluation import Evaluation as Evaluation
from locant.training.evaluation import PartScores as PartScores
from locant.training.evaluation import evaluate as evaluate
from locant.training.evaluation import load_run_evaluation as load_run_evaluation
from locant.training.generation import GeneratedText as GeneratedText
from locant.training.generation import GenerationReport as GenerationReport
from locant.training.generation import generate_corpus as generate_corpus
from locant.training.loop import TrainingLoop as TrainingLoop
from locant.training.losses import LanguageModelBatch as LanguageModelBatch
from locant.training.losses import LanguageModelLoss as LanguageModelLoss
from locant.training.losses import TranslatorLoss as TranslatorLoss
from locant.training.recipe import Recipe as Recipe
from locant.training.recipe import builtin_recipes as builtin_recipes
from locant.training.recipe import load_recipe as load_recipe
from locant.training.recipe import load_run_recipe as load_run_recipe
from locant.training.recipe import save_recipe as save_recipe
from locant.training.run import RunSummary as RunSummary
from locant.training.run import plan_training as plan_training
from locant.training.run import resume_training as resume_training
from locant.training.run import train as train
from locant.training.settings import FineTuningSettings as FineTuningSettings
from locant.training.settings import TrainingSettings as TrainingSettings
from locant.training.settings import learning_rate as learning_rate
from locant.training.trained_parts import LoraSettings as LoraSettings

__all__ = [
    "Recipe",
    "TrainingCallback",
    "evaluate",
    "generate_corpus",
    "learning_rate",
    "load_before_after",
    "load_recipe",
    "plan_training",
    "projected_cross_entropy",
    "resume_training",
    "train",
]
