"""Attention with a score bias: Locant against Hugging Face's way, time and peak memory, forward and with backward.

Every case runs in a process of its own: ``python score_bias.py`` starts them one after the other and prints the table;
``python score_bias.py t5 shaw`` does so for some schemes, ``--device cuda`` on a GPU, where tensors are bfloat16.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))
from measure import alone, header, median_seconds, peak_megabytes, row, use_device, warn_when_busy

HEADS, DIM = 8, 64
SCHEMES = ["alibi", "t5", "kerple", "fire", "shaw"]
LENGTHS = {"cpu": [1024, 2048, 4096], "cuda": [2048, 8192]}
DTYPES = {"cpu": torch.float32, "cuda": torch.bfloat16}


def causal(length: int) -> Tensor:
    return torch.full((length, length), float("-inf")).triu(1)


def hugging_face(name: str, length: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return attention as Hugging Face's models compute it: a bias for every pair, added to all scores."""
    if name == "alibi":
        from transformers.models.bloom.modeling_bloom import build_alibi_tensor

        def bloom(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            alibi = build_alibi_tensor(torch.ones(1, length), HEADS, q.dtype).view(1, HEADS, 1, length)
            scores = torch.matmul(q, k.mT) * DIM**-0.5 + alibi
            return torch.softmax(scores + causal(length), dim=-1) @ v

        return bloom
    if name == "t5":
        from transformers.models.t5.modeling_t5 import T5Attention, T5Config

        layer = T5Attention(
            T5Config(num_heads=HEADS, d_kv=DIM, d_model=HEADS * DIM, is_decoder=True),
            has_relative_attention_bias=True,
            layer_idx=0,
        )

        def t5(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            bias = layer.compute_bias(length, length)
            scores = torch.matmul(q, k.mT) * DIM**-0.5 + (bias + causal(length))
            return torch.softmax(scores.float(), dim=-1).to(v.dtype) @ v

        return t5
    if name == "shaw":
        table = torch.nn.Embedding(2 * 16 + 1, DIM)

        def relative_key(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            # As in Wav2Vec2Bert and in BERT of transformers 4: an embedding for every pair.
            index = torch.arange(length)
            distance = (index.view(1, -1) - index.view(-1, 1)).clamp(-16, 16) + 16
            relative = torch.einsum("bhld,lrd->bhlr", q, table(distance))
            scores = (torch.matmul(q, k.mT) + relative) * DIM**-0.5 + causal(length)
            return torch.softmax(scores, dim=-1) @ v

        return relative_key
    raise KeyError(name)


def every_pair(name: str, length: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return attention as papers' listings have it, where Hugging Face lacks the scheme."""
    distance = lambda: (torch.arange(length).view(-1, 1) - torch.arange(length).view(1, -1)).abs()  # noqa: E731
    if name == "kerple":
        one, two = (torch.nn.Parameter(torch.rand(HEADS, 1, 1) + 0.1) for _ in range(2))

        def bias() -> Tensor:
            return -one * torch.log1p(two * distance())
    else:
        network = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.ReLU(), torch.nn.Linear(32, HEADS))

        def bias() -> Tensor:
            ratio = torch.log1p(0.1 * distance()) / torch.log1p(torch.tensor(0.1 * length))
            return network(ratio.unsqueeze(-1)).permute(2, 0, 1)

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = torch.matmul(q, k.mT) * DIM**-0.5 + bias() + causal(length)
        return torch.softmax(scores, dim=-1) @ v

    return attention


def locant(name: str, length: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    from locant.positions import AttentionShape, Mask, attend_with_positions, build_scheme

    options = {"fire": {"threshold": float(length)}, "shaw": {"max_distance": 16}}.get(name, {})
    scheme = build_scheme(name, AttentionShape(HEADS * DIM, HEADS, causal=True), options)
    positions = torch.arange(length)

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend_with_positions(q, k, v, scheme, positions, positions, Mask(causal=True))

    return attention


def measure(engine: str, name: str, length: int) -> dict[str, float]:
    torch.manual_seed(0)
    if engine == "locant":
        attention = locant(name, length)
    else:
        attention = (hugging_face if name in ("alibi", "t5", "shaw") else every_pair)(name, length)
    q, k, v = (torch.randn(1, HEADS, length, DIM, requires_grad=True) for _ in range(3))

    def forward() -> None:
        with torch.no_grad():
            attention(q, k, v)

    def with_backward() -> None:
        attention(q, k, v).sum().backward()

    return {
        "forward_mb": peak_megabytes(forward),
        "forward_ms": 1000 * median_seconds(forward),
        "backward_mb": peak_megabytes(with_backward),
        "backward_ms": 1000 * median_seconds(with_backward),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schemes", nargs="*", default=SCHEMES, choices=[*SCHEMES, SCHEMES], metavar="SCHEME")
    parser.add_argument("--device", choices=LENGTHS, default="cpu")
    parser.add_argument("--measure", nargs=2, metavar=("ENGINE", "LENGTH"), help="one case, in this process")
    asked = parser.parse_args()
    where = use_device(asked.device)
    dtype = DTYPES[asked.device]
    torch.set_default_dtype(dtype)
    if asked.measure:
        engine, length = asked.measure
        print(json.dumps(measure(engine, asked.schemes[0], int(length))))
        return
    warn_when_busy()
    kind = str(dtype).removeprefix("torch.")
    print(f"Attention with a bias, B=1 H={HEADS} D={DIM}, causal, {kind}. {where}.\n")
    times = ("forward ms, ours / theirs", "ratio", "peak MB", "with backward ms", "ratio", "peak MB")
    print(header("scheme", "length", *times))
    for name in asked.schemes:
        for length in LENGTHS[asked.device]:
            ours, theirs = (
                alone(__file__, name, "--device", asked.device, "--measure", engine, length)
                for engine in ("locant", "peer")
            )
            cells = [name, str(length)]
            for kind in ("forward", "backward"):
                a, b = ours[f"{kind}_ms"], theirs[f"{kind}_ms"]
                cells += [
                    f"{a:.3g} / {b:.3g}",
                    f"{b / a:.1f}x",
                    f"{ours[f'{kind}_mb']:.0f} / {theirs[f'{kind}_mb']:.0f}",
                ]
            print(row(*cells), flush=True)


if __name__ == "__main__":
    main()
