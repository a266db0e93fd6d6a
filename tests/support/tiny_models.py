from __future__ import annotations

from functools import lru_cache

import torch

from locant.models import Transformer, TransformerConfig
from locant.text import TokenizerPair, TokenizerSettings, train_tokenizers

WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "omicron",
]


def tiny_model(vocabulary: int, seed: int = 0, sharpness: float = 1.0, **changes: object) -> Transformer:
    """A random model; ``sharpness`` scales the output so that its distributions are less even."""
    torch.manual_seed(seed)
    settings = {
        "source_vocab_size": vocabulary,
        "target_vocab_size": vocabulary,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "d_model": 16,
        "d_ff": 32,
        "heads": 2,
        "tie_output": False,
    }
    model = Transformer(TransformerConfig.parse({**settings, **changes})).eval()
    with torch.no_grad():
        model.output.weight.mul_(sharpness)
    return model


@lru_cache(maxsize=1)
def tiny_tokenizers() -> TokenizerPair:
    """Joint tokenizers of a made-up language and its reversal, with 36 subwords."""
    sentences = [" ".join(WORDS[(i * j + j) % len(WORDS)] for j in range(1, 2 + i % 6)) for i in range(60)]
    pairs = [(sentence, " ".join(reversed(sentence.split()))) for sentence in sentences]
    return train_tokenizers(pairs, TokenizerSettings(vocab_size=36))
