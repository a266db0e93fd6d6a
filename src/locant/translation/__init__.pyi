from locant.kernels.translation import PRECISIONS as PRECISIONS
from locant.kernels.translation import supports as supports
from locant.translation.alignment import Alignment as Alignment
from locant.translation.compiled import CompiledEngine as CompiledEngine
from locant.translation.continuous import ContinuousSearch as ContinuousSearch
from locant.translation.continuous import continuous_search as continuous_search
from locant.translation.ctranslate2 import CTranslate2Engine as CTranslate2Engine
from locant.translation.engines import ENGINES as ENGINES
from locant.translation.engines import Engine as Engine
from locant.translation.engines import PyTorchEngine as PyTorchEngine
from locant.translation.engines import fastest_engine as fastest_engine
from locant.translation.glossary import Glossary as Glossary
from locant.translation.hypotheses import Hypothesis as Hypothesis
from locant.translation.hypotheses import Translation as Translation
from locant.translation.hypotheses import length_penalty as length_penalty
from locant.translation.search import ancestral_sampling as ancestral_sampling
from locant.translation.search import beam_search as beam_search
from locant.translation.search import search as search
from locant.translation.translator import Translator as Translator
from locant.translation.translator import load_translator as load_translator

__all__ = ["Glossary", "Translation", "Translator", "length_penalty", "load_translator"]
