"""Randomised positions (Ruoss et al. 2023)."""

import pytest
import torch

from locant.models import LanguageModel, LanguageModelConfig
from locant.positions import NoPositions, Randomised, Sinusoidal


def test_training_draws_anew_for_every_pass() -> None:
    scheme = Randomised(NoPositions(), max_positions=100, evaluation_length=10)
    every = torch.stack([scheme.drawn(torch.arange(8)) for _ in range(50)])
    assert (every.diff(dim=-1) > 0).all()
    assert len(every.unique(dim=0)) > 45
    assert every.min() >= 0
    assert 90 < every.max() < 100
    assert every[:, 0].float().mean().item() == pytest.approx(101 / 9 - 1, abs=5), "order statistics of a uniform draw"
    rows = scheme.drawn(torch.tensor([[2, 5], [7, 2]]))
    assert rows[0, 0] == rows[1, 1] < rows[0, 1] < rows[1, 0], "one draw serves all tokens"


@pytest.mark.parametrize("position", ["rotary", "t5", "sinusoidal"])
def test_a_pass_in_between_changes_no_gradient(position: str) -> None:
    """Each forward pass keeps its own draw, in blocks that are computed again in the backward pass too."""
    sizes = {"vocab_size": 20, "layers": 2, "d_model": 16, "d_ff": 16, "heads": 2}
    model = LanguageModel(
        LanguageModelConfig.parse({**sizes, "position": "randomised", "position_options": {"scheme": position}})
    )
    ids = torch.arange(12)[None]

    def gradients(passes: int) -> list[torch.Tensor]:
        torch.manual_seed(0)
        first, *_ = [model(ids) for _ in range(passes)]
        return list(torch.autograd.grad(first.square().sum(), list(model.parameters())))

    for one, other in zip(gradients(1), gradients(2), strict=True):
        assert torch.equal(one, other)


def test_evaluation_is_one_fixed_draw() -> None:
    scheme = Randomised(Sinusoidal(4), max_positions=1000, evaluation_length=20).eval()
    again = Randomised(Sinusoidal(4), max_positions=1000, evaluation_length=20).eval()
    other = Randomised(Sinusoidal(4), max_positions=1000, evaluation_length=20, seed=1).eval()
    positions = torch.arange(20)
    assert torch.equal(scheme.drawn(positions), again.drawn(positions))
    assert not torch.equal(scheme.drawn(positions), other.drawn(positions))
    assert torch.equal(scheme.drawn(torch.arange(5)), scheme.drawn(positions)[:5]), "a cache sees the same positions"
    x = torch.zeros(1, 20, 4)
    told = scheme.drawn(positions)
    assert torch.equal(scheme.embed(x, told)[0], Sinusoidal(4).encode(told))
