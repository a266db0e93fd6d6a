"""Subword tokenizers: SentencePiece models (unigram or BPE).

Kudo and Richardson, "SentencePiece" (2018), arXiv:1808.06226. Text can be cut at random, from a seed alone: Kudo,
"Subword Regularization" (2018), arXiv:1804.10959, for unigram models; Provilkov et al., "BPE-Dropout" (2020),
arXiv:1910.13267, for BPE. SentencePiece does so too, but what it draws differs from one process to the next, whatever
its seed, so a resumed run would see other text than an uninterrupted one.
"""

from __future__ import annotations

import hashlib
import math
import random
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Literal

from pydantic import Field

from locant.errors import CheckpointError
from locant.lazy import optional_package
from locant.settings import Settings
from locant.text.sentencepiece_model import model_type

sentencepiece = optional_package("sentencepiece", "Cutting text into subwords")

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""The ids of padding, unknown token, beginning and end of sentence, the same in every tokenizer."""

_FEW = 32  # encoded one by one: SentencePiece begins threads for every list, which takes longer than these do


_SPACE = "▁"
_CACHED = 1 << 16
_LONGEST_CACHED = 24
"""Longer words are mostly whole sentences of a language without spaces: large, and they hardly recur."""

Uniform = Callable[[], float]
"""Returns the next random number of [0, 1)."""
Edge = tuple[float, int, int]
"""A last subword of a prefix: the probability of it or one listed before it, the character it begins at, and its id."""


class TokenizerSettings(Settings):
    """How the subword vocabulary is made and used.

    Attributes:
        algorithm: ``unigram`` or ``bpe``.
        vocab_size: The number of tokens, the four special ones included.
        joint: One vocabulary for both languages (so that the embeddings can be shared), or one for each.
        lowercase: Lower-case all text; translations then come out in lower case.
        sampling: Subword regularisation of the training text, 0 for none. For ``unigram`` the smoothing exponent of
            the sampling distribution (0.1 to 0.5 are usual; smaller is more random), for ``bpe`` the probability
            of skipping a merge (0.1 is usual).
        character_coverage: The share of the text's characters that get a token of their own; 0.9995 suits Chinese
            and Japanese.
        byte_fallback: Spell characters without a token in UTF-8 bytes instead of calling them unknown.
    """

    algorithm: Literal["unigram", "bpe"] = "unigram"
    vocab_size: int = Field(default=8000, ge=8, le=10_000_000)
    joint: bool = True
    lowercase: bool = False
    sampling: float = Field(default=0.0, ge=0.0, le=1.0)
    character_coverage: float = Field(default=1.0, gt=0.9, le=1.0)
    byte_fallback: bool = False


def normalize(text: str, *, lowercase: bool) -> str:
    """Return text as it is tokenised: Unicode NFC, single spaces, no NUL, lower case if so set."""
    if lowercase:
        text = text.lower()
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return " ".join(text.replace("\0", " ").split())


class Tokenizer:
    """Turns text into token ids and back.

    Text is first brought to Unicode NFC and its white space to single spaces (see :meth:`normalize`); SentencePiece
    itself changes nothing more, so ``decode(encode(text))`` is the normalised text wherever all its characters are in
    the vocabulary.

    Args:
        model: A serialised SentencePiece model with the special ids of this module.
        lowercase: Lower-case text before it is encoded.

    Raises:
        CheckpointError: The model is damaged or uses other special ids.
    """

    def __init__(self, model: bytes, *, lowercase: bool = False) -> None:
        self.model = model
        self.lowercase = lowercase
        self._sampler: Sampler | None = None
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
            self._processor.id_to_piece(list(range(self._processor.get_piece_size())))
        except RuntimeError as error:
            raise CheckpointError(f"The tokenizer model is damaged: {error}") from None
        except UnicodeDecodeError as error:
            raise CheckpointError(
                f"The tokenizer model is damaged: the subword {error.object!r} is no text in UTF-8."
            ) from None
        ids = tuple(getattr(self._processor, f"{name}_id")() for name in ("pad", "unk", "bos", "eos"))
        if ids != (PAD, UNK, BOS, EOS):
            raise CheckpointError(f"The tokenizer model has the special ids {ids}, expected {(PAD, UNK, BOS, EOS)}.")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Tokenizer, lowercase=self.lowercase), (self.model,)

    @property
    def vocab_size(self) -> int:
        """The number of tokens; every id is smaller."""
        return int(self._processor.get_piece_size())

    @property
    def algorithm(self) -> Literal["unigram", "bpe"]:
        """How the model cuts text."""
        return "bpe" if model_type(self.model) == "bpe" else "unigram"

    @property
    def digest(self) -> str:
        """A hash of the model and of how text is prepared for it."""
        return hashlib.sha256(self.model + bytes([self.lowercase])).hexdigest()

    def cased(self, text: str) -> str:
        """Return the text in the case that this tokenizer produces: for references when scoring."""
        return text.lower() if self.lowercase else text

    def normalize(self, text: str) -> str:
        """Return the text as it is encoded: Unicode NFC, single spaces, no NUL, lower case if so set."""
        return normalize(text, lowercase=self.lowercase)

    def encode(self, texts: Sequence[str], *, threads: int = -1) -> list[list[int]]:
        """Return the token ids of each text, without BOS and EOS.

        Args:
            texts: The texts.
            threads: Of SentencePiece; -1 for as many as there are cores, where there are many texts.
        """
        normal = [self.normalize(text) for text in texts]
        if len(normal) <= _FEW:
            return [self._processor.encode(text) for text in normal]
        encoded: list[list[int]] = self._processor.encode(normal, num_threads=threads)
        return encoded

    def encode_with_places(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """Return the ids of each text's subwords, and between which characters of the normalised text each is.

        The space before a word belongs to its first subword. See :func:`locant.text.encode_with_spans` for places in
        the text as it was given.
        """
        encoded = self._processor.encode([self.normalize(text) for text in texts], return_type="offset_mapping")
        return [(list(one["ids"]), list(one["offsets"])) for one in encoded]

    def encode_sampled(self, texts: Sequence[str], *, alpha: float, seed: int) -> list[list[int]]:
        """Return token ids of one random segmentation of each text (see ``TokenizerSettings.sampling``).

        The result depends on the model and the arguments alone: not on the process or thread, nor on anything sampled
        before.

        Args:
            texts: The texts.
            alpha: The smoothing exponent (unigram) or dropout probability (BPE).
            seed: Any non-negative integer.
        """
        sampler = self._sampler
        if sampler is None or sampler.alpha != alpha:
            sampler = self._sampler = Sampler(self._processor, alpha, bpe=self.algorithm == "bpe")
        return sampler.sample([self.normalize(text) for text in texts], seed)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each list of ids; padding, BOS and EOS are ignored."""
        return [self._processor.decode([int(i) for i in one]) if len(one) else "" for one in ids]

    def tokens(self, text: str) -> list[str]:
        """Return the subwords of a text; ``▁`` represents a space."""
        tokens: list[str] = self._processor.encode(self.normalize(text), out_type=str)
        return tokens

    def token(self, index: int) -> str:
        """Return the token of an id.

        Raises:
            IndexError: There is no such id.
        """
        return str(self._processor.id_to_piece(index))

    def id(self, token: str) -> int:
        """Return the id of a token; that of the unknown token where the vocabulary lacks it."""
        return int(self._processor.piece_to_id(token))


