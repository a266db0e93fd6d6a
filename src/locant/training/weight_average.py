"""Exponential moving average of a model's weights while it trains (Polyak averaging, as in Adam's section 7.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn


class WeightAverage:
    """``average <- d * average + (1 - d) * weights`` after every update.

    ``d`` rises from 0.1 to ``decay`` as ``(1 + n) / (10 + n)`` with the updates ``n``, so that the first, random
    weights are soon forgotten.

    Args:
        parameters: Names and parameters, sharded ones too; the average begins as a copy of them.
        decay: From 0 to below 1; 0.999 looks back over about a thousand updates.
    """

    def __init__(self, parameters: Iterable[tuple[str, nn.Parameter]], decay: float) -> None:
        self.decay = decay
        named = dict(parameters)
        self._parameters = [parameter.detach() for parameter in named.values()]
        self.tensors: dict[str, Tensor] = {name: parameter.detach().clone() for name, parameter in named.items()}

    @torch.no_grad()
    def update(self, number: int) -> None:
        """Take in the weights after an update.

        Args:
            number: Updates taken in, this one included.
        """
        decay = min(self.decay, (1 + number) / (10 + number))
        torch._foreach_lerp_(list(self.tensors.values()), self._parameters, 1 - decay)

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go back to an average, given by the names of the parameters."""
        for name, tensor in self.tensors.items():
            tensor.copy_(tensors[name])
