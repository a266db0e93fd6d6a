"""Trains a small Transformer for some steps and searches translations with it, all by the kernels of the package."""

import torch

from locant.kernels.library import LIBRARY, choose
from locant.models import DecodingSettings, Transformer, TransformerConfig
from locant.training import projected_cross_entropy
from locant.translation import CompiledEngine, PyTorchEngine

best = choose()
assert best is not None
print(best.path)  # noqa: T201
assert LIBRARY.usable()

torch.manual_seed(0)
sizes = {"source_vocab_size": 60, "target_vocab_size": 60, "d_model": 64, "d_ff": 128, "heads": 4}
model = Transformer(TransformerConfig.parse({**sizes, "encoder_layers": 1, "decoder_layers": 1}))
model.reset_parameters()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
losses = []
for _ in range(60):
    source = torch.randint(5, 60, (64, 8))
    target = torch.cat((torch.full((64, 1), 2), source), dim=1)  # copying, after BOS
    hidden = model.hidden(source, torch.full((64,), 8), target[:, :-1])
    loss, _ = projected_cross_entropy(hidden, model.output.weight, target[:, 1:], smoothing=0.1, ignore=0)
    optimizer.zero_grad()
    (loss / 512).backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < 0.9 * losses[0], losses

model.eval()
sources, settings = [row.tolist() for row in torch.randint(5, 60, (20, 8))], DecodingSettings(beam=4)
engines = (CompiledEngine(model), PyTorchEngine(model))
found = [dict(engine.translate(sources, [12] * 20, [2], settings)) for engine in engines]
for index in range(20):
    compiled, plain = (of[index][0].tokens for of in found)
    assert compiled == plain, (compiled, plain)
print("trained and translated")  # noqa: T201
