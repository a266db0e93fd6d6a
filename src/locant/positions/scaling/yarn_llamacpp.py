"""Corners of YaRN's ramp and its attention scales, as llama.cpp takes them from GGUF files and its flags."""

from __future__ import annotations

import math

from locant.errors import ConfigError
from locant.positions.scaling.contexts import GGUFContext, LlamaCppContext
from locant.positions.scaling.fields import Fields

_NO_TURNS = 1e-30
"""So few turns that a corner of the ramp lies behind the last feature, as for 0 turns in llama.cpp."""


def corners_of_llamacpp(
    fast: float, slow: float, name: str, context: GGUFContext | LlamaCppContext
) -> tuple[float, float]:
    """Return the corners of the ramp as llama.cpp computes them: 0 turns are those of no pair.

    Args:
        fast: Turns from which on a pair keeps its frequency.
        slow: Turns up to which a pair is interpolated.
        name: The beginning of the names of both.
        context: Where findings go.

    Raises:
        ConfigError: One of them is below 0.
    """
    for corner, turns in (("fast", fast), ("slow", slow)):
        if turns < 0:
            raise ConfigError(
                f"{name}{corner} is {turns:g}: llama.cpp takes the logarithm of a number below 0, and computes nothing."
            )
    if fast == 0:
        context.wrong(
            f"{name}fast is 0: llama.cpp keeps the frequencies of all pairs then, as is shown, and scales scores.",
            "State the turns from which on pairs keep their frequencies; 32 is common.",
        )
        return _NO_TURNS, _NO_TURNS
    if slow == 0:
        context.wrong(
            f"{name}slow is 0: llama.cpp ends the ramp at the last feature then, as is shown, and slows no pair by the "
            "whole factor.",
            "State the turns up to which pairs are slowed by it; 1 is common.",
        )
        return fast, _NO_TURNS
    if slow > fast:
        context.warn(
            f"{name}slow {slow:g} is above {name.rpartition('.')[2]}fast {fast:g}: llama.cpp interpolates all pairs of "
            f"less than {fast:g} turns, with none blended, as is shown.",
            "Exchange them if they are swapped; 32 and 1 are common.",
        )
    return fast, min(fast, slow)


def corners_of_file(keys: Fields, context: GGUFContext) -> tuple[float, float]:
    """Return the corners of the ramp by a GGUF file, where 0 does not stand for the usual ones.

    Args:
        keys: The keys of the file.
        context: What stands around them.
    """
    fast, slow = (keys.number(f"rope.scaling.yarn_beta_{corner}") for corner in ("fast", "slow"))
    fast, slow = context.beta_fast if fast is None else fast, 1.0 if slow is None else slow
    return corners_of_llamacpp(fast, slow, "rope.scaling.yarn_beta_", context)


def scales_of_file(keys: Fields, context: GGUFContext) -> tuple[float | None, float | None, float | None]:
    """Return ``mscale``, ``mscale_all_dim`` and ``attention_factor`` by a GGUF file, which states a product of them.

    Args:
        keys: The keys of the file.
        context: What stands around them.
    """
    multiplier = keys.number("rope.scaling.yarn_log_multiplier")
    mscale, mscale_all_dim = (context.mscale_of(multiplier) if multiplier else None) or (None, None)
    attention = None
    if multiplier and mscale is not None and mscale_all_dim is not None and mscale_all_dim < 0 < context.factor:
        logarithm = 0.1 * math.log(max(context.factor, 1.0))
        attention = (mscale * logarithm + 1) / (mscale_all_dim * logarithm + 1)
        mscale = mscale_all_dim = None
        context.wrong(
            f"rope.scaling.yarn_log_multiplier {multiplier:g} is below 0: llama.cpp takes the attention scale "
            f"{attention:.6g} by it, as is shown.",
            "Compare with the model's publication, whose mscale_all_dim it is.",
        )
    return mscale, mscale_all_dim, attention
