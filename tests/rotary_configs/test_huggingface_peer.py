"""The dialect of Hugging Face against the transformers that is installed."""

from __future__ import annotations

import copy
import importlib
from typing import Any

import pytest
from huggingface_peer import assert_same_frequencies
from published_models import MODELS
from rotary_examples import PAIRS

from locant.positions import RotaryConfig
from locant.positions.scaling import (
    FrequencyScaling,
    Linear,
    Llama3,
    LongRoPE,
    NTKAware,
    Proportional,
    Unscaled,
    YaRN,
)
from locant.rotary_configs import read_huggingface, write_huggingface
from locant.rotary_configs.classes import families

pytest.importorskip("transformers")

import torch
from transformers import CONFIG_MAPPING


@pytest.mark.parametrize("model", MODELS)
def test_published_models_have_the_frequencies_of_transformers_in_long_texts(model: str) -> None:
    entries = copy.deepcopy({key: value for key, value in MODELS[model].items() if key != "model_type"})
    theirs = CONFIG_MAPPING[MODELS[model]["model_type"]](**entries)
    assert_same_frequencies(theirs, read_huggingface(MODELS[model]).config, length=100_000)


_EXTENSION = {"original_length": 2048, "factor": 4.0}


@pytest.mark.parametrize("version", ["4", "5"])
@pytest.mark.parametrize(
    "scaling",
    [
        Unscaled(),
        Linear(**_EXTENSION),
        NTKAware(**_EXTENSION),
        YaRN(**_EXTENSION, beta_fast=20.0),
        YaRN(**_EXTENSION, attention_factor=1.1),
        YaRN(**_EXTENSION, mscale=1.0, mscale_all_dim=0.5),
        LongRoPE(**_EXTENSION, short_factors=[1.0] * PAIRS, long_factors=[2.0 + i for i in range(PAIRS)]),
        Llama3(**_EXTENSION),
        Proportional(rotary_fraction=0.5),
    ],
    ids=lambda scaling: scaling.name,
)
def test_transformers_takes_what_is_written(scaling: FrequencyScaling, version: Any) -> None:
    config = RotaryConfig(head_dim=2 * PAIRS, base=5e5, scaling=scaling)
    if scaling.name == "proportional" and version == "4":
        pytest.skip("transformers 4 has no such scaling")
    theirs = CONFIG_MAPPING["llama"](**write_huggingface(config, version, model_type="llama"))
    for length in (None, 5000):
        expected = (
            config
            if scaling.name != "ntk"
            else RotaryConfig(head_dim=2 * PAIRS, base=theirs.rope_parameters["rope_theta"])
        )
        assert_same_frequencies(theirs, expected, length=length)


def test_transformers_takes_a_partly_rotated_head() -> None:
    config = RotaryConfig(head_dim=98, rotary_dim=54)
    theirs = CONFIG_MAPPING["stablelm"](**write_huggingface(config, model_type="stablelm"))
    assert_same_frequencies(theirs, config)


@pytest.mark.parametrize(
    "model_type",
    ["cohere", "cohere2", "glm", "glm4", "helium", "ernie4_5", "llama", "qwen3", "gpt_neox", "phi", "olmo2"],
)
def test_layouts_are_those_of_the_classes(model_type: str) -> None:
    module = importlib.import_module(f"transformers.models.{model_type}.modeling_{model_type}")
    turned = module.rotate_half(torch.arange(1.0, 5.0)).tolist()
    assert turned == ([-2, 1, -4, 3] if families.layout_of(model_type, None) == "interleaved" else [-3, -4, 1, 2])
