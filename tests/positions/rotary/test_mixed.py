"""RoPE-Mixed against the formulas of its authors' code, written out."""

import math

import pytest
import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.positions import AxialRotary, MixedRotary


def some(seed: int) -> Tensor:
    return torch.randn(2, 3, 20, 8, generator=torch.Generator().manual_seed(seed))


def turned(x: Tensor, frequencies: Tensor, columns: int) -> Tensor:
    """Neighbouring features as numbers, turned by column and row; frequencies ``[2, H, D/2]``, columns' first."""
    at = torch.arange(x.shape[-2])
    column, row = (at % columns).double(), (at // columns).double()
    angles = column[:, None] * frequencies[0, :, None].double() + row[:, None] * frequencies[1, :, None].double()
    numbers = torch.view_as_complex(x.double().unflatten(-1, (-1, 2))) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(numbers).flatten(-2)


def test_the_authors_formulas() -> None:
    torch.manual_seed(0)
    scheme, q, k, at = MixedRotary(8, 3, grid=[4, 5], layout="interleaved"), some(1), some(2), torch.arange(20)
    frequencies = scheme.frequencies.detach().flip(0)
    for found, x in zip(scheme.rotate(q, k, at, at), (q, k), strict=True):
        torch.testing.assert_close(found.double(), turned(x, frequencies, 5), rtol=1e-5, atol=1e-5)
    x_of_pairs, y_of_pairs = frequencies
    size = 10.0 ** -(torch.arange(0, 8, 4) / 8)
    angle = torch.atan2(y_of_pairs[:, 0], x_of_pairs[:, 0])[:, None]
    expected_x = torch.cat((size * angle.cos(), size * (math.pi / 2 + angle).cos()), dim=-1)
    expected_y = torch.cat((size * angle.sin(), size * (math.pi / 2 + angle).sin()), dim=-1)
    torch.testing.assert_close(torch.stack((x_of_pairs, y_of_pairs)), torch.stack((expected_x, expected_y)))
    assert angle.std() > 0.1, "each head has a direction of its own"


def test_axial_rotary_is_a_case() -> None:
    """A head whose first pairs ignore columns, and the others rows."""
    axial, scheme = AxialRotary(8, base=10.0, grid=[4, 5]), MixedRotary(8, 3, grid=[4, 5])
    radians = torch.tensor([float(each) for each in axial.frequencies.radians])
    rows = torch.tensor([1.0, 1.0, 0.0, 0.0])
    scheme.frequencies.data = torch.stack((radians * rows, radians * (1 - rows)))[:, None].expand(2, 3, 4)
    at = torch.arange(20)
    turned_by = scheme.rotate(some(1), some(2), at, at), axial.rotate(some(1), some(2), at, at)
    for found, expected in zip(*turned_by, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [1, 0.5])
def test_coordinates_may_be_given(scale: float) -> None:
    scheme, x, at = MixedRotary(8, 3, grid=[4, 5]), some(1), torch.arange(20)
    given = (torch.stack((at // 5, at % 5), dim=-1) * scale).expand(2, -1, -1)
    found = scheme.rotate(x, x, given, given)[0]
    with torch.no_grad():
        scheme.frequencies.mul_(scale)
    torch.testing.assert_close(found, scheme.rotate(x, x, at, at)[0], rtol=1e-5, atol=1e-5)


def test_keys_of_fewer_heads_are_refused() -> None:
    scheme, at = MixedRotary(8, 3), torch.arange(20)
    with pytest.raises(ConfigError):
        scheme.rotate(some(1), some(2)[:, :1], at, at)
