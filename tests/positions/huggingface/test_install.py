"""Locant's rotation in models of transformers: the same logits, at any position and dtype, and back again."""

from __future__ import annotations

import copy
import io
from typing import Any

import mpmath
import pytest
import torch
from small_causal_models import DYNAMIC, FAMILIES, LONGROPE, causal_model, logits, logits_by_steps, some_tokens
from torch import Tensor, nn

from locant.errors import ConfigError, LocantError
from locant.positions import Linear, NTKAware, RotaryConfig
from locant.positions.huggingface import install, uninstall

transformers = pytest.importorskip("transformers")
from transformers.integrations.sdpa_attention import sdpa_attention_forward  # noqa: E402
from transformers.masking_utils import sdpa_mask  # noqa: E402


@pytest.mark.sampled(5)
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers(family: str) -> None:
    model, tokens = causal_model(family), some_tokens(24, rows=2)
    theirs = logits(model, tokens)
    with install(model) as installed:
        assert not installed.caches_unrotated_keys
        torch.testing.assert_close(logits(model, tokens), theirs, rtol=0, atol=1e-4)
        torch.testing.assert_close(logits_by_steps(model, tokens, 10), theirs, rtol=0, atol=1e-4)
    assert torch.equal(logits(model, tokens), theirs)


def test_far_positions_are_as_near_ones() -> None:
    """Rotary positions are relative: where a text begins must not change its logits."""
    model, tokens = causal_model("llama"), some_tokens(24)
    at = torch.arange(24)[None]

    def change() -> float:
        near, far = (logits(model, tokens, position_ids=at + begin).float() for begin in (0, 3_000_000))
        return (near - far).abs().max().item()

    theirs = change()
    install(model)
    assert change() < 1e-4 < theirs / 1000


def test_keys_in_bfloat16_are_rounded_once() -> None:
    model, tokens = causal_model("llama", dtype=torch.bfloat16), some_tokens(24)
    start = 1_000_000
    seen: list[Tensor] = []

    def first_keys() -> Tensor:
        seen.clear()
        logits(model, tokens, position_ids=torch.arange(24)[None] + start)
        return seen[0].double()

    def spy(module: Any, query: Tensor, key: Tensor, value: Tensor, *args: Any, **options: Any) -> Any:
        seen.append(key)
        return sdpa_attention_forward(module, query, key, value, *args, **options)

    transformers.AttentionInterface.register("spy", spy)
    transformers.AttentionMaskInterface.register("spy", sdpa_mask)
    model.set_attn_implementation("spy")
    theirs = first_keys()
    with install(model, scheme="none"):
        a, b = first_keys().chunk(2, dim=-1)
    with install(model):
        ours = first_keys()
    with mpmath.workdps(30):
        turns = [[mpmath.mpf(10000) ** (-mpmath.mpf(i) / 8) * (start + p) for i in range(8)] for p in range(24)]
        cosine, sine = (
            torch.tensor([[float(f(x)) for x in row] for row in turns]).double() for f in (mpmath.cos, mpmath.sin)
        )
    exact = torch.cat((a * cosine - b * sine, a * sine + b * cosine), dim=-1)
    # Numbers of bfloat16 have eight bits: one rounding is off by up to 2^-8 of them.
    assert ((ours - exact).abs() <= 2**-8 * exact.abs() + 1e-6).all()
    assert (theirs - exact).abs().max() > 2 * (ours - exact).abs().max()


def test_everything_else_stays_as_it_was(tmp_path: Any) -> None:
    model, tokens = causal_model("llama"), some_tokens(12)
    kinds = [type(module) for module in model.modules()]
    names, before = list(model.state_dict()), repr(model)
    attention = model.model.layers[0].self_attn
    install(model)
    assert repr(model) == before
    assert list(model.state_dict()) == names
    assert type(attention).__name__ == "LlamaAttention"
    assert isinstance(attention, kinds[[type(m).__name__ for m in model.modules()].index("LlamaAttention")])
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    uninstall(model)
    assert [type(module) for module in model.modules()] == kinds
    assert torch.equal(logits(loaded, tokens), logits(model, tokens))
    assert "forward" not in vars(attention)


@pytest.mark.parametrize("rope", [None, DYNAMIC])
def test_copies_and_pickles_have_the_same_positions(rope: Any) -> None:
    model, tokens = causal_model("llama", max_position_embeddings=16, rope_parameters=rope), some_tokens(30)
    plain = logits(model, tokens)
    scaled = RotaryConfig(head_dim=16, scaling=Linear(factor=4.0)) if rope is None else None
    install(model, scaled)
    ours = logits(model, tokens)
    assert (ours - plain).abs().max() > 0.01
    stream = io.BytesIO()
    torch.save(model, stream)
    stream.seek(0)
    for other in (copy.deepcopy(model), torch.load(stream, weights_only=False)):
        assert torch.equal(logits(other, tokens), ours)
        uninstall(other)
        assert not torch.equal(logits(other, tokens), ours)
    assert torch.equal(logits(model, tokens), ours)


def test_other_models_of_the_class_are_not_touched() -> None:
    one, other, tokens = causal_model("llama"), causal_model("llama"), some_tokens(12)
    before = logits(other, tokens)
    install(one, RotaryConfig(head_dim=16, scaling=Linear(factor=4.0)))
    assert torch.equal(logits(other, tokens), before)
    install(other, RotaryConfig(head_dim=16, base=100.0))
    assert not torch.allclose(logits(one, tokens), logits(other, tokens), atol=0.01)
    uninstall(one)
    uninstall(other)
    assert torch.equal(logits(one, tokens), before)


