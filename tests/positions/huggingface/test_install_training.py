"""Training and compiling models of transformers with Locant's positions in them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_causal_models import SHORT, causal_model, logits, some_tokens
from torch import Tensor

from locant.positions.huggingface import install, uninstall

transformers = pytest.importorskip("transformers")


def gradients(model: Any, tokens: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    model.train()
    model(tokens, labels=tokens, use_cache=False).loss.backward()
    model.eval()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("family", ["llama", "glm", "deepseek_v3", "llama4_text"])
def test_gradients_are_those_of_transformers(family: str) -> None:
    model, tokens = causal_model(family), some_tokens(16, rows=2)
    theirs = gradients(model, tokens)
    with install(model):
        ours = gradients(model, tokens)
    for name in theirs:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scheme", [None, "alibi", "t5", "fire"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing(scheme: str | None, reentrant: bool) -> None:
    model, tokens = causal_model("llama", **SHORT), some_tokens(24, rows=2)
    torch.manual_seed(0)
    install(model, scheme=scheme)
    plain = gradients(model, tokens)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    found = gradients(model, tokens)
    for name in plain:
        torch.testing.assert_close(found[name], plain[name], rtol=1e-4, atol=1e-6)


def test_adapters_of_peft() -> None:
    peft = pytest.importorskip("peft")
    tokens = some_tokens(16, rows=2)
    results = []
    for order in ("plain", "before", "after"):
        model = causal_model("llama")
        if order == "before":
            install(model)
        torch.manual_seed(0)
        model = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["q_proj", "k_proj"]))
        if order == "after":
            install(model)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.fill_(0.1)
        model(tokens, labels=tokens).loss.backward()
        assert {name for name, each in model.named_parameters() if each.grad is not None} == {
            name for name, _ in model.named_parameters() if "lora" in name
        }
        found = logits(model.eval(), tokens)
        if order != "plain":
            uninstall(model)
        torch.testing.assert_close(logits(model.merge_and_unload(), tokens), found, rtol=0, atol=1e-3)
        results.append(found)
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=1e-4)
    torch.testing.assert_close(results[2], results[0], rtol=0, atol=1e-4)


@pytest.mark.parametrize("family", ["llama", pytest.param("gemma3_text", marks=pytest.mark.slow)])
def test_compiling_needs_no_graph_break(family: str) -> None:
    model, tokens = causal_model(family), some_tokens(16)
    install(model)
    expected = logits(model, tokens)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(logits(compiled, tokens), expected, rtol=0, atol=1e-4)
    torch.compiler.reset()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["shaw", "alibi", "self-extend", None])
def test_compiling_schemes_at_the_attention(scheme: str | None) -> None:
    model, tokens = causal_model("llama", num_hidden_layers=1, **SHORT), some_tokens(20)
    torch.manual_seed(0)
    install(model, scheme=scheme)
    expected = logits(model, tokens)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=scheme is not None)
    torch.testing.assert_close(logits(compiled, tokens), expected, rtol=0, atol=1e-4)
    torch.compiler.reset()
