from locant.positions.scaling.explain import Explanation as Explanation
from locant.positions.scaling.explain import PairExplanation as PairExplanation
from locant.positions.scaling.explain import explain_frequencies as explain_frequencies
from locant.positions.scaling.frequency import Extension as Extension
from locant.positions.scaling.frequency import ExtensionMethod as ExtensionMethod
from locant.positions.scaling.frequency import FrequencyScaling as FrequencyScaling
from locant.positions.scaling.frequency import register_scaling as register_scaling
from locant.positions.scaling.linear import Linear as Linear
from locant.positions.scaling.linear import Unscaled as Unscaled
from locant.positions.scaling.llama3 import Llama3 as Llama3
from locant.positions.scaling.longrope import LongRoPE as LongRoPE
from locant.positions.scaling.ntk import DynamicNTK as DynamicNTK
from locant.positions.scaling.ntk import NTKAware as NTKAware
from locant.positions.scaling.proportional import Proportional as Proportional
from locant.positions.scaling.registry import SCALINGS as SCALINGS
from locant.positions.scaling.registry import scaling_from_options as scaling_from_options
from locant.positions.scaling.yarn import NTKByParts as NTKByParts
from locant.positions.scaling.yarn import YaRN as YaRN

__all__ = [
    "SCALINGS",
    "DynamicNTK",
    "Extension",
    "ExtensionMethod",
    "FrequencyScaling",
    "Linear",
    "Llama3",
    "LongRoPE",
    "NTKAware",
    "NTKByParts",
    "Proportional",
    "Unscaled",
    "YaRN",
    "register_scaling",
    "scaling_from_options",
]
