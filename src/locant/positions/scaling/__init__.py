"""Scalings of rotary frequencies, by which a model reads longer texts than it was trained for."""

from locant.positions.scaling.explain import Explanation, PairExplanation, explain_frequencies
from locant.positions.scaling.frequency import Extension, FrequencyScaling
from locant.positions.scaling.linear import Linear, Unscaled
from locant.positions.scaling.llama3 import Llama3
from locant.positions.scaling.longrope import LongRoPE
from locant.positions.scaling.ntk import DynamicNTK, NTKAware
from locant.positions.scaling.proportional import Proportional
from locant.positions.scaling.registry import SCALINGS, scaling_from_options
from locant.positions.scaling.yarn import NTKByParts, YaRN

__all__ = [
    "SCALINGS",
    "DynamicNTK",
    "Explanation",
    "Extension",
    "FrequencyScaling",
    "Linear",
    "Llama3",
    "LongRoPE",
    "NTKAware",
    "NTKByParts",
    "PairExplanation",
    "Proportional",
    "Unscaled",
    "YaRN",
    "explain_frequencies",
    "scaling_from_options",
]
