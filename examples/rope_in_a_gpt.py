"""A character-level GPT with rotary positions, in eighty lines, that learns to continue a list of numbers.

Run it with ``python examples/rope_in_a_gpt.py``; ``--scheme alibi`` or any name of ``locant positions`` takes another
scheme. It needs only torch and Locant, and takes about a minute on one core.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from locant.positions import AttentionShape, Mask, attend_with_positions, build_scheme


class Block(nn.Module):
    """Attention and a feed-forward, each behind a layer norm and beside a residual connection."""

    def __init__(self, width: int, heads: int, scheme: nn.Module) -> None:
        super().__init__()
        self.heads, self.scheme = heads, scheme
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.query_key_value, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return the block's output, ``[B, L, E]``."""
        read = self.norms[0](x)
        parts = self.query_key_value(read).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        state = self.scheme.prepare(read, positions)  # None of all but schemes that read x
        y = attend_with_positions(q, k, v, self.scheme, positions, positions, Mask(causal=True), state=state)
        x = x + self.merge(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    """A decoder whose positions come from a scheme of Locant."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int, position: str) -> None:
        super().__init__()
        shape = AttentionShape(model_dim=width, num_heads=heads, causal=True)
        first = build_scheme(position, shape)
        schemes = [first, *(build_scheme(position, shape) if first.per_layer else first for _ in range(layers - 1))]
        self.embedding, self.first = nn.Embedding(vocabulary, width), first
        self.blocks = nn.ModuleList(Block(width, heads, scheme) for scheme in schemes)
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the next tokens, ``[B, L, V]``, for ``[B, L]`` tokens."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.first.embed(self.embedding(tokens), positions)
        for block in self.blocks:
            x = block(x, positions)
        return self.norm(x) @ self.embedding.weight.T


def main() -> None:
    """Train on pieces of a text, then let the model go on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scheme", default="rotary")
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args()
    torch.manual_seed(1)
    text = " ".join(str(number) for number in range(100, 1000))
    letters = sorted(set(text))
    data = torch.tensor([letters.index(letter) for letter in text])
    model = GPT(len(letters), width=64, heads=4, layers=2, position=options.scheme)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(options.steps):
        starts = torch.randint(len(data) - 33, (16,)).tolist()
        rows = torch.stack([data[start : start + 33] for start in starts])
        loss = cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0 or step == options.steps - 1:
            print(f"update {step}: loss {loss.item():.3f}")
    tokens = data[:32]
    for _ in range(24):
        tokens = torch.cat([tokens, model(tokens[None])[0, -1].argmax()[None]])
    print("".join(letters[token] for token in tokens))


if __name__ == "__main__":
    main()
