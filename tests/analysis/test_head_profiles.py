"""Head profiles against loops over the weights, and against attention whose pattern is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from test_introspection import SOURCE, TARGET, model_with

from locant.analysis import head_profiles, introspect
from locant.errors import DataError
from locant.models import CrossAttention, SelfAttention

PAIRS = [(SOURCE, TARGET), (SOURCE[:4], TARGET[:3])]


def test_profiles_are_means_over_queries() -> None:
    model = model_with("sinusoidal")
    found = head_profiles(model, PAIRS, reach=3)
    seen = [introspect(model, *pair) for pair in PAIRS]
    attention = {
        "encoder": [torch.stack(one.encoder_attention).double().numpy() for one in seen],
        "decoder": [torch.stack(one.decoder_attention).double().numpy() for one in seen],
        "cross": [torch.stack(one.cross_attention).double().numpy() for one in seen],
    }
    for kind, sentences in attention.items():
        profile = found[kind]
        assert profile.offsets.tolist() == ([-3, -2, -1, 0] if kind == "decoder" else [-3, -2, -1, 0, 1, 2, 3])
        for place, offset in enumerate(profile.offsets.tolist()):
            values = [
                weights[1, 0, query, query + offset]
                for weights in sentences
                for query in range(weights.shape[2])
                if 0 <= query + offset < weights.shape[3]
            ]
            assert float(profile.weights[1, 0, place]) == pytest.approx(np.mean(values), abs=1e-9)
        entropies = [
            -sum(weight * math.log(weight) for weight in row if weight > 0)
            for weights in sentences
            for row in weights[0, 1]
        ]
        assert float(profile.entropy[0, 1]) == pytest.approx(np.mean(entropies), abs=1e-9)


def test_equal_scores_are_as_even_as_can_be() -> None:
    model = model_with("none")
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, SelfAttention):
                module.query_key_value.weight.zero_()
                module.query_key_value.bias.zero_()
            elif isinstance(module, CrossAttention):
                module.query.weight.zero_()
                module.query.bias.zero_()
    for profile in head_profiles(model, PAIRS).values():
        torch.testing.assert_close(
            profile.entropy, torch.full_like(profile.entropy, profile.even), rtol=1e-5, atol=1e-6
        )
    with pytest.raises(DataError, match="no sentences"):
        head_profiles(model, [])
