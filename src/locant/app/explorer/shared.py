"""Numbers that several pictures share, remembered while the knobs that they depend on stay as they are."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from locant.app.gallery import codes
from locant.app.gallery.attention import head_biases
from locant.app.gallery.codes import code_table
from locant.figures import HeadBiases
from locant.figures.drawing import Numbers

HEADS = 8


@lru_cache(maxsize=4)
def code(scheme: str, width: int, length: int, base: float | None) -> Numbers:
    """Return what a scheme adds to each position, ``[length, width]``.

    Raises:
        LocantError: The scheme does not take such a width or length.
    """
    if scheme != "sinusoidal" or base is None:
        return code_table(scheme, d_model=width, length=length, options={} if base is None else {"base": base})
    sine, cosine, _ = hands(width, length, base)
    return np.stack((sine, cosine), axis=-1).reshape(length, width)


@lru_cache(maxsize=4)
def hands(width: int, length: int, base: float) -> tuple[Numbers, Numbers, Numbers]:
    """Return sine and cosine ``[length, width / 2]`` of every pair, and its tokens of a full turn ``[width / 2]``.

    Raises:
        ConfigError: The width is odd.
    """
    return codes.hands(length, d_model=width, base=base)


@lru_cache(maxsize=4)
def biases(scheme: str, width: int, length: int) -> HeadBiases:
    """Return the score biases ``[HEADS, length]`` of a model of this width, or the next that its heads can share."""
    return head_biases(scheme, length=length, d_model=-(-width // HEADS) * HEADS, heads=HEADS)
