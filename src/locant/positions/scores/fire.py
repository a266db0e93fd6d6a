"""FIRE: functional interpolation for relative position encodings (Li et al. 2024)."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from locant.errors import ConfigError
from locant.positions.angles import extent
from locant.positions.registry import register_scheme
from locant.positions.relative import RelativeBias, at_least_float32, relative_positions
from locant.positions.scheme import describes

# Pairs of positions whose hidden units are held in memory at a time.
_PAIRS_AT_A_TIME = 1 << 17


@register_scheme("fire")
class FIRE(RelativeBias):
    """Adds a small trained network's function of the distance, relative to how far into the text the pair is.

    Source: Li et al. 2024, "Functional Interpolation for Relative Positions Improves Long Context Transformers",
    section 3.2, equation 5, and the Python listing of the appendix::

        bias(i, j) = f(psi(|i - j|) / psi(max(L, i, j)))        psi(x) = log(c x + 1)

    for the query at position ``i`` and the key at ``j``, counted from 0; ``f`` is a network from one number through
    ``hidden`` rectified units to ``H`` numbers; ``c > 0`` and the threshold ``L > 0`` are trained (as ``log c`` and as
    the logarithm of ``L`` over its initial value), and all are a layer's own. The paper divides by ``psi(max(L, i))``,
    in decoders, where ``j <= i`` and both are the same. Taking the later of the two positions extends it to encoders:
    the argument of ``f`` stays between 0 and 1, and does not depend on the padded length. There the bias is symmetric,
    so that a head alone does not distinguish left from right. For cross-attention the paper defines none.

    Adding a constant to all positions changes nothing as long as none is beyond ``L``; farther on the bias depends on
    the absolute positions, by design.

    Shapes and dtypes as in :meth:`RelativeBias.score_bias`; computed in float32, also under autocast, or in float64
    when the parameters are. When no position is beyond ``L`` one row of values serves all pairs. Otherwise every pair
    is computed, a block of queries at a time, and once more in the backward pass, so that hidden units of all pairs are
    never held in memory; the peak is twice the result. Under a compiler, which cannot know where positions are, every
    pair is computed at once.

    Args:
        num_heads: Number of attention heads, ``H``.
        hidden: Number of hidden units.
        threshold: Initial ``L``, in tokens.
        log_scale: Initial ``c``, per token.

    Raises:
        ConfigError: There is no head or no hidden unit, or ``threshold`` or ``log_scale`` is not positive.

    Example:
        >>> import torch
        >>> scheme, q = FIRE(4), torch.zeros(1, 4, 3, 8)
        >>> scheme.score_bias(q, q, torch.arange(3), torch.arange(3)).shape
        torch.Size([1, 4, 3, 3])
    """

    title = "FIRE"
    paper = "Li et al. 2024"
    per_layer: ClassVar[bool] = True

    def __init__(self, num_heads: int, *, hidden: int = 32, threshold: float = 512.0, log_scale: float = 0.1) -> None:
        super().__init__(num_heads)
        if hidden < 1:
            raise ConfigError(f"hidden of FIRE must be at least 1; got {hidden}.")
        for name, value in (("threshold", threshold), ("log_scale", log_scale)):
            if not 0 < value < math.inf:
                raise ConfigError(f"{name} of FIRE must be positive and finite; got {value}.")
        self.initial_threshold = threshold
        self.initial_log_scale = log_scale
        self.raw_threshold = nn.Parameter(torch.empty(()))
        self.raw_log_scale = nn.Parameter(torch.empty(()))
        self.hidden = nn.Linear(1, hidden)
        self.output = nn.Linear(hidden, num_heads)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the network as torch draws linear layers; set ``c`` and ``L`` to their initial values."""
        nn.init.zeros_(self.raw_threshold)
        nn.init.constant_(self.raw_log_scale, math.log(self.initial_log_scale))
        self.hidden.reset_parameters()
        self.output.reset_parameters()

    @property
    def threshold(self) -> Tensor:
        """``L`` in tokens, a scalar in float32 or float64."""
        return at_least_float32(self.raw_threshold).exp() * self.initial_threshold

    def bias(self, offsets: Tensor) -> Tensor:
        """Return the bias of positions not beyond ``L``; shapes as in :meth:`RelativeBias.bias`."""
        return self._interpolate(offsets.abs(), self.threshold)

    @describes("bias")
    def is_relative(self, q_positions: Tensor, k_positions: Tensor) -> bool:
        """Return whether no position is beyond ``L``; a compiler cannot know."""
        if torch.compiler.is_compiling():
            return False
        farthest = [extent(positions)[1] for positions in (q_positions, k_positions) if positions.numel()]
        return bool(max(farthest, default=0) <= self.threshold)

    @describes("bias")
    def pair_bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Return the bias of every pair; as :meth:`RelativeBias.pair_bias`."""
        if torch.compiler.is_compiling():
            return self._pairs(q_positions, k_positions)
        pairs_of_a_query = max(1, relative_positions(q_positions[..., :1], k_positions).numel())
        blocks = [
            checkpoint(self._pairs, block, k_positions, use_reentrant=False, preserve_rng_state=False)
            for block in torch.split(q_positions, max(1, _PAIRS_AT_A_TIME // pairs_of_a_query), dim=-1)
        ]
        return torch.cat(blocks, dim=-2)

    def _pairs(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Return the bias ``[B or 1, H, Q, K]`` of every pair, each with the normalizer of its own positions."""
        distances = relative_positions(q_positions, k_positions).abs()
        later = torch.maximum(q_positions.long().unsqueeze(-1), k_positions.long().unsqueeze(-2))
        normalizers = torch.maximum(later.to(self.threshold.dtype), self.threshold)
        values = self._interpolate(distances.flatten(), normalizers.flatten())
        values = values.view(self.num_heads, *distances.shape)
        return values.unsqueeze(0) if distances.dim() == 2 else values.transpose(0, 1)

    def _interpolate(self, distances: Tensor, normalizers: Tensor) -> Tensor:
        """Return ``f(psi(distance) / psi(normalizer))`` as ``[H, n]``, for distances ``[n]``."""
        # In half precision neighbouring distances would have the same argument.
        with torch.autocast(distances.device.type, enabled=False):
            c = at_least_float32(self.raw_log_scale).exp()
            x = torch.log1p(c * distances) / torch.log1p(c * normalizers)
            units = torch.addcmul(_column(self.hidden.bias), at_least_float32(self.hidden.weight), x.unsqueeze(0))
            return torch.addmm(_column(self.output.bias), at_least_float32(self.output.weight), units.relu_())


def _column(bias: Tensor) -> Tensor:
    return at_least_float32(bias).unsqueeze(-1)
