"""A user's program: type checkers know what ``import locant`` offers. mypy reads it; nothing runs it."""

from typing import assert_type

import torch
from torch import Tensor

import locant
from locant.positions import YaRN

rope = locant.Rotary(64, scaling=YaRN(factor=4.0, original_length=4096))
assert_type(rope, locant.Rotary)
x = torch.zeros(1, 8, 10, 64)
q, k = rope.rotate(x, x, torch.arange(10), torch.arange(10))
assert_type(q, Tensor)
assert_type(locant.positions.ALiBi(8), locant.ALiBi)
model = locant.Transformer(locant.preset("base", source_vocab_size=100, target_vocab_size=100))
assert_type(model, locant.Transformer)
summary = locant.train(locant.load_recipe("translator"), "runs/en-de")
assert_type(summary, locant.training.RunSummary)
scores = locant.evaluate("runs/en-de").scores
assert_type(scores, locant.analysis.Scores)
assert_type(locant.inspect("models/llama").has_errors, bool)
