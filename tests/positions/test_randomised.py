"""Randomised positions (Ruoss et al. 2023)."""

import pytest
import torch

from locant.errors import ConfigError, DataError
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


def test_limits() -> None:
    scheme = Randomised(NoPositions(), max_positions=30, evaluation_length=10)
    with pytest.raises(DataError, match=r"31 tokens is longer than the 30 positions of max_positions"):
        scheme.embed(torch.zeros(1, 31, 4), torch.arange(31))
    with pytest.raises(DataError, match=r"11 tokens is longer than the 10 positions of evaluation_length"):
        scheme.eval().drawn(torch.arange(11))
    with pytest.raises(DataError, match=r"count from 0; got -1"):
        scheme.drawn(torch.tensor([-1]))
    with pytest.raises(ConfigError, match=r"evaluation_length must be between 1 and max_positions, 5; got 9"):
        Randomised(NoPositions(), max_positions=5, evaluation_length=9)
    with pytest.raises(ConfigError, match=r"knows 16 positions but max_positions asks for 100"):
        Randomised(Learned(4, max_positions=16), max_positions=100, evaluation_length=10)
