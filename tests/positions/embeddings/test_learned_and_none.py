import pytest
import torch
from torch.nn.functional import interpolate

from locant.errors import ConfigError, DataError
from locant.positions import Learned


def test_learned_adds_the_row_of_each_position() -> None:
    scheme = Learned(2, max_positions=3)
    with torch.no_grad():
        scheme.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    x = torch.full((2, 2, 2), 10.0)
    expected = torch.tensor([[[15.0, 16.0], [11.0, 12.0]], [[13.0, 14.0], [15.0, 16.0]]])
    assert torch.equal(scheme.embed(x, torch.tensor([[2, 0], [1, 2]])), expected)
    assert torch.equal(scheme.embed(x, torch.tensor([2, 0], dtype=torch.uint8))[1], expected[0])
    assert scheme.embed(x.bfloat16(), torch.arange(2)).dtype == torch.bfloat16


@pytest.mark.parametrize(("position", "shown"), [([0, 4], "Position 4"), ([-1, 0], "Position -1")])
def test_learned_beyond_the_table(position: list[int], shown: str) -> None:
    scheme = Learned(2, max_positions=4)
    assert scheme.max_positions == 4
    with pytest.raises(DataError, match=rf"{shown} is outside the 4 known .*0 to 3.*shorten the input.*sinusoidal"):
        scheme.embed(torch.zeros(1, 2, 2), torch.tensor(position))


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize(("old", "new"), [((4, 6), (7, 9)), ((6, 6), (3, 4)), ((5, 4), (5, 4))])
def test_a_grid_is_resized_as_by_timm_and_vit(antialias: bool, old: tuple[int, int], new: tuple[int, int]) -> None:
    scheme = Learned(8, max_positions=2 + old[0] * old[1])
    table = scheme.weight.detach()
    images = table[None, 2:].reshape(1, *old, 8).permute(0, 3, 1, 2)
    expected = interpolate(images, size=new, mode="bicubic", antialias=antialias).permute(0, 2, 3, 1).reshape(-1, 8)
    found = scheme.resized(new, grid=old, prefix=2, antialias=antialias)
    assert (found.max_positions, found.dim) == (2 + new[0] * new[1], 8)
    torch.testing.assert_close(found.weight, torch.nn.Parameter(torch.cat((table[:2], expected))), rtol=0, atol=1e-6)
    if old == new:
        torch.testing.assert_close(found.weight, scheme.weight, rtol=0, atol=1e-6)


def test_a_table_of_a_text_is_resized() -> None:
    scheme = Learned(4, max_positions=10, combine="concatenate", features=2).bfloat16()
    found = scheme.resized(25)
    expected = interpolate(scheme.weight.float().T[None, :, None], size=(1, 25), mode="bicubic", antialias=True)
    assert torch.equal(found.weight, expected[0, :, 0].T.bfloat16())
    assert found.embed(torch.zeros(1, 25, 4), torch.arange(25)).shape == (1, 25, 4)
    for size, options in (
        (25, {"grid": (2, 5)}),
        ((5, 5), {}),
        ((5, 5), {"grid": (3, 3)}),
        (0, {}),
        (9, {"prefix": 10}),
    ):
        with pytest.raises(ConfigError):
            scheme.resized(size, **options)
