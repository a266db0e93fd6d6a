"""Generation with Locant's positions in models of transformers: the same texts, in every way of decoding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_causal_models import causal_model, some_tokens
from torch import Tensor

from locant.positions.huggingface import install

transformers = pytest.importorskip("transformers")

WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam": {"num_beams": 3, "num_return_sequences": 2},
    "sampling": {"do_sample": True, "top_k": 20},
    "static cache": {"cache_implementation": "static", "disable_compile": True},
    "static cache and beams": {"cache_implementation": "static", "disable_compile": True, "num_beams": 2},
    "prompt lookup": {"prompt_lookup_num_tokens": 3},
}


def generated(model: Any, tokens: Tensor, **options: Any) -> Tensor:
    torch.manual_seed(3)
    settings = {"max_new_tokens": 12, "do_sample": False, "attention_mask": torch.ones_like(tokens)} | options
    return model.generate(tokens, **settings)


def left_padded() -> tuple[Tensor, Tensor]:
    tokens, real = some_tokens(14, rows=3), torch.ones(3, 14, dtype=torch.long)
    real[1, :4] = 0
    real[2, :9] = 0
    return torch.where(real > 0, tokens, 1), real


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", WAYS)
def test_generation_is_that_of_transformers(way: str) -> None:
    model, tokens = causal_model("llama"), some_tokens(10, rows=1 if way == "prompt lookup" else 2)
    theirs = generated(model, tokens, **WAYS[way])
    with install(model):
        assert torch.equal(generated(model, tokens, **WAYS[way]), theirs)


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "deepseek_v3"])
def test_left_padding_is_that_of_transformers(family: str) -> None:
    model, (tokens, real) = causal_model(family), left_padded()
    theirs = generated(model, tokens, attention_mask=real)
    with install(model):
        assert torch.equal(generated(model, tokens, attention_mask=real), theirs)


def test_assisted_generation() -> None:
    model, assistant, tokens = causal_model("llama"), causal_model("llama"), some_tokens(10)
    with torch.no_grad():
        assistant.lm_head.weight += 0.1 * torch.randn_like(assistant.lm_head.weight)  # is right now and then
    install(model)
    expected = generated(model, tokens)
    for with_ours in (False, True):
        if with_ours:
            install(assistant)
        assert torch.equal(generated(model, tokens, assistant_model=assistant), expected)
