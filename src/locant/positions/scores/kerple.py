"""KERPLE: kernelized relative position embeddings (Chi et al. 2022)."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from locant.positions.registry import register_scheme
from locant.positions.relative import RelativeBias, at_least_float32
from locant.positions.scheme import require_choice

KERPLEKind = Literal["logarithmic", "power"]

# The authors' code keeps every parameter at or above this.
_SMALLEST = 0.01


@register_scheme("kerple")
class KERPLE(RelativeBias):
    """Lowers scores by a trained, conditionally positive definite kernel of the distance.

    Source: Chi et al. 2022, "KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation", section 4,
    for the query at position ``i`` and the key at ``j``::

        logarithmic:  bias(i, j) = -r1 log(1 + r2 |i - j|)        r1, r2 > 0
        power:        bias(i, j) = -r1 |i - j|^r2                 r1 > 0, 0 < r2 <= 2

    with ``r1`` and ``r2`` for each head, shared by the layers of a stack (``2 H`` parameters; figure 1). The power
    kernel with ``r2 = 1`` is ALiBi with trained slopes. The constraints, which make the kernel conditionally positive
    definite, hold by construction: trained are ``log r1`` and ``log r2``, or ``logit(r2 / 2)`` of the power kernel,
    where the authors' code clamps the values themselves at 0.01 in each step. Initial values are drawn as in that code:
    the factor of the logarithm and the exponent of the power uniformly from 0 to 2, the others from 0 to 1.

    Shapes and dtypes as in :meth:`RelativeBias.score_bias`; computed in float32, or float64 when the parameters are.

    The paper has decoders. The bias is symmetric, so that an encoder's head alone does not distinguish left from right.
    For cross-attention the paper defines none, and two texts' positions are not comparable.

    Args:
        num_heads: Number of attention heads, ``H``.
        kind: ``logarithmic`` (the paper's better one) or ``power``.

    Raises:
        ConfigError: There is no head, or the kind is unknown.

    Example:
        >>> import torch
        >>> scheme, q = KERPLE(2), torch.zeros(1, 2, 3, 4)
        >>> scheme.set_kernel(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))
        >>> scheme.score_bias(q[:, :, :1], q, torch.tensor([2]), torch.arange(3))[0, :, 0].detach()
        tensor([[-1.0986, -0.6931, -0.0000],
                [-2.1972, -1.3863, -0.0000]])
    """

    title = "KERPLE"
    paper = "Chi et al. 2022"

    def __init__(self, num_heads: int, *, kind: KERPLEKind = "logarithmic") -> None:
        super().__init__(num_heads)
        require_choice("kind of KERPLE", kind, get_args(KERPLEKind))
        self.kind: KERPLEKind = kind
        self.raw_r1 = nn.Parameter(torch.empty(num_heads))
        self.raw_r2 = nn.Parameter(torch.empty(num_heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw ``r1`` and ``r2`` uniformly, from the ranges of the authors' code."""
        lower, upper = (torch.rand(self.num_heads, device=self.raw_r1.device) for _ in range(2))
        r1, r2 = (2 * lower, upper) if self.kind == "logarithmic" else (lower, 2 * upper)
        self.set_kernel(r1.clamp(min=_SMALLEST), r2.clamp(min=_SMALLEST))

    @torch.no_grad()
    def set_kernel(self, r1: Tensor, r2: Tensor) -> None:
        """Set the values of ``r1`` and ``r2``, each ``[H]`` and positive (``r2`` of the power kernel below 2)."""
        self.raw_r1.copy_(r1.log())
        self.raw_r2.copy_(r2.log() if self.kind == "logarithmic" else (r2 / 2).logit())

    def kernel(self) -> tuple[Tensor, Tensor]:
        """Return ``r1`` and ``r2``, each ``[H]``, in float32 or float64."""
        raw_r2 = at_least_float32(self.raw_r2)
        r2 = raw_r2.exp() if self.kind == "logarithmic" else 2 * raw_r2.sigmoid()
        return at_least_float32(self.raw_r1).exp(), r2

    def bias(self, offsets: Tensor) -> Tensor:
        """Return the kernel of the distances; shapes as in :meth:`RelativeBias.bias`."""
        r1, r2 = (value.unsqueeze(-1) for value in self.kernel())
        distance = offsets.abs().to(r1.dtype)
        return -r1 * (torch.log1p(r2 * distance) if self.kind == "logarithmic" else distance**r2)
