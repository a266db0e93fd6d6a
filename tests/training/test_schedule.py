from __future__ import annotations

import math

import pytest

from locant.training import TrainingSettings, learning_rate
from locant.training.budget import Budget


@pytest.mark.parametrize("step", [1, 100, 3999, 4000, 4001, 16_000, 100_000])
def test_inverse_sqrt_is_equation_3_of_the_paper(step):
    expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert learning_rate(TrainingSettings(), 512, step, 100_000) == pytest.approx(expected)


def test_cosine_and_linear_fall_from_the_peak_to_zero():
    for schedule, half in (("cosine", 0.5), ("linear", 0.5)):
        settings = TrainingSettings(schedule=schedule, learning_rate=0.01, warmup_steps=100, steps=1100)
        assert learning_rate(settings, 64, 50, 1100) == pytest.approx(0.005)
        assert learning_rate(settings, 64, 100, 1100) == pytest.approx(0.01)
        assert learning_rate(settings, 64, 600, 1100) == pytest.approx(0.01 * half)
        assert learning_rate(settings, 64, 1100, 1100) == pytest.approx(0, abs=1e-12)
    quarter = learning_rate(
        TrainingSettings(schedule="cosine", learning_rate=0.01, warmup_steps=0, steps=1000), 64, 250, 1000
    )
    assert quarter == pytest.approx(0.01 * 0.5 * (1 + math.cos(math.pi / 4)))


def test_a_time_budget_shortens_the_warm_up_and_ends_at_zero():
    settings = TrainingSettings(minutes=1, learning_rate=0.01, warmup_steps=4000)
    assert learning_rate(settings, 64, 100, 1000) == pytest.approx(0.01)
    assert learning_rate(settings, 64, 1000, 1000) == pytest.approx(0, abs=1e-12)
    rates = [learning_rate(settings, 64, step, 1000) for step in range(100, 1001)]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("updates", [4, 8, 12, 40, 400])
def test_the_rate_falls_to_zero_however_few_updates_the_minutes_allow(updates):
    """The first of them takes three times as long as the others, and counts for no more than itself."""
    settings = TrainingSettings(minutes=1, learning_rate=0.01, warmup_steps=10, schedule="cosine")
    one = 60 / (updates + 2)
    rates = []
    for step in range(1, updates + 1):
        total = settings.budget().total_steps(step, (step + 2) * one, first=3 * one)
        rates.append(learning_rate(settings, 64, step, total))
    assert rates[-1] == pytest.approx(0, abs=1e-6)
    assert rates[0] <= 0.001, "until something is known of the speed, it warms up"
    assert max(rates) > 0.005
    estimate = Budget(minutes=1).total_steps(updates // 2, (updates // 2 + 2) * one, first=3 * one)
    assert estimate == pytest.approx(updates) or (estimate == 1000 and updates < 20)
