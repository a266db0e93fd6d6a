"""Score-side methods that read long texts with a trained RoPE: far keys are seen at distances that were trained."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.positions.registry import register_scheme
from locant.positions.rotary.config import RotaryLayout
from locant.positions.rotary.rotary import Rotary


class _NearAndFar(Rotary):
    """RoPE for keys nearer than ``window`` tokens and another rotation for the others.

    Queries and keys are rotated as RoPE does; what is added to a far key's score is the difference between the score
    of the other rotation and RoPE's. Keys are cached unrotated.
    """

    def __init__(self, head_dim: int, window: int, base: float, rotary_dim: int | None, layout: RotaryLayout) -> None:
        super().__init__(head_dim, base=base, rotary_dim=rotary_dim, layout=layout)
        if window < 1:
            raise ConfigError(f"window must be at least 1 token; got {window}.")
        self.window = window

    @property
    def caches_unrotated_keys(self) -> bool:
        """Keys are needed as they were before rotation."""
        return True

    @abstractmethod
    def far_positions(self, q_positions: Tensor, k_positions: Tensor, *, behind: bool) -> tuple[Tensor, Tensor]:
        """Return the positions that queries and far keys take, behind the query or ahead of it."""

    def score_bias(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor | None:
        """Return the far keys' change of score; shapes as in :meth:`PositionScheme.score_bias`."""
        distance = q_positions.unsqueeze(-1) - k_positions.unsqueeze(-2)
        traced = torch.compiler.is_compiling()  # a compiler cannot know whether there are far keys
        if not traced and (not distance.numel() or int(distance.abs().max()) < self.window):
            return None
        far = distance.abs() >= self.window
        near_score = self._score(q, k, q_positions, k_positions)
        bias = torch.zeros_like(near_score)
        for behind in (True, False):
            chosen = far & ((distance > 0) if behind else (distance < 0))
            if traced or bool(chosen.any()):
                score = self._score(q, k, *self.far_positions(q_positions, k_positions, behind=behind))
                chosen = chosen if chosen.dim() == 2 else chosen.unsqueeze(1)
                bias = torch.where(chosen, score - near_score, bias)
        return bias

    def _score(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        wide = torch.promote_types(q.dtype, torch.float32)
        q, k = self.rotate(q.to(wide), k.to(wide), q_positions, k_positions)
        with torch.autocast(q.device.type, enabled=False):
            return q @ k.mT * q.shape[-1] ** -0.5


@register_scheme("self-extend")
class SelfExtend(_NearAndFar):
    """Groups the positions of far keys, so that no distance exceeds those the model was trained on.

    Source: Jin et al. 2024, "LLM Maybe LongLM: Self-Extend LLM Context Window Without Tuning", section 3.2, equations
    3 and 4. With ``m`` and ``n`` the positions of query and key, ``G`` the group and ``w`` the window, RoPE sees::

        m - n                                     where m - n < w
        floor(m/G) - floor(n/G) + w - floor(w/G)  elsewhere

    Where it acts: on a decoder's self-attention of a trained RoPE model; it has no parameters. In an encoder keys ahead
    are treated as those behind. Cross-attention is left alone.

    Args:
        head_dim: Features of one head, ``D``.
        group: Tokens that share a position far away, ``G``.
        window: Distance in tokens from which on positions are grouped, ``w``.
        base: Base of the wavelengths.
        rotary_dim: Number of leading features that are rotated, even; all when ``None``.
        layout: ``half`` or ``interleaved``.

    Raises:
        ConfigError: ``group`` or ``window`` is not positive.

    Example:
        >>> import torch
        >>> scheme = SelfExtend(2, group=4, window=8)
        >>> q, k = torch.randn(1, 1, 1, 2), torch.randn(1, 1, 1, 2)
        >>> scheme.score_bias(q, k, torch.tensor([7]), torch.tensor([0])) is None
        True
    """

    title = "Self-Extend"
    paper = "Jin et al. 2024"

    def __init__(
        self,
        head_dim: int,
        *,
        group: int = 8,
        window: int = 1024,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        layout: RotaryLayout = "half",
    ) -> None:
        super().__init__(head_dim, window, base, rotary_dim, layout)
        if group < 1:
            raise ConfigError(f"group must be at least 1 token; got {group}.")
        self.group = group

    def far_positions(self, q_positions: Tensor, k_positions: Tensor, *, behind: bool) -> tuple[Tensor, Tensor]:
        """Return grouped positions, the queries' shifted so that the distances join those of the window."""
        shift = self.window - self.window // self.group
        queries = torch.div(q_positions.long(), self.group, rounding_mode="floor") + (shift if behind else -shift)
        return queries, torch.div(k_positions.long(), self.group, rounding_mode="floor")


@register_scheme("rerope")
class RectifiedRotary(_NearAndFar):
    """ReRoPE: all keys farther than a window are seen at the distance of the window.

    Source: Su 2023, "Transformer Upgrade Path 12: Infinite Extrapolation of ReRoPE" (kexue.fm 9708). RoPE sees the
    distance ``min(m - n, window)``.

    Where it acts: on a decoder's self-attention of a trained RoPE model; it has no parameters. In an encoder keys ahead
    are treated as those behind. Cross-attention is left alone.

    Args:
        head_dim: Features of one head, ``D``.
        window: Largest distance in tokens.
        base: Base of the wavelengths.
        rotary_dim: Number of leading features that are rotated, even; all when ``None``.
        layout: ``half`` or ``interleaved``.

    Raises:
        ConfigError: ``window`` is not positive.

    Example:
        >>> import torch
        >>> scheme = RectifiedRotary(2, window=8)
        >>> q, k = torch.randn(1, 1, 1, 2), torch.randn(1, 1, 2, 2)
        >>> scheme.score_bias(q, k, torch.tensor([10]), torch.tensor([0, 9])).shape
        torch.Size([1, 1, 1, 2])
    """

    title = "ReRoPE"
    paper = "Su 2023"

    def __init__(
        self,
        head_dim: int,
        *,
        window: int = 1024,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        layout: RotaryLayout = "half",
    ) -> None:
        super().__init__(head_dim, window, base, rotary_dim, layout)

    def far_positions(self, q_positions: Tensor, k_positions: Tensor, *, behind: bool) -> tuple[Tensor, Tensor]:
        """Return a constant distance: all queries at the window, all keys at 0."""
        return torch.full_like(q_positions, self.window if behind else -self.window), torch.zeros_like(k_positions)
