from typing import Any

import mpmath
import pytest
import torch

from locant.errors import ConfigError
from locant.positions import Sinusoidal, sinusoid_table

ROUNDING = 3.1e-8  # half the spacing of float32 numbers just below one, and a little


def exact(position: int, dim: int, base: int, dialect: str) -> list[float]:
    """The formula of section 3.5, and that of tensor2tensor, in 40 digits."""
    with mpmath.workdps(40):
        steps = dim // 2 - 1 if dialect == "tensor2tensor" else dim // 2
        angles = [mpmath.mpf(position) / mpmath.power(base, mpmath.mpf(i) / steps) for i in range(dim // 2)]
        sines, cosines = [mpmath.sin(a) for a in angles], [mpmath.cos(a) for a in angles]
        pairs = [value for pair in zip(sines, cosines, strict=True) for value in pair]
        return [float(value) for value in (pairs if dialect == "paper" else sines + cosines)]


def worst(table: torch.Tensor, positions: list[int], base: int, dialect: str) -> float:
    expected = torch.tensor([exact(p, table.shape[-1], base, dialect) for p in positions], dtype=torch.float64)
    return float((table.double() - expected).abs().max())


@pytest.mark.parametrize("dialect", ["paper", "concatenated", "tensor2tensor"])
@pytest.mark.parametrize(("dim", "base"), [(64, 10000), (6, 500)])
def test_exact_up_to_the_last_position(dialect: Any, dim: int, base: int) -> None:
    near = [0, 1, 7, 255, 256, 4095, 5000, 65535]
    far = [-3, 65536, 999_999, 10_000_000, 123_456_789, 2**31 - 1]
    scheme = Sinusoidal(dim, base=base, dialect=dialect)
    assert worst(scheme.encode(torch.tensor(near)), near, base, dialect) <= ROUNDING
    assert worst(scheme.encode(torch.tensor(far)), far, base, dialect) <= ROUNDING
    assert worst(sinusoid_table(torch.tensor(far), dim, base=base, dialect=dialect), far, base, dialect) <= ROUNDING


def test_against_peers() -> None:
    """Marian in Hugging Face; M2M-100, which is fairseq's: start 2, because its padding index is 1."""
    marian = pytest.importorskip("transformers.models.marian.modeling_marian")
    m2m = pytest.importorskip("transformers.models.m2m_100.modeling_m2m_100")
    table = marian.MarianSinusoidalPositionalEmbedding(40, 16)
    ours = Sinusoidal(16, dialect="concatenated").encode(torch.arange(40))
    torch.testing.assert_close(ours, table.create_weight(), atol=1e-6, rtol=0)
    fairseq = m2m.M2M100SinusoidalPositionalEmbedding(38, 16, padding_idx=1)
    ids = torch.full((1, 30), 7)
    ours = Sinusoidal(16, dialect="tensor2tensor", start=2).encode(torch.arange(30))
    torch.testing.assert_close(ours, fairseq(ids)[0].detach(), atol=5e-6, rtol=0)


def test_concatenated_to_the_embedding() -> None:
    scheme, x = Sinusoidal(16, combine="concatenate", features=4), torch.randn(2, 3, 16)
    combined = scheme.embed(x, torch.arange(5, 8))
    assert torch.equal(combined[..., :12], x[..., :12])
    assert worst(combined[1, :, 12:], [5, 6, 7], 10000, "paper") <= ROUNDING
    assert Sinusoidal(16, combine="concatenate").features == 4
    added = Sinusoidal(16, features=4).embed(x, torch.arange(3))
    assert torch.equal(added[..., 4:], x[..., 4:])
    assert not torch.equal(added[..., :4], x[..., :4])
    with pytest.raises(ConfigError, match=r"18 features does not fit a model of width 16"):
        Sinusoidal(16, features=18)
    with pytest.raises(ConfigError, match=r"Unknown combine 'sum'.*add, concatenate"):
        Sinusoidal(16, combine="sum")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"have 8 features but the scheme was built for 16"):
        scheme.embed(x[..., :8], torch.arange(3))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_casting_the_module_does_not_degrade_the_table(dtype: torch.dtype) -> None:
    scheme = Sinusoidal(16)
    scheme.encode(torch.arange(10))
    scheme.to(dtype)
    positions = [3, 60_001]
    assert worst(scheme.encode(torch.tensor(positions)), positions, 10000, "paper") <= ROUNDING
    x = torch.zeros(1, 2, 16, dtype=dtype)
    assert scheme.embed(x, torch.tensor(positions)).dtype == dtype
    assert torch.equal(scheme.embed(x, torch.tensor(positions))[0], scheme.encode(torch.tensor(positions)).to(dtype))


def test_a_table_made_for_inference_serves_training() -> None:
    scheme, x = Sinusoidal(8), torch.randn(1, 4, 8)
    with torch.inference_mode():
        scheme.embed(x, torch.arange(4))
    x.requires_grad_()
    (scheme.embed(x, torch.arange(4)) ** 2).sum().backward()
    assert x.grad is not None
