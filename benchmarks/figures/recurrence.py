"""The records of the figures `recurrence` and `pre-post-norm`: small language models of characters, trained and timed.

Usage: python benchmarks/figures/recurrence.py TEXT [gradients|norms|times ...]

TEXT is a UTF-8 file, such as tiny-shakespeare. Three parts, all of them unless named:

  gradients  a plain RNN, a GRU, an LSTM and a Transformer of about as many parameters: gradient of the last output with
             respect to the input k characters back, before and after training
  norms      a Transformer of six layers with pre- and with post-norm, with and without a rising learning rate:
             norm of the gradient by layer before and after training, and the losses
  times      processor time of a training step of 4,096 tokens on one core, by length, the shortest of the rounds

Takes a quarter of an hour on one core; each part is written when it is done.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))
from locant.analysis import gradient_by_distance, gradient_by_layer
from locant.lab.characters import Characters, read_characters, window_batches
from locant.models import LanguageModel, LanguageModelConfig
from locant.models.transformer import count_parameters
from locant.positions import Mask
from measure import machine

RECORDS = Path(__file__).parents[2] / "src" / "locant" / "figures" / "records"
WIDTH, LENGTH, ROWS, UPDATES = 64, 64, 16, 400
RATE, WARM_UP = 2e-3, 60  # of the recurrent networks and the Transformer beside them
CELLS: dict[str, tuple[type[nn.RNN] | type[nn.GRU] | type[nn.LSTM], int]] = {
    "plain RNN": (nn.RNN, 288),
    "GRU": (nn.GRU, 153),
    "LSTM": (nn.LSTM, 128),
}
LAYERS, DEEP_RATE, DEEP_WARM_UP = 6, 1e-3, 120  # of the Transformers with pre- and post-norm
TOKENS, ROUNDS = 4096, 3


class RecurrentLanguageModel(nn.Module):
    """A recurrent network with the embedding and output of Locant's language model.

    Weights are drawn as Locant draws those of its RNN: recurrent matrices orthogonal, the others Xavier-uniform, the
    forget gate of an LSTM with a bias of 1.
    """

    def __init__(self, cell: str, vocabulary: int) -> None:
        super().__init__()
        kind, size = CELLS[cell]
        self.embedding = nn.Embedding(vocabulary, WIDTH)
        self.network = kind(WIDTH, size, batch_first=True)
        self.output = nn.Linear(size, vocabulary)
        nn.init.normal_(self.embedding.weight, std=WIDTH**-0.5)
        for name, parameter in self.network.named_parameters():
            for matrix in parameter.chunk(len(parameter) // size):
                if parameter.dim() == 1:
                    nn.init.zeros_(matrix)
                else:
                    (nn.init.orthogonal_ if "hh" in name else nn.init.xavier_uniform_)(matrix)
            if kind is nn.LSTM and name.startswith("bias_ih"):
                nn.init.ones_(parameter.chunk(4)[1])

    def embed(self, ids: Tensor) -> Tensor:
        """Embed ids ``[B, L]``."""
        return self.embedding(ids) * math.sqrt(WIDTH)

    def read(self, x: Tensor) -> Tensor:
        """Map embeddings ``[B, L, E]`` to hidden states ``[B, L, N]``."""
        return self.network(x)[0]

    def forward(self, ids: Tensor) -> Tensor:
        """Return logits ``[B, L, V]``."""
        return self.output(self.read(self.embed(ids)))


class AttentiveLanguageModel(LanguageModel):
    """Locant's language model, opened between its embeddings and its layers."""

    def embed(self, ids: Tensor) -> Tensor:
        """Embed ids ``[B, L]``."""
        return self._embed(ids)

    def read(self, x: Tensor) -> Tensor:
        """Map embeddings ``[B, L, E]`` to hidden states ``[B, L, E]``."""
        return self.stack(x, torch.arange(x.shape[1]), Mask(causal=True))


def model_of(name: str, vocabulary: int) -> RecurrentLanguageModel | AttentiveLanguageModel:
    """Return an untrained model."""
    torch.manual_seed(1)
    if name != "Transformer":
        return RecurrentLanguageModel(name, vocabulary)
    return AttentiveLanguageModel(
        LanguageModelConfig(
            vocab_size=vocabulary, layers=2, d_model=WIDTH, d_ff=4 * WIDTH, heads=4, position="sinusoidal"
        )
    )


def loss_of(model: nn.Module, windows: Any) -> Tensor:
    """Return the mean negative log-likelihood of a character, in nats."""
    return nn.functional.cross_entropy(model(windows.ids).flatten(0, 1), windows.labels.flatten())


