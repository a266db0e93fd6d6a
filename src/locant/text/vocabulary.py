"""Learning of vocabularies: SentencePiece models of training text."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice
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
"""Of that many sentences, the characters are estimated from that many of them."""
_LONGEST_BYTES = 1 << 15
"""Of a sentence from which SentencePiece learns; it counts the characters of a word in 16 bits."""
_TRAINING_THREADS = 4  # A constant: the trained model depends (in the last bits of its scores) on the number.


class VocabularyTooSmallError(ConfigError):
    """A vocabulary has no room for the characters of a text; ``least`` is how many tokens these alone need."""

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

    A vocabulary is smaller than ``vocab_size`` where the text cannot fill it.

    Args:
        pairs: The text.
        settings: How to learn.
        languages: Codes of the languages that get a token of their own, which represents no text; they count in
            ``vocab_size``.
        layout: Where these tokens are.
        tags: Tokens of the source that mark some of them; like the tokens of languages they represent no text.

    Raises:
        ConfigError: ``vocab_size`` is smaller than the characters of the text need.
        DataError: The text has no sentence to learn from.
    """
    of_languages = [language_token(layout, code) for code in languages]
    for tag in tags:
        if tag in of_languages:
            raise ConfigError(f"The tag '{tag}' is the token of a language; choose another.")
    reserved = [*of_languages, *dict.fromkeys(tags)]
    if settings.joint:
        source = target = _train(pairs, (0, 1), settings, reserved)
    else:  # both vocabularies reserve the same ids for the languages
        source, target = _train(pairs, (0,), settings, reserved), _train(pairs, (1,), settings, of_languages)
    ids = {code: source.id(name) for code, name in zip(languages, of_languages, strict=True)}
    return TokenizerPair(source, target, LanguageTokens(layout=layout, ids=ids) if ids else None)


def _train(pairs: Pairs, sides: Sequence[int], settings: TokenizerSettings, reserved: Sequence[str]) -> Tokenizer:
    """Learn one vocabulary of some sides; ``reserved`` are the names of tokens that represent no text."""
    stopped: list[Exception | KeyboardInterrupt] = []

    def sentences() -> Iterator[str]:
        try:
            for sentence in _sample(pairs, sides):
                if text := normalize(sentence, lowercase=settings.lowercase):
                    yield text
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
            hard_vocab_limit=False,
            character_coverage=settings.character_coverage,
            byte_fallback=settings.byte_fallback,
            max_sentence_length=_LONGEST_BYTES,
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
        said = str(error)
        if stopped:
            raise stopped[0] from None
        if found := re.search(r"required_chars\. \d+ vs (\d+)", said):
            raise VocabularyTooSmallError(settings.vocab_size, int(found[1])) from None
        if "sentences_.empty()" in said:
            said = "it holds no sentence"
        raise DataError(f"A tokenizer could not be learned from the training text: {said}.") from None
    return Tokenizer(model.getvalue(), lowercase=settings.lowercase)


def _sample(pairs: Pairs, sides: Sequence[int]) -> Iterator[str]:
    """Yield the sentences of some sides, or of a large text some of them."""

    def spaced(step: int) -> Iterator[str]:
        """Return every n-th sentence, with an odd n, so that source and target sentences alternate."""
        return islice((pair[side] for pair in pairs for side in sides), 0, None, step | 1)

    count = len(sides) * len(pairs)
    step = count // _TRAINING_SENTENCES
    if count >= _MANY:
        lengths = list(map(len, spaced(count // _MEASURED)))
        step = max(step, math.ceil(count * sum(lengths) / len(lengths) / _TRAINING_CHARACTERS))
    return spaced(step)
