"""Vocabularies learned from text: SentencePiece models, and new tokens for one that exists.

New tokens are tags, and what a new text spells in pieces. The text is cut by the tokenizer as it is; characters that it
does not know come first, then SentencePiece learns which neighbours within a word become one subword (Sennrich et al.
2016, "Neural Machine Translation of Rare Words with Subword Units", algorithm 1), from words in which a character
represents each token. In a BPE model the new merges rank after the old ones; in a unigram model a subword has the
logarithm of its share of the new text as its score, and is taken only where that is better than the scores of what it
replaces, so that encoding uses it.
"""

from __future__ import annotations

import io
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import Protocol

from locant.errors import ConfigError, DataError
from locant.lazy import optional_package
from locant.text.pairs import Pair
from locant.text.sentencepiece_model import model_proto
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
_SPACE = "▁"
_LEAST = 2  # occurrences that make a subword worth having
_LONGEST = 16  # characters, as in SentencePiece
_FIRST_CODE, _CODES = 0xF0000, 0x1FFFE  # characters for private use, which represent tokens


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


@dataclass(frozen=True)
class NewSubword:
    """A subword that a tokenizer lacks.

    Attributes:
        piece: Its characters; ``▁`` represents a space.
        score: Its logarithm of probability in a unigram model; a BPE model ranks it after all others instead.
        replaces: Ids of the tokens that spelled it until now; none for a tag, which represents no text.
    """

    piece: str
    score: float = 0.0
    replaces: tuple[int, ...] = ()


@dataclass(frozen=True)
class ExtendedTokenizers:
    """Tokenizers with new subwords and tags, whose ids follow those of the old ones.

    Attributes:
        pair: The tokenizers.
        source: For each new id of the source, the ids of the tokens that it replaces; none for a tag.
        target: Likewise of the target.
    """

    pair: TokenizerPair
    source: list[tuple[int, ...]]
    target: list[tuple[int, ...]]


def extend_tokenizers(
    pair: TokenizerPair, text: Pairs, count: int, *, shared: bool, tags: Sequence[str] = ()
) -> ExtendedTokenizers:
    """Add the subwords that a text needs most, and tags.

    Args:
        pair: The tokenizers; they stay as they are.
        text: Sentence pairs of the new text.
        count: The most subwords that a vocabulary gets; fewer where the text has no more that occur twice.
        shared: Whether an id means the same token on both sides, as with one matrix of embeddings for both: then both
            get the same tokens.
        tags: Tokens before a source that represent no text, which it lacks.

    Raises:
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    old = [pair.source] if pair.joint else [pair.source, pair.target]
    of_source = [NewSubword(tag) for tag in tags]
    sides: list[list[NewSubword]] = [[] for _ in old]
    if count and pair.joint:
        sides = [learn_subwords(pair.source, chain.from_iterable(text), count)]
    elif count:
        sides = [learn_subwords(one, (two[side] for two in text), count) for side, one in enumerate(old)]
        if shared:
            known = {tokenizer.token(index) for tokenizer in old for index in range(tokenizer.vocab_size)}
            both: dict[str, NewSubword] = {}
            # By turns, so that what a merge is made of comes before it.
            for new in chain.from_iterable(zip_longest(*sides)):
                if new is not None and new.piece not in known and len(both) < count:
                    both.setdefault(new.piece, new)
            sides = [list(both.values())] * 2
    sides = [[*new, *(of_source if shared or side == 0 else ())] for side, new in enumerate(sides)]
    tokenizers = [with_subwords(one, new) if new else one for one, new in zip(old, sides, strict=True)]
    replaced = [[new.replaces for new in side] for side in sides]
    return ExtendedTokenizers(TokenizerPair(tokenizers[0], tokenizers[-1], pair.languages), replaced[0], replaced[-1])


def with_subwords(tokenizer: Tokenizer, new: Sequence[NewSubword]) -> Tokenizer:
    """Return a tokenizer that has new subwords, and tags behind them, after its own.

    Raises:
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    proto = model_proto(tokenizer.model, extending=True)
    kind = proto.SentencePiece
    bpe = proto.trainer_spec.model_type == proto.trainer_spec.BPE
    lowest = min((piece.score for piece in proto.pieces if piece.type == kind.NORMAL), default=0.0)
    for rank, one in enumerate(new):
        score = lowest - 1 - rank if bpe and one.replaces else one.score
        proto.pieces.append(kind(piece=one.piece, score=score, type=kind.NORMAL if one.replaces else kind.CONTROL))
    proto.trainer_spec.vocab_size = len(proto.pieces)
    proto.DiscardUnknownFields()  # samples for a self-test, which show the old segmentation
    return Tokenizer(proto.SerializeToString(), lowercase=tokenizer.lowercase)


