"""Head profiles against loops over the weights, and against attention whose pattern is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tiny_models import tiny_model

from locant.analysis import introspect
from locant.figures.heads import head_profiles
from locant.models import CrossAttention, SelfAttention

PAIRS = [([5, 9, 4, 11, 7, 8, 30, 12, 6, 21, 3], [2, 6, 20, 10, 5, 13, 13]), ([5, 9, 4, 11], [2, 6, 20])]


def test_profiles_are_means_over_queries() -> None:
    model = tiny_model(40, d_model=24, encoder_layers=2)
    found = head_profiles(model, PAIRS)
    seen = [introspect(model, *pair) for pair in PAIRS]
    attention = {
        "encoder": [torch.stack(one.encoder_attention).double().numpy() for one in seen],
        "decoder": [torch.stack(one.decoder_attention).double().numpy() for one in seen],
        "cross": [torch.stack(one.cross_attention).double().numpy() for one in seen],
    }
    for kind, sentences in attention.items():
        profile = found[kind]
        longest = max(weights.shape[2] for weights in sentences)
        assert profile["offsets"][0] == -min(8, longest - 1)
        assert (profile["offsets"][-1] == 0) == (kind == "decoder")
        for place, offset in enumerate(profile["offsets"]):
            values = [
                weights[1, 0, query, query + offset]
                for weights in sentences
                for query in range(weights.shape[2])
                if 0 <= query + offset < weights.shape[3]
            ]
            assert profile["weights"][1][0][place] == pytest.approx(np.mean(values), abs=1e-9)
        entropies = [
            -sum(weight * math.log(weight) for weight in row if weight > 0)
            for weights in sentences
            for row in weights[0, 1]
        ]
        assert profile["entropy"][0][1] == pytest.approx(np.mean(entropies), abs=1e-9)


def test_equal_scores_are_as_even_as_can_be() -> None:
    model = tiny_model(40, d_model=24, encoder_layers=2, position="none")
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, SelfAttention):
                module.query_key_value.weight.zero_()
                module.query_key_value.bias.zero_()
            elif isinstance(module, CrossAttention):
                module.query.weight.zero_()
                module.query.bias.zero_()
    for profile in head_profiles(model, PAIRS).values():
        np.testing.assert_allclose(profile["entropy"], profile["even"], rtol=1e-5, atol=1e-6)
