from __future__ import annotations

import random

import torch

from locant.models import DecodingSettings, LanguageModel, LanguageModelConfig, Transformer, TransformerConfig
from locant.text import BOS, EOS, PAD, TokenizerPair
from locant.translation import Hypothesis, Translator

SYLLABLES = ["ka", "lo", "mir", "ten", "bu", "shi", "gra", "no", "üm", "qui", "dy", "zap"]


def sentence_pairs(count: int) -> list[tuple[str, str]]:
    """Sentences of made-up words, and the same with every word turned round."""
    draw = random.Random(0)
    words = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 3))) for _ in range(40)]
    sources = [" ".join(draw.choices(words, k=draw.randint(1, 6))) for _ in range(count)]
    return [(source, " ".join(word[::-1] for word in source.split())) for source in sources]


def language_model(**changes: object) -> LanguageModel:
    """A small random language model in which no parameter is 0 or 1, which would hide what is left out."""
    torch.manual_seed(1)
    sizes = {"vocab_size": 30, "layers": 2, "d_model": 16, "d_ff": 24, "heads": 4}
    model = LanguageModel(LanguageModelConfig.parse({**sizes, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1 or not parameter.any():
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def text_ids(rows: int, length: int) -> torch.Tensor:
    """Random ids for it, ``[rows, length]``."""
    return torch.randint(1, 30, (rows, length), generator=torch.Generator().manual_seed(100 * rows + length))


def build(tokenizers: TokenizerPair, **changes: object) -> Transformer:
    """A small random model in which no parameter is 0 or 1."""
    torch.manual_seed(0)
    settings = {
        "source_vocab_size": tokenizers.source.vocab_size,
        "target_vocab_size": tokenizers.target.vocab_size,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "d_model": 32,
        "d_ff": 48,
        "heads": 4,
        "dropout": 0.0,
    }
    model = Transformer(TransformerConfig.parse({**settings, **changes})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def padded(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = [len(row) for row in rows]
    return torch.tensor([row + [PAD] * (max(lengths) - len(row)) for row in rows]), torch.tensor(lengths)


def teach(model: Transformer, tokenizers: TokenizerPair, pairs: list[tuple[str, str]], steps: int) -> None:
    """Train until the model's distributions are as sharp as a translator's."""
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    draw = random.Random(1)
    for _ in range(steps):
        chosen = draw.sample(pairs, 32)
        source, lengths = padded([[*ids, EOS] for ids in tokenizers.source.encode([a for a, _ in chosen])])
        target, _ = padded([[BOS, *ids, EOS] for ids in tokenizers.target.encode([b for _, b in chosen])])
        logits = model(source, lengths, target[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def hypotheses(translator: Translator, ids: list[list[int]], settings: DecodingSettings) -> dict[int, list[Hypothesis]]:
    """What the translator's engine finds for each source that is not empty."""
    before, prefix = translator.prefixes
    known = translator.model.max_positions
    filled = [index for index, row in enumerate(ids) if row]
    rows = [[*before, *ids[index], EOS] for index in filled]
    limits = [settings.max_target_length(len(ids[index])) for index in filled]
    limits = [min(limit, known - len(prefix) + 1) if known else limit for limit in limits]
    return {filled[place]: found for place, found in translator.engine.translate(rows, limits, prefix, settings)}
