"""Subword tokenizers: SentencePiece models (unigram or BPE).

Kudo and Richardson, "SentencePiece" (2018), arXiv:1808.06226; for sampling see :mod:`locant.text.sampling`.

SentencePiece cuts text at spaces before anything else, so that each word's subwords depend on the word alone, and most
words of a large text come again and again: :class:`WordTable` keeps their ids. Sentences of which that is not so
(unknown characters, which are joined across words, and the sign that stands for spaces itself) are encoded whole.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from locant.errors import CheckpointError
from locant.lazy import optional_package
from locant.settings import Settings
from locant.text.sampling import Sampler, make_sampler
from locant.text.sentencepiece_model import model_type

sentencepiece = optional_package("sentencepiece", "Cutting text into subwords", "translation")

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""The ids of padding, unknown token, beginning and end of sentence, the same in every tokenizer."""

_FEW = 32  # encoded one by one: SentencePiece begins threads for every list, which takes longer than these do
_SPACE = "▁"
_END = "\x01"
"""The word that stands behind each text; it is in none."""
_MOST = 1 << 18
"""Words that are kept, of which each takes about 200 bytes; when there are more all are learned anew."""
_END_IDS, _ODD_IDS = (-1,), (-2,)
"""What stands for the end of a text, and for a word of which the subwords depend on others."""
# NFKC, case folding and the removal of what cannot be seen change these; what changes none of them has no rules.
_CHANGED_BY_RULES = "\uff21\u2460\ufb01\u00bd\uff76\uff9e\u3000\u200b\u00ad\u00c4\u017f"


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
    return " ".join(_words(text, lowercase))


def _words(text: str, lowercase: bool) -> list[str]:
    """Return what stands between the spaces of a text as it is tokenised."""
    if lowercase:
        text = text.lower()
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return text.replace("\0", " ").split()


class FlatIds(NamedTuple):
    """Token ids of n texts, or their characters: all one after the other, [N], and how many each has, [n] int32."""

    ids: npt.NDArray[Any]
    lengths: npt.NDArray[np.int32]

    def after(self, prefix: Sequence[int]) -> FlatIds:
        """Return the same with a prefix before each text."""
        if not prefix:
            return self
        starts = np.cumsum(self.lengths) - self.lengths
        ids = np.insert(self.ids, np.repeat(starts, len(prefix)), np.tile(prefix, len(starts)))
        return FlatIds(ids, self.lengths + np.int32(len(prefix)))

    def select(self, kept: npt.NDArray[np.bool_]) -> FlatIds:
        """Return some of the texts."""
        return FlatIds(self.ids[np.repeat(kept, self.lengths)], self.lengths[kept])


def flat_ids(texts: Sequence[Sequence[int]]) -> FlatIds:
    """Return token ids in lists as flat arrays."""
    lengths = np.fromiter(map(len, texts), np.int32, len(texts))
    return FlatIds(np.fromiter(chain.from_iterable(texts), np.int32, int(lengths.sum())), lengths)


class WordTable:
    """Encodes texts word by word by the processor of a model that :meth:`suits`.

    The ids are those of ``processor.encode(text)``, but where two segmentations are equally probable up to the rounding
    of sums in float32, which in a sentence are others.
    """

    def __init__(self, processor: Any) -> None:
        self._processor = processor
        self._table: dict[str, tuple[int, ...]] = {_END: _END_IDS}

    @staticmethod
    def suits(processor: Any) -> bool:
        """Whether a model cuts at all spaces and changes no character before it does."""
        pieces = (processor.id_to_piece(index) for index in range(processor.get_piece_size()))
        if any(_SPACE in piece[1:] for piece in pieces if piece != _SPACE * len(piece)):
            return False
        return bool(processor.normalize(f"x {_CHANGED_BY_RULES} y") == f"{_SPACE}x{_SPACE}{_CHANGED_BY_RULES}{_SPACE}y")

    def encode(self, words: Sequence[str]) -> FlatIds:
        """Return the token ids of texts, given the normalised words of all, with ``_END`` behind each text."""
        new = set(words).difference(self._table)
        if len(self._table) > _MOST:
            self._table, new = {_END: _END_IDS}, set(words).difference((_END,))
        if new:
            unknown, found = self._processor.unk_id(), self._processor.encode(learned := list(new), num_threads=1)
            for word, ids in zip(learned, found, strict=True):
                self._table[word] = _ODD_IDS if unknown in ids or _SPACE in word else tuple(ids)
        ids = np.fromiter(chain.from_iterable(map(self._table.__getitem__, words)), np.int32)
        ends = np.flatnonzero(ids == _END_IDS[0])
        flat = FlatIds(np.delete(ids, ends), (np.diff(ends, prepend=-1) - 1).astype(np.int32))
        odd = np.unique(np.searchsorted(ends, np.flatnonzero(ids == _ODD_IDS[0]))).tolist()
        if not odd:
            return flat
        begins = [0, *(np.flatnonzero(np.array(words) == _END) + 1).tolist()]
        sentences = [" ".join(words[begins[text] : begins[text + 1] - 1]) for text in odd]
        texts = np.split(flat.ids, np.cumsum(flat.lengths)[:-1])
        for text, found in zip(odd, self._processor.encode(sentences, num_threads=1), strict=True):
            texts[text] = np.array(found, np.int32)
        return FlatIds(np.concatenate(texts), np.fromiter(map(len, texts), np.int32, len(texts)))


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
        self._table: WordTable | Literal[False] | None = None  # not looked for, or not possible
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

    def encode_with_places(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        """Return the subwords of each text: id, and between which characters of the normalised text each stands.

        The space before a word belongs to its first subword. See :func:`locant.text.encode_with_spans` for places in
        the text as it was given.
        """
        normal = [self.normalize(text) for text in texts]
        encoded = self._processor.encode(normal, return_type="offset_mapping")
        return [
            [(index, begin, end) for index, (begin, end) in zip(one["ids"], one["offsets"], strict=True)]
            for one in encoded
        ]

    def encode_flat(self, texts: Sequence[str]) -> FlatIds:
        """Return the same token ids in flat arrays, in one thread; for many texts in which words come again."""
        if self._table is None:
            self._table = WordTable(self._processor) if WordTable.suits(self._processor) else False
        # All texts at once: what is done to a text does not look beyond a space.
        joined = f" {_END} ".join([*texts, ""])
        if not self._table or joined.count(_END) > len(texts):
            return flat_ids(self.encode(texts, threads=1))
        return self._table.encode(_words(joined, self.lowercase))

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
            sampler = self._sampler = make_sampler(self._processor, alpha)
        return sampler.sample([self.normalize(text) for text in texts], seed)

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each list of ids; padding, BOS and EOS are ignored."""
        return [self._processor.decode([int(i) for i in one]) if len(one) else "" for one in ids]

    def tokens(self, text: str) -> list[str]:
        """Return the subwords of a text; ``▁`` stands for a space."""
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
