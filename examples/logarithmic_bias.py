"""The scheme of ``compare_my_scheme.py``, in a module of its own because trials run in processes of their own."""

import torch
from torch import Tensor

from locant.positions import RelativeBias, register_scheme


@register_scheme("logarithmic-bias")
class LogarithmicBias(RelativeBias):
    """Lowers scores by the logarithm of the distance.

    Source: an example of Locant, 2026::

        bias(h, i, j) = -2^(-8 h / H) log(1 + |i - j|)        h = 1 .. H
    """

    title = "Logarithmic bias"
    paper = "Locant 2026"

    def bias(self, offsets: Tensor) -> Tensor:
        """Return the bias, ``[H, ...]``, of offsets of any shape."""
        heads = torch.arange(1, self.num_heads + 1, dtype=torch.float64, device=offsets.device)
        return -torch.exp2(-8 * heads / self.num_heads).unsqueeze(-1) * offsets.abs().double().log1p()
