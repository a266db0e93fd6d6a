"""xPos: rotary embedding with exponential decay (Sun et al. 2022)."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.positions.registry import register_scheme
from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.positions.rotary.rotary import Rotary
from locant.positions.scheme import AttentionShape, Rotation, describes

# Queries attended together: the decay within a block stays far from the limits of every float format.
_BLOCK = 1024


@register_scheme("xpos")
class XPos(Rotary):
    """RoPE whose pairs also fade with distance, the fast ones sooner.

    Source: Sun et al. 2022, "A Length-Extrapolatable Transformer", section 3.2 and Algorithm 1. With ``R`` as in
    :class:`Rotary` and ``z_i = (2i/d + gamma) / (1 + gamma)``::

        q_i -> R(m f_i) q_i * z_i^(m / scale_base)
        k_i -> R(n f_i) k_i * z_i^(-n / scale_base)

    so that the product carries ``z_i^((m - n) / scale_base)``, at most 1 for a key in the past. The powers of single
    positions overflow; here both count from the middle query of a block of 1,024, which leaves their product as it is
    and works at any position. Keys are therefore cached unrotated. A compiled graph has one block for all queries,
    which is good for 128 ``scale_base`` tokens, in float16 for 16: beyond, powers overflow.

    Where it acts: on queries and keys of a decoder's self-attention. The paper has no decay for keys that come after
    their query: in an encoder the decay is left out and the scheme is plain RoPE.

    Args:
        head_dim: Features of one head, ``D``.
        base: Base of the wavelengths.
        rotary_dim: Number of leading features that are rotated, even; all when ``None``.
        layout: ``half`` or ``interleaved``.
        gamma: Sets how much the fastest pair fades; the paper uses 0.4.
        scale_base: Tokens over which the decay ``z_i`` acts once; the paper uses 512.
        causal: Whether queries see only keys up to their own position.

    Raises:
        ConfigError: An option is out of range.

    Example:
        >>> import torch
        >>> ones = torch.ones(1, 1, 1, 2)
        >>> q, k = XPos(2).rotate(ones, ones, torch.tensor([512]), torch.tensor([0]))
        >>> round((q * k).sum().item() / (2 * torch.cos(torch.tensor(512.0))).item(), 6)  # 0.4 / 1.4
        0.285714
    """

    title = "xPos"
    paper = "Sun et al. 2022"

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        layout: RotaryLayout = "half",
        gamma: float = 0.4,
        scale_base: float = 512.0,
        causal: bool = True,
    ) -> None:
        super().__init__(head_dim, base=base, rotary_dim=rotary_dim, layout=layout)
        if not gamma > 0 or not scale_base > 0:
            raise ConfigError(f"gamma and scale_base of xPos must be above 0; got {gamma} and {scale_base}.")
        self.gamma = gamma
        self.scale_base = scale_base
        self.causal = causal
        self._pairs = len(self.config.frequencies())

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the heads of a model."""
        return cls(shape.head_dim, **{"causal": shape.causal, **options})

    @property
    @describes("embed", "rotate", "rotation", "score_bias", "sine_cosine")
    def rotary_config(self) -> RotaryConfig | None:
        """The configuration of the rotation where there is no decay."""
        return None if self.causal else self.config

    @property
    def caches_unrotated_keys(self) -> bool:
        """Whether there is decay, which counts from the query."""
        return self.causal

    def query_blocks(self, q_positions: Tensor) -> list[slice]:
        """Return blocks of 1,024 queries, or all at once without decay and under a compiler."""
        if not self.causal or torch.compiler.is_compiling():
            return super().query_blocks(q_positions)
        count = q_positions.shape[-1]
        return [slice(start, min(start + _BLOCK, count)) for start in range(0, count, _BLOCK)] or [slice(0, 0)]

    def _turn(self, q_positions: Tensor, k_positions: Tensor | None) -> Rotation:
        turn = super()._turn(q_positions, k_positions)
        if not self.causal or q_positions.shape[-1] == 0:
            return turn
        keys = q_positions if k_positions is None else k_positions
        # Half of the queries fade and half grow: a block has as many tokens as float formats allow.
        low, high = q_positions.long().amin(dim=-1, keepdim=True), q_positions.long().amax(dim=-1, keepdim=True)
        middle = low + (high - low) // 2
        of_queries = self._powers(q_positions - middle)
        # Keys after the last query are seen by none; without the limit their power could overflow.
        of_keys = self._powers(middle - keys.minimum(high))

        def rotation(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
            q, k = turn(q, k)
            return self._faded(q, of_queries), self._faded(k, of_keys)

        return rotation

    def _powers(self, tokens: Tensor) -> Tensor:
        """Return ``z^(tokens / scale_base)`` for each rotated feature, ``tokens [L]`` or ``[B, L]``."""
        share = torch.arange(self._pairs, dtype=torch.float64, device=tokens.device) / self._pairs
        decay = ((share + self.gamma) / (1 + self.gamma)).log() / self.scale_base
        power = (tokens.unsqueeze(-1) * decay).exp().to(torch.float32)
        is_half = self.config.layout == "half"
        power = torch.cat((power, power), dim=-1) if is_half else power.repeat_interleave(2, dim=-1)
        return power.unsqueeze(1) if power.dim() == 3 else power

    def _faded(self, x: Tensor, power: Tensor) -> Tensor:
        """Multiply the rotated features of ``x [B, H, L, D]``."""
        faded = (x[..., : 2 * self._pairs] * power).to(x.dtype)
        return torch.cat((faded, x[..., 2 * self._pairs :]), dim=-1)
