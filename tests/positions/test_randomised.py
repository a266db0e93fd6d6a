"""Randomised positions (Ruoss et al. 2023)."""

import pytest
import torch

from locant.positions import AttentionShape, Learned, NoPositions, Randomised, Rotary, Sinusoidal, build_scheme


def test_training_draws_anew_for_every_pass() -> None:
    scheme = Randomised(NoPositions(), max_positions=100, evaluation_length=10)
    x, positions = torch.zeros(1, 8, 4), torch.arange(8)
    seen = []
    for _ in range(50):
        scheme.embed(x, positions)
        drawn = scheme.drawn(positions)
        assert torch.equal(drawn, scheme.drawn(positions)), "one draw serves all hooks of a pass"
        assert torch.equal(scheme.drawn(torch.tensor([[2, 5], [7, 0]])), drawn[torch.tensor([[2, 5], [7, 0]])])
        assert (drawn.diff() > 0).all()
        seen.append(drawn)
    every = torch.stack(seen)
    assert len(every.unique(dim=0)) > 45
    assert every.min() >= 0
    assert 90 < every.max() < 100
    assert every[:, 0].float().mean().item() == pytest.approx(101 / 9 - 1, abs=5), "order statistics of a uniform draw"


def test_evaluation_is_one_fixed_draw() -> None:
    scheme = Randomised(Sinusoidal(4), max_positions=1000, evaluation_length=20).eval()
    again = Randomised(Sinusoidal(4), max_positions=1000, evaluation_length=20).eval()
    other = Randomised(Sinusoidal(4), max_positions=1000, evaluation_length=20, seed=1).eval()
    positions = torch.arange(20)
    assert torch.equal(scheme.drawn(positions), again.drawn(positions))
    assert not torch.equal(scheme.drawn(positions), other.drawn(positions))
    assert torch.equal(scheme.drawn(torch.arange(5)), scheme.drawn(positions)[:5]), "a cache sees the same positions"
    x = torch.zeros(1, 20, 4)
    assert torch.equal(scheme.embed(x, positions)[0], Sinusoidal(4).encode(scheme.drawn(positions)))


def test_by_name_around_another() -> None:
    shape = AttentionShape(16, 2, causal=True)
    scheme = build_scheme("randomised", shape, {"scheme": "learned", "scheme_options": {"max_positions": 2048}})
    assert isinstance(scheme, Randomised)
    assert isinstance(scheme.scheme, Learned)
    assert isinstance(Randomised.for_model(shape).scheme, Rotary)
