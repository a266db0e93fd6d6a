"""The figures of gradients, operations in a row and times: records as they must be, and counts anew."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from locant.figures import FigureData, draw_figure
from locant.models import LanguageModel, LanguageModelConfig

MODELS = ["plain RNN", "GRU", "LSTM", "Transformer"]


@pytest.fixture(scope="module")
def recurrence() -> FigureData:
    return draw_figure("recurrence")


def test_gradients_reach_as_the_theory_says(recurrence: FigureData) -> None:
    for when in ("before", "after"):
        curves = {name: recurrence.data[f"{when} training: {name}"] for name in MODELS}
        assert all(curve[0] == 1 and len(curve) == 64 for curve in curves.values())
        assert curves["Transformer"][-1] > 1e-3
        assert curves["plain RNN"][-1] < 1e-7
    # Every input but the last meets the plain network through the same matrix, and so fades by a nearly even factor.
    early = recurrence.data["before training: plain RNN"]
    factors = early[1:20] / early[:19]
    assert factors.max() / factors.min() < 2


def test_what_must_wait(recurrence: FigureData) -> None:
    lengths = recurrence.data["lengths"]
    assert lengths.tolist() == [8, 16, 32, 64]
    for name in MODELS[:3]:
        counts = recurrence.data[f"operations: {name}"]
        each = np.diff(counts) / np.diff(lengths)
        assert np.ptp(each) == 0  # a straight line
        assert each[0] >= 2  # a matrix product and its nonlinearity
    assert len(set(recurrence.data["operations: Transformer"])) == 1


def test_times_are_of_the_record(recurrence: FigureData) -> None:
    for name in MODELS:
        assert (recurrence.data[f"seconds: {name}"] > 0).all()
    (axes,) = (axes for axes in recurrence.figure.axes if "Time" in axes.get_title(loc="left"))
    assert any("cores, torch" in text.get_text() for text in axes.texts)  # on which machine


def test_pre_and_post_norm() -> None:
    data = draw_figure("pre-post-norm").data
    labels = [f"{norm}-norm, {warm_up}" for norm in ("post", "pre") for warm_up in ("warm-up", "no warm-up")]
    assert {f"{what}: {label}" for what in ("before", "after", "loss") for label in labels} == set(data)
    for norm in ("post", "pre"):
        np.testing.assert_array_equal(data[f"before: {norm}-norm, warm-up"], data[f"before: {norm}-norm, no warm-up"])
    post, pre = (data[f"before: {norm}-norm, warm-up"] for norm in ("post", "pre"))
    # Xiong et al. 2020, theorem 1: the last layer's gradient is larger with post-norm.
    assert post[-1] > 2 * pre[-1]
    assert pre[0] > pre[-1]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_before_training_the_weights_decide(norm: str) -> None:
    """Random characters, the same model: layers compare as in the record, because the initial weights decide it."""
    torch.manual_seed(1)
    size = {"layers": 6, "d_model": 64, "d_ff": 256, "heads": 4, "position": "sinusoidal", "norm": norm}
    model = LanguageModel(LanguageModelConfig.parse({"vocab_size": 66, **size}, "test"))
    ids = torch.randint(1, 66, (16, 65))
    nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
    found = [layer.feed_forward.outer.weight.grad.norm().item() for layer in model.stack.layers]
    recorded = draw_figure("pre-post-norm").data[f"before: {norm}-norm, warm-up"]
    ratios = np.array(found) / recorded
    np.testing.assert_allclose(ratios / ratios.mean(), 1, atol=0.25)