def test_layer_types_may_be_given_apart() -> None:
    model, tokens = causal_model("gemma3_text"), some_tokens(24)
    theirs = logits(model, tokens)
    configs = {
        "full_attention": RotaryConfig(head_dim=16, base=1e6),
        "sliding_attention": RotaryConfig(head_dim=16, base=100.0),
    }
    with install(model, configs):
        torch.testing.assert_close(logits(model, tokens), theirs, rtol=0, atol=1e-4)
    with install(model, configs | {"full_attention": RotaryConfig(head_dim=16, base=10.0)}):
        assert (logits(model, tokens) - theirs).abs().max() > 0.01


def test_positions_of_several_axes() -> None:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    config = transformers.Qwen2VLTextConfig(
        hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=50, rope_parameters=rope,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config).eval()
    image = torch.stack([torch.arange(24) // 6, torch.arange(24) % 6, torch.arange(24) % 4])[:, None]
    for positions in (None, image):
        with torch.no_grad():
            theirs = model(some_tokens(24), position_ids=positions).last_hidden_state
            with install(model):
                ours = model(some_tokens(24), position_ids=positions).last_hidden_state
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
    with pytest.raises(LocantError):
        install(model, scheme="alibi")


@pytest.mark.parametrize("implementation", ["eager", "sdpa", "flex_attention"])
@pytest.mark.parametrize("positions", ["static", "longrope"])
def test_attention_implementations_agree(implementation: str, positions: str) -> None:
    rope = LONGROPE if positions == "longrope" else None
    model, tokens = causal_model("phi3", rope_parameters=rope, original_max_position_embeddings=16), some_tokens(40, 2)
    padding = torch.ones_like(tokens)
    padding[1, :5] = 0
    install(model)
    expected = logits(model, tokens, attention_mask=padding)
    model.set_attn_implementation(implementation)
    with torch.compiler.set_stance("force_eager"):  # FlexAttention without its compiler
        found = logits(model, tokens, attention_mask=padding)
    torch.testing.assert_close(found[padding > 0], expected[padding > 0], rtol=0, atol=1e-4)


@pytest.mark.parametrize("scheme", [None, "alibi"])
def test_hooks_of_accelerate_stay(scheme: str | None) -> None:
    hooks = pytest.importorskip("accelerate.hooks")
    model, hooked, tokens = causal_model("llama"), causal_model("llama"), some_tokens(12)
    hooks.add_hook_to_module(hooked, hooks.AlignDevicesHook(io_same_device=True))
    for module in hooked.modules():
        hooks.add_hook_to_module(module, hooks.AlignDevicesHook(execution_device="cpu"))
    before = logits(hooked, tokens)
    install(model, scheme=scheme)
    install(hooked, scheme=scheme)
    assert torch.equal(logits(hooked, tokens), logits(model, tokens))
    assert torch.equal(logits(copy.deepcopy(hooked), tokens), logits(model, tokens))
    uninstall(hooked)
    assert torch.equal(logits(hooked, tokens), before)


def test_what_is_refused_changes_nothing() -> None:
    model, tokens = causal_model("llama"), some_tokens(12)
    before = logits(model, tokens)
    for arguments in (
        {"config": RotaryConfig(head_dim=16, rotary_dim=8)},
        {"config": RotaryConfig(head_dim=16, layout="interleaved")},
        {"config": dict.fromkeys("ab", RotaryConfig(head_dim=16))},
        {"config": RotaryConfig(head_dim=16), "scheme": "alibi"},
        {"scheme": "sinusoidal"},
        {"scheme": "fox"},
        {"scheme": "alibbi"},
        {"scheme_options": {"window": 3}},
    ):
        with pytest.raises(ConfigError):
            install(model, **arguments)
        assert torch.equal(logits(model, tokens), before)
    with pytest.raises(ConfigError):
        uninstall(model)
    install(model)
    with pytest.raises(ConfigError):
        install(model)


def test_models_that_cannot_be_served() -> None:
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=9))
    for model in (nn.Linear(2, 2), gpt2):
        with pytest.raises(LocantError):
            install(model)
    for family in ("llama4_text", "falcon"):
        with pytest.raises(LocantError):
            install(causal_model(family), scheme="alibi")
    patched = causal_model("llama")
    attention = patched.model.layers[0].self_attn
    attention.forward = attention.forward
    with pytest.raises(LocantError, match="another tool"):
        install(patched)


def test_frequencies_that_no_configuration_says_are_those_of_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokens = causal_model("llama"), some_tokens(24)
    own = 1 / 7 ** (torch.arange(0, 16, 2) / 16)
    monkeypatch.setattr(
        type(model.model.rotary_emb), "compute_default_rope_parameters", staticmethod(lambda config: (own, 1.0))
    )
    model.model.rotary_emb.inv_freq.copy_(own)
    theirs = logits(model, tokens)
    with install(model) as installed:
        assert len(installed.notes) == 1
        assert [float(f) for f in installed.configs["all"].frequencies()] == own.tolist()
        torch.testing.assert_close(logits(model, tokens), theirs, rtol=0, atol=1e-4)
    with install(model, RotaryConfig(head_dim=16, scaling=NTKAware(factor=2.0, original_length=64))) as installed:
        assert installed.notes == ()
