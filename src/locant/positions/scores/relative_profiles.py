"""Relative biases that the hidden state of the query mixes from learned profiles (Inkling)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from locant.errors import ConfigError
from locant.positions.angles import extent
from locant.positions.registry import register_scheme
from locant.positions.relative import place, relative_positions
from locant.positions.scheme import AttentionShape, PositionScheme, Prepared


@register_scheme("relative-profiles")
class RelativeProfiles(PositionScheme):
    """Adds a bias of the distance, which the query's token mixes from profiles that all heads of a layer share.

    Source: Inkling 2026, the language models Inkling and Inkling 2 of Thinking Machines, as transformers has them. With
    ``x_i`` the layer's input, ``W_h`` of each head and ``P`` of the layer::

        r(h, i) = W_h x_i                                                  profiles numbers
        bias(h, i, j) = r(h, i).P[i - j]        for 0 <= i - j < reach, otherwise 0

    Inkling 2 scales ``r`` by a learned vector ``s_h`` and holds its length, and both scale it up at far positions::

        r <- s_h r,  r <- r min(1, clip / (|r| + 1e-6))                    where clip is given
        r <- r (1 + growth log(max((i + 1) / grows_from, 1)))              where grows_from is given

    The models scale their queries like that as well, which is not part of this scheme.

    Parameters, of every layer: ``weight`` ``W [H profiles, E]`` and ``profiles`` ``P [profiles, reach]``, drawn from a
    normal distribution of deviation 0.02, and with ``clip`` also ``scale`` ``s [H, profiles]``, which begins as ones.

    In an encoder keys after the query have no bias. Cross-attention is left alone. Padding cannot leak: a bias depends
    on its own query and distance alone.

    Precision: in float32 (float64 for float64 input) whatever the dtype of the model, also under autocast.

    Args:
        model_dim: Width of the model, ``E``.
        num_heads: Number of heads, ``H``.
        profiles: Number of profiles.
        reach: Distance in tokens from which on there is no bias.
        clip: Longest vector ``r``, ``8.0`` in Inkling 2; any length, and no ``s``, unless given.
        grows_from: Position in tokens from which on ``r`` grows, ``128000`` in Inkling 2; none unless given.
        growth: How fast it does.

    Raises:
        ConfigError: ``profiles`` or ``reach`` is below 1, or ``clip`` or ``grows_from`` not above 0.

    Example:
        >>> import torch
        >>> scheme, x, positions = RelativeProfiles(8, 2, reach=3), torch.randn(1, 5, 8), torch.arange(5)
        >>> q = torch.zeros(1, 2, 5, 4)
        >>> scheme(q, q, positions, state=scheme.prepare(x, positions)).ne(0)[0, 0].int()
        tensor([[1, 0, 0, 0, 0],
                [1, 1, 0, 0, 0],
                [1, 1, 1, 0, 0],
                [0, 1, 1, 1, 0],
                [0, 0, 1, 1, 1]], dtype=torch.int32)
    """

    title = "Relative profiles"
    paper = "Inkling 2026"
    per_layer: ClassVar[bool] = True
    traceable = True

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        *,
        profiles: int = 16,
        reach: int = 1024,
        clip: float | None = None,
        grows_from: int | None = None,
        growth: float = 0.1,
    ) -> None:
        super().__init__()
        for name, value in (("profiles", profiles), ("reach", reach), ("clip", clip), ("grows_from", grows_from)):
            if value is not None and value <= 0:
                raise ConfigError(f"{name} of relative profiles must be above 0; got {value}.")
        self.num_heads, self.reach, self.clip, self.grows_from, self.growth = num_heads, reach, clip, grows_from, growth
        self.weight = nn.Parameter(torch.empty(num_heads * profiles, model_dim))
        self.profiles = nn.Parameter(torch.empty(profiles, reach))
        self.scale = None if clip is None else nn.Parameter(torch.empty(num_heads, profiles))
        self.reset_parameters()

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the width and the heads of a model."""
        return cls(shape.model_dim, shape.num_heads, **options)

    def reset_parameters(self) -> None:
        """Draw weights and profiles from a normal distribution of deviation 0.02, and set the scales to one."""
        nn.init.normal_(self.weight, std=0.02)
        nn.init.normal_(self.profiles, std=0.02)
        if self.scale is not None:
            nn.init.ones_(self.scale)

    def prepare(self, x: Tensor, positions: Tensor) -> Prepared | None:
        """Return ``r``, which queries carry.

        Args:
            x: ``[B, L, E]``.
            positions: Integer positions ``[L]`` or ``[B, L]``.

        Returns:
            ``[B, H, L, profiles]`` for queries, in float32 or float64.
        """
        dtype = torch.promote_types(x.dtype, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            mixed = nn.functional.linear(x.to(dtype), self.weight.to(dtype))
        mixed = mixed.view(*mixed.shape[:-1], -1, len(self.profiles))
        if self.scale is not None and self.clip is not None:
            mixed = mixed * self.scale.to(dtype)
            mixed = mixed * (self.clip / (torch.linalg.vector_norm(mixed, dim=-1, keepdim=True) + 1e-6)).clamp(max=1)
        if self.grows_from is not None:
            grown = ((positions + 1).to(dtype) / self.grows_from).clamp(min=1).log()
            mixed = mixed * (1 + self.growth * grown)[..., None, None]
        return Prepared(queries=mixed.transpose(1, 2))

    def score_bias(  # type: ignore[override]
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, state: Prepared
    ) -> Tensor:
        """Return the bias of every pair; arguments as in :meth:`PositionScheme.score_bias`.

        Returns:
            ``[B, H, Q, K]`` of the dtype of ``q``.
        """
        del k
        assert state.queries is not None
        distance = -relative_positions(q_positions, k_positions)
        size = self.reach
        if not torch.compiler.is_compiling() and distance.numel():
            # No more products than there are distances.
            size = min(size, max(0, extent(q_positions)[1] - extent(k_positions)[0] + 1))
        profiles = nn.functional.pad(self.profiles[:, :size].to(state.queries.dtype), (0, 1))
        with torch.autocast(q.device.type, enabled=False):
            products = state.queries @ profiles
        return place(products.to(q.dtype), torch.where((distance >= 0) & (distance < size), distance, size))
