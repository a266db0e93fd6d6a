"""The base class of schemes at the input embedding: a code of every position, added or concatenated."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, Self, get_args

import torch
from torch import Tensor

from locant.errors import ConfigError, DataError
from locant.positions.angles import extent, require_integer
from locant.positions.scheme import AttentionShape, PositionScheme, describes, require_choice

Combination = Literal["add", "concatenate"]


class PositionCode(PositionScheme):
    """A scheme that gives every position a vector and combines it with the token's embedding.

    ``add`` is what the papers do: ``x + code``. With ``concatenate`` the code takes the place of the last ``features``
    of ``x``, so that the width of the model stays ``E`` and a token keeps ``E - features`` of its own.

    Args:
        dim: Width of the model, ``E``.
        combine: ``add`` or ``concatenate``.
        features: Width of the code, ``P``. When added, ``E`` unless given; when concatenated, a quarter of ``E``.

    Raises:
        ConfigError: The combination is unknown or the code is wider than the model.
    """

    def __init__(self, dim: int, combine: Combination, features: int | None) -> None:
        super().__init__()
        require_choice("combine", combine, get_args(Combination))
        self.dim = dim
        self.combine = combine
        self.features = features or (dim if combine == "add" else max(2, dim // 8 * 2))
        if self.features < 1 or self.features > dim:
            raise ConfigError(
                f"A position code of {self.features} features does not fit a model of width {dim}. "
                f"Give a width of 1 to {dim}."
            )

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the width of a model."""
        return cls(shape.model_dim, **options)

    @abstractmethod
    def encode(self, positions: Tensor) -> Tensor:
        """Return the codes ``[..., P]`` of integer positions ``[...]``.

        Raises:
            ConfigError: The positions are not integers.
            DataError: A position is outside what the scheme knows.
        """

    @describes("embed")
    def code(self, positions: Tensor) -> Tensor | None:
        """Return the codes ``[..., E]`` where they are added to all features of the embeddings, else ``None``."""
        return self.encode(positions) if self.combine == "add" and self.features == self.dim else None

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Combine ``x [B, L, E]`` with the codes of ``positions``; shapes as in :meth:`PositionScheme.embed`.

        Raises:
            ConfigError: ``x`` has another width than the scheme was built for.
        """
        if x.shape[-1] != self.dim:
            raise ConfigError(f"The embeddings have {x.shape[-1]} features but the scheme was built for {self.dim}.")
        code = self.encode(positions)
        if self.combine == "concatenate":
            own = x[..., : self.dim - self.features]
            return torch.cat((own, code.to(x.dtype).expand(*x.shape[:-1], -1)), dim=-1)
        if self.features == self.dim:
            return (x + code).to(x.dtype)
        coded = (x[..., : self.features] + code).to(x.dtype)
        return torch.cat((coded, x[..., self.features :]), dim=-1)


def require_positions(positions: Tensor, limit: int, remedy: str) -> None:
    """Raise DataError unless ``0 <= position < limit``; said before any device kernel indexes a table.

    What a compiler makes of it raises RuntimeError with the same advice when it runs.
    """
    require_integer(positions)
    if torch.compiler.is_compiling():
        known = (positions >= 0) & (positions < limit)
        problem = f"A position is outside the {limit} known positions (0 to {limit - 1}). {remedy}"
        torch._assert_async(known.all(), problem)
    elif positions.numel():
        low, high = extent(positions)
        if low < 0 or high >= limit:
            wrong = high if high >= limit else low
            raise DataError(f"Position {wrong} is outside the {limit} known positions (0 to {limit - 1}). {remedy}")
