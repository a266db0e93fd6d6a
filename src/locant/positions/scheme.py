"""What a positional scheme is: the three places where a Transformer can be told where a token stands.

Notation used throughout the room:
    B batch, H heads, L sequence length, Q and K numbers of queries and keys, D features of a head, E model width.

Positions are integer tensors, counted in tokens from 0, of shape ``[L]`` (the same for every row) or ``[B, L]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from locant.errors import ConfigError, nearest


@dataclass(frozen=True)
class AttentionShape:
    """The dimensions of a model that a scheme may depend on.

    Attributes:
        model_dim: Width of the model, ``E``.
        num_heads: Number of attention heads, ``H``; each has ``D = E / H`` features.
        causal: Whether queries see only keys at or before their own index (a decoder's self-attention).
    """

    model_dim: int
    num_heads: int
    causal: bool

    @property
    def head_dim(self) -> int:
        """Features of one head, ``D``."""
        return self.model_dim // self.num_heads


class PositionScheme(nn.Module):
    """A positional scheme: overrides the places where it acts and leaves the others alone.

    A constructor takes the dimensions as positional arguments and its options as keyword-only arguments; the
    registry reads the option names from there.
    """

    per_layer: ClassVar[bool] = False
    """Whether every layer has an instance (and parameters) of its own; otherwise a stack's layers share one."""

    @property
    def caches_unrotated_keys(self) -> bool:
        """Whether a key's rotation depends on the query that sees it, so that a cache must keep keys unrotated."""
        return False

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for one stack of a model.

        Args:
            shape: The dimensions of the stack's self-attention.
            options: The scheme's own keyword-only options.

        Raises:
            ConfigError: An option's value is out of range, or contradicts the dimensions.
        """
        del shape
        return cls(**options)

    def reset_parameters(self) -> None:
        """Draw the scheme's parameters anew; a scheme without parameters has nothing to do."""

    @property
    def max_positions(self) -> int | None:
        """Number of positions the scheme knows (0 up to one less), or ``None`` when there is no limit."""
        return None

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Tell the input embeddings where they stand.

        Args:
            x: Token embeddings ``[B, L, E]``, any floating dtype.
            positions: Integer positions ``[L]`` or ``[B, L]``.

        Returns:
            Embeddings ``[B, L, E]`` of the dtype of ``x``.
        """
        del positions
        return x

    def rotate(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor]:
        """Tell queries and keys where they stand.

        Args:
            q: Queries ``[B, H, Q, D]``.
            k: Keys ``[B, H, K, D]``.
            q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
            k_positions: Integer positions ``[K]`` or ``[B, K]``.

        Returns:
            Queries and keys of the same shapes and dtypes.
        """
        del q_positions, k_positions
        return q, k

    def query_blocks(self, q_positions: Tensor) -> list[slice]:
        """Return the runs of queries that :meth:`rotate` can serve together with one rotation of the keys.

        One run is the rule. A scheme whose frequencies depend on how much text a query has before it returns several,
        and attention takes them one after the other; that is what makes a full pass equal token by token decoding.

        Args:
            q_positions: Integer positions ``[Q]`` or ``[B, Q]``.

        Returns:
            Slices of the queries' axis that together cover it, in order.
        """
        return [slice(0, q_positions.shape[-1])]

    def score_bias(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor | None:
        """Return what is added to the scaled attention scores.

        Args:
            q: Queries ``[B, H, Q, D]``, before :meth:`rotate`.
            k: Keys ``[B, H, K, D]``, before :meth:`rotate`.
            q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
            k_positions: Integer positions ``[K]`` or ``[B, K]``.

        Returns:
            A tensor that broadcasts to ``[B, H, Q, K]``, or ``None`` when the scheme adds nothing.
        """
        del q, k, q_positions, k_positions
        return None

    def score_features(self, q: Tensor, k: Tensor, k_positions: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the bias of causal self-attention as products of further features, where it can be said that way.

        Then no bias has to exist for any pair. What depends on the query alone may be left out: the softmax ignores it.

        Args:
            q: Queries ``[B, H, L, D]``.
            k: Keys ``[B, H, L, D]`` at the same positions.
            k_positions: Integer positions ``[L]`` or ``[B, L]``.

        Returns:
            Features ``[B, H, L, N]`` of queries and of keys, in the dtype of ``q``, whose products are added to those
            of ``q`` and ``k`` before these are scaled, or ``None``, which is the rule.
        """
        del q, k, k_positions
        return None


def require_choice(option: str, value: str, known: tuple[str, ...]) -> None:
    """Raise ConfigError unless the value of an option is one of the known ones."""
    if value not in known:
        raise ConfigError(f"Unknown {option} '{value}'.{nearest(str(value), known)} Known: {', '.join(known)}.")
