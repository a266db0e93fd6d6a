import math

import pytest
import torch
from torch import Tensor

from locant.positions import CoPE

H, D = 2, 4


def built(causal: bool = True, positions: int = 4, dtype: torch.dtype = torch.float32) -> CoPE:
    torch.manual_seed(0)
    scheme = CoPE(D, causal, positions=positions)
    torch.nn.init.normal_(scheme.weight)
    return scheme.to(dtype)


def heads(length: int, batch: int = 2, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(batch, H, length, D, dtype=dtype)


def formula(scheme: CoPE, q: Tensor, k: Tensor, q_positions: Tensor, k_positions: Tensor) -> Tensor:
    """Equations 3 to 7, pair by pair, in float64; zero counts for keys that a decoder hides."""
    q, k, e = q.detach().double(), k.detach().double(), scheme.weight.detach().double()
    q_positions, k_positions = q_positions.expand(len(q), -1).tolist(), k_positions.expand(len(q), -1).tolist()
    bias = torch.zeros(*q.shape[:3], k.shape[2], dtype=torch.float64)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in bias.shape)).tolist():
        here, there = q_positions[b][i], k_positions[b][j]
        between = [
            t
            for t, position in enumerate(k_positions[b])
            if there <= position <= here or (not scheme.causal and here <= position <= there)
        ]
        count = sum(1 / (1 + math.exp(-float(q[b, h, i] @ k[b, h, t]) / math.sqrt(D))) for t in between)
        count = min(count, e.shape[1] - 1)
        table = e[0] if there <= here else e[-1]
        low, high = table[math.floor(count)], table[math.ceil(count)]
        bias[b, h, i, j] = q[b, h, i] @ (low + (high - low) * (count - math.floor(count)))
    return bias


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("q_positions", "k_positions"),
    [
        (torch.arange(9), torch.arange(9)),
        (torch.tensor([6]), torch.arange(7)),
        (torch.tensor([2, 5]), torch.tensor([8, 3, 0, 4])),
        (torch.tensor([[-2, -1, 0, 1], [0, 1, 2, 3]]), torch.tensor([[-2, -1, 0, 1], [0, 1, 2, 3]])),
        (torch.tensor([[4], [9]]), torch.arange(10)),
        (torch.tensor([3, 0, 7]), torch.tensor([[5, 6, 1], [2, 0, 9]])),
    ],
)
def test_formula_of_the_paper(causal: bool, q_positions: Tensor, k_positions: Tensor) -> None:
    scheme = built(causal)
    q, k = heads(q_positions.shape[-1]), heads(k_positions.shape[-1])
    bias = scheme.score_bias(q, k, q_positions, k_positions)
    assert bias.dtype == torch.float32
    torch.testing.assert_close(bias.double(), formula(scheme, q, k, q_positions, k_positions), rtol=1e-5, atol=1e-5)


def test_open_gates_count_tokens() -> None:
    """With every gate open, p(i, j) = i - j + 1, the relative position of section 4; with every gate shut, 0."""
    scheme = CoPE(1, False, positions=10)
    with torch.no_grad():
        scheme.weight[0, :, 0] = torch.arange(10.0)
        scheme.weight[1, :, 0] = -torch.arange(10.0)
    q, k = torch.ones(1, 1, 4, 1), torch.full((1, 1, 4, 1), 50.0)
    expected = torch.tensor([[1, -2, -3, -4], [2, 1, -2, -3], [3, 2, 1, -2], [4, 3, 2, 1]])
    positions = torch.arange(4)
    assert torch.equal(scheme.score_bias(q, k, positions, positions)[0, 0], expected.float())
    assert scheme.score_bias(q, -3 * k, positions, positions).abs().max() < 1e-30


def test_small_counts_are_exact_after_a_long_text() -> None:
    scheme, positions = built(positions=3), torch.arange(20_000)
    q, k = heads(1, 1), heads(20_000, 1)
    bias = scheme.score_bias(q, k, positions[-1:], positions)[..., -3:]
    torch.testing.assert_close(
        bias.double(), formula(scheme, q, k[:, :, -3:], positions[-1:], positions[-3:]), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("causal", [True, False])
def test_gradients(causal: bool) -> None:
    scheme = built(causal, dtype=torch.float64)
    inputs = [heads(2, 1, torch.float64).requires_grad_(), heads(3, 1, torch.float64).requires_grad_()]

    def bias(*arguments: Tensor) -> Tensor:
        return scheme.score_bias(*arguments[:2], torch.arange(1, 3), torch.arange(3))

    assert torch.autograd.gradcheck(bias, (*inputs, *scheme.parameters()))
