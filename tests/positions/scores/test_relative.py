"""What every score bias owes: the same values for any way of asking, exact constants, gradients, little memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from locant.errors import ConfigError
from locant.positions import (
    FIRE,
    KERPLE,
    T5,
    ALiBi,
    AttentionShape,
    FoX,
    PositionScheme,
    RelativeProfiles,
    Sandwich,
    Shaw,
)
from locant.positions.relative import expand_relative, relative_positions

BATCH, HEADS, DIM = 2, 4, 8
ENCODER, DECODER = (AttentionShape(HEADS * DIM, HEADS, causal=causal) for causal in (False, True))
SCHEMES: dict[str, Callable[[], PositionScheme]] = {
    "shaw": lambda: Shaw.for_model(ENCODER, max_distance=3),
    "t5": lambda: T5.for_model(ENCODER, num_buckets=8, max_distance=20),
    "t5-causal": lambda: T5.for_model(DECODER, num_buckets=8, max_distance=20),
    "alibi": lambda: ALiBi.for_model(ENCODER),
    "kerple": lambda: KERPLE.for_model(ENCODER),
    "kerple-power": lambda: KERPLE.for_model(ENCODER, kind="power"),
    "fire": lambda: FIRE.for_model(ENCODER),
    "fire-beyond": lambda: FIRE.for_model(ENCODER, threshold=4.0),
    "sandwich": lambda: Sandwich.for_model(ENCODER, sinusoid_dim=16),
}
FIXED = ["alibi", "sandwich"]
TRAINED = [name for name in SCHEMES if name not in FIXED]


def build(name: str) -> PositionScheme:
    torch.manual_seed(1)
    return SCHEMES[name]()


def ask(scheme: PositionScheme, q: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
    k = q.new_zeros(len(q), HEADS, k_positions.shape[-1], DIM)
    bias = scheme.score_bias(q, k, q_positions, k_positions)
    assert bias is not None
    assert bias.dtype == q.dtype
    return bias.expand(len(q), HEADS, q.shape[2], k_positions.shape[-1])


def queries(count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(2)
    return torch.randn(BATCH, HEADS, count, DIM, dtype=dtype)


def row(offsets: Tensor) -> Tensor:
    """Any function with a different value for each offset and head."""
    return torch.stack((offsets.double(), 3 * offsets.double() + 0.5))


positions_of = st.one_of(
    st.integers(-50, 50).flatmap(lambda start: st.integers(1, 8).map(lambda n: list(range(start, start + n)))),
    st.lists(st.integers(-9, 9), max_size=8),
    st.lists(st.integers(-(2**31), 2**31), min_size=1, max_size=4),
)


@settings(max_examples=150, deadline=None)
@given(q=positions_of, k=positions_of)
def test_every_pair_gets_the_value_of_its_offset(q: list[int], k: list[int]) -> None:
    expanded = expand_relative(row, torch.tensor(q, dtype=torch.int64), torch.tensor(k, dtype=torch.int64))
    assert expanded.shape == (1, 2, len(q), len(k))
    for i, query in enumerate(q):
        for j, key in enumerate(k):
            assert expanded[0, :, i, j].tolist() == [key - query, 3 * (key - query) + 0.5]


@pytest.mark.parametrize(
    ("q", "k", "seen"),
    [
        (torch.arange(100), torch.arange(100), 199),
        (torch.tensor([70]), torch.arange(71), 71),
        (torch.tensor([3, 1, 2]), torch.arange(100), 102),
        (torch.tensor([0, 10**6]), torch.tensor([0, 10**6, 2 * 10**6]), 4),
    ],
)
def test_each_offset_is_evaluated_once(q: Tensor, k: Tensor, seen: int) -> None:
    calls: list[int] = []

    def counted(offsets: Tensor) -> Tensor:
        calls.append(offsets.numel())
        assert offsets.unique().numel() == offsets.numel()
        return row(offsets)

    expand_relative(counted, q, k)
    assert calls == [seen]


def test_small_integer_dtypes_do_not_wrap_around() -> None:
    q, k = torch.tensor([200, 3], dtype=torch.uint8), torch.tensor([-100, 100], dtype=torch.int8)
    assert relative_positions(q, k).tolist() == [[-300, -100], [-103, 97]]
    run = torch.arange(120, 126)
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32):
        assert torch.equal(expand_relative(row, run.to(dtype), run.to(dtype)), expand_relative(row, run, run))


@pytest.mark.parametrize("wrong", [torch.tensor([0.0, 1.0]), torch.tensor([True, False])])
@pytest.mark.parametrize("name", SCHEMES)
def test_positions_must_be_integers(name: str, wrong: Tensor) -> None:
    right = torch.arange(2)
    for pair in ((wrong, right), (right, wrong)):
        with pytest.raises(ConfigError, match=r"must be integers.*torch\.(float32|bool)"):
            ask(build(name), queries(2), *pair)


@pytest.mark.parametrize("shift", [-5, 3, 300])
@pytest.mark.parametrize("name", [name for name in SCHEMES if name != "fire-beyond"])
def test_only_relative_positions_matter(name: str, shift: int) -> None:
    """For FIRE as long as no position is beyond its threshold, here 512."""
    scheme, q = build(name), queries(6)
    for positions in (torch.arange(6), torch.tensor([5, 0, 9, 9, 2, 40])):
        assert torch.equal(ask(scheme, q, positions + shift, positions + shift), ask(scheme, q, positions, positions))


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_rounds_once(name: str, dtype: torch.dtype) -> None:
    """The function is computed in float32 whatever the dtypes; only Shaw's product is in that of the scores."""
    scheme, positions = build(name), torch.arange(40)
    exact = ask(scheme, queries(40), positions, positions)
    rounded = ask(scheme, queries(40).to(dtype), positions, positions)
    if name == "shaw":
        torch.testing.assert_close(rounded.float(), exact, rtol=0.05, atol=0.02)
    else:
        assert torch.equal(rounded, exact.to(dtype))


