"""The base class of schemes around another scheme: it acts where that one acts, and is asked what that one is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from torch import Tensor

from locant.positions.registry import build_scheme
from locant.positions.scheme import AttentionShape, PositionScheme, Prepared, Rotation


class SchemeWrapper(PositionScheme):
    """A scheme that hands every hook on to another; a class overrides what it changes.

    Args:
        scheme: The scheme inside.
    """

    def __init__(self, scheme: PositionScheme) -> None:
        super().__init__()
        self.scheme = scheme
        self.acts_on, self.axes, self.reads_state = scheme.acts_on, scheme.axes, scheme.reads_state
        self.head_dim, self.num_heads = scheme.head_dim, scheme.num_heads

    @classmethod
    def for_model(
        cls,
        shape: AttentionShape,
        *,
        scheme: str = "rotary",
        scheme_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """Build the scheme around another that is given by its name and options."""
        return cls(build_scheme(scheme, shape, scheme_options), **options)

    @property
    def packs_texts(self) -> bool:  # type: ignore[override]
        """Whether the mask alone keeps packed texts apart for the wrapped scheme."""
        return self.scheme.packs_texts

    @property
    def traceable(self) -> bool:  # type: ignore[override]
        """Whether the wrapped scheme is."""
        return self.scheme.traceable

    @property
    def bias_reads_content(self) -> bool:
        """Whether the wrapped scheme's bias looks at the keys."""
        return self.scheme.bias_reads_content

    @property
    def caches_unrotated_keys(self) -> bool:
        """Whether the wrapped scheme needs unrotated keys."""
        return self.scheme.caches_unrotated_keys

    @property
    def max_positions(self) -> int | None:
        """Number of positions the wrapped scheme knows."""
        return self.scheme.max_positions

    def reset_parameters(self) -> None:
        """Draw the wrapped scheme's parameters again."""
        self.scheme.reset_parameters()

    def drawn(self, positions: Tensor) -> Tensor:
        """Return the positions that the wrapped scheme draws."""
        return self.scheme.drawn(positions)

    def prepare(self, x: Tensor, positions: Tensor) -> Prepared | None:
        """Let the wrapped scheme read the layer's input."""
        return self.scheme.prepare(x, positions)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Let the wrapped scheme act; shapes as in :meth:`PositionScheme.embed`."""
        return self.scheme.embed(x, positions)

    def rotation(self, q_positions: Tensor, k_positions: Tensor | None = None) -> Rotation:
        """Return the wrapped scheme's rotation."""
        return self.scheme.rotation(q_positions, k_positions)

    def rotate(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, *state: Prepared
    ) -> tuple[Tensor, Tensor]:
        """Let the wrapped scheme rotate; shapes as in :meth:`PositionScheme.rotate`."""
        return self.scheme.rotate(q, k, q_positions, k_positions, *state)

    def query_blocks(self, q_positions: Tensor) -> list[slice]:
        """Return the wrapped scheme's runs of queries."""
        return self.scheme.query_blocks(q_positions)

    def score_bias(
        self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor, *state: Prepared
    ) -> Tensor | None:
        """Return the wrapped scheme's bias; shapes as in :meth:`PositionScheme.score_bias`."""
        return self.scheme.score_bias(q, k, q_positions, k_positions, *state)
