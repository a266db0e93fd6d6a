"""The figures of models of today, against the models' own configurations and against attention itself."""

import math

import pytest
import torch

from locant.extension import inspect_model
from locant.figures import draw_figure
from locant.figures.layer_patterns import MODELS
from locant.positions import Mask, attend

CLASSES = {
    "Llama 4": "Llama4TextConfig",
    "SmolLM3": "SmolLM3Config",
    "Cohere 2": "Cohere2Config",
    "EXAONE 4": "Exaone4Config",
    "Gemma 3": "Gemma3TextConfig",
    "OLMo 3": "Olmo3Config",
    "gpt-oss": "GptOssConfig",
}


@pytest.mark.parametrize("name", MODELS)
def test_layer_patterns_are_what_transformers_has_by_default(name, tmp_path):
    transformers = pytest.importorskip("transformers")
    getattr(transformers, CLASSES[name])().save_pretrained(tmp_path)
    parsed = inspect_model(tmp_path / "config.json").parsed
    layers, pattern, window = MODELS[name]
    kinds = {
        index: "L" if kind.window else "N" if kind.config is None else "G"
        for kind in parsed.layers
        for index in kind.layers
    }
    assert "".join(kinds[index] for index in range(layers)) == (pattern * layers)[:layers]
    assert {kind.window for kind in parsed.layers} - {None} == ({window} if window else set())


def test_the_weight_of_the_right_key_is_what_attention_gives_it():
    drawn = draw_figure("attention-temperature").data
    for column in (0, 200):
        count = int(drawn["keys"][column])
        for factor, weight in zip(drawn["factors"][:, column], drawn["weights"][:, column], strict=True):
            q, k = torch.full((1, 1, 1, 1), 10.0 * factor, dtype=torch.float64), torch.zeros(1, 1, count, 1).double()
            k[0, 0, 7] = 1
            right = torch.zeros_like(k)
            right[0, 0, 7] = 1
            assert attend(q, k, right, Mask()).item() == pytest.approx(weight, rel=1e-9)
    steps = dict(zip(drawn["keys"].tolist(), drawn["factors"][1].tolist(), strict=True))
    assert all(value == pytest.approx(1 + 0.1 * math.log(1 + n // 8192)) for n, value in steps.items())


def test_partial_rotary_keeps_what_does_not_turn():
    drawn = draw_figure("partial-rotary").data
    assert drawn["distances"][0] == 1
    for factor, score in zip((1, 0.5, 0.25), drawn["scores"], strict=True):
        pairs = round(64 * factor)
        turning = sum(math.cos(10000 ** (-pair / pairs)) for pair in range(pairs)) / pairs
        assert score[0] == pytest.approx(1 - factor + factor * turning)
        assert (score >= 1 - 2 * factor).all()  # of the features that turn, at worst each is the opposite
        assert score[-1] < 1


def test_windows_reach_one_window_further_in_each_layer():
    first = draw_figure("windows", length=16).data["first"]
    for query in range(16):
        for key in range(16):
            layers = max(1, math.ceil((query - key) / 3))  # a window of 4 is 3 tokens back
            assert first[query, key] == (0 if key > query or layers > 3 else layers)


def test_gates_discount_by_their_product():
    found = draw_figure("forget-gates").data
    gates = [0.05 if token in (3, 7) else 0.95 for token in range(10)]
    for query in range(10):
        for key in range(query + 1):
            assert found["read"][query, key] == pytest.approx(math.prod(gates[key + 1 : query + 1]))
            assert found["equal"][query, key] == pytest.approx(0.95 ** (query - key))