@pytest.mark.parametrize("name", SCHEMES)
def test_built_on_the_meta_device(name: str) -> None:
    with torch.device("meta"):
        scheme = SCHEMES[name]()
    scheme.to_empty(device="cpu")
    reference, positions = build(name), torch.arange(6)
    biases = []
    for each in (scheme, reference):
        torch.manual_seed(3)
        each.reset_parameters()
        biases.append(ask(each, queries(6), positions, positions))
    assert torch.equal(*biases)


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("positions", [[0, 1, 2, 3, 4, 5, 6], [3, 0, 9, 9, 2, 7, 1]])
def test_gradients(name: str, positions: list[int]) -> None:
    """Automatic against finite differences, through the one copy of a run and through the index of other positions."""
    scheme, q = build(name).double(), queries(7, torch.float64).requires_grad_()
    places, names = torch.tensor(positions), [n for n, _ in scheme.named_parameters()]

    def bias(q: Tensor, *values: Tensor) -> Tensor:
        k = torch.zeros_like(q)
        parameters = dict(zip(names, values, strict=True))
        return torch.func.functional_call(scheme, parameters, (q, k, places, places))

    scheme.forward = scheme.score_bias  # type: ignore[method-assign]
    values = [parameter.detach().clone().requires_grad_() for parameter in scheme.parameters()]
    assert torch.autograd.gradcheck(bias, (q, *values), fast_mode=True)


class Allocations(TorchDispatchMode):
    """Bytes of all tensors made, views not counted."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.keep: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                self.keep.append(storage)
                self.sizes[storage.data_ptr()] = storage.nbytes()
        return result


def measure(scheme: PositionScheme, length: int) -> tuple[int, int, int]:
    """Return the bytes of the result, of everything made on the way and of the largest tensor among it."""
    q, k, positions = torch.zeros(1, 8, length, 1), torch.zeros(1, 8, length, 1), torch.arange(length)
    with torch.no_grad():
        state = scheme.prepare(torch.zeros(1, length, 16), positions)
    with torch.no_grad(), Allocations() as made:
        bias = scheme.score_bias(q, k, positions, positions, *scheme.state_for("score_bias", state))
    assert bias is not None
    assert bias.is_contiguous()
    return bias.numel() * 4, sum(made.sizes.values()), max(made.sizes.values())


@pytest.mark.parametrize(
    "scheme", [T5(8, 8, causal=True), ALiBi(8), KERPLE(8), FIRE(8, threshold=1024.0), Sandwich(8), FoX(16, 8)], ids=repr
)
def test_little_is_allocated_beyond_the_result(scheme: PositionScheme) -> None:
    result, everything, largest = measure(scheme, 1024)
    assert largest == result
    assert everything <= 1.15 * result


def test_what_the_others_allocate() -> None:
    """Shaw: an index beside the scores. FIRE beyond its threshold: never the hidden units of all pairs.

    Relative profiles: three indices of pairs for all rows and heads, and the products with the profiles.
    """
    result, everything, largest = measure(Shaw(1), 1024)
    assert largest == result
    assert everything <= 1.4 * result
    result, _, largest = measure(FIRE(8, threshold=100.0), 1024)
    assert largest == result
    result, everything, largest = measure(RelativeProfiles(16, 8, reach=128), 1024)
    assert largest == result
    assert everything <= 2.2 * result
