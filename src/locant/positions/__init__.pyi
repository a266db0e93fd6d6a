from locant.positions import huggingface as huggingface
from locant.positions.angles import Frequencies as Frequencies
from locant.positions.angles import PositionTable as PositionTable
from locant.positions.attention import AttentionPlan as AttentionPlan
from locant.positions.attention import Mask as Mask
from locant.positions.attention import MaskMod as MaskMod
from locant.positions.attention import attend as attend
from locant.positions.attention import attend_with_positions as attend_with_positions
from locant.positions.embeddings.index import Binary as Binary
from locant.positions.embeddings.index import Index as Index
from locant.positions.embeddings.index import NormalisedIndex as NormalisedIndex
from locant.positions.embeddings.learned import Learned as Learned
from locant.positions.embeddings.position_code import PositionCode as PositionCode
from locant.positions.embeddings.sinusoidal import Sinusoidal as Sinusoidal
from locant.positions.embeddings.sinusoidal import sinusoid_frequencies as sinusoid_frequencies
from locant.positions.embeddings.sinusoidal import sinusoid_table as sinusoid_table
from locant.positions.exact import geometric_frequencies as geometric_frequencies
from locant.positions.none import NoPositions as NoPositions
from locant.positions.randomised import Randomised as Randomised
from locant.positions.registry import SCHEMES as SCHEMES
from locant.positions.registry import build_scheme as build_scheme
from locant.positions.registry import check_options as check_options
from locant.positions.registry import option_names as option_names
from locant.positions.registry import register_scheme as register_scheme
from locant.positions.relative import RelativeBias as RelativeBias
from locant.positions.relative import score_mod as score_mod
from locant.positions.rotary.config import RotaryConfig as RotaryConfig
from locant.positions.rotary.distant import RectifiedRotary as RectifiedRotary
from locant.positions.rotary.distant import SelfExtend as SelfExtend
from locant.positions.rotary.key_offset import PartialKeyOffset as PartialKeyOffset
from locant.positions.rotary.mixed import MixedRotary as MixedRotary
from locant.positions.rotary.multiaxis import AxialRotary as AxialRotary
from locant.positions.rotary.multiaxis import MultimodalRotary as MultimodalRotary
from locant.positions.rotary.multiaxis import multimodal_coordinates as multimodal_coordinates
from locant.positions.rotary.polar import PoPE as PoPE
from locant.positions.rotary.rotary import Rotary as Rotary
from locant.positions.rotary.rotation import RotaryAngles as RotaryAngles
from locant.positions.rotary.rotation import apply_rotation as apply_rotation
from locant.positions.rotary.rotation import convert_projection as convert_projection
from locant.positions.rotary.rotation import layout_order as layout_order
from locant.positions.rotary.rotation import rotate_pairs as rotate_pairs
from locant.positions.rotary.xpos import XPos as XPos
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
from locant.positions.scheme import AttentionShape as AttentionShape
from locant.positions.scheme import PositionScheme as PositionScheme
from locant.positions.scheme import Prepared as Prepared
from locant.positions.scheme import ScoreMod as ScoreMod
from locant.positions.scores.alibi import ALiBi as ALiBi
from locant.positions.scores.cope import CoPE as CoPE
from locant.positions.scores.deberta import DeBERTa as DeBERTa
from locant.positions.scores.fire import FIRE as FIRE
from locant.positions.scores.fox import DataDependentALiBi as DataDependentALiBi
from locant.positions.scores.fox import FoX as FoX
from locant.positions.scores.kerple import KERPLE as KERPLE
from locant.positions.scores.relative_profiles import RelativeProfiles as RelativeProfiles
from locant.positions.scores.sandwich import Sandwich as Sandwich
from locant.positions.scores.shaw import Shaw as Shaw
from locant.positions.scores.t5 import T5 as T5
from locant.positions.scores.transformer_xl import TransformerXL as TransformerXL
from locant.positions.temperature import Temperature as Temperature
from locant.positions.torch_layers import PositionedAttention as PositionedAttention
from locant.positions.torch_layers import add_positions as add_positions

__all__ = [
    "FIRE",
    "KERPLE",
    "SCALINGS",
    "SCHEMES",
    "T5",
    "ALiBi",
    "AttentionPlan",
    "AttentionShape",
    "AxialRotary",
    "Binary",
    "CoPE",
    "DataDependentALiBi",
    "DeBERTa",
    "DynamicNTK",
    "Extension",
    "ExtensionMethod",
    "FoX",
    "Frequencies",
    "FrequencyScaling",
    "Index",
    "Learned",
    "Linear",
    "Llama3",
    "LongRoPE",
    "Mask",
    "MixedRotary",
    "MultimodalRotary",
    "NTKAware",
    "NTKByParts",
    "NoPositions",
    "NormalisedIndex",
    "PartialKeyOffset",
    "PoPE",
    "PositionCode",
    "PositionScheme",
    "PositionedAttention",
    "Prepared",
    "Proportional",
    "Randomised",
    "RectifiedRotary",
    "RelativeBias",
    "RelativeProfiles",
    "Rotary",
    "RotaryConfig",
    "Sandwich",
    "SelfExtend",
    "Shaw",
    "Sinusoidal",
    "Temperature",
    "TransformerXL",
    "Unscaled",
    "XPos",
    "YaRN",
    "add_positions",
    "attend",
    "attend_with_positions",
    "build_scheme",
    "geometric_frequencies",
    "multimodal_coordinates",
    "register_scaling",
    "register_scheme",
    "scaling_from_options",
    "score_mod",
    "sinusoid_table",
]
