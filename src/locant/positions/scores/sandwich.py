"""Sandwich: the inner products of sinusoidal embeddings as a score bias (Chi et al. 2023)."""

from __future__ import annotations

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.positions.angles import Frequencies
from locant.positions.exact import geometric_frequencies
from locant.positions.registry import register_scheme
from locant.positions.relative import RelativeBias
from locant.positions.scheme import describes

# Relative positions whose angles are held in memory at a time.
_OFFSETS_AT_A_TIME = 1 << 14


@register_scheme("sandwich")
class Sandwich(RelativeBias):
    """Adds the inner product of two positions' sinusoidal embeddings, compressed by another ratio in each head.

    Source: Chi et al. 2023, "Dissecting Transformer Length Extrapolation via the Lens of Receptive Field Analysis",
    section 5 and the Python listing of the appendix::

        bias(h, i, j) = 1 / r_h * sum_{n=0}^{S/2-1} cos((i - j) / 10000^(2n/S))        r_h = 8 h / H, h = 1 .. H

    for the query at position ``i`` and the key at ``j``, with ``S`` sinusoids. The sum is the product ``p_i^T p_j`` of
    sinusoidal embeddings of width ``S``; it decays like a logarithm of the distance. (The equation of the text counts
    ``n`` from 1; here as in the listing, which is the usual sinusoidal embedding, it starts at 0.) Nothing is trained.
    Shapes and dtypes as in :meth:`RelativeBias.score_bias`; computed in float64.

    The paper has decoders. The bias is symmetric, so that an encoder's head alone does not distinguish left from right.
    For cross-attention the paper defines none, and two texts' positions are not comparable.

    Args:
        num_heads: Number of attention heads, ``H``.
        sinusoid_dim: Width of the sinusoidal embeddings, ``S``, even; independent of the model's width.

    Raises:
        ConfigError: There is no head, or ``sinusoid_dim`` is odd or not positive.

    Example:
        >>> import torch
        >>> q = torch.zeros(1, 1, 3, 4)
        >>> Sandwich(1, sinusoid_dim=4).score_bias(q, q, torch.arange(3), torch.arange(3))[0, 0, 0]
        tensor([0.2500, 0.1925, 0.0730])
    """

    title = "Sandwich"
    paper = "Chi et al. 2023"

    def __init__(self, num_heads: int, *, sinusoid_dim: int = 128) -> None:
        super().__init__(num_heads)
        if sinusoid_dim < 2 or sinusoid_dim % 2:
            raise ConfigError(
                f"sinusoid_dim of Sandwich must be even and at least 2, because sine and cosine come in pairs; "
                f"got {sinusoid_dim}."
            )
        self.sinusoid_dim = sinusoid_dim
        self._frequencies = Frequencies(geometric_frequencies(sinusoid_dim // 2, 10000.0))

    def bias(self, offsets: Tensor) -> Tensor:
        """Return the compressed inner products in float64; shapes as in :meth:`RelativeBias.bias`."""
        # A compiler counts loops, which would make a graph for each length.
        blocks = [offsets] if torch.compiler.is_compiling() else torch.split(offsets, _OFFSETS_AT_A_TIME)
        products = [self._frequencies.angles(block).cos().sum(-1) for block in blocks]
        return torch.cat(products) / self._ratios(offsets.device).unsqueeze(-1)

    @describes("bias")
    def pair_bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Return the bias of every pair, as products of both positions' sinusoids, which the paper begins with."""
        angles = [self._frequencies.angles(positions) for positions in (q_positions, k_positions)]
        queries, keys = (torch.cat((each.cos(), each.sin()), dim=-1) for each in angles)
        products = (queries @ keys.mT).unsqueeze(-3)
        bias = products / self._ratios(q_positions.device)[:, None, None]
        return bias if bias.dim() == 4 else bias.unsqueeze(0)

    def _ratios(self, device: torch.device) -> Tensor:
        """Return the compression ratios ``r_h``, float64 ``[H]``."""
        return 8 * torch.arange(1, self.num_heads + 1, dtype=torch.float64, device=device) / self.num_heads
