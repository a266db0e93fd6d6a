"""Attention with linear biases (Press et al. 2022)."""

from __future__ import annotations

import torch
from torch import Tensor

from locant.positions.registry import register_scheme
from locant.positions.relative import RelativeBias


def alibi_slopes(num_heads: int) -> tuple[float, ...]:
    """Return the slope of each head.

    For ``H`` a power of two these are ``2^(-8 h / H)``, ``h = 1 .. H``. Other head counts take the slopes of the power
    of two ``P`` below, then every second slope of ``2 P`` heads, starting with the first, as the authors' code and
    BLOOM do.

    Args:
        num_heads: Number of attention heads, ``H``, at least 1.

    Example:
        >>> alibi_slopes(3)
        (0.0625, 0.00390625, 0.25)
    """
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * head / power) for head in range(1, power + 1)]
    between = [2.0 ** (-4 * head / power) for head in range(1, 2 * power, 2)]
    return tuple((slopes + between)[:num_heads])


@register_scheme("alibi")
class ALiBi(RelativeBias):
    """Lowers scores in proportion to the distance, with a fixed slope for each head; nothing is trained.

    Source: Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input Length
    Extrapolation", section 3::

        bias(h, i, j) = -m_h |i - j|        m_h = 2^(-8 h / H), h = 1 .. H

    for the query at position ``i`` and the key at ``j``; slopes of other head counts than powers of two are those of
    :func:`alibi_slopes`. Shapes and dtypes as in :meth:`RelativeBias.score_bias`; computed in float64. Implementations
    that add ``m_h j`` instead differ by a constant of each query's row, which the softmax ignores, but lose the last
    digits at far positions when the model is in half precision: near keys here keep small, exact values.

    In a decoder visible keys have ``j <= i``, which is the paper. In an encoder the bias is symmetric, so that a head
    alone does not distinguish left from right. For cross-attention the paper defines none, and positions of two
    texts are not comparable.

    Causal self-attention in float32 takes the bias as one more feature of queries and keys, which costs a plain
    attention's time and memory (:class:`~locant.positions.AttentionPlan`).

    Args:
        num_heads: Number of attention heads, ``H``.

    Raises:
        ConfigError: There is no head.

    Example:
        >>> import torch
        >>> q = torch.zeros(1, 2, 3, 4)
        >>> ALiBi(2).score_bias(q, q, torch.arange(3), torch.arange(3))[0, 0]
        tensor([[-0.0000, -0.0625, -0.1250],
                [-0.0625, -0.0000, -0.0625],
                [-0.1250, -0.0625, -0.0000]])
    """

    title = "ALiBi"
    paper = "Press et al. 2022"

    def __init__(self, num_heads: int) -> None:
        super().__init__(num_heads)
        self.slopes = alibi_slopes(num_heads)

    def bias(self, offsets: Tensor) -> Tensor:
        """Return ``-m_h |offset|`` in float64; shapes as in :meth:`RelativeBias.bias`."""
        slopes = torch.tensor(self.slopes, dtype=torch.float64, device=offsets.device)
        return -slopes.unsqueeze(-1) * offsets.abs()
