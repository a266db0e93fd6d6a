"""An output bias, folded exactly into a model that has none.

Marian adds a bias ``b [V]`` to its logits, Locant does not. The output reads what the last layer norm writes::

    h = g * n + beta        with  sum_i n_i = 0, because a layer norm takes the mean away

so with ``u_i = 1 / g_i`` the sum ``u . h = sum_i beta_i / g_i`` is the same number for every input. Nothing but the
output reads this norm, so its shift is free: ``beta' = beta + t g`` gives ``h' = h + t g`` and
``u . h' = sum_i beta_i / g_i + t E =: s``, a constant that ``t`` keeps away from 0. Then::

    W' = W + a u^T,   a = (b - t W g) / s     =>     W' h' = W h + t W g + a s = W h + b

The output matrix is then no longer that of the embeddings.
"""

from __future__ import annotations

import torch
from torch import Tensor

from locant.errors import ConfigError

_GREATEST_CONDITION = 100.0
"""Rounding errors of the bias are at most this many times those of float32."""


def fold_bias(output: Tensor, bias: Tensor, gain: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """Return the output matrix and the shift of the last layer norm that make a bias unnecessary.

    Args:
        output: ``W [V, E]``.
        bias: ``b [V]``.
        gain: ``g [E]`` of the last layer norm.
        shift: ``beta [E]`` of the last layer norm.

    Returns:
        ``W' [V, E]`` and ``beta' [E]``, float32, computed in float64.

    Raises:
        ConfigError: A gain is so close to 0 that the fold would not be exact in float32.
    """
    w, b, g, beta = (tensor.double() for tensor in (output, bias, gain, shift))
    ratio = beta / g
    t = 1.0 if ratio.sum() >= 0 else -1.0
    s = ratio.sum() + t * len(g)
    # Every term of u . h' against their sum; n_i is of size 1.
    condition = float((1 + (ratio + t).abs()).sum() / s.abs())
    if not condition <= _GREATEST_CONDITION:
        raise ConfigError(
            "The model adds a bias to its logits (final_logits_bias), which Locant folds into the output matrix; but "
            "the last layer norm has gains so close to 0 that this would not be exact. The model cannot be imported."
        )
    a = (b - t * (w @ g)) / s
    return (w + torch.outer(a, 1 / g)).float(), (beta + t * g).float()
