import pytest
import torch

from locant.models.dropout import Dropout


def test_rate_scale_and_mean() -> None:
    torch.manual_seed(0)
    size = 1_000_003
    for p, rounded in ((0.1, 26 / 256), (0.3, 77 / 256), (0.5, 0.5)):
        y = Dropout(p)(torch.ones(size))
        assert (y == 0).float().mean().item() == pytest.approx(rounded, abs=5 * 0.5 / size**0.5)
        assert y[y != 0].unique().tolist() == pytest.approx([1 / (1 - rounded)])
        assert y.mean().item() == pytest.approx(1, abs=5 / size**0.5)


def test_elements_are_dropped_independently() -> None:
    """Eight elements share a random number; neither their places nor their neighbours may show it."""
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(8 * 100_000)) != 0).float()
    assert (kept.view(-1, 8).mean(0) - 0.5).abs().max() < 5 * 0.5 / 100_000**0.5
    centred = (kept - 0.5) * 2
    for lag in (1, 2, 4, 7, 8, 16, 64):
        assert (centred[lag:] * centred[:-lag]).mean().abs() < 5 / kept.numel() ** 0.5


@pytest.mark.parametrize("shape", [(), (1,), (7,), (8,), (3, 5, 7), (0, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_shapes_and_dtypes(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    y = Dropout(0.5)(torch.ones(shape, dtype=dtype))
    assert y.shape == shape
    assert y.dtype == dtype
    assert set(y.flatten().tolist()) <= {0.0, 2.0}


def test_identity_where_nothing_is_dropped() -> None:
    x = torch.randn(10)
    assert Dropout(0.9).eval()(x) is x
    assert Dropout(0.0)(x) is x


@pytest.mark.parametrize("residual_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_residual_is_added_whole(dtype: torch.dtype, residual_dtype: torch.dtype) -> None:
    x = torch.randn(7, 11).to(dtype).requires_grad_()
    residual = torch.randn(11, 7).to(residual_dtype).T.requires_grad_()
    dropout = Dropout(0.4)
    torch.manual_seed(5)
    alone = dropout(x)
    torch.manual_seed(5)
    both = dropout(x, residual)
    assert torch.equal(both, residual + alone)
    assert torch.equal(alone == 0, both == residual)
    direction = torch.randn(7, 11).to(both.dtype)
    expected = torch.autograd.grad(alone, x, direction.to(alone.dtype))[0]
    found = torch.autograd.grad(both, (x, residual), direction)
    assert [part.dtype for part in found] == [dtype, residual_dtype]
    torch.testing.assert_close(found, (expected, direction.to(residual_dtype)))
    torch.testing.assert_close(dropout.eval()(x, residual), x + residual)


def test_second_derivatives_use_the_same_mask() -> None:
    x = torch.randn(50, requires_grad=True)
    y = Dropout(0.5)(x.pow(2))
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, 2 * (y != 0) * 2.0)


def test_compiled_it_drops_the_same_elements() -> None:
    x = torch.randn(3, 70, requires_grad=True)
    dropout = Dropout(0.4)
    torch.manual_seed(2)
    expected = dropout(x)
    torch.manual_seed(2)
    found = torch.compile(dropout, fullgraph=True, backend="aot_eager")(x)
    assert torch.equal(found, expected)
    assert torch.equal(*(torch.autograd.grad(y.sum(), x)[0] for y in (found, expected)))
