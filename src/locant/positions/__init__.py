"""Positional schemes: where a token stands, told at the input embedding, on queries and keys, or on the scores.

This room needs torch alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from locant.positions.angles import Frequencies, PositionTable
    from locant.positions.attention import attend, attend_with_positions
    from locant.positions.attention_mask import Mask
    from locant.positions.embeddings.index import Binary, Index, NormalisedIndex
    from locant.positions.embeddings.learned import Learned
    from locant.positions.embeddings.sinusoidal import Sinusoidal, sinusoid_frequencies, sinusoid_table
    from locant.positions.exact import geometric_frequencies
    from locant.positions.none import NoPositions
    from locant.positions.randomised import Randomised
    from locant.positions.registry import SCHEMES, build_scheme, option_names
    from locant.positions.rotary.config import RotaryConfig
    from locant.positions.rotary.distant import RectifiedRotary, SelfExtend
    from locant.positions.rotary.layouts import convert_projection, layout_order
    from locant.positions.rotary.multiaxis import AxialRotary, MultimodalRotary
    from locant.positions.rotary.rotary import Rotary
    from locant.positions.rotary.rotation import compile_rotations, rotate_pairs
    from locant.positions.rotary.xpos import XPos
    from locant.positions.scheme import AttentionShape, PositionScheme
    from locant.positions.scores.alibi import ALiBi
    from locant.positions.scores.cope import CoPE
    from locant.positions.scores.deberta import DeBERTa
    from locant.positions.scores.fire import FIRE
    from locant.positions.scores.kerple import KERPLE
    from locant.positions.scores.sandwich import Sandwich
    from locant.positions.scores.shaw import Shaw
    from locant.positions.scores.t5 import T5
    from locant.positions.scores.transformer_xl import TransformerXL
    from locant.positions.short_attention import compile_short_attention

__all__ = [
    "FIRE",
    "KERPLE",
    "SCHEMES",
    "T5",
    "ALiBi",
    "AttentionShape",
    "AxialRotary",
    "Binary",
    "CoPE",
    "DeBERTa",
    "Frequencies",
    "Index",
    "Learned",
    "Mask",
    "MultimodalRotary",
    "NoPositions",
    "NormalisedIndex",
    "PositionScheme",
    "PositionTable",
    "Randomised",
    "RectifiedRotary",
    "Rotary",
    "RotaryConfig",
    "Sandwich",
    "SelfExtend",
    "Shaw",
    "Sinusoidal",
    "TransformerXL",
    "XPos",
    "attend",
    "attend_with_positions",
    "build_scheme",
    "compile_rotations",
    "compile_short_attention",
    "convert_projection",
    "geometric_frequencies",
    "layout_order",
    "option_names",
    "rotate_pairs",
    "sinusoid_frequencies",
    "sinusoid_table",
]

# Those that need no torch first.
_HOMES = (
    *("exact", "rotary.config", "angles", "attention", "attention_mask", "embeddings.index", "embeddings.learned"),
    *("embeddings.sinusoidal", "none", "randomised", "registry", "rotary.distant", "rotary.layouts"),
    *("rotary.multiaxis", "rotary.rotary", "rotary.rotation", "rotary.xpos", "scheme", "scores.alibi"),
    *("scores.cope", "scores.deberta", "scores.fire", "scores.kerple", "scores.sandwich", "scores.shaw"),
    *("scores.t5", "scores.transformer_xl", "short_attention"),
)

if not TYPE_CHECKING:

    def __getattr__(name):
        """Import what is asked for then: schemes need torch, whose import takes seconds, configurations do not."""
        if name in __all__:
            for home in _HOMES:
                module = import_module(f"{__name__}.{home}")
                if hasattr(module, name):
                    globals()[name] = getattr(module, name)
                    return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
