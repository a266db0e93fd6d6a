"""Subword tokenizers: SentencePiece models (unigram or BPE).

Kudo and Richardson, "SentencePiece" (2018), arXiv:1808.06226; for sampling see :mod:`locant.text.sampling`.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from pydantic import Field

from locant.errors import CheckpointError
from locant.lazy import optional_package
from locant.settings import Settings
from locant.text.sampling import Sampler
from locant.text.sentencepiece_model import model_type

sentencepiece = optional_package("sentencepiece", "Cutting text into subwords")

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""The ids of padding, unknown token, beginning and end of sentence, the same in every tokenizer."""

_FEW = 32  # encoded one by one: SentencePiece begins threads for every list, which takes longer than these do


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

    def encode_with_places(self, texts: Sequence[str]) -> list[list[tuple[int, int, int]]]:
        """Return the subwords of each text: id, and between which characters of the normalised text each is.

        The space before a word belongs to its first subword. See :func:`locant.text.encode_with_spans` for places in
        the text as it was given.
        """
        normal = [self.normalize(text) for text in texts]
        encoded = self._processor.encode(normal, return_type="offset_mapping")
        return [
            [(index, begin, end) for index, (begin, end) in zip(one["ids"], one["offsets"], strict=True)]
            for one in encoded
        ]

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
