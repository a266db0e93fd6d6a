"""Today's language models are options of one block: the same weights give the same logits as transformers' classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from locant.models import LanguageModel, LanguageModelConfig

transformers = pytest.importorskip("transformers")

LAYERS, WINDOW = 6, 5
SMALL = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": LAYERS}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
SIZES = {"vocab_size": 60, "layers": LAYERS, "d_model": 32, "d_ff": 48, "heads": 4, "kv_heads": 2}
# What all of them have.
COMMON = {"norm_kind": "rms", "norm_epsilon": 1e-6, "bias": False, "feed_forward": "swiglu", "scale_embeddings": False}
SKIPS_EVERY_FOURTH = [int((layer + 1) % 4 != 0) for layer in range(LAYERS)]
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}


def types(pattern: str, *, local: str = "sliding_attention") -> list[str]:
    return [local if pattern[layer % len(pattern)] == "L" else "full_attention" for layer in range(LAYERS)]


def rotary(base: float = 10000.0, **options: Any) -> dict[str, Any]:
    return {"position": "rotary", "position_options": {"base": base, **options}}


def same(weight: Tensor) -> Tensor:
    return weight


@dataclass(frozen=True)
class Peer:
    """A model of transformers and the settings with which ours is the same."""

    name: str
    config: dict[str, Any]
    ours: dict[str, Any]
    norms: dict[str, str] = field(
        default_factory=lambda: {"input_layernorm": "residuals.0.norm", "post_attention_layernorm": "residuals.1.norm"}
    )
    of_norms: Callable[[Tensor], Tensor] = same
    of_query_norm: Callable[[Tensor], Tensor] = same
    of_last_norm: Callable[[Tensor], Tensor] = same
    config_class: str = ""


GEMMA_NORMS = {
    "input_layernorm": "residuals.0.norm",
    "post_attention_layernorm": "residuals.0.output_norm",
    "pre_feedforward_layernorm": "residuals.1.norm",
    "post_feedforward_layernorm": "residuals.1.output_norm",
}
OLMO_NORMS = {"post_attention_layernorm": "residuals.0.norm", "post_feedforward_layernorm": "residuals.1.norm"}

PEERS = [
    Peer(
        "Llama",
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, **LLAMA3}, "tie_word_embeddings": False},
        {
            "tie_output": False,
            **rotary(
                500000.0,
                scaling={
                    "kind": "llama3", "factor": 8.0, "low_frequency_factor": 1.0,
                    "high_frequency_factor": 4.0,
                    "original_length": 16,
                },
            ),
        },
    ),
    Peer(
        "SmolLM3",
        {"no_rope_layers": SKIPS_EVERY_FOURTH, "rope_parameters": {"rope_type": "default", "rope_theta": 2e6}},
        {"pattern": "RRRN", "kinds": {"R": rotary(2e6), "N": {"position": "none"}}},
    ),
    Peer(
        "Qwen3",
        {"head_dim": 12, "tie_word_embeddings": True},
        {"head_size": 12, "qk_norm": "head", **rotary()},
    ),
    Peer(
        "Gemma3",
        {
            "head_dim": 12,
            "query_pre_attn_scalar": 20,
            "sliding_window": WINDOW,
            "layer_types": types("LLLLLG"),
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
            },
        },
        {
            "head_size": 12,
            "qk_norm": "head",
            "norm": "both",
            "feed_forward": "geglu_tanh",
            "scale_embeddings": True,
            "pattern": "LLLLLG",
            "kinds": {
                "L": {**rotary(), "window": WINDOW},
                "G": rotary(1e6, scaling={"kind": "linear", "factor": 8.0}),
            },
        },
        norms=GEMMA_NORMS,
        of_norms=lambda weight: 1 + weight,
        of_query_norm=lambda weight: weight * (12 / 20) ** 0.5,
        config_class="Gemma3TextConfig",
    ),
    Peer(
        "Cohere2",
        {"logit_scale": 0.25, "layer_norm_eps": 1e-6, "sliding_window": WINDOW, "layer_types": types("LLLG")},
        {
            "norm_kind": "layer",
            "parallel": True,
            "pattern": "LLLG",
            "kinds": {"L": {**rotary(layout="interleaved"), "window": WINDOW}, "G": {"position": "none"}},
        },
        norms={"input_layernorm": "residuals.0.norm"},
        of_last_norm=lambda weight: 0.25 * weight,
    ),
    Peer(
        "Olmo3",
        {
            "sliding_window": WINDOW,
            "layer_types": types("LLLG"),
            "rope_parameters": {
                kind: {"rope_type": "default", "rope_theta": 500000.0}
                for kind in ("sliding_attention", "full_attention")
            },
        },
        {
            "qk_norm": "all",
            "norm": "output",
            "tie_output": False,
            "pattern": "LLLG",
            "kinds": {"L": {**rotary(500000.0), "window": WINDOW}, "G": rotary(500000.0)},
        },
        norms=OLMO_NORMS,
    ),
    Peer(
        "Llama4",
        {
            "no_rope_layers": SKIPS_EVERY_FOURTH, "moe_layers": [], "intermediate_size_mlp": 48, "use_qk_norm": False,
            "attn_temperature_tuning": True, "floor_scale": 4, "attn_scale": 0.3, "head_dim": 8, "num_local_experts": 2,
            "layer_types": types("LLLG", local="chunked_attention"),
            "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
        },
        {
            "tie_output": False,
            "pattern": "RRRN",
            "kinds": {
                "R": rotary(500000.0, layout="interleaved"),
                "N": {
                    "position": "temperature",
                    "position_options": {"scheme": "none", "length": 4, "first": 1, "factor": 0.3},
                },
            },
        },
        config_class="Llama4TextConfig",
    ),
]  # fmt: skip


def build(peer: Peer) -> tuple[Any, LanguageModel]:
    """Return a random model of transformers, and ours with its weights."""
    torch.manual_seed(0)
    given = {**SMALL, **HEADS, "rms_norm_eps": 1e-6, "initializer_range": 0.2, "attn_implementation": "eager"}
    config = getattr(transformers, peer.config_class or f"{peer.name}Config")(**given | peer.config, pad_token_id=None)
    theirs = getattr(transformers, f"{peer.name}ForCausalLM")(config).eval()
    ours = LanguageModel(LanguageModelConfig.parse({**SIZES, **COMMON, **peer.ours})).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.dim() == 1:  # fresh norms would hide one that is left out
                parameter.add_(torch.randn_like(parameter) * 0.2)
    weights = theirs.state_dict()
    found = {
        "embedding.weight": weights["model.embed_tokens.weight"],
        "output.weight": weights["lm_head.weight"],
        "stack.norm.weight": peer.of_last_norm(peer.of_norms(weights["model.norm.weight"])),
    }
    for layer in range(LAYERS):
        own, other = f"stack.layers.{layer}", f"model.layers.{layer}"
        attention, feed = f"{other}.self_attn", f"{other}.{'feed_forward' if peer.name == 'Llama4' else 'mlp'}"
        found |= {
            f"{own}.self_attention.query_key_value.weight": torch.cat(
                [weights[f"{attention}.{part}_proj.weight"] for part in "qkv"]
            ),
            f"{own}.self_attention.output.weight": weights[f"{attention}.o_proj.weight"],
            f"{own}.feed_forward.inner.weight": torch.cat(
                [weights[f"{feed}.{part}_proj.weight"] for part in ("gate", "up")]
            ),
            f"{own}.feed_forward.outer.weight": weights[f"{feed}.down_proj.weight"],
        }
        found |= {
            f"{own}.{name}.weight": peer.of_norms(weights[f"{other}.{of}.weight"]) for of, name in peer.norms.items()
        }
        if ours.config.qk_norm != "none":
            query, key = (peer.of_norms(weights[f"{attention}.{part}_norm.weight"]) for part in "qk")
            found |= {f"{own}.self_attention.query_norm.weight": peer.of_query_norm(query)}
            found |= {f"{own}.self_attention.key_norm.weight": key}
    ours.load_state_dict(found)
    return theirs, ours


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@torch.no_grad()
def test_the_logits_of_transformers(peer: Peer) -> None:
    theirs, ours = build(peer)
    ids = torch.randint(0, 60, (2, 24), generator=torch.Generator().manual_seed(1))
    expected = theirs(ids).logits
    assert torch.allclose(ours(ids), expected, rtol=1e-5, atol=1e-5)
    cache = ours.start()
    steps = torch.cat([ours.step(part, cache) for part in ids.split([9, *[1] * 15], dim=1)], dim=1)
    assert torch.allclose(steps, expected, rtol=1e-5, atol=1e-5)
