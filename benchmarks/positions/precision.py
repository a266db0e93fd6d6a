"""The largest error of sine and cosine at far positions, Locant and its peers, against mpmath."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import mpmath
import torch
import transformers
import x_transformers.x_transformers as x
from rotary_embedding_torch import RotaryEmbedding
from torch import Tensor
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaRotaryEmbedding

sys.path.insert(0, str(Path(__file__).parents[1]))
from locant.positions import Rotary
from measure import header, row

DIM, BASE = 128, 10000.0
POSITIONS = [100, 4_000, 131_071, 1_000_000, 10_000_000, 2**31 - 1]


def exact(position: int) -> Tensor:
    with mpmath.workdps(50):
        angles = [position * mpmath.power(BASE, -mpmath.mpf(2 * i) / DIM) for i in range(DIM // 2)]
        return torch.tensor([[float(mpmath.sin(a)), float(mpmath.cos(a))] for a in angles], dtype=torch.float64)


def engines(dtype: torch.dtype) -> dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]]:
    """Return what gives sine and cosine ``[1, DIM / 2]`` of a position after the module was cast to a dtype."""
    ours = Rotary(DIM).to(dtype)
    llama = LlamaRotaryEmbedding(LlamaConfig(hidden_size=DIM * 4, num_attention_heads=4, head_dim=DIM)).to(dtype)
    lucid = RotaryEmbedding(DIM, cache_if_possible=False).to(dtype)
    other = x.RotaryEmbedding(DIM).to(dtype)

    def hugging_face(position: Tensor) -> tuple[Tensor, Tensor]:
        cosine, sine = llama(torch.zeros(1), position[None])
        return sine[0, :, : DIM // 2], cosine[0, :, : DIM // 2]

    def rotary_embedding_torch(position: Tensor) -> tuple[Tensor, Tensor]:
        angles = lucid(position)[:, ::2]
        return angles.sin(), angles.cos()

    def x_transformers(position: Tensor) -> tuple[Tensor, Tensor]:
        angles = other(position)[0][0][:, ::2]
        return angles.sin(), angles.cos()

    return {
        "Locant": ours.sine_cosine,
        "Hugging Face transformers": hugging_face,
        "rotary-embedding-torch": rotary_embedding_torch,
        "x-transformers": x_transformers,
    }


def main() -> None:
    print(
        f"Largest error of sine and cosine, {DIM // 2} pairs, base {BASE:g}; against mpmath, 50 digits. "
        f"transformers {transformers.__version__}, torch {torch.__version__}.\n"
    )
    print(header("engine", "module cast to", *(f"{position:,}" for position in POSITIONS)))
    for dtype in (torch.float32, torch.bfloat16):
        for name, table in engines(dtype).items():
            cells = []
            for position in POSITIONS:
                sine, cosine = table(torch.tensor([position]))
                found = torch.stack((sine[0], cosine[0]), dim=-1).double()
                cells.append(f"{float((found - exact(position)).abs().max()):.1e}")
            print(row(name, str(dtype).removeprefix("torch."), *cells), flush=True)


if __name__ == "__main__":
    main()
