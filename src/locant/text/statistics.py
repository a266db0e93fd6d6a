"""Statistics of a parallel text that settings are chosen by: sizes, lengths, and how much the two sides share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice

from locant.text.cleaning import count_words
from locant.text.pairs import Pair, ParallelText
from locant.text.tokenizer import TokenizerPair, TokenizerSettings, VocabularyTooLargeError, train_tokenizers

_SAMPLE = 20_000
"""Pairs, evenly spaced, that statistics are taken of."""


@dataclass(frozen=True)
class TextStatistics:
    """What a sample says about a parallel text.

    Attributes:
        pairs: Number of pairs of the whole text.
        words: Mean words of a source and of a target sentence; in scripts without spaces each character counts.
        characters: How many different characters there are.
        shared_letters: Share of the target's letters that the source uses too, 0 to 1.
        sample: The pairs that were looked at.
    """

    pairs: int
    words: tuple[float, float]
    characters: int
    shared_letters: float
    sample: tuple[Pair, ...]


def text_statistics(text: ParallelText) -> TextStatistics:
    """Return the statistics of a text, from at most 20,000 of its pairs."""
    sample = tuple(islice(text, 0, None, max(1, len(text) // _SAMPLE)))
    sources, targets = (Counter(char for pair in sample for char in pair[side] if char.isalpha()) for side in (0, 1))
    shared = sum(count for letter, count in targets.items() if letter in sources)
    return TextStatistics(
        pairs=len(text),
        words=_means([(count_words(source), count_words(target)) for source, target in sample]),
        characters=len({character for pair in sample for side in pair for character in side}),
        shared_letters=shared / max(1, targets.total()),
        sample=sample,
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
    longest = sorted(max(pair) for pair in zip(*lengths, strict=True))
    return TokenStatistics(
        vocabulary=(tokenizers.source.vocab_size, tokenizers.target.vocab_size),
        lengths=_means(list(zip(*lengths, strict=True))),
        longest=longest[min(len(longest) - 1, int(0.995 * len(longest)))],
    )


def _means(pairs: list[tuple[int, int]]) -> tuple[float, float]:
    count = max(1, len(pairs))
    return sum(source for source, _ in pairs) / count, sum(target for _, target in pairs) / count
