"""The optimiser of the lab, against the formulas of the setting that its defaults repeat."""

import math
from typing import Any, ClassVar

import pytest
import torch

from locant.lab import Budget, build_task
from locant.lab.language_modelling import CharacterTask
from locant.lab.optimise import Batch, Optimiser, train
from locant.models import LanguageModel, LanguageModelConfig

MODEL = LanguageModelConfig(vocab_size=9, layers=1, d_model=8, d_ff=8, heads=2, position="learned",
                            position_options={"max_positions": 6})  # fmt: skip


class Watched(torch.optim.AdamW):
    """Remembers its groups and every learning rate."""

    made: ClassVar[list["Watched"]] = []

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.rates: list[set[float]] = []
        Watched.made.append(self)

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.rates.append({group["lr"] for group in self.param_groups})
        super().step(closure)


def run(monkeypatch: pytest.MonkeyPatch, optimiser: Optimiser, steps: int) -> tuple[LanguageModel, Watched]:
    Watched.made.clear()
    monkeypatch.setattr(torch.optim, "AdamW", Watched)
    torch.manual_seed(1)
    model, batch = LanguageModel(MODEL), Batch(torch.ones(2, 5, dtype=torch.long), torch.ones(2, 5).long(), 10)
    train(model, iter([batch] * steps), Budget(steps=steps), optimiser, lambda _: None)
    return model, Watched.made[0]


def test_the_learning_rate_is_that_of_nanogpt(monkeypatch: pytest.MonkeyPatch) -> None:
    """``min_lr + coefficient * (learning_rate - min_lr)`` with a cosine, after the warm-up."""
    _, adam = run(monkeypatch, Optimiser(learning_rate=1e-3, warmup_steps=4, lowest_share=0.1), 20)
    assert all(len(rates) == 1 for rates in adam.rates)
    for step, (rate,) in enumerate(adam.rates[3:], start=4):
        coefficient = 0.5 * (1 + math.cos(math.pi * (step - 4) / (20 - 4)))
        assert rate == pytest.approx(1e-4 + coefficient * (1e-3 - 1e-4), rel=1e-6)
    assert max(adam.rates[-1]) == pytest.approx(1e-4)


def test_weight_decay_leaves_biases_and_gains_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, adam = run(monkeypatch, Optimiser(weight_decay=0.1), 1)
    decays = {id(one): group["weight_decay"] for group in adam.param_groups for one in group["params"]}
    named = {name: decays[id(one)] for name, one in model.named_parameters()}
    assert {name for name, decay in named.items() if decay == 0} == {
        name for name in named if name.endswith("bias") or "norm" in name
    }
    assert set(named.values()) == {0.0, 0.1}


def test_the_defaults_are_nanogpts_small_setting() -> None:
    """Its README: 4 layers, 4 heads, width 128, 64 characters, no dropout; train.py the rest."""
    task = build_task("language-modelling")
    assert isinstance(task, CharacterTask)
    model, optimiser = task.model, task.optimiser
    assert (model.layers, model.heads, model.d_model, model.d_ff, model.dropout) == (4, 4, 128, 4 * 128, 0.0)
    assert (task.train_length, task.batch) == (64, 12)
    assert (optimiser.learning_rate, optimiser.warmup_steps, optimiser.schedule) == (1e-3, 100, "cosine")
    assert (optimiser.beta2, optimiser.weight_decay, optimiser.clip_norm) == (0.99, 0.1, 1.0)
    assert optimiser.lowest_share * optimiser.learning_rate == pytest.approx(1e-4)
