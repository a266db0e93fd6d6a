"""New tokens for a tokenizer that exists: tags, and what a new text spells in pieces, as byte-pair encoding learns it.

The text is cut by the tokenizer as it is; characters that it does not know come first, then the most frequent pair of
neighbours within a word becomes one subword, again and again (Sennrich et al. 2016, "Neural Machine Translation of Rare
Words with Subword Units", algorithm 1). In a BPE model the new merges rank after the old ones; in a unigram model a
subword has the logarithm of its share of the new text as its score, and is taken only where that is better than the
scores of what it replaces, so that encoding uses it.
"""

from __future__ import annotations

import heapq
import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise, zip_longest
from typing import Any

from locant.text.sentencepiece_model import model_proto
from locant.text.tokenizer import UNK, Tokenizer
from locant.text.tokenizer_pair import TokenizerPair
from locant.text.vocabulary import Pairs

_SPACE = "▁"
_CHUNK = 4096
_SENTENCES = 1_000_000  # more do not make better subwords
_LEAST = 2  # occurrences that make a subword worth having
_LONGEST = 16  # characters, as in SentencePiece


@dataclass(frozen=True)
class NewSubword:
    """A subword that a tokenizer lacks.

    Attributes:
        piece: Its characters; ``▁`` stands for a space.
        score: Its logarithm of probability in a unigram model; a BPE model ranks it after all others instead.
        replaces: Ids of the tokens that spelled it until now.
    """

    piece: str
    score: float
    replaces: tuple[int, ...]


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


def extend_tokenizers(pair: TokenizerPair, text: Pairs, count: int, *, shared: bool) -> ExtendedTokenizers:
    """Add the subwords that a text needs most.

    Args:
        pair: The tokenizers; they stay as they are.
        text: Sentence pairs of the new text.
        count: The most subwords that a vocabulary gets; fewer where the text has no more that occur twice.
        shared: Whether an id means the same token on both sides, as with one matrix of embeddings for both: then both
            get the same subwords.

    Raises:
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    if pair.joint:
        found = learn_subwords(pair.source, (sentence for two in text for sentence in two), count)
        joint = with_subwords(pair.source, found)
        replaced = [new.replaces for new in found]
        return ExtendedTokenizers(TokenizerPair(joint, joint, pair.languages), replaced, replaced)
    sides = [
        learn_subwords(tokenizer, (two[side] for two in text), count)
        for side, tokenizer in enumerate((pair.source, pair.target))
    ]
    if shared:
        known = {
            tokenizer.token(index) for tokenizer in (pair.source, pair.target) for index in range(tokenizer.vocab_size)
        }
        both: dict[str, NewSubword] = {}
        # By turns, so that what a merge is made of comes before it.
        for new in chain.from_iterable(zip_longest(*sides)):
            if new is not None and new.piece not in known and len(both) < count:
                both.setdefault(new.piece, new)
        sides = [list(both.values())] * 2
    tokenizers = [with_subwords(one, new) for one, new in zip((pair.source, pair.target), sides, strict=True)]
    replaced_ids = [[new.replaces for new in side] for side in sides]
    return ExtendedTokenizers(TokenizerPair(tokenizers[0], tokenizers[1], pair.languages), *replaced_ids)


def add_tags(extended: ExtendedTokenizers, tags: Sequence[str], *, shared: bool) -> ExtendedTokenizers:
    """Add tags, tokens before a source that stand for no text.

    Args:
        extended: The tokenizers.
        tags: What the source lacks.
        shared: As for :func:`extend_tokenizers`; then the target gets them too.

    Raises:
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    pair, nothing = extended.pair, [()] * len(tags)
    source = _with_tags(pair.source, tags)
    target = source if pair.joint else _with_tags(pair.target, tags) if shared else pair.target
    both = pair.joint or shared
    return ExtendedTokenizers(
        TokenizerPair(source, target, pair.languages),
        [*extended.source, *nothing],
        [*extended.target, *nothing] if both else extended.target,
    )


def _with_tags(tokenizer: Tokenizer, tags: Sequence[str]) -> Tokenizer:
    proto = model_proto(tokenizer.model, extending=True)
    kind = type(proto).SentencePiece
    proto.pieces.extend(kind(piece=tag, score=0.0, type=kind.CONTROL) for tag in tags)
    return _changed(proto, tokenizer)


def with_subwords(tokenizer: Tokenizer, new: Sequence[NewSubword]) -> Tokenizer:
    """Return a tokenizer that has new subwords after its own.

    Raises:
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    proto = model_proto(tokenizer.model, extending=True)
    kind = type(proto).SentencePiece
    bpe = proto.trainer_spec.model_type == proto.trainer_spec.BPE
    lowest = min((piece.score for piece in proto.pieces if piece.type == kind.NORMAL), default=0.0)
    proto.pieces.extend(
        kind(piece=one.piece, score=lowest - 1 - rank if bpe else one.score, type=kind.NORMAL)
        for rank, one in enumerate(new)
    )
    return _changed(proto, tokenizer)


def _changed(proto: Any, tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer of a changed model."""
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
    known = _Known(tokenizer, proto)
    words = Counter[tuple[str, ...]]()
    for text in islice(texts, _SENTENCES):
        words.update(known.words(tokenizer.tokens(text)))
    found = _characters(words, known, count)
    return _Learner(words, known, found).learn(count)


