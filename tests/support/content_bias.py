"""What holds for every score bias of queries, keys and their relative position (DeBERTa's, Transformer-XL's)."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor

from locant.positions import PositionScheme

E, H, D = 12, 3, 4

PLACES = [
    (torch.tensor([6]), torch.arange(7)),
    (torch.arange(3), torch.arange(100, 106)),
    (torch.tensor([[-2, -1, 0, 1], [0, 1, 2, 3]]), torch.tensor([[-2, -1, 0, 1], [0, 1, 2, 3]])),
    (torch.tensor([[4], [9]]), torch.arange(10)),
    (torch.tensor([3, 0, 7]), torch.tensor([[5, 5, 1], [2, 0, 9]])),
]
"""Positions of queries and of keys: decoding, cross-attention, left padding, a batch that decodes, any order."""

SHIFTS = st.integers(-(2**40), 2**40)
TEXTS = st.lists(st.integers(-9, 9), min_size=1, max_size=6)
SMALL_INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32]


def heads(length: int, batch: int = 2, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return random queries or keys ``[batch, H, length, D]``."""
    return torch.randn(batch, H, length, D, dtype=dtype)


def distance_of(q_positions: Tensor, k_positions: Tensor, batch: int, pair: tuple[int, int, int]) -> int:
    """Return how far a query stands after a key, in a row of the batch."""
    row, i, j = pair
    return int(q_positions.expand(batch, -1)[row, i]) - int(k_positions.expand(batch, -1)[row, j])


def assert_loads_and_computes_the_same(scheme: PositionScheme, other: PositionScheme, length: int) -> None:
    """Check that the weights of another scheme, loaded, give its biases."""
    scheme.load_state_dict(other.state_dict())
    q, k, positions = heads(length), heads(length), torch.arange(length)
    bias = _bias(scheme, q, k, positions, positions)
    assert torch.equal(bias, _bias(other, q, k, positions, positions))
    assert scheme.per_layer


def assert_only_differences_count(scheme: PositionScheme, places: list[int], shift: int) -> None:
    """Check that positions shifted together have the same biases."""
    positions = torch.tensor(places)
    q, k = heads(len(places)), heads(len(places))
    bias = _bias(scheme, q, k, positions, positions)
    assert torch.equal(bias, _bias(scheme, q, k, positions + shift, positions + shift))


def assert_decoding_gives_the_rows_of_a_full_pass(scheme: PositionScheme, length: int) -> None:
    """Check that one query at a time, with the keys up to it, has the biases of a full pass."""
    q, k, positions = heads(length), heads(length), torch.arange(length)
    full = _bias(scheme, q, k, positions, positions)
    for i in range(length):
        step = _bias(scheme, q[:, :, i : i + 1], k[:, :, : i + 1], positions[i : i + 1], positions[: i + 1])
        torch.testing.assert_close(step, full[:, :, i : i + 1, : i + 1])


def assert_takes_integers(scheme: PositionScheme, dtype: torch.dtype) -> None:
    """Check that positions of a small integer dtype have the biases of int64."""
    q, k, positions = heads(2), heads(4), torch.tensor([90, 1, 2, 3])
    bias = _bias(scheme, q, k, positions[1:3], positions)
    assert torch.equal(bias, _bias(scheme, q, k, positions[1:3].to(dtype), positions.to(dtype)))


def assert_gradients(scheme: PositionScheme) -> None:
    """Check the gradients of queries, keys and parameters, all in float64, by differences."""
    positions = torch.arange(3)
    inputs = [heads(2, 1, torch.float64).requires_grad_(), heads(3, 1, torch.float64).requires_grad_()]

    def bias(*arguments: Tensor) -> Tensor:
        return _bias(scheme, arguments[0], arguments[1], positions[1:], positions)

    assert torch.autograd.gradcheck(bias, (*inputs, *scheme.parameters()))


def _bias(scheme: PositionScheme, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
    bias = scheme.score_bias(q, k, q_positions, k_positions)
    assert bias is not None
    return bias
