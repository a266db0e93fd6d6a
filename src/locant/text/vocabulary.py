"""Learning of vocabularies: SentencePiece models of training text."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Protocol

from locant.errors import ConfigError, DataError
from locant.lazy import optional_package
from locant.text.pairs import Pair
from locant.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, TokenizerSettings, normalize
from locant.text.tokenizer_pair import LanguageLayout, LanguageTokens, TokenizerPair, language_token

sentencepiece = optional_package("sentencepiece", "Cutting text into subwords")

_TRAINING_SENTENCES = 1_000_000
"""More sentences than this do not make a better vocabulary; a larger corpus is thinned out evenly."""
_TRAINING_CHARACTERS = 50_000_000
"""Likewise; SentencePiece takes some 20 bytes of memory for each."""
_MANY, _MEASURED = 100_000, 10_000
"""Of so many sentences, the characters are estimated from so many of them."""
_LONGEST_BYTES = 4192
"""Of a sentence from which SentencePiece learns; longer ones it leaves out."""
_PART = re.compile(r".{1,1000}(?= |$)|.{1,1000}", re.DOTALL)
"""So many characters have at most 4,000 bytes."""
_TRAINING_THREADS = 4  # A constant: the trained model depends (in the last bits of its scores) on the number.


class VocabularyTooLargeError(ConfigError):
    """A text cannot fill a vocabulary.

    Attributes:
        largest: The largest vocabulary that it can fill.
    """

    def __init__(self, asked: int, largest: int) -> None:
        super().__init__(
            f"tokenizer.vocab_size is {asked}, but the training text can fill at most {largest} tokens. "
            f"Set tokenizer.vocab_size to {largest} or less."
        )
        self.largest = largest


class VocabularyTooSmallError(ConfigError):
    """A vocabulary has no room for the characters of a text.

    Attributes:
        least: The tokens that the characters alone need.
    """

    def __init__(self, asked: int, least: int) -> None:
        super().__init__(
            f"tokenizer.vocab_size is {asked}, but the characters of the training text alone need {least} tokens. Set "
            "tokenizer.vocab_size higher, or lower tokenizer.character_coverage."
        )
        self.least = least


class Pairs(Protocol):
    """Sentence pairs that can be counted and read several times."""

    def __iter__(self) -> Iterator[Pair]: ...
    def __len__(self) -> int: ...


def train_tokenizers(
    pairs: Pairs,
    settings: TokenizerSettings,
    *,
    languages: Sequence[str] = (),
    layout: LanguageLayout = "fairseq",
    tags: Sequence[str] = (),
) -> TokenizerPair:
    """Learn the vocabulary from training text; the same text and settings give the same model.

    Args:
        pairs: The text.
        settings: How to learn.
        languages: Codes of the languages that get a token of their own, which stands for no text; they count in
            ``vocab_size``.
        layout: Where these tokens stand.
        tags: Tokens of the source that mark some of them; like the tokens of languages they stand for no text.

    Raises:
        ConfigError: ``vocab_size`` is larger than the text can fill (of two vocabularies, than either side can), or
            smaller than its characters need.
        DataError: The text has no sentence to learn from.
    """
    of_languages = [language_token(layout, code) for code in languages]
    for tag in tags:
        if tag in of_languages:
            raise ConfigError(f"The tag '{tag}' is the token of a language; choose another.")
    reserved = [*of_languages, *dict.fromkeys(tags)]
    if settings.joint:
        source = target = _train(pairs, (0, 1), settings, reserved)
    else:
        # Both vocabularies reserve the same ids for the languages.
        source, target = _train_two(pairs, settings, reserved, of_languages)
    ids = {code: source.id(name) for code, name in zip(languages, of_languages, strict=True)}
    return TokenizerPair(source, target, LanguageTokens(layout=layout, ids=ids) if ids else None)


def _train_two(
    pairs: Pairs, settings: TokenizerSettings, of_source: Sequence[str], of_target: Sequence[str]
) -> list[Tokenizer]:
    """Learn a vocabulary for each side; where one side cannot fill as much as the other, it has what it can fill.

    Raises:
        VocabularyTooLargeError: Neither side can fill it; with the larger of the two limits.
    """
    learned: list[Tokenizer] = []
    errors: list[VocabularyTooLargeError] = []
    for side, reserved in enumerate((of_source, of_target)):
        try:
            learned.append(_train(pairs, (side,), settings, reserved))
        except VocabularyTooLargeError as error:
            smaller = settings.model_copy(update={"vocab_size": error.largest})
            learned.append(_train(pairs, (side,), smaller, reserved))
            errors.append(error)
    if len(errors) == 2:
        raise max(errors, key=lambda error: error.largest)
    return learned


def _train(pairs: Pairs, sides: Sequence[int], settings: TokenizerSettings, reserved: Sequence[str]) -> Tokenizer:
    """Learn one vocabulary of some sides; ``reserved`` are the names of tokens that stand for no text."""
    stopped: list[Exception | KeyboardInterrupt] = []

    def sentences() -> Iterator[str]:
        try:
            thinned = (normalize(text, lowercase=settings.lowercase) for text in _sample(pairs, sides))
            yield from chain.from_iterable(_in_parts(text) for text in thinned if text)
        except (Exception, KeyboardInterrupt) as error:
            stopped.append(error)  # SentencePiece makes a RuntimeError of it
            raise

    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sentences(),
            model_writer=model,
            model_type=settings.algorithm,
            vocab_size=settings.vocab_size,
            character_coverage=settings.character_coverage,
            byte_fallback=settings.byte_fallback,
            normalization_rule_name="identity",
            num_threads=_TRAINING_THREADS,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            control_symbols=list(reserved),
            minloglevel=4,
        )
    except RuntimeError as error:
        raise stopped[0] if stopped else _readable(str(error), settings) from None
    return Tokenizer(model.getvalue(), lowercase=settings.lowercase)


def _in_parts(text: str) -> list[str]:
    """Cut a text at spaces, where SentencePiece cuts too, into parts that it does not leave out as too long."""
    if 4 * len(text) <= _LONGEST_BYTES or len(text.encode()) <= _LONGEST_BYTES:
        return [text]
    return [part for each in _PART.findall(text) if (part := each.strip())]


def _sample(pairs: Pairs, sides: Sequence[int]) -> Iterator[str]:
    """Yield the sentences of some sides, or of a large text some of them."""
    count = len(sides) * len(pairs)
    step = count // _TRAINING_SENTENCES
    if count >= _MANY:
        lengths = list(map(len, _spaced(pairs, sides, count // _MEASURED)))
        step = max(step, math.ceil(count * sum(lengths) / len(lengths) / _TRAINING_CHARACTERS))
    return _spaced(pairs, sides, step)


def _spaced(pairs: Pairs, sides: Sequence[int], step: int) -> Iterator[str]:
    """Return every n-th sentence, with an odd n, so that source and target sentences alternate."""
    sentences = (pair[side] for pair in pairs for side in sides)
    return islice(sentences, 0, None, step | 1)


def _readable(message: str, settings: TokenizerSettings) -> ConfigError | DataError:
    """Turn SentencePiece's message into one that names the key and the possible values."""
    if found := re.search(r"value <= (\d+)", message):
        return VocabularyTooLargeError(settings.vocab_size, int(found[1]))
    if found := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return VocabularyTooSmallError(settings.vocab_size, int(found[1]))
    if "sentences_.empty()" in message:
        return DataError("The training text holds no sentence from which a tokenizer could be learned.")
    return DataError(f"The tokenizer could not be learned from the training text: {message}")
