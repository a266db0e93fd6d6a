"""Polar positional embedding, PoPE (Gopalakrishnan et al. 2025)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from locant.positions.registry import register_scheme
from locant.positions.rotary.rotary import Rotary
from locant.positions.scheme import AttentionShape, PositionScheme, Rotation, describes


@register_scheme("pope")
class PoPE(PositionScheme):
    """Gives every feature a magnitude, which is its content, and a phase, which is its position.

    Source: Gopalakrishnan et al. 2025, "Decoupling the 'What' and 'Where' With Polar Coordinate Positional Embeddings",
    section 3. Query and key of feature ``c`` become complex numbers without a sign::

        q_c -> softplus(q_c) e^(i m f_c)                 f_c = base^(-c/D)    c = 0 .. D - 1
        k_c -> softplus(k_c) e^(i (n f_c + delta_c))
        score(m, n) = sum over c of  softplus(q_c) softplus(k_c) cos((n - m) f_c + delta_c)  /  sqrt(D)

    with ``m`` and ``n`` the positions of query and key. In RoPE the signs of a pair's features turn it by content; here
    content and position do not mix, and there is a frequency for each feature instead of each pair.

    Real and imaginary parts make ``2D`` features of queries and keys; values keep theirs. ``rotate`` multiplies queries
    by ``sqrt(2)``, so that products over the square root of the features, as in any attention, are those scores. The
    phase ``delta`` is taken off the query instead of added to the key, which is the same score, so that keys of fewer
    heads (grouped queries) serve as well.

    Parameters, of every layer: ``delta [H, D]``, in radians from ``-2 pi`` to 0, beyond which it is clamped as in the
    paper; 0 at first.

    Where it acts: on queries and keys of self-attention, in encoders and decoders.

    Precision: angles as in :class:`Rotary`; magnitudes in float32 at least.

    Args:
        head_dim: Features of one head, ``D``.
        num_heads: Number of heads of queries, ``H``.
        base: Base of the wavelengths.

    Raises:
        ConfigError: An option is out of range.

    Example:
        >>> import torch
        >>> q, k = PoPE(4, 1).rotate(torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 1, 4), *torch.zeros(2, 1).long())
        >>> q.shape, round((q @ k.mT / 8**0.5).item(), 4)  # 4 softplus(0)^2 / sqrt(4)
        (torch.Size([1, 1, 1, 8]), 0.9609)
    """

    title = "PoPE"
    paper = "Gopalakrishnan et al. 2025"
    per_layer: ClassVar[bool] = True
    traceable = True

    def __init__(self, head_dim: int, num_heads: int, *, base: float = 10000.0) -> None:
        super().__init__()
        self.head_dim, self.num_heads = head_dim, num_heads
        # Complex numbers of D frequencies are turned like the pairs of a head of 2D features.
        self._turns = Rotary(2 * head_dim, base=base)
        self.delta = nn.Parameter(torch.zeros(num_heads, head_dim))

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the heads of a model."""
        return cls(shape.head_dim, shape.num_heads, **options)

    def reset_parameters(self) -> None:
        """Set all phases to 0."""
        nn.init.zeros_(self.delta)

    @describes("rotate")
    def rotation(self, q_positions: Tensor, k_positions: Tensor | None = None) -> Rotation:
        """Return the rotation by the angles of these positions; as :meth:`PositionScheme.rotation`."""
        turn = self._turns.rotation(q_positions, k_positions)
        return lambda q, k: turn(*self._polar(q, k))

    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return complex queries and keys, real parts first.

        Args:
            q: Queries ``[B, H, Q, D]``.
            k: Keys ``[B, H, K, D]``, or of fewer heads.
            q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
            k_positions: Integer positions ``[K]`` or ``[B, K]``.

        Returns:
            Queries and keys of the same dtypes, with ``2D`` features.
        """
        return self._turns.rotate(*self._polar(q, k), q_positions, k_positions)

    def _polar(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return complex queries and keys of position 0."""
        dtype = torch.promote_types(q.dtype, torch.float32)
        magnitude, phase = nn.functional.softplus(q.to(dtype)), self.delta.to(dtype).clamp(-2 * math.pi, 0).unsqueeze(1)
        of_queries = torch.cat((magnitude * phase.cos(), magnitude * -phase.sin()), dim=-1) * math.sqrt(2)
        of_keys = nn.functional.softplus(k.to(dtype))
        return of_queries.to(q.dtype), torch.cat((of_keys, torch.zeros_like(of_keys)), dim=-1).to(k.dtype)
