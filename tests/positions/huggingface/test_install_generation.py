"""Generation with Locant's positions in models of transformers: with a cache as without, in every way of decoding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from small_causal_models import DYNAMIC, LONGROPE, SHORT, causal_model, logits, logits_by_steps, some_tokens
from torch import Tensor

from locant.errors import LocantError
from locant.positions import DynamicNTK, RotaryConfig
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
OF_FOUR_PAIRS = LONGROPE | {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.0, 2.0, 3.0, 4.0]}
FOLLOWING: dict[str, tuple[str, dict[str, Any]]] = {
    "dynamic": ("llama", SHORT),
    "longrope": ("phi3", {"rope_parameters": LONGROPE, "original_max_position_embeddings": 16}),
    "longrope of latent attention": ("minicpm3", {"rope_parameters": OF_FOUR_PAIRS}),
    "dynamic with windows": ("mistral", SHORT | {"sliding_window": 9}),
    "dynamic of a part": ("phi", SHORT | {"rope_parameters": DYNAMIC | {"partial_rotary_factor": 0.5}}),
    "dynamic of neighbours": ("cohere", SHORT),
    "dynamic beside layers without positions": ("smollm3", SHORT | {"no_rope_layers": [1, 0]}),
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
    for rope in (None, DYNAMIC):
        options = {"rope_parameters": rope, "max_position_embeddings": 16}
        model, assistant, tokens = causal_model("llama", **options), causal_model("llama", **options), some_tokens(10)
        with torch.no_grad():
            assistant.lm_head.weight += 0.1 * torch.randn_like(assistant.lm_head.weight)  # is right now and then
        install(model)
        expected = generated(model, tokens)
        for with_ours in (False, True):
            if with_ours:
                install(assistant)
            assert torch.equal(generated(model, tokens, assistant_model=assistant), expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FOLLOWING)
def test_frequencies_that_follow_the_length(name: str) -> None:
    """With a cache as without; transformers itself gives other logits (below)."""
    family, entries = FOLLOWING[name]
    model, tokens = causal_model(family, **entries), some_tokens(40, rows=2)
    installed = install(model)
    assert installed.caches_unrotated_keys
    whole = logits(model, tokens)
    for prompt in (10, 25):
        torch.testing.assert_close(logits_by_steps(model, tokens, prompt), whole, rtol=0, atol=1e-4)
    with torch.no_grad():  # in chunks
        found = model(tokens[:, :9], use_cache=True)
        rest = model(tokens[:, 9:], use_cache=True, past_key_values=found.past_key_values).logits
    torch.testing.assert_close(rest, whole[:, 9:], rtol=0, atol=1e-4)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["dynamic", "longrope"])
def test_generation_beyond_the_original_length(name: str) -> None:
    family, entries = FOLLOWING[name]
    model, (tokens, real) = causal_model(family, **entries), left_padded()
    whole = logits(model, some_tokens(40))
    assert (logits_by_steps(model, some_tokens(40), 10) - whole).abs().max() > 0.01  # of transformers
    install(model)
    for way in ("greedy", "beam", "static cache", "static cache and beams"):
        options = WAYS[way] | {"attention_mask": real}
        plain = {key: value for key, value in options.items() if "cache" not in key} | {"use_cache": False}
        assert torch.equal(generated(model, tokens, **options), generated(model, tokens, **plain))
    alone = [generated(model, row[mask > 0][None])[0] for row, mask in zip(tokens, real, strict=True)]
    together = generated(model, tokens, attention_mask=real)
    for row, own in zip(together, alone, strict=True):
        assert torch.equal(row[-len(own) :], own)


def test_dynamic_frequencies_of_a_text_are_those_of_its_length() -> None:
    model, tokens = causal_model("llama", **SHORT), some_tokens(40)
    theirs = logits(model, tokens)
    scaling = DynamicNTK(original_length=16, factor=4.0)
    with install(model, RotaryConfig(head_dim=16, scaling=replace(scaling, target_length=40))):
        torch.testing.assert_close(logits(model, tokens), theirs, rtol=0, atol=1e-4)
    with install(model, RotaryConfig(head_dim=16, scaling=scaling)) as installed:
        counted = logits(model, tokens)
    with install(model) as read:  # counted in the same steps
        assert read.configs["all"].scaling == scaling == installed.configs["all"].scaling
        assert torch.equal(logits(model, tokens), counted)
    with install(model, RotaryConfig(head_dim=16, scaling=replace(scaling, length_step=1))):
        found = logits(model, tokens)
        torch.testing.assert_close(logits_by_steps(model, tokens, 20), found, rtol=0, atol=1e-4)


def test_positions_with_gaps_stay_with_their_keys() -> None:
    model, tokens = causal_model("llama", **SHORT), some_tokens(20)
    install(model)
    at, real = torch.cat((torch.arange(5), torch.arange(40, 55)))[None], torch.ones_like(tokens)
    whole = logits(model, tokens, position_ids=at, attention_mask=real)
    with torch.no_grad():
        cache = model(tokens[:, :12], position_ids=at[:, :12], use_cache=True).past_key_values
        rest = model(tokens[:, 12:], position_ids=at[:, 12:], past_key_values=cache, attention_mask=real).logits
    torch.testing.assert_close(rest, whole[:, 12:], rtol=0, atol=1e-4)


def test_a_cache_that_was_filled_before() -> None:
    model, tokens = causal_model("llama", **SHORT), some_tokens(12)
    with torch.no_grad():
        cache = model(tokens, use_cache=True).past_key_values
        install(model)
        with pytest.raises(LocantError, match="filled or made before"):
            model(tokens[:, :1], past_key_values=cache)
