"""What a scheme tells a model, read through its three hooks with fixed contents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from locant.errors import LocantError
from locant.positions.registry import build_scheme
from locant.positions.scheme import AttentionShape

Place = Literal["embedding", "queries+keys", "scores"]

# Different contents, so that one that happens to be blind to a distance is not taken for the scheme's blindness.
_CONTENTS = 4
_SEED = 0
_SAMPLES = 256
# Spread given to parameters that start at zero, as training would.
_TRAINED_SPREAD = 0.1


class Probe:
    """A scheme with parameters drawn from a fixed seed, and fixed contents to ask it with.

    Args:
        name: A key of :data:`~locant.positions.SCHEMES`.
        shape: Dimensions of the model.
        options: The scheme's options.
    """

    def __init__(self, name: str, shape: AttentionShape, options: Mapping[str, Any] | None = None) -> None:
        self.shape = shape
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(_SEED)
            self.scheme = build_scheme(name, shape, options).eval()
            for parameter in self.scheme.parameters():
                if not parameter.any():
                    parameter.normal_(std=_TRAINED_SPREAD)
            content = torch.randn(2, _CONTENTS, shape.num_heads, 1, shape.head_dim)
        self._query, self._key = content
        self.places = self._places()

    @property
    def touches_embedding(self) -> bool:
        """Whether the scheme acts at the embedding."""
        return "embedding" in self.places

    @property
    def touches_attention(self) -> bool:
        """Whether the scheme acts on queries and keys or on scores."""
        return len(self.places) > self.touches_embedding

    @property
    def turned(self) -> float:
        """By how much rotations that keep lengths can change a score at most, 0 without rotations."""
        if "queries+keys" not in self.places:
            return 0.0
        return float(2 * (self._query.norm(dim=-1) * self._key.norm(dim=-1)).max()) / math.sqrt(self.shape.head_dim)

    def codes(self, positions: Tensor) -> Tensor:
        """Return what is added to the embeddings at positions ``[L]``, float64 ``[L, E]``."""
        with torch.no_grad():
            return self.scheme.embed(torch.zeros(1, len(positions), self.shape.model_dim), positions)[0].double()

    def scores(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Return by how much positions change the scaled scores of fixed contents.

        Args:
            q_positions: Integer positions ``[Q]``; every query has the same content.
            k_positions: Integer positions ``[K]``; every key has the same content.

        Returns:
            Float64 ``[C, Q, K]``, for every content and head: rotated dot product minus the plain one, plus the bias.
        """
        k = self._key.expand(-1, -1, len(k_positions), -1)
        plain = (self._query.double() * self._key.double()).sum(-1, keepdim=True)
        parts = []
        with torch.no_grad():
            # A forward pass begins at the embedding, where some schemes draw what its attention uses.
            self.scheme.embed(torch.zeros(1, len(k_positions), self.shape.model_dim), k_positions)
            for block in self.scheme.query_blocks(q_positions):
                positions = q_positions[block]
                q = self._query.expand(-1, -1, len(positions), -1)
                rotated_q, rotated_k = self.scheme.rotate(q, k, positions, k_positions)
                change = torch.zeros(*q.shape[:3], len(k_positions), dtype=torch.float64)
                if rotated_q is not q or rotated_k is not k:
                    change += (rotated_q.double() @ rotated_k.double().mT - plain) / math.sqrt(self.shape.head_dim)
                bias = self.scheme.score_bias(q, k, positions, k_positions)
                parts.append(change if bias is None else change + bias.double())
        change = torch.cat(parts, dim=2)
        return change.flatten(0, 1)

    def sample(self, length: int) -> Tensor:
        """Return codes and scores of positions below ``length``, the last included, float64, flat."""
        positions = torch.linspace(0, length - 1, _SAMPLES, dtype=torch.float64).round().long()
        parts = [torch.zeros(1, dtype=torch.float64)]
        if self.touches_embedding:
            parts.append(self.codes(positions).flatten())
        if self.touches_attention:
            parts.append(self.scores(positions[-1:], positions).flatten())
        return torch.cat(parts)

    def longest(self, most: int) -> int:
        """Return the longest text in tokens, up to ``most``, that the scheme is defined for.

        Its own limit and powers of two are tried.
        """
        limit = self.scheme.max_positions
        lengths = [1 << power for power in range(1, most.bit_length())]
        if limit is not None and limit < most:
            lengths.append(limit)
        return next((length for length in sorted(lengths, reverse=True) if self._is_defined(length)), 0)

    def _is_defined(self, length: int) -> bool:
        try:
            return bool(torch.isfinite(self.sample(length)).all())
        except LocantError:
            return False

    def _places(self) -> tuple[Place, ...]:
        positions = torch.arange(5, 9)
        x = torch.zeros(1, 4, self.shape.model_dim)
        q, k = self._query.expand(-1, -1, 4, -1), self._key.expand(-1, -1, 4, -1)
        with torch.no_grad():
            rotated = self.scheme.rotate(q, k, positions, positions)
            acts: dict[Place, bool] = {
                "embedding": not torch.equal(self.scheme.embed(x, positions), x),
                "queries+keys": not (torch.equal(rotated[0], q) and torch.equal(rotated[1], k)),
                "scores": self.scheme.score_bias(q, k, positions, positions) is not None,
            }
        return tuple(place for place, touched in acts.items() if touched)
