"""A training step of a small language model of today: Locant against transformers' Llama and Mistral of the same shape.

Two million parameters, RMSNorm, gated feed-forwards, grouped queries; all layers see the whole text (Llama) or a window
(Mistral). Forward, cross-entropy and backward, called in turns: ``python layer_kinds.py [--tokens 512,2048]``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))
from measure import machine, median_ratio, median_seconds, table, warn_when_busy, write_record

from locant import LanguageModel, LanguageModelConfig

VOCABULARY, LAYERS, WIDTH, INNER, HEADS, KV_HEADS, WINDOW = 256, 4, 192, 512, 6, 2, 128
TOKENS_IN_BATCH = 8192


def ours(window: int | None) -> nn.Module:
    kind: dict[str, Any] = {"position": "rotary", "window": window}
    return LanguageModel(
        LanguageModelConfig(
            vocab_size=VOCABULARY, layers=LAYERS, d_model=WIDTH, d_ff=INNER, heads=HEADS, kv_heads=KV_HEADS,
            norm_kind="rms", bias=False, feed_forward="swiglu", tie_output=False,
            **({"position": "rotary"} if window is None else {"pattern": "L", "kinds": {"L": kind}}),
        )
    )  # fmt: skip


def theirs(window: int | None) -> nn.Module:
    import transformers

    kind = "Llama" if window is None else "Mistral"
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=VOCABULARY, num_hidden_layers=LAYERS, hidden_size=WIDTH, intermediate_size=INNER,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, tie_word_embeddings=False, attn_implementation="sdpa",
        **({} if window is None else {"sliding_window": window}),
    )  # fmt: skip
    return getattr(transformers, f"{kind}ForCausalLM")(config)


def step(model: nn.Module, ids: Tensor) -> None:
    out = model(ids)
    logits = out if isinstance(out, Tensor) else out.logits
    nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
    model.zero_grad()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", default="512,2048", help="lengths of the texts")
    parser.add_argument("--output", type=Path, default=Path("docs/results/positions/layer-kinds.json"))
    args = parser.parse_args()
    warn_when_busy()
    found = []
    for length in map(int, args.tokens.split(",")):
        ids = torch.randint(VOCABULARY, (max(1, TOKENS_IN_BATCH // length), length))
        for window in (None, WINDOW):
            torch.manual_seed(0)
            one, other = ours(window), theirs(window)
            sizes = [sum(each.numel() for each in model.parameters()) for model in (one, other)]
            ratio = median_ratio(lambda one=one: step(one, ids), lambda other=other: step(other, ids), seconds=8)
            seconds = median_seconds(lambda one=one: step(one, ids))
            found.append({"tokens": length, "window": window, "parameters": sizes, "seconds": seconds, "ratio": ratio})
            peer = "Llama" if window is None else "Mistral"
            print(f"{length} tokens, {peer}: {1 / ratio:.2f} times as fast, {sizes} parameters", flush=True)
    rows = [
        (one["tokens"], one["window"] or "none", f"{1000 * one['seconds']:.0f} ms", f"{1 / one['ratio']:.2f}")
        for one in found
    ]
    print(machine())
    print(table(("tokens:", "window:", "a step of Locant:", "times as fast as transformers:"), rows))
    write_record(args.output, threads=torch.get_num_threads(), steps=found)


if __name__ == "__main__":
    main()
