"""Measures of a translator by length: quality, speed, and whether it knows the order of words."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from locant.lab.task import Metric
from locant.models.encoder_decoder import EncoderDecoder
from locant.text import BOS, EOS, Pair, TokenizerPair
from locant.translation.translator import Translator

# A tenth of a percent of a probability: far above the rounding of a float32 sum, far below any preference.
_SAME = 1e-3

METRICS = {
    "bleu": Metric(
        "BLEU",
        "Corpus BLEU of all test sentences, as sacreBLEU computes it with its tokenizer for the target language; at a "
        "length, of the sentences up to that length and longer than the one before.",
        higher_is_better=True,
        by_length=True,
    ),
    "bleu_seen": Metric(
        "BLEU, seen lengths", "BLEU of the test sentences not longer than any in training.", higher_is_better=True
    ),
    "bleu_unseen": Metric(
        "BLEU, unseen lengths", "BLEU of the test sentences longer than all in training.", higher_is_better=True
    ),
    "order": Metric(
        "word order (%)",
        "Share of test sentences of seen lengths whose reference is likelier given the sentence than given the same "
        "words with two of them in each other's place; equal probabilities count half, so 50 is a model that cannot "
        "tell the two apart.",
        higher_is_better=True,
    ),
    "decoding": Metric(
        "decoding (tokens/s)",
        "Target tokens of the translations, EOS included, a second of searching with the recipe's settings.",
        higher_is_better=True,
        digits=0,
        by_length=True,
    ),
    "training": Metric(
        "training (tokens/s)",
        "Target tokens a second of training, for a batch without padding whose sentences all have the length.",
        higher_is_better=True,
        digits=0,
        by_length=True,
    ),
}


@dataclass(frozen=True)
class HeldOutPair:
    """A test sentence.

    Attributes:
        source: The sentence.
        reference: Its translation by people.
        length: Tokens of the longer of the two, EOS included.
    """

    source: str
    reference: str
    length: int


def held_out_pairs(pairs: Sequence[Pair], tokenizers: TokenizerPair, most: int) -> list[HeldOutPair]:
    """Return at most that many pairs, evenly spaced, with their lengths; those without text are left out."""
    chosen = [pairs[number * len(pairs) // min(most, len(pairs))] for number in range(min(most, len(pairs)))]
    sources = tokenizers.source.encode([source for source, _ in chosen])
    targets = tokenizers.target.encode([target for _, target in chosen])
    return [
        HeldOutPair(source, tokenizers.target.cased(target), 1 + max(len(source_ids), len(target_ids)))
        for (source, target), source_ids, target_ids in zip(chosen, sources, targets, strict=True)
        if source_ids and target_ids
    ]


def by_length(pairs: Iterable[HeldOutPair], step: int) -> dict[int, list[HeldOutPair]]:
    """Return the pairs of up to ``step`` tokens, of up to two steps and so on, by that limit."""
    found: dict[int, list[HeldOutPair]] = {}
    for pair in sorted(pairs, key=lambda pair: pair.length):
        found.setdefault(-(-pair.length // step) * step, []).append(pair)
    return found


def decode(translator: Translator, pairs: Sequence[HeldOutPair]) -> tuple[list[str], int, float]:
    """Return translations of test sentences, their target tokens (EOS included) and the seconds they took."""
    started = time.perf_counter()
    hypotheses = translator.translate([pair.source for pair in pairs])
    seconds = time.perf_counter() - started
    return hypotheses, sum(1 + len(ids) for ids in translator.tokenizers.target.encode(hypotheses)), seconds


def swapped(sentence: str, seed: int) -> str | None:
    """Return a sentence with two different words in each other's place, or ``None`` where it has no two."""
    words = sentence.split()
    if len(set(words)) < 2:
        return None
    draw = random.Random(seed)
    while True:
        first, second = draw.sample(range(len(words)), 2)
        if words[first] != words[second]:
            words[first], words[second] = words[second], words[first]
            return " ".join(words)


def order_accuracy(translator: Translator, pairs: Sequence[HeldOutPair]) -> float:
    """Return the share of pairs (0 to 1) whose reference is likelier given the sentence than given its words swapped.

    Where the two probabilities are the same (their logarithms within 0.001), a pair counts half: that is what guessing
    would get. Pairs without two different words, or whose subwords change with the swap, are left out.

    Raises:
        ValueError: No pair is left.
    """
    encode = translator.tokenizers.source.encode
    usable = []
    for number, pair in enumerate(pairs):
        other = swapped(pair.source, number)
        if other is not None:
            ids, changed = encode([pair.source, other])
            if sorted(ids) == sorted(changed):
                usable.append((ids, changed, translator.tokenizers.target.encode([pair.reference])[0]))
    if not usable:
        raise ValueError("There is no sentence with two different words.")
    counted = 0.0
    for ids, changed, target in usable:
        gap = _log_likelihood(translator.model, ids, target) - _log_likelihood(translator.model, changed, target)
        counted += 0.5 if abs(gap) <= _SAME else gap > 0
    return counted / len(usable)


@torch.inference_mode()
def _log_likelihood(model: EncoderDecoder[Any], source: list[int], target: list[int]) -> float:
    """Return the log-probability (natural) of a target, EOS included."""
    device = model.target_embedding.weight.device
    read, given, labels = (torch.tensor(ids, device=device) for ids in ([*source, EOS], [BOS, *target], [*target, EOS]))
    logits = model(read[None], torch.tensor([len(read)], device=device), given[None])
    return -nn.functional.cross_entropy(logits[0].double(), labels, reduction="sum").item()
