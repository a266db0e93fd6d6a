import pytest
import torch

from locant.errors import DataError
from locant.positions import Learned, NoPositions


def test_learned_adds_the_row_of_each_position() -> None:
    scheme = Learned(2, max_positions=3)
    with torch.no_grad():
        scheme.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    x = torch.full((2, 2, 2), 10.0)
    expected = torch.tensor([[[15.0, 16.0], [11.0, 12.0]], [[13.0, 14.0], [15.0, 16.0]]])
    assert torch.equal(scheme.embed(x, torch.tensor([[2, 0], [1, 2]])), expected)
    assert torch.equal(scheme.embed(x, torch.tensor([2, 0], dtype=torch.uint8))[1], expected[0])
    assert scheme.embed(x.bfloat16(), torch.arange(2)).dtype == torch.bfloat16


def test_learned_trains_only_the_rows_in_use() -> None:
    scheme = Learned(2, max_positions=4)
    scheme.embed(torch.zeros(3, 2, 2), torch.tensor([1, 3])).sum().backward()
    assert scheme.weight.grad is not None
    assert scheme.weight.grad[:, 0].tolist() == [0, 3, 0, 3]


@pytest.mark.parametrize(("position", "shown"), [([0, 4], "Position 4"), ([-1, 0], "Position -1")])
def test_learned_beyond_the_table(position: list[int], shown: str) -> None:
    scheme = Learned(2, max_positions=4)
    assert scheme.max_positions == 4
    with pytest.raises(DataError, match=rf"{shown} is outside the 4 known .*0 to 3.*shorten the input.*sinusoidal"):
        scheme.embed(torch.zeros(1, 2, 2), torch.tensor(position))


def test_none_changes_nothing() -> None:
    scheme, x, positions = NoPositions(), torch.randn(2, 3, 4), torch.arange(3)
    q, k = torch.randn(2, 1, 3, 4), torch.randn(2, 1, 3, 4)
    assert scheme.embed(x, positions) is x
    rotated = scheme.rotate(q, k, positions, positions)
    assert rotated[0] is q
    assert rotated[1] is k
    assert scheme.score_bias(q, k, positions, positions) is None
    assert scheme.max_positions is None
    assert not scheme.state_dict()
