from locant import analysis as analysis
from locant import app as app
from locant import documents as documents
from locant import errors as errors
from locant import extension as extension
from locant import figures as figures
from locant import interop as interop
from locant import kernels as kernels
from locant import lab as lab
from locant import models as models
from locant import positions as positions
from locant import rotary_configs as rotary_configs
from locant import testing as testing
from locant import text as text
from locant import training as training
from locant import translation as translation
from locant.errors import LocantError as LocantError
from locant.extension.evaluate.evaluation import evaluate_context as evaluate_context
from locant.extension.extend.extend import extend_model as extend
from locant.extension.inspect.inspection import inspect_model as inspect
from locant.figures.registry import draw_figure as draw_figure
from locant.interop.importing import import_model as import_model
from locant.lab.compare import compare as compare
from locant.models.config import TransformerConfig as TransformerConfig
from locant.models.config import preset as preset
from locant.models.language_model import LanguageModel as LanguageModel
from locant.models.language_model import LanguageModelConfig as LanguageModelConfig
from locant.models.transformer import Transformer as Transformer
from locant.positions.embeddings.sinusoidal import Sinusoidal as Sinusoidal
from locant.positions.registry import build_scheme as build_scheme
from locant.positions.registry import register_scheme as register_scheme
from locant.positions.rotary.config import RotaryConfig as RotaryConfig
from locant.positions.rotary.rotary import Rotary as Rotary
from locant.positions.scheme import PositionScheme as PositionScheme
from locant.positions.scores.alibi import ALiBi as ALiBi
from locant.training.evaluation import evaluate as evaluate
from locant.training.generation import generate_corpus as generate_corpus
from locant.training.recipe import Recipe as Recipe
from locant.training.recipe import load_recipe as load_recipe
from locant.training.run import resume_training as resume
from locant.training.run import train as train
from locant.translation.translator import Translator as Translator
from locant.version import __version__ as __version__

__all__ = [
    "ALiBi",
    "LanguageModel",
    "LanguageModelConfig",
    "LocantError",
    "PositionScheme",
    "Recipe",
    "Rotary",
    "RotaryConfig",
    "Sinusoidal",
    "Transformer",
    "TransformerConfig",
    "Translator",
    "__version__",
    "build_scheme",
    "compare",
    "draw_figure",
    "evaluate",
    "evaluate_context",
    "extend",
    "generate_corpus",
    "import_model",
    "inspect",
    "load_recipe",
    "preset",
    "register_scheme",
    "resume",
    "train",
]