class _Known:
    """What a tokenizer knows: the id and the score of each subword, and what spells a character that is none."""

    def __init__(self, tokenizer: Tokenizer, proto: Any) -> None:
        self.bpe = proto.trainer_spec.model_type == proto.trainer_spec.BPE
        self.scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == piece.NORMAL}
        self.replaces = {piece.piece: (index,) for index, piece in enumerate(proto.pieces)}
        self.bytes = {
            int(piece.piece[1:-1], 16): index for index, piece in enumerate(proto.pieces) if piece.type == piece.BYTE
        }
        self._byte_of = {f"<0x{byte:02X}>": byte for byte in self.bytes}

    def words(self, tokens: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Yield the words of a text as subwords, characters that are none being spelled out."""
        word: list[str] = []
        spelled = bytearray()
        for token in [*tokens, _SPACE]:
            if token in self._byte_of:
                spelled.append(self._byte_of[token])
                continue
            word += spelled.decode("utf-8", "replace")
            spelled.clear()
            if token.startswith(_SPACE) and word:
                yield tuple(word)
                word = []
            word += [token] if token in self.replaces else token

    def spelling(self, character: str) -> tuple[int, ...]:
        """Return the ids that stand for a character without a token."""
        if not self.bytes:
            return (UNK,)
        return tuple(self.bytes[byte] for byte in character.encode())


def _characters(words: Counter[tuple[str, ...]], known: _Known, count: int) -> list[NewSubword]:
    """Return the characters without a token, the most frequent first."""
    characters = Counter[str]()
    for word, times in words.items():
        for symbol in word:
            if symbol not in known.replaces:
                characters[symbol] += times
    total = sum(times * len(word) for word, times in words.items())
    frequent = sorted((item for item in characters.items() if item[1] >= _LEAST), key=lambda item: (-item[1], item[0]))
    return [
        NewSubword(character, math.log(times / total), known.spelling(character))
        for character, times in frequent[:count]
        if not character.isspace()
    ]


class _Learner:
    """Merges neighbours within words, the most frequent pair first."""

    def __init__(self, words: Counter[tuple[str, ...]], known: _Known, characters: Sequence[NewSubword]) -> None:
        self.bpe = known.bpe
        self.scores = known.scores | {new.piece: new.score for new in characters}
        self.replaces = known.replaces | {new.piece: new.replaces for new in characters}
        self.old = frozenset(known.replaces)
        self.characters = frozenset(new.piece for new in characters)
        self.found = {new.piece: new for new in characters}
        self.words = [list(word) for word in words]
        self.times = list(words.values())
        self.total = sum(times * len(word) for word, times in words.items())
        self.uses = Counter[str]()
        self.mergeable: dict[str, bool] = {}
        self.pairs = Counter[tuple[str, str]]()
        self.places = defaultdict[tuple[str, str], set[int]](set)
        for number, word in enumerate(self.words):
            self._count(number, self.times[number])
            for symbol in word:
                self.uses[symbol] += self.times[number]
        self.queue = [(-times, pair) for pair, times in self.pairs.items()]
        heapq.heapify(self.queue)

    def learn(self, count: int) -> list[NewSubword]:
        """Merge until there are enough subwords, or none is left that is worth it."""
        while len(self.found) < count or len(self._worth()) < count:
            pair = self._best()
            if pair is None:
                break
            piece = "".join(pair)
            if piece not in self.found:
                if not self._better(pair, piece):
                    continue
                self.replaces[piece] = self.replaces[pair[0]] + self.replaces[pair[1]]
                self.scores[piece] = math.log(self.pairs[pair] / self.total)
                self.found[piece] = NewSubword(piece, self.scores[piece], self.replaces[piece])
            self._merge(pair, piece)
        return self._worth()[:count]

    def _worth(self) -> list[NewSubword]:
        """Return what was found, in a unigram model without merges that longer ones have replaced."""
        return [
            new
            for new in self.found.values()
            if self.bpe or new.piece in self.characters or self.uses[new.piece] >= _LEAST
        ]

    def _better(self, pair: tuple[str, str], piece: str) -> bool:
        """Whether encoding would take the merged subword instead of the two."""
        if piece in self.old or len(piece) > _LONGEST:
            return False
        return self.bpe or math.log(self.pairs[pair] / self.total) > self.scores[pair[0]] + self.scores[pair[1]]

    def _best(self) -> tuple[str, str] | None:
        while self.queue:
            times, pair = heapq.heappop(self.queue)
            now = self.pairs[pair]
            if now == -times and now >= _LEAST:
                return pair
            if _LEAST <= now < -times:
                heapq.heappush(self.queue, (-now, pair))
        return None

    def _merge(self, pair: tuple[str, str], piece: str) -> None:
        for number in sorted(self.places[pair]):
            times, word = self.times[number], self.words[number]
            self._count(number, -times)
            merged: list[str] = []
            for symbol in word:
                if merged and (merged[-1], symbol) == pair:
                    merged[-1] = piece
                    self.uses[piece] += times
                    for part in pair:
                        self.uses[part] -= times
                else:
                    merged.append(symbol)
            self.words[number] = merged
            for grown in self._count(number, times):
                heapq.heappush(self.queue, (-self.pairs[grown], grown))

    def _count(self, number: int, times: int) -> set[tuple[str, str]]:
        """Count the pairs of a word that may be merged, or take them back; returns those that grew."""
        word = self.words[number]
        found = {pair for pair in pairwise(word) if all(self._mergeable(one) for one in pair)}
        for pair in pairwise(word):
            if pair in found:
                self.pairs[pair] += times
        for pair in found:
            (self.places[pair].add if times > 0 else self.places[pair].discard)(number)
        return found if times > 0 else set()

    def _mergeable(self, symbol: str) -> bool:
        """Whether a symbol is a subword of letters: SentencePiece joins no others."""
        found = self.mergeable.get(symbol)
        if found is None:
            letters = all(unicodedata.category(one)[0] in "LM" for one in symbol.removeprefix(_SPACE))
            found = self.mergeable[symbol] = letters and symbol in self.scores
        return found
