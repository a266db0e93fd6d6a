"""What a sample says of a parallel text: statistics by which settings are chosen, languages, and what is doubtful."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from locant.errors import DataError, MissingExtraError
from locant.languages import english_name, language_identifier, parse_language, script_of
from locant.text.cleaning import CleaningSettings, clean
from locant.text.corpus import Corpus
from locant.text.corpus_settings import CorpusSettings, FilesCorpus
from locant.text.pairs import ChangedBlock, MemoryBlock, Pair, ParallelText, in_memory, split_words
from locant.text.tokenizer import TokenizerSettings
from locant.text.tokenizer_pair import TokenizerPair
from locant.text.vocabulary import train_tokenizers

_logger = logging.getLogger("locant")

_SAMPLE = 20_000
"""Pairs, evenly spaced, that statistics are taken of, and different sentences of a side whose words are counted."""
_LOOKED_AT, _IDENTIFIED, _FEWEST = 2000, 200, 10
"""Pairs that may be doubtful, those whose language is identified, and how few say nothing."""
_SURE, _LONG = 0.9, 30  # probability of a language, and letters of a sentence that has one
_TOKENISED = re.compile(r"\s(?:[.,。、](?:\s|$)|@-@\s)|&(?:apos|quot|amp|lt|gt|#\d+);")
_UNNAMED, _TOGETHER, _MOST = 500, 10, 0.8
"""Pairs by which a language is found, how many sentences at once, and the share that must be of it."""
_SUFFIX = re.compile(r"[A-Za-z]{2}|[A-Za-z]{2,3}[-_][A-Za-z0-9_-]{2,}")
"""A code that is no other usual suffix, as three letters alone may be: ``.src`` is Sardinian."""


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

    The words are those of different sentences: what is in several directions of a corpus of several languages, or
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
    for block, facts in text.blocks():
        pairs = MemoryBlock(block.read())
        sample += ChangedBlock(pairs, np.arange(-first % step, len(facts), step)).read()
        for side, sentences in enumerate(found if step > 1 else ()):
            rows = np.flatnonzero(facts["folded"][:, side] % step == 0)
            sentences.update(pair[side] for pair in ChangedBlock(pairs, rows).read())
        first += len(facts)
    looked_at = len(sample)
    if cleaning is not None:
        try:
            sample = list(clean(in_memory(sample), evaluation, cleaning)[0])
        except DataError:
            if step == 1:  # a part of the text that cleaning removes as a whole says nothing of the rest
                raise
    if step == 1:
        found = ({source for source, _ in sample}, {target for _, target in sample})
    sources, targets = (Counter(char for pair in sample for char in pair[side] if char.isalpha()) for side in (0, 1))
    shared = sum(count for letter, count in targets.items() if letter in sources)
    words = [step * sum(len(split_words(one)) for one in some) for some in (*found, found[0] | found[1])]
    return TextStatistics(
        pairs=round(len(text) * len(sample) / max(1, looked_at)),
        source_words=words[0],
        target_words=words[1],
        words=words[2],
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
    """Learn a vocabulary of the sample, or take tokenizers that are there, and return what they make of it.

    Raises:
        ConfigError: The vocabulary is smaller than the characters of the text need.
        DataError: The text has no sentence to learn from.
    """
    tokenizers = tokenizers or train_tokenizers(statistics.sample, settings)
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


def with_found_languages(corpus: Corpus, settings: CorpusSettings, *, tell: bool) -> Corpus:
    """Return a corpus of one pair of languages that knows them: by the names of its files, else by its text.

    Args:
        corpus: The opened corpus; languages that it knows stay.
        settings: What it was opened from.
        tell: Whether to log what was found, and how to say it where it was not.
    """
    if corpus.layout is not None or (corpus.source_language and corpus.target_language):
        return corpus
    pairs = list(islice(corpus.train, _UNNAMED))
    found: dict[str, Any] = {}
    said, messages = list[str](), list[str]()
    for place, side in enumerate(("source", "target")):
        key = f"{side}_language"
        if getattr(corpus, key):
            continue
        files = getattr(settings.train, side) if isinstance(settings, FilesCorpus) else ()
        texts = [pair[place] for pair in pairs]
        if code := _by_name(files, texts):
            said.append(f"{side} {code} (by the name of its file)")
        elif code := _by_text(texts):
            said.append(f"{side} {code} (by its text)")
        else:
            messages.append(
                f"The {side} language is not known, which serving and some exports need: name it with "
                f"--{side}-language CODE (corpus.{key})."
            )
        found[key] = code
    if said:
        messages.append(f"Languages: {', '.join(said)}. Others are named with --source-language and --target-language.")
    for message in messages if tell and os.environ.get("RANK", "0") == "0" else ():
        _logger.info(message)
    return replace(corpus, parts=tuple(replace(part, **found) for part in corpus.parts))


def _by_name(files: Sequence[Path], texts: Sequence[str]) -> str | None:
    """Return the code that all files have as their suffix, where the text may be of that language."""
    codes = {Path(file.name.removesuffix(".gz")).suffix[1:] for file in files}
    code = codes.pop() if len(codes) == 1 else ""
    known = _SUFFIX.fullmatch(code) and english_name(code)
    return code if known and parse_language(code).may_be_in(script_of(texts)) else None


def _by_text(texts: Sequence[str]) -> str | None:
    """Return the code of the language that nearly all of the text is in; ``None`` where none is known."""
    with suppress(MissingExtraError):
        identifier = language_identifier()
        some = [" ".join(texts[start : start + _TOGETHER]) for start in range(0, len(texts), _TOGETHER)]
        counts = Counter(identifier.rank(text)[0][0] for text in some if any(map(str.isalpha, text)))
        code, count = counts.most_common(1)[0] if counts else ("", 0)
        if count and count >= _MOST * counts.total():
            return str(code)
    return None


@dataclass(frozen=True)
class Doubt:
    """Something about a text that is likely not meant.

    Attributes:
        code: What it is.
        where: The part of the corpus and the side.
        share: Of the pairs that were looked at, 0 to 1.
        found: An example, or the language that was found.
    """

    code: Literal["copies", "no-letters", "tokenised", "lower-case", "language"]
    where: str
    share: float
    found: str = ""

    @property
    def sentence(self) -> str:
        """What a user is told."""
        share = f"{self.share:.0%}" if self.share >= 0.01 else "Some"
        what = {
            "copies": f"{share} of the sources are the same as their targets, so the model learns to copy. "
            "Give translations as the target, or leave such pairs out.",
            "no-letters": f"{share} of the sentences have no letters, as in '{self.found:.40}'. Of a TSV other columns "
            "may be meant: corpus.source_column and corpus.target_column.",
            "tokenised": f"{share} of the sentences are tokenised or escaped, as in '{self.found:.60}'. The model "
            "then wants such text and writes it. Train it on plain text.",
            "lower-case": f"{share} of the sentences have no capital letters. The model then knows none: set "
            "tokenizer.lowercase=true, or train it on text as it is written.",
            "language": f"{share} of the sentences seem to be in another language ('{self.found}').",
        }
        return f"{self.where}: {what[self.code]}"


def corpus_doubts(corpus: Corpus, *, lowercase: bool = False) -> list[Doubt]:
    """Return what is doubtful about the training text of a corpus, from the first of its pairs.

    Args:
        corpus: The opened corpus.
        lowercase: Whether the text is brought to lower case anyway.

    Raises:
        DataError: A file can be read no more.
    """
    found: list[Doubt] = []
    for part in corpus.parts:
        pairs = list(islice(part.train, _LOOKED_AT))
        if len(pairs) < _FEWEST:
            continue
        copies = sum(source == target for source, target in pairs) / len(pairs)
        if copies >= 1 / 3 and not part.noise:
            found.append(Doubt("copies", part.name, copies))
        sources, targets = zip(*pairs, strict=True)
        found += _of_side(f"{part.name}, source", part.source_language, sources, lowercase)
        found += _of_side(f"{part.name}, target", part.target_language, targets, lowercase)
    return found


def _of_side(where: str, language: str | None, texts: Sequence[str], lowercase: bool) -> Iterator[Doubt]:
    bare = [text for text in texts if not any(map(str.isalpha, text))]
    if 2 * len(bare) >= len(texts):
        yield Doubt("no-letters", where, len(bare) / len(texts), bare[0])
        return
    tokenised = tokenised_texts(texts)
    if 5 * len(tokenised) >= len(texts):
        yield Doubt("tokenised", where, len(tokenised) / len(texts), tokenised[0])
    cased = [text for text in texts if text.lower() != text.upper()]
    lower = [text for text in cased if text == text.lower()]
    if not lowercase and len(lower) >= 0.98 * len(cased) and 2 * len(cased) >= len(texts):
        yield Doubt("lower-case", where, len(lower) / len(texts))
    said, script = parse_language(language) if language else None, script_of(texts)
    if said and not said.may_be_in(script):
        yield Doubt("language", where, 1.0, script)
        return
    with suppress(MissingExtraError):
        identifier = language_identifier()
        long = [text for text in texts if sum(map(str.isalpha, text)) >= _LONG]
        some = long[:: len(long) // _IDENTIFIED + 1]
        ranked = [identifier.rank(text)[0] for text in some]
        counts = Counter(parse_language(code).code for code, share in ranked if share >= _SURE)
        usual = said.code if said else max(counts, key=lambda code: counts[code], default="")
        sure = counts.total()
        del counts[usual]
        known = said is None or said.code in {parse_language(code).code for code in identifier.nb_classes}
        if known and counts.total() >= max(_FEWEST, len(some) / 5):
            yield Doubt("language", where, counts.total() / sure, max(counts, key=lambda code: counts[code]))


def tokenised_texts(texts: Sequence[str]) -> list[str]:
    """Return those texts that look tokenised or escaped, as ``Moses`` leaves them."""
    return [text for text in texts if _TOKENISED.search(text)]
