"""All compiled kernels of this room at once."""

from __future__ import annotations

from contextlib import suppress

import torch

from locant.errors import ConfigError
from locant.positions.rotary.rotation import compile_rotations
from locant.positions.short_attention import compile_short_attention


def use_compiled_kernels(device: torch.device | str) -> None:
    """Let rotations and the attention of short texts use C++ kernels, on a CPU with a compiler; else change nothing.

    Args:
        device: Where the model is.
    """
    if torch.device(device).type == "cpu":
        with suppress(ConfigError):  # without a compiler both take longer
            compile_rotations()
            compile_short_attention()
