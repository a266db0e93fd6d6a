from locant.extension.asked.ask import AskedClass as AskedClass
from locant.extension.asked.ask import ask_class as ask_class
from locant.extension.asked.build import ClassRefusesError as ClassRefusesError
from locant.extension.asked.build import NoClassError as NoClassError
from locant.extension.evaluate.documents import LongText as LongText
from locant.extension.evaluate.documents import read_texts as read_texts
from locant.extension.evaluate.evaluation import EvaluationCallback as EvaluationCallback
from locant.extension.evaluate.evaluation import EvaluationSettings as EvaluationSettings
from locant.extension.evaluate.evaluation import evaluate_context as evaluate_context
from locant.extension.evaluate.perplexity import PerplexitySettings as PerplexitySettings
from locant.extension.evaluate.retrieval import Needle as Needle
from locant.extension.extend.extend import ExtendedModel as ExtendedModel
from locant.extension.extend.extend import extend_model as extend_model
from locant.extension.extend.finetune import FineTuning as FineTuning
from locant.extension.extend.finetune import FineTuningStep as FineTuningStep
from locant.extension.extend.folder import ExtensionReport as ExtensionReport
from locant.extension.extend.folder import MeasuredMethod as MeasuredMethod
from locant.extension.extend.methods import apply_method as apply_method
from locant.extension.extend.methods import extension_methods as extension_methods
from locant.extension.inspect.inspection import inspect_model as inspect_model
from locant.extension.inspect.result import Inspection as Inspection
from locant.extension.inspect.settings import ENGINES as ENGINES
from locant.extension.inspect.settings import to_engine_config as to_engine_config
from locant.extension.layouts.convert import ConvertedCheckpoint as ConvertedCheckpoint
from locant.extension.layouts.convert import convert_layout as convert_layout
from locant.extension.layouts.proof import LayoutProof as LayoutProof
from locant.extension.layouts.report import LayoutReport as LayoutReport
from locant.extension.load import load_config as load_config
from locant.extension.load import load_model as load_model
from locant.extension.load import load_tokenizer as load_tokenizer
from locant.extension.source import resolve_model as resolve_model
from locant.rotary_configs.fields import Finding as Finding

__all__ = [
    "EvaluationSettings",
    "FineTuning",
    "apply_method",
    "convert_layout",
    "evaluate_context",
    "extend_model",
    "inspect_model",
    "to_engine_config",
]