class Sampler:
    """Draws segmentations; no subword reaches over a space, so each word is segmented by itself.

    A word with a character that is not a subword keeps its usual segmentation.

    Args:
        processor: The ``SentencePieceProcessor`` of the model.
        alpha: The smoothing exponent (unigram) or dropout probability (BPE).
        bpe: Whether it is a BPE model.
    """

    def __init__(self, processor: Any, alpha: float, *, bpe: bool) -> None:
        self.alpha = alpha
        self._processor, self._segment = processor, self._merged if bpe else self._drawn
        others = processor.is_control, processor.is_unknown, processor.is_byte, processor.is_unused
        size = processor.get_piece_size()
        # Those that spell text.
        self._ids = {processor.id_to_piece(one): one for one in range(size) if not any(is_it(one) for is_it in others)}
        self._subwords = {index: subword for subword, index in self._ids.items()}
        self._scores = {index: processor.get_score(index) for index in self._subwords}
        self._longest = max(map(len, self._ids), default=0)
        self._known_lattice, self._known_merges = lru_cache(_CACHED)(self._lattice), lru_cache(_CACHED)(self._merges)

    def sample(self, texts: Sequence[str], seed: int) -> list[list[int]]:
        """Return token ids of one segmentation of each text, which must be normalised, from any non-negative seed."""
        uniform = random.Random(seed).random
        sampled = []
        for text in texts:
            ids: list[int] = []
            # As SentencePiece reads text: a space is "▁", so is a "▁", and at the end of the text neither counts.
            stripped = text.replace(" ", _SPACE).rstrip(_SPACE)
            for word in stripped.split(_SPACE) if stripped else ():
                spelled = all(character in self._ids for character in _SPACE + word)
                # SentencePiece puts the "▁" back.
                ids += self._segment(_SPACE + word, uniform) if spelled else self._processor.encode(word)
            sampled.append(ids)
        return sampled

    def _drawn(self, word: str, uniform: Uniform) -> list[int]:
        """Draw a segmentation with probability proportional to the product of its subwords' ``exp(alpha * score)``.

        Kudo (2018), section 3.3, with all segmentations as candidates (l = ∞): probabilities are summed forwards
        through the lattice of subwords, then subwords are drawn backwards from the end of the word.
        """
        lattice = (self._known_lattice if len(word) <= _LONGEST_CACHED else self._lattice)(word)
        ids = []
        end = len(word)
        while end:
            edges = lattice[end]
            start, index = edges[-1][1:]
            if len(edges) > 1:
                drawn = uniform()
                for probability, begin, candidate in edges:
                    if drawn < probability:
                        start, index = begin, candidate
                        break
            ids.append(index)
            end = start
        ids.reverse()
        return ids

    def _lattice(self, word: str) -> list[list[Edge]]:
        """Return the possible last subwords of each prefix of a word."""
        totals = [0.0]  # The logarithm of the summed weight of all segmentations of each prefix.
        lattice: list[list[Edge]] = [[]]
        for end in range(1, len(word) + 1):
            found = [
                (totals[start] + self.alpha * self._scores[self._ids[piece]], start, self._ids[piece])
                for start in range(max(0, end - self._longest), end)
                if (piece := word[start:end]) in self._ids
            ]
            largest = max(weight for weight, _, _ in found)
            total = largest + math.log(sum(math.exp(weight - largest) for weight, _, _ in found))
            cumulative = 0.0
            edges = []
            for weight, start, index in found:
                cumulative += math.exp(weight - total)
                edges.append((cumulative, start, index))
            totals.append(total)
            lattice.append(edges)
        return lattice

    def _merged(self, word: str, uniform: Uniform) -> Sequence[int]:
        """Merge symbols as BPE does, but drop each possible merge with probability ``alpha`` at each step.

        Provilkov et al. (2020), Algorithm 1: the best merge that is left is applied, until a step leaves none.
        """
        state = tuple([self._ids[character] for character in word])
        while True:
            # To drop every merge independently and take the best left is to take the first, in order, not dropped.
            for place, index in (self._known_merges if len(state) <= _LONGEST_CACHED else self._merges)(state):
                if uniform() >= self.alpha:
                    state = (*state[:place], index, *state[place + 2 :])
                    break
            else:
                return state

    def _merges(self, state: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return the possible merges, the best first: the place of the left symbol, and the id of the merged one."""
        subwords = [self._subwords[index] for index in state]
        merges = [
            (place, self._ids[merged])
            for place in range(len(subwords) - 1)
            if (merged := subwords[place] + subwords[place + 1]) in self._ids
        ]
        # Of equal merges the leftmost stays first.
        return sorted(merges, key=lambda merge: -self._scores[merge[1]])
