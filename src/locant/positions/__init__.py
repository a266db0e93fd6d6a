"""Positional schemes: where a token stands, told at the input embedding, on queries and keys, or on the scores.

This room needs torch alone.
"""

from locant.positions.learned import Learned
from locant.positions.none import NoPositions
from locant.positions.registry import SCHEMES, build_scheme, option_names
from locant.positions.scheme import AttentionShape, PositionScheme
from locant.positions.sinusoidal import Sinusoidal, sinusoid_angles, sinusoid_table

__all__ = [
    "SCHEMES",
    "AttentionShape",
    "Learned",
    "NoPositions",
    "PositionScheme",
    "Sinusoidal",
    "build_scheme",
    "option_names",
    "sinusoid_angles",
    "sinusoid_table",
]