def train(model: nn.Module, text: Characters, *, rate: float, warm_up: int) -> list[float]:
    """Train in place and return the loss of every update."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    losses = []
    for step, windows in enumerate(itertools.islice(window_batches(text.train, LENGTH, ROWS, 1), UPDATES), start=1):
        falling = 0.5 * (1 + math.cos(math.pi * step / UPDATES))
        optimiser.param_groups[0]["lr"] = rate * min(1.0, step / warm_up if warm_up else 1.0) * falling
        loss = loss_of(model, windows)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def test_loss(model: nn.Module, text: Characters) -> float:
    """Return the loss on windows of the held-out tenth."""
    batches = itertools.islice(window_batches(text.test, LENGTH, 64, 2), 8)
    return sum(loss_of(model, windows).item() for windows in batches) / 8


def gradients(text: Characters) -> dict[str, Any]:
    """Measure the gradients by distance."""
    models = {}
    held_out = next(window_batches(text.test, LENGTH, 64, 2)).ids
    for name in [*CELLS, "Transformer"]:
        model = model_of(name, text.vocabulary_size)
        found: dict[str, Any] = {"parameters": count_parameters(model)}
        found["before"] = gradient_by_distance(model.read, model.embed(held_out)).tolist()
        train(model, text, rate=RATE, warm_up=WARM_UP)
        found["after"] = gradient_by_distance(model.read, model.embed(held_out)).tolist()
        found["test loss"] = test_loss(model, text)
        print(name, found["parameters"], round(found["test loss"], 3), flush=True)
        models[name] = found
    return {"learning rate": RATE, "warm-up": WARM_UP, "models": models}


def norms(text: Characters) -> dict[str, Any]:
    """Measure the gradients by layer."""
    held_out = next(window_batches(text.test, LENGTH, 32, 2))
    runs = []
    for norm, warm_up in itertools.product(("post", "pre"), (DEEP_WARM_UP, 0)):
        torch.manual_seed(1)
        model = LanguageModel(
            LanguageModelConfig(
                vocab_size=text.vocabulary_size,
                layers=LAYERS,
                d_model=WIDTH,
                d_ff=4 * WIDTH,
                heads=4,
                norm=norm,  # type: ignore[arg-type]
                position="sinusoidal",
            )
        )
        layers = {str(n): [layer.feed_forward.outer.weight] for n, layer in enumerate(model.stack.layers, start=1)}  # type: ignore[operator, union-attr, list-item]
        before = list(gradient_by_layer(loss_of(model, held_out), layers).values())  # type: ignore[arg-type]
        losses = train(model, text, rate=DEEP_RATE, warm_up=warm_up)
        after = list(gradient_by_layer(loss_of(model, held_out), layers).values())  # type: ignore[arg-type]
        every = UPDATES // 20
        shown = [sum(losses[i : i + every]) / every for i in range(0, UPDATES, every)]
        runs.append(
            {
                "norm": norm,
                "warm-up": warm_up,
                "before": before,
                "after": after,
                "losses": shown,
                "test loss": test_loss(model, text),
            }
        )
        print(norm, warm_up, round(runs[-1]["test loss"], 3), flush=True)  # type: ignore[arg-type]
    return {"layers": LAYERS, "learning rate": DEEP_RATE, "updates a loss": UPDATES // 20, "runs": runs}


def times(text: Characters) -> dict[str, Any]:
    """Measure processor time of a training step."""
    lengths = [16, 64, 256, 1024]
    best: dict[str, list[float]] = {}
    models = {name: model_of(name, text.vocabulary_size) for name in [*CELLS, "Transformer"]}
    for _, (column, length) in itertools.product(range(ROUNDS), enumerate(lengths)):
        windows = next(window_batches(text.train, length, TOKENS // length, 1))
        for name, model in models.items():
            for _ in range(2):
                start = time.process_time()
                loss_of(model, windows).backward()
                seconds = time.process_time() - start
                row = best.setdefault(name, [math.inf] * len(lengths))
                row[column] = min(row[column], seconds)
    return {"lengths": lengths, "tokens": TOKENS, "seconds": best}


PARTS = {"gradients": gradients, "norms": norms, "times": times}


def main() -> None:
    """Measure and write the records."""
    text = read_characters(Path(sys.argv[1]))
    torch.set_num_threads(1)
    RECORDS.mkdir(exist_ok=True)
    for name in sys.argv[2:] or PARTS:
        record = {
            "command": f"python benchmarks/figures/recurrence.py TEXT {name}",
            "text": {"sha256": text.digest, "characters": len(text.train) + len(text.test)},
            "training": {"width": WIDTH, "length": LENGTH, "rows": ROWS, "updates": UPDATES},
            "machine": machine(),
            **PARTS[name](text),
        }
        rounded = json.loads(json.dumps(record), parse_float=lambda digits: float(f"{float(digits):.5g}"))
        (RECORDS / f"{name}.json").write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
