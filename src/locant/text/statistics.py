"""Statistics of a parallel text that settings are chosen by: sizes, lengths, and how much the two sides share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

from locant.errors import DataError
from locant.text.cleaning import CleaningSettings, clean
from locant.text.facts import count_words
from locant.text.pairs import ChangedBlock, MemoryBlock, Pair, ParallelText, in_memory
from locant.text.tokenizer import TokenizerSettings
from locant.text.tokenizer_pair import TokenizerPair
from locant.text.vocabulary import VocabularyTooLargeError, train_tokenizers

_SAMPLE = 20_000
"""Pairs, evenly spaced, that statistics are taken of, and different sentences of a side whose words are counted."""


@dataclass(frozen=True)
class TextStatistics:
    """What a sample says about a parallel text.

    Attributes:
        pairs: Number of pairs of the whole text, but for the share that cleaning removes of the sample.
        source_words: Words of all different source sentences; in scripts without spaces each character counts.
        target_words: Likewise of the target.
        words: Likewise of both sides together.
        characters: How many different characters there are.
        shared_letters: Share of the target's letters that the source uses too, 0 to 1.
        sample: The pairs that were looked at, without those that cleaning removes.
    """

    pairs: int
    source_words: int
    target_words: int
    words: int
    characters: int
    shared_letters: float
    sample: tuple[Pair, ...]


def text_statistics(
    text: ParallelText, cleaning: CleaningSettings | None = None, evaluation: Iterable[Pair] = ()
) -> TextStatistics:
    """Return the statistics of a text, from at most 20,000 of its pairs.

    The words are those of different sentences: what stands in several directions of a corpus of several languages, or
    beside several versions of its source, is one text to a vocabulary. In a large text they are estimated from the
    sentences with certain hashes.

    Args:
        text: The training text.
        cleaning: What will be removed of it; by default nothing.
        evaluation: All pairs of validation and test.

    Raises:
        DataError: Cleaning removes all of it.
    """
    step = max(1, len(text) // _SAMPLE)
    sample: list[Pair] = []
    found: tuple[set[str], set[str]] = (set(), set())
    first = 0
    facts: Iterator[Any] = text.facts() if step > 1 else repeat(None)
    for (block, size), known in zip(text.blocks(), facts, strict=False):
        pairs = MemoryBlock(block.read())
        sample += ChangedBlock(pairs, np.arange(-first % step, size, step)).read()
        for side, sentences in enumerate(found) if known is not None else ():
            rows = np.flatnonzero(known["folded"][:, side] % step == 0)
            sentences.update(pair[side] for pair in ChangedBlock(pairs, rows).read())
        first += size
    looked_at = len(sample)
    if cleaning is not None:
        try:
            sample = list(clean(in_memory(sample), evaluation, cleaning))
        except DataError:
            if step == 1:  # a part of the text that cleaning removes as a whole says nothing of the rest
                raise
    if step == 1:
        found = ({source for source, _ in sample}, {target for _, target in sample})
    sources, targets = (Counter(char for pair in sample for char in pair[side] if char.isalpha()) for side in (0, 1))
    shared = sum(count for letter, count in targets.items() if letter in sources)
    return TextStatistics(
        pairs=round(len(text) * len(sample) / max(1, looked_at)),
        source_words=step * sum(map(count_words, found[0])),
        target_words=step * sum(map(count_words, found[1])),
        words=step * sum(map(count_words, found[0] | found[1])),
        characters=len({character for pair in sample for side in pair for character in side}),
        shared_letters=shared / max(1, targets.total()),
        sample=tuple(sample),
    )


@dataclass(frozen=True)
class TokenStatistics:
    """What a vocabulary makes of a text.

    Attributes:
        vocabulary: Size of the source's and of the target's vocabulary; smaller than asked for where the text cannot
            fill it.
        lengths: Mean tokens of a source and of a target sentence, EOS included.
        longest: Tokens, EOS included, that 99.5% of the sentences do not exceed.
    """

    vocabulary: tuple[int, int]
    lengths: tuple[float, float]
    longest: int


def token_statistics(
    statistics: TextStatistics, settings: TokenizerSettings, tokenizers: TokenizerPair | None = None
) -> TokenStatistics:
    """Learn a vocabulary of the sample, or take one that is there, and return what it makes of it.

    Args:
        statistics: With the sample.
        settings: What is learned.
        tokenizers: Those that are there; nothing is learned then.

    Raises:
        ConfigError: The vocabulary is smaller than the characters of the text need.
        DataError: The text has no sentence to learn from.
    """
    while tokenizers is None:
        try:
            tokenizers = train_tokenizers(statistics.sample, settings)
        except VocabularyTooLargeError as error:  # of one side; the other's limit may be lower still
            settings = settings.model_copy(update={"vocab_size": error.largest})
    lengths = [
        [len(ids) + 1 for ids in tokenizer.encode([pair[side] for pair in statistics.sample])]
        for side, tokenizer in enumerate((tokenizers.source, tokenizers.target))
    ]
    count = max(1, len(statistics.sample))
    longest = sorted(max(pair) for pair in zip(*lengths, strict=True))
    return TokenStatistics(
        vocabulary=(tokenizers.source.vocab_size, tokenizers.target.vocab_size),
        lengths=(sum(lengths[0]) / count, sum(lengths[1]) / count),
        longest=longest[min(len(longest) - 1, int(0.995 * len(longest)))],
    )
