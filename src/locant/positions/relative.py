"""Score biases that depend on the relative position alone: one row of values serves every pair of positions.

A relative position is ``k_position - q_position`` in tokens: negative for keys before the query.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.positions.angles import extent, is_run, require_integer
from locant.positions.scheme import AttentionShape, PositionScheme, Prepared, ScoreMod, describes


def relative_positions(q_positions: Tensor, k_positions: Tensor) -> Tensor:
    """Return ``k_position - q_position`` of every pair of a query and a key.

    Args:
        q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
        k_positions: Integer positions ``[K]`` or ``[B, K]``.

    Returns:
        Int64 ``[Q, K]``, or ``[B, Q, K]`` where either has a batch dimension.

    Raises:
        ConfigError: The positions are not integers.
    """
    require_integer(q_positions)
    require_integer(k_positions)
    return k_positions.long().unsqueeze(-2) - q_positions.long().unsqueeze(-1)


def expand_relative(function: Callable[[Tensor], Tensor], q_positions: Tensor, k_positions: Tensor) -> Tensor:
    """Evaluate a function of the relative position for every pair of a query and a key.

    The function sees each relative position once: all of them from the lowest to the highest, or, where the positions
    are sparse, only those that occur. Its row of values is then laid out for the pairs. For two runs of consecutive
    positions that allocates nothing but the result; other positions need int64 indices of ``[Q, K]`` or ``[B, Q, K]``
    beside it. Gradients flow into the row.

    Args:
        function: Maps int64 relative positions ``[n]`` to values ``[H, n]``, each on its own.
        q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
        k_positions: Integer positions ``[K]`` or ``[B, K]``.

    Returns:
        ``[1, H, Q, K]``, or ``[B, H, Q, K]`` where the positions have a batch dimension; of the row's dtype.

    Raises:
        ConfigError: The positions are not integers.

    Example:
        >>> import torch
        >>> expand_relative(lambda offsets: -offsets.abs().unsqueeze(0), torch.arange(3, 5), torch.arange(5))
        tensor([[[[-3, -2, -1,  0, -1],
                  [-4, -3, -2, -1,  0]]]])
    """
    require_integer(q_positions)
    require_integer(k_positions)
    if is_run(k_positions) and (q_positions is k_positions or is_run(q_positions)):
        queries, keys = q_positions.numel(), k_positions.numel()
        lowest = k_positions[0].long() - q_positions[-1].long()
        row = function(lowest + torch.arange(queries + keys - 1, device=k_positions.device))
        # A window of the row slides to the left from one query to the next; flip turns the views into the result.
        return row.unfold(-1, keys, 1).flip(-2).unsqueeze(0)
    offsets, index = distinct(relative_positions(q_positions, k_positions))
    row = function(offsets)
    values = row.index_select(-1, index.flatten()).view(len(row), *index.shape)
    return values.unsqueeze(0) if index.dim() == 2 else values.transpose(0, 1)


class RelativeBias(PositionScheme, ABC):
    """A scheme that adds to the scores of a head a function of the relative position.

    Under ``torch.compile`` and ``torch.export`` every pair is computed separately (:meth:`pair_bias`): the range
    of the positions would have to be read.

    Args:
        num_heads: Number of attention heads, ``H``.

    Raises:
        ConfigError: There is no head.
    """

    traceable = True
    num_heads: int

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        if num_heads < 1:
            raise ConfigError(f"A score bias needs at least 1 attention head; got {num_heads}.")
        self.num_heads = num_heads

    @abstractmethod
    def bias(self, offsets: Tensor) -> Tensor:
        """Return the bias of relative positions.

        Args:
            offsets: Int64 relative positions ``[n]``.

        Returns:
            ``[H, n]``, in float32 or float64.
        """

    @classmethod
    def for_model(cls, shape: AttentionShape, **options: Any) -> Self:
        """Build the scheme for the heads of a model."""
        return cls(shape.num_heads, **options)

    @property
    @describes("score_bias")
    def bias_reads_content(self) -> bool:
        """The bias depends on positions alone."""
        return False

    def is_relative(self, q_positions: Tensor, k_positions: Tensor) -> bool:
        """Return whether the bias at these positions is that of their distances alone."""
        del q_positions, k_positions
        return True

    @describes("score_bias")
    def distance_bias(
        self, q_positions: Tensor, k_positions: Tensor, *, max_length: int | None = None
    ) -> tuple[Tensor, int] | None:
        """Return the bias of every relative position; as :meth:`PositionScheme.distance_bias`.

        Under a compiler, which cannot know the highest position, ``None`` without ``max_length``.
        """
        if max_length is not None:
            lowest, highest = 1 - max_length, max_length - 1
        elif torch.compiler.is_compiling():
            return None
        else:
            (first_query, last_query), (first_key, last_key) = extent(q_positions), extent(k_positions)
            lowest, highest = first_key - last_query, last_key - first_query
        if not self.is_relative(q_positions, k_positions):
            return None
        return self.bias(torch.arange(lowest, highest + 1, device=k_positions.device)), lowest

    def score_bias(self, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Return the bias of every pair; arguments as in :meth:`PositionScheme.score_bias`.

        Returns:
            ``[1, H, Q, K]``, or ``[B, H, Q, K]`` for positions with a batch dimension; of the dtype of ``q``, rounded
            once.
        """
        del k
        if torch.compiler.is_compiling() or not self.is_relative(q_positions, k_positions):
            return self.pair_bias(q_positions, k_positions).to(q.dtype)
        return expand_relative(lambda offsets: self.bias(offsets).to(q.dtype), q_positions, k_positions)

    def pair_bias(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        """Return the bias of every pair, each computed separately: no number is read, so that compilers can trace it.

        Args:
            q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
            k_positions: Integer positions ``[K]`` or ``[B, K]``.

        Returns:
            ``[1, H, Q, K]`` or ``[B, H, Q, K]``, in the dtype of :meth:`bias`.
        """
        offsets = relative_positions(q_positions, k_positions)
        values = self.bias(offsets.flatten()).view(-1, *offsets.shape)
        return values.unsqueeze(0) if offsets.dim() == 2 else values.transpose(0, 1)


def score_mod(
    scheme: PositionScheme,
    q: Tensor,
    k: Tensor,
    q_positions: Tensor,
    k_positions: Tensor | None = None,
    *,
    state: Prepared | None = None,
    max_length: int | None = None,
) -> ScoreMod | None:
    """Return a scheme's bias as a function for ``torch.nn.attention.flex_attention``, which gets it as ``score_mod``.

    It adds to the score of every pair what ``score_bias`` says. Of a bias that depends on the distance alone it holds
    no number for each pair; the function of any other scheme holds the bias of all pairs.

    Args:
        scheme: The scheme.
        q: Queries ``[B, H, Q, D]``, before rotation.
        k: Keys ``[B, H, K, D]``, before rotation.
        q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
        k_positions: Integer positions ``[K]`` or ``[B, K]``; may be left out where keys are those of the same tokens.
        state: What ``scheme.prepare(x, positions)`` returned of the layer's input; only some schemes read it.
        max_length: A length in tokens that no distance between a query and a key which it sees reaches, where one is
            known. In a compiled graph, where no position can be read, it keeps a bias of distances from being written
            out for all pairs.

    Returns:
        A function of a score and the indices of batch, head, query and key; ``None`` where the scheme adds nothing.

    Raises:
        ConfigError: The scheme reads a state, and there is none.
        DataError: There are more or fewer positions than tokens.
    """
    k_positions = q_positions if k_positions is None else k_positions
    found = scheme.distance_bias(q_positions, k_positions, max_length=max_length)
    if found is not None:
        row = found[0].to(torch.promote_types(q.dtype, torch.float32))
        return distance_score_mod(row, found[1], q_positions, k_positions)
    bias = scheme.score_bias(q, k, q_positions, k_positions, *scheme.state_for("score_bias", state))
    if bias is None:
        return None
    every = bias.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return lambda score, b, h, i, j: score + every[b, h, i, j]


def distance_score_mod(row: Tensor, lowest: int, q_positions: Tensor, k_positions: Tensor) -> ScoreMod:
    """Return a function for FlexAttention that adds the bias of a pair's relative position.

    Args:
        row: Biases ``[H, n]`` of consecutive relative positions; those beyond either end have the bias at that end.
        lowest: The relative position of the first.
        q_positions: Integer positions ``[Q]`` or ``[B, Q]``.
        k_positions: Integer positions ``[K]`` or ``[B, K]``.
    """
    highest = row.shape[-1] - 1

    def at(positions: Tensor, b: Tensor, i: Tensor) -> Tensor:
        return positions[i] if positions.dim() == 1 else positions[b if positions.shape[0] > 1 else b * 0, i]

    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        offset = at(k_positions, b, j) - at(q_positions, b, i)
        return score + row[h, (offset - lowest).clamp(0, highest)]

    return score_mod


def at_least_float32(parameter: Tensor) -> Tensor:
    """Return a parameter in float32, or as it is when it is in float64: the dtype to compute a bias in."""
    return parameter.to(torch.promote_types(parameter.dtype, torch.float32))


def distinct(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``rows [N]`` and an index such that ``rows[index]`` equals the integers ``values [..., Q, K]``.

    Rows may hold values that do not occur: the range of the values is found much faster than the set of them, and
    consecutive positions fill it.
    """
    if values.numel():
        low, high = extent(values)
        if high - low < 2 * (values.shape[-2] + values.shape[-1]):
            return torch.arange(low, high + 1, device=values.device), values - low
    rows, index = torch.unique(values, return_inverse=True)
    return rows, index


def place(products: Tensor, index: Tensor) -> Tensor:
    """Give every pair of a query and a key the product that ``index`` names.

    Args:
        products: ``[B, H, Q, N]``.
        index: int64 ``[Q, K]`` or ``[B, Q, K]``.

    Returns:
        ``[B, H, Q, K]``.
    """
    return products.gather(-1, index.unsqueeze(-3).expand(*products.shape[:-1], -1))
