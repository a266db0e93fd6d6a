"""Rotating queries and keys: Locant and its peers, in units of a plain copy of the same bytes.

python rotation.py [--device cuda]
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))
from locant import kernels
from locant.positions import Frequencies, Rotary
from locant.runtime import keep_freed_memory
from measure import header, median_ratio, median_seconds, row, use_device, warn_when_busy

SHAPES = {
    "cpu": [(1, 32, 2048, 128), (8, 8, 512, 64)],
    "cuda": [(4, 32, 4096, 128), (8, 8, 512, 64)],
}
"""Batch, heads, length and dimension; on CUDA the first is several times the device's cache."""
Rotate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def engines(length: int, dim: int, dtype: torch.dtype) -> Iterator[tuple[str, Rotate]]:
    """Yield every engine that is installed, its tables made beforehand as its users have them."""
    positions = torch.arange(length)
    for layout in ("half", "interleaved"):
        rope = Rotary(dim, layout=layout)
        for compiled in (False, True):
            kernels.enabled(compiled)
            name = f"Locant, {layout}{', compiled' if compiled else ''}"
            rotate = lambda q, k, rope=rope: rope.rotate(q, k, positions, positions)  # noqa: E731
            on_device = torch.get_default_device().type == "cuda"  # where no kernel of Locant's own serves
            yield name, torch.compile(rotate) if compiled and on_device else rotate
    angles = torch.outer(positions.double(), 10000.0 ** (-torch.arange(0, dim, 2).double() / dim))
    unit = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)

    def complex_multiply(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        def one(x: Tensor) -> Tensor:
            turned = torch.view_as_complex(x.float().unflatten(-1, (-1, 2))) * unit
            return torch.view_as_real(turned).flatten(-2).to(x.dtype)

        return one(q), one(k)

    yield "eager complex multiply (Llama, torchtitan)", complex_multiply
    if importlib.util.find_spec("transformers"):
        from transformers.models.llama.modeling_llama import LlamaConfig, LlamaRotaryEmbedding, apply_rotary_pos_emb

        config = LlamaConfig(hidden_size=4 * dim, num_attention_heads=4, head_dim=dim)
        cosine, sine = LlamaRotaryEmbedding(config)(torch.zeros(1, dtype=dtype), positions[None])
        yield "Hugging Face transformers", lambda q, k: apply_rotary_pos_emb(q, k, cosine, sine)
        if torch.get_default_device().type == "cuda":
            compiled_peer = torch.compile(apply_rotary_pos_emb)
            yield "Hugging Face transformers, torch.compile", lambda q, k: compiled_peer(q, k, cosine, sine)
            if importlib.util.find_spec("liger_kernel"):
                from liger_kernel.transformers.rope import liger_rotary_pos_emb

                # It writes into its arguments: what it turns, it turns again at the next call.
                yield "Liger kernel (Triton)", lambda q, k: liger_rotary_pos_emb(q, k, cosine, sine)
    if importlib.util.find_spec("rotary_embedding_torch"):
        from rotary_embedding_torch import RotaryEmbedding

        lucid = RotaryEmbedding(dim)
        turn = lucid.rotate_queries_or_keys
        yield "rotary-embedding-torch", lambda q, k: (turn(q), turn(k))
    if importlib.util.find_spec("x_transformers"):
        from x_transformers.x_transformers import RotaryEmbedding as XRotary
        from x_transformers.x_transformers import apply_rotary_pos_emb as x_rotate

        freqs, _ = XRotary(dim).forward_from_seq_len(length)
        yield "x-transformers", lambda q, k: (x_rotate(q, freqs), x_rotate(k, freqs))


def table_of_a_million() -> None:
    frequencies = Rotary(128).config.frequencies()
    exact = Frequencies(frequencies)
    positions = torch.arange(1_000_000)
    rounded = torch.tensor([float(frequency) for frequency in frequencies])
    ours = median_seconds(lambda: exact.sine_cosine(positions))

    def float32_angles() -> tuple[Tensor, Tensor]:
        angles = torch.outer(positions.float(), rounded)
        return angles.sin(), angles.cos()

    theirs = median_seconds(float32_angles)
    print(
        f"Sine and cosine of a million positions, 64 pairs: {ours:.2f} s exact; {theirs:.2f} s from float32 angles, "
        "as peers do.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=SHAPES, default="cpu")
    device = parser.parse_args().device
    keep_freed_memory()
    warn_when_busy()
    where = use_device(device)
    print(f"Times in units of a copy of q and k (with backward: of two). {where}; freed memory is kept.\n")
    table_of_a_million()
    for batch, heads, length, dim in SHAPES[device]:
        for dtype in (torch.float32, torch.bfloat16):
            q, k = (torch.randn(batch, heads, length, dim).to(dtype) for _ in range(2))
            if device == "cuda":  # heads as models cut them from one product, which one peer needs or it copies
                q, k = (part.transpose(1, 2).contiguous().transpose(1, 2) for part in (q, k))
            copy = median_seconds(lambda q=q, k=k: (q.clone(), k.clone()))
            kind = str(dtype).removeprefix("torch.")
            print(f"B={batch} H={heads} L={length} D={dim} {kind}: a copy takes {1000 * copy:.2f} ms\n")
            print(header("engine", "forward", "forward and backward"))
            for name, rotate in engines(length, dim, dtype):
                leaves = q.clone().requires_grad_(), k.clone().requires_grad_()
                forward = median_ratio(
                    lambda q=q, k=k, rotate=rotate: rotate(q, k), lambda q=q, k=k: (q.clone(), k.clone())
                )
                with_backward = median_ratio(
                    lambda leaves=leaves, rotate=rotate: torch.autograd.grad(rotate(*leaves), leaves, leaves),
                    lambda q=q, k=k: (q.clone(), k.clone(), q.clone(), k.clone()),
                )
                print(row(name, f"{forward:.2f}", f"{with_backward:.2f}"), flush=True)
            print()


if __name__ == "__main__":
    main()