def learn_subwords(tokenizer: Tokenizer, texts: Iterable[str], count: int) -> list[NewSubword]:
    """Return the subwords that would shorten a text most, the most useful first.

    Args:
        tokenizer: What cuts the text now.
        texts: Sentences; a million of them are looked at.
        count: The most subwords to return.

    Raises:
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    proto = model_proto(tokenizer.model, extending=True)
    bpe = proto.trainer_spec.model_type == proto.trainer_spec.BPE
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == piece.NORMAL}
    replaces: dict[str, tuple[int, ...]] = {piece.piece: (index,) for index, piece in enumerate(proto.pieces)}
    of_bytes = {piece.piece: int(piece.piece[1:-1], 16) for piece in proto.pieces if piece.type == piece.BYTE}
    words = Counter[tuple[str, ...]]()
    for text in islice(texts, _TRAINING_SENTENCES):
        words.update(_words(tokenizer.tokens(text), replaces, of_bytes))
    symbols = Counter[str]()
    for word, times in words.items():
        for symbol in word:
            symbols[symbol] += times
    found: list[NewSubword] = []
    for character, times in sorted(symbols.items(), key=lambda item: (-item[1], item[0])):
        if character not in replaces and times >= _LEAST and not character.isspace() and len(found) < count:
            spelled = [f"<0x{byte:02X}>" for byte in character.encode()] if of_bytes else []
            ids = tuple(replaces[byte][0] for byte in spelled) or (UNK,)
            found.append(NewSubword(character, math.log(times / symbols.total()), ids))
    replaces |= {new.piece: new.replaces for new in found}
    scores |= {new.piece: new.score for new in found}
    # SentencePiece joins letters alone.
    letters = [
        one
        for one in symbols
        if one in scores and all(unicodedata.category(each)[0] in "LM" for each in one.removeprefix(_SPACE))
    ]
    codes = {symbol: chr(_FIRST_CODE + number) for number, symbol in enumerate(letters[:_CODES])}
    found_parts = Counter[str]()
    for word, times in words.items():
        for part in "".join(codes.get(symbol, " ") for symbol in word).split():
            found_parts[part] += times
    parts = {part: times for part, times in found_parts.items() if len(part) > 1 and times >= _LEAST}
    for coded, times in _merges(parts, len(codes), count, used=not bpe):
        merged = [letters[ord(code) - _FIRST_CODE] for code in coded]
        piece, score = "".join(merged), math.log(max(1, times) / symbols.total())
        better = bpe or score > sum(scores[symbol] for symbol in merged)
        if piece not in replaces and len(piece) <= _LONGEST and better:
            replaces[piece] = tuple(chain.from_iterable(replaces[symbol] for symbol in merged))
            found.append(NewSubword(piece, score, replaces[piece]))
    return found[:count]


def _words(
    tokens: Sequence[str], known: Mapping[str, object], of_bytes: Mapping[str, int]
) -> Iterator[tuple[str, ...]]:
    """Yield the words of a text as tokens, unknown characters and those spelled in bytes as themselves."""
    word: list[str] = []
    spelled = bytearray()
    for token in [*tokens, _SPACE]:
        if token in of_bytes:
            spelled.append(of_bytes[token])
            continue
        word += spelled.decode("utf-8", "replace")
        spelled.clear()
        if token.startswith(_SPACE) and word:
            yield tuple(word)
            word = []
        word += [token] if token in known else token


def _merges(words: Mapping[str, int], characters: int, count: int, *, used: bool) -> Iterator[tuple[str, int]]:
    """Yield about ``count`` merges of byte-pair encoding in words that are counted, each with how often it is used.

    The words occur twice at least and have that many different ``characters`` at most; ``used`` leaves out what longer
    ones replace.
    """
    if not words:
        return
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(f"{word}\t{times}" for word, times in words.items()),
        input_format="tsv",
        model_writer=model,
        model_type="bpe",
        vocab_size=1 + characters + 2 * count,
        hard_vocab_limit=False,
        character_coverage=1.0,
        max_sentencepiece_length=_LONGEST,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        split_by_unicode_script=False,
        bos_id=-1,
        eos_id=-1,
        minloglevel=4,
    )
    learned = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    uses = Counter[str]()
    for cut, times in zip(learned.encode(list(words), out_type=str), words.values(), strict=True):
        for piece in cut:
            uses[piece] += times
    pieces = map(learned.id_to_piece, range(1, learned.get_piece_size()))  # the first is the unknown token
    yield from ((piece, uses[piece]) for piece in pieces if len(piece) > 1 and (uses[piece] or not used))
