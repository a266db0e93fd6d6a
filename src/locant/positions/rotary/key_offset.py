"""Partial key offset: half-truncated RoPE whose unrotated key features are those of the token before."""

from __future__ import annotations

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.positions.registry import register_scheme
from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.positions.rotary.rotary import Rotary
from locant.positions.scheme import Rotation, describes


@register_scheme("key-offset")
class PartialKeyOffset(Rotary):
    """RoPE of some features; the keys' other features are those of the token before.

    Source: Jordan et al. 2024, "modded-nanogpt: Speedrunning the NanoGPT baseline", which has it in the layers with
    long windows, with half of the features rotated::

        q_i -> ( R(i f) q_i[:r],   q_i[r:] )                          i, j the indices of query and key
        k_j -> ( R(j f) k_j[:r],   k_(j-1)[r:] )                      r = rotary_dim

    A query that looks for a token finds the one after it, in one layer: what came next when this was here before.
    The first token of a text, and of each text packed in one row, keeps its own features. A text begins where a
    position is not above that of the token before, which is also so after padding on the left.

    The slowest pair of modded-nanogpt has the frequency 1/1024: ``base = 1024^(n / (n - 1))``, ``n = rotary_dim / 2``.

    Where it acts: on queries and keys of self-attention, in decoders and encoders. Tokens must be in the order
    of their positions. Keys are cached unrotated.

    Args:
        head_dim: Features of one head, ``D``.
        base: Base of the wavelengths.
        rotary_dim: Number of leading features that are rotated, even and below ``D``; half of them when ``None``.
        layout: ``half`` or ``interleaved``.

    Raises:
        ConfigError: An option is out of range, or all features are rotated.

    Example:
        >>> import torch
        >>> k = torch.arange(3.0).view(1, 1, 3, 1).expand(1, 1, 3, 4)
        >>> PartialKeyOffset(4).rotate(k, k, torch.arange(3), torch.arange(3))[1][0, 0, :, 2:].tolist()
        [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    """

    title = "Partial key offset"
    paper = "Jordan et al. 2024"

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        layout: RotaryLayout = "half",
    ) -> None:
        rotated = head_dim // 2 if rotary_dim is None else rotary_dim
        if rotated >= head_dim:
            raise ConfigError(
                f"A key offset moves the features that are not rotated, and of {head_dim} features rotary_dim "
                f"{rotated} leaves none. Give a smaller rotary_dim."
            )
        super().__init__(head_dim, base=base, rotary_dim=rotated, layout=layout)
        self._rotated = rotated

    @property
    @describes("embed", "rotate", "rotation", "score_bias")
    def rotary_config(self) -> RotaryConfig | None:
        """There is none: it does more than rotate."""
        return None

    @property
    def caches_unrotated_keys(self) -> bool:
        """The next token's key needs this one's features."""
        return True

    def _turn(self, q_positions: Tensor, k_positions: Tensor | None) -> Rotation:
        turn = super()._turn(q_positions, k_positions)
        keys = q_positions if k_positions is None else k_positions
        follows = keys > keys.roll(1, dims=-1)
        follows = (follows & (torch.arange(keys.shape[-1], device=keys.device) > 0)).unsqueeze(-1)
        follows = follows.unsqueeze(1) if follows.dim() == 3 else follows

        def rotation(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
            own = k[..., self._rotated :]
            q, k = turn(q, k)
            return q, torch.cat((k[..., : self._rotated], torch.where(follows, own.roll(1, dims=2), own)), dim=-1)

        return rotation
