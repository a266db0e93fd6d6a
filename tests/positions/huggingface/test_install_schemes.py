"""Other positional schemes than rotation in models of transformers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from small_causal_models import causal_model, logits, logits_by_steps, some_tokens

from locant.positions import KERPLE, SCHEMES, T5, ALiBi, Rotary, SelfExtend
from locant.positions.huggingface import install, uninstall

transformers = pytest.importorskip("transformers")

OPTIONS: dict[str, dict[str, Any]] = {
    "self-extend": {"group": 2, "window": 4},
    "rerope": {"window": 5},
    "randomised": {"scheme": "alibi", "max_positions": 100, "evaluation_length": 40},
    "temperature": {"length": 4},
    "key-offset": {"rotary_dim": 8},
}
READERS = ("data-dependent-alibi", "fox", "relative-profiles")
EMBEDDED = ("sinusoidal", "learned", "index", "normalised-index", "binary")
SERVED = [name for name in SCHEMES if name not in EMBEDDED + READERS]


def without_rotation(model: Any) -> Any:
    """Return a copy whose rotary module turns by no angle."""
    plain = copy.deepcopy(model)
    plain.model.rotary_emb.inv_freq.zero_()
    return plain


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", SERVED)
def test_a_cache_changes_nothing(name: str) -> None:
    heads = {"num_key_value_heads": 4} if name == "mixed-rotary" else {}  # which has frequencies for each head of keys
    model, tokens = causal_model("llama", head_dim=16, **heads), some_tokens(24, rows=2)
    before = logits(model, tokens)
    torch.manual_seed(0)
    install(model, scheme=name, scheme_options=OPTIONS.get(name))
    whole = logits(model, tokens)
    assert torch.allclose(whole, before, atol=1e-4) == (name in ("rotary", "multimodal-rotary"))
    torch.testing.assert_close(logits_by_steps(model, tokens, 10), whole, rtol=0, atol=1e-4)
    if name in ("alibi", "t5", "self-extend"):
        for implementation in ("eager", "flex_attention"):
            model.set_attn_implementation(implementation)
            with torch.compiler.set_stance("force_eager"):
                torch.testing.assert_close(logits(model, tokens), whole, rtol=0, atol=1e-4)
    uninstall(model)
    model.set_attn_implementation("sdpa")
    assert torch.equal(logits(model, tokens), before)


def test_no_positions_and_alibi_against_masks_of_transformers() -> None:
    model, tokens = causal_model("llama"), some_tokens(24)
    plain = without_rotation(model)
    with install(model, scheme="none"):
        torch.testing.assert_close(logits(model, tokens), logits(plain, tokens), rtol=0, atol=1e-5)
    distance = torch.arange(24)[:, None] - torch.arange(24)
    slopes = torch.tensor([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])[:, None, None]
    mask = (-slopes * distance).masked_fill(distance < 0, torch.finfo(torch.float32).min)[None]
    plain.set_attn_implementation("eager")
    for implementation in ("eager", "sdpa"):
        model.set_attn_implementation(implementation)
        with install(model, scheme=ALiBi(4)):
            ours = logits(model, tokens)
        torch.testing.assert_close(ours, logits(plain, tokens, attention_mask=mask), rtol=0, atol=1e-4)


def test_left_padding() -> None:
    model, tokens = causal_model("llama"), some_tokens(20, rows=2)
    real = torch.ones_like(tokens)
    real[1, :7] = 0
    at = (real.cumsum(-1) - 1).clamp(min=0)
    for name in ("alibi", "xpos", "self-extend"):
        with install(model, scheme=name, scheme_options=OPTIONS.get(name)):
            together = logits(model, tokens, attention_mask=real, position_ids=at)
            alone = logits(model, tokens[1:, 7:])
        torch.testing.assert_close(together[1:, 7:], alone, rtol=0, atol=1e-4)


def test_self_extend_reads_near_texts_as_the_model_does() -> None:
    model, tokens = causal_model("llama"), some_tokens(30)
    theirs = logits(model, tokens)
    with install(model, scheme=SelfExtend(16, group=4, window=20)):
        ours = logits(model, tokens)
    torch.testing.assert_close(ours[:, :20], theirs[:, :20], rtol=0, atol=1e-4)
    assert (ours[:, 21:] - theirs[:, 21:]).abs().max() > 0.01


def test_scores_of_other_scales_and_kinds_of_heads() -> None:
    """A scheme that changes nothing changes nothing: Self-Extend in groups of one token is RoPE."""
    for family in ("granite", "gemma2", "minicpm3", "phi", "cohere2", "smollm3"):
        model, tokens = causal_model(family), some_tokens(24)
        model.set_attn_implementation("eager")
        theirs = logits(model, tokens)
        with install(model) as installed:
            config = installed.configs["all"]
        scheme = SelfExtend(16, group=1, window=3, base=config.base, rotary_dim=config.rotary_dim, layout=config.layout)
        with install(model, scheme=scheme):
            torch.testing.assert_close(logits(model, tokens), theirs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("scheme", [lambda: T5(64, 4, True), lambda: KERPLE(4)])
def test_parameters_become_the_models_own(scheme: Any, tmp_path: Any) -> None:
    model, tokens = causal_model("llama"), some_tokens(12, rows=2)
    count = len(list(model.parameters()))
    given = scheme()
    install(model, scheme=given)
    added = [name for name, _ in model.named_parameters() if "position_scheme" in name]
    assert added
    assert len(list(model.parameters())) == count + len(added)
    model.train()
    model(tokens, labels=tokens).loss.backward()
    assert all(model.get_parameter(name).grad.abs().sum() > 0 for name in added)
    model.eval()
    with torch.no_grad():
        for name in added:
            model.get_parameter(name).add_(0.3)
    trained = logits(model, tokens)
    model.save_pretrained(tmp_path)
    other = copy.deepcopy(model)
    assert torch.equal(logits(other, tokens), trained)
    with torch.no_grad():
        other.get_parameter(added[0]).add_(1.0)
    assert torch.equal(logits(model, tokens), trained)  # the copy has parameters of its own
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    install(loaded, scheme=scheme())
    from safetensors.torch import load_file

    loaded.load_state_dict(load_file(tmp_path / "model.safetensors"), strict=False)
    assert torch.equal(logits(loaded.eval(), tokens), trained)


def test_a_plain_rotary_scheme_is_a_configuration() -> None:
    model, tokens = causal_model("llama"), some_tokens(12)
    theirs = logits(model, tokens)
    installed = install(model, scheme=Rotary(16))
    assert not installed.caches_unrotated_keys
    assert installed.scheme is None
    torch.testing.assert_close(logits(model, tokens), theirs, rtol=0, atol=1e-4)
