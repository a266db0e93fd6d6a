"""Training steps of today's layers: Locant against transformers and x-transformers, forward and backward, in turns.

* A language model of two million parameters with RMSNorm, gated feed-forwards and grouped queries, whose layers see the
  whole text (transformers' Llama) or a window (its Mistral).
* Attention with a bias from the hidden state: data-dependent ALiBi, which FoX is, against the module of x-transformers,
  and relative profiles against Inkling 2's of transformers, each of which is added in PyTorch's attention.

``python layer_kinds.py [--tokens 512,2048]``
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))
from locant import LanguageModel, LanguageModelConfig
from locant.positions import DataDependentALiBi, Mask, RelativeProfiles, attend_with_positions
from measure import machine, median_ratio, median_seconds, table, warn_when_busy, write_record

VOCABULARY, LAYERS, WIDTH, INNER, HEADS, KV_HEADS, WINDOW = 256, 4, 192, 512, 6, 2, 128
TOKENS_IN_BATCH = 8192


def our_model(window: int | None) -> nn.Module:
    kind: dict[str, Any] = {"position": "rotary", "window": window}
    positions = {"position": "rotary"} if window is None else {"pattern": "L", "kinds": {"L": kind}}
    block = {"kv_heads": KV_HEADS, "norm_kind": "rms", "bias": False, "feed_forward": "swiglu", "tie_output": False}
    sizes = {"vocab_size": VOCABULARY, "layers": LAYERS, "d_model": WIDTH, "d_ff": INNER, "heads": HEADS}
    return LanguageModel(LanguageModelConfig.parse({**sizes, **block, **positions}))


def their_model(window: int | None) -> nn.Module:
    import transformers

    kind, more = ("Llama", {}) if window is None else ("Mistral", {"sliding_window": window})
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=VOCABULARY,
        num_hidden_layers=LAYERS,
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        tie_word_embeddings=False,
        attn_implementation="sdpa",
        **more,
    )
    return getattr(transformers, f"{kind}ForCausalLM")(config)


def model_step(model: nn.Module, ids: Tensor) -> None:
    out = model(ids)
    logits = out if isinstance(out, Tensor) else out.logits
    nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
    model.zero_grad()


def bias_steps(scheme: str, length: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return a step of attention with a bias from the hidden state, and that of the reference."""
    positions = torch.arange(length)
    if scheme == "data-dependent-alibi":
        from x_transformers.x_transformers import DataDependentAlibi

        ours, theirs = DataDependentALiBi(WIDTH, HEADS, True), DataDependentAlibi(WIDTH, HEADS, causal=True)
        bias = theirs
    else:
        from transformers.models.inkling2 import modeling_inkling2 as inkling

        ours = RelativeProfiles(WIDTH, HEADS, profiles=16, reach=512, clip=8.0)
        config = inkling.Inkling2TextConfig(hidden_size=WIDTH, d_rel=16)
        theirs = inkling.Inkling2RelativePositionBias(config, HEADS, 512, log_scaling=False)
        bias = lambda x: theirs(x, positions[:, None] - positions, positions[None])  # noqa: E731
        for each in theirs.parameters():
            nn.init.normal_(each, std=0.02)
    x = torch.randn(max(1, TOKENS_IN_BATCH // length), length, WIDTH)
    q, k, v = (torch.randn(len(x), HEADS, length, WIDTH // HEADS, requires_grad=True) for _ in range(3))
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)

    def our_step() -> None:
        state = ours.prepare(x, positions)
        attend_with_positions(q, k, v, ours, positions, positions, Mask(causal=True), state=state).sum().backward()

    def their_step() -> None:
        added = bias(x).masked_fill(hidden, float("-inf"))
        nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=added).sum().backward()

    return our_step, their_step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", default="512,2048", help="lengths of the texts")
    parser.add_argument("--output", type=Path, default=Path("docs/results/speed/layer-kinds.json"))
    args = parser.parse_args()
    warn_when_busy()
    found = []
    for length in map(int, args.tokens.split(",")):
        torch.manual_seed(0)
        ids = torch.randint(VOCABULARY, (max(1, TOKENS_IN_BATCH // length), length))
        steps: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            f"model, {peer}": (
                partial(model_step, our_model(window), ids),
                partial(model_step, their_model(window), ids),
            )
            for peer, window in (("Llama", None), ("Mistral, window 128", WINDOW))
        }
        steps |= {
            f"attention, {peer}": bias_steps(scheme, length)
            for scheme, peer in (("data-dependent-alibi", "x-transformers"), ("relative-profiles", "Inkling 2"))
        }
        for name, (ours, theirs) in steps.items():
            ratio, seconds = median_ratio(theirs, ours, seconds=8), median_seconds(ours)
            found.append({"tokens": length, "step": name, "seconds": seconds, "times_as_fast": ratio})
            print(f"{length} tokens, {name}: {ratio:.2f} times as fast", flush=True)
    rows = [(f["tokens"], f["step"], f"{1000 * f['seconds']:.0f} ms", f"{f['times_as_fast']:.2f}") for f in found]
    print(machine())
    print(table(("tokens:", "step, peer", "Locant:", "times as fast:"), rows))
    write_record(args.output, threads=torch.get_num_threads(), steps=found)


if __name__ == "__main__":
    main()
