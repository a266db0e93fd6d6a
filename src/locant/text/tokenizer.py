"""Subword tokenizers: SentencePiece models (unigram or BPE), one for both languages or one for each.

A model for more than two languages has language tokens in its vocabulary as well.

Kudo and Richardson, "SentencePiece" (2018), arXiv:1808.06226; for sampling see :mod:`locant.text.sampling`.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import sentencepiece
from pydantic import Field

from locant.errors import CheckpointError, ConfigError, nearest
from locant.files import explaining_damage, read_json, replacing_file, write_json
from locant.settings import Settings
from locant.text.sampling import Sampler, is_bpe, make_sampler
from locant.text.word_table import END, FlatIds, WordTable, flat_ids

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""The ids of padding, unknown token, beginning and end of sentence, the same in every tokenizer."""


# Texts that are encoded one by one: SentencePiece begins threads for every list, which takes longer than these do.
_FEW = 32


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
        return "bpe" if is_bpe(self._processor) else "unigram"

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
        joined = f" {END} ".join([*texts, ""])
        if not self._table or joined.count(END) > len(texts):
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


class Prefixes(NamedTuple):
    """Ids that stand before the tokens of a sentence.

    Attributes:
        source: What the encoder reads first.
        target: What the decoder reads before it writes; at least one id.
    """

    source: list[int]
    target: list[int]


PLAIN = Prefixes([], [BOS])
"""Of a model for one pair of languages."""


Side = Literal["source", "target"]

LanguageLayout = Literal["fairseq", "marian"]
"""How language tokens are named and where they stand, see :class:`LanguageTokens`."""

_PLACES: dict[LanguageLayout, tuple[tuple[Side, ...], tuple[Side, ...]]] = {
    "fairseq": (("source",), ("target",)),
    "marian": (("target",), ()),
}
"""Whose language's tokens stand before the source, and after what the decoder reads first, by layout."""


class LanguageTokens(Settings):
    """The id of each language's token, and where these tokens stand.

    Attributes:
        layout: ``fairseq`` (M2M-100, Fan et al. 2020; NLLB, Costa-jussà et al. 2022): the token of the source language
            before the source; the decoder reads EOS and the token of the target language. ``marian``
            (OPUS-MT): the token of the target language before the source; the decoder reads BOS.
        ids: By language code, in the vocabulary where the token stands (with ``fairseq`` both have the same ids).
    """

    layout: LanguageLayout
    ids: dict[str, int]

    @property
    def decoder_start(self) -> int:
        """The id that the decoder reads first."""
        return EOS if self.layout == "fairseq" else BOS

    @property
    def places(self) -> tuple[tuple[Side, ...], tuple[Side, ...]]:
        """Whose language's tokens stand before the source, and after the id that the decoder reads first."""
        return _PLACES[self.layout]

    @property
    def takes_source(self) -> bool:
        """Whether the model is told the source language."""
        return any("source" in place for place in self.places)

    def prefixes(self, source: str | None, target: str | None) -> Prefixes:
        """Return what tells the model its languages.

        Args:
            source: Language code, or ``None`` where the layout has no token for the source.
            target: Language code.

        Raises:
            ConfigError: A language is missing or unknown, or the model cannot be told its source language.
        """
        before, after = self.places
        if source is not None and not self.takes_source:
            raise ConfigError("The model is told the target language alone. Leave the source language out.")
        named: dict[Side, str | None] = {"source": source, "target": target}
        return Prefixes(
            [self._id(side, named[side]) for side in before],
            [self.decoder_start, *(self._id(side, named[side]) for side in after)],
        )

    def told(self, source: str | None, target: str | None) -> dict[str, str]:
        """Return those languages of a direction that the model is told, by side."""
        named = {"source": source if self.takes_source else None, "target": target}
        return {side: language for side, language in named.items() if language is not None}

    def _id(self, side: Side, language: str | None) -> int:
        known = f" Known: {', '.join(self.ids)}."
        if language is None:
            raise ConfigError(
                f"The model translates between several languages and must be told the {side} language "
                f"(--{side}-language, {side}_language).{known}"
            )
        if language not in self.ids:
            raise ConfigError(f"The model has no language '{language}'.{nearest(language, self.ids) or known}")
        return self.ids[language]


def language_token(layout: LanguageLayout, code: str) -> str:
    """Return the name of a language's token: ``__de__`` (``fairseq``) or ``>>de<<`` (``marian``)."""
    return f"__{code}__" if layout == "fairseq" else f">>{code}<<"


class TokenizerPair:
    """The tokenizers of the two sides; the same object twice when the vocabulary is joint.

    Args:
        source: Of the source.
        target: Of the target.
        languages: The language tokens of a model for more than two languages.
        ends_source: Whether a source ends in EOS, as that of every model trained here does; sources of OpenNMT do not.
    """

    def __init__(
        self, source: Tokenizer, target: Tokenizer, languages: LanguageTokens | None = None, *, ends_source: bool = True
    ) -> None:
        self.source = source
        self.target = target
        self.languages = languages
        self.ends_source = ends_source
        self.source_end = [EOS] if ends_source else []  # what stands behind the tokens of a source

    @property
    def joint(self) -> bool:
        """Whether both languages share one vocabulary."""
        return self.source is self.target

    @property
    def digest(self) -> str:
        """A hash of both tokenizers."""
        return hashlib.sha256(f"{self.source.digest}{self.target.digest}".encode()).hexdigest()

    def prefixes(self, source: str | None, target: str | None) -> Prefixes:
        """Return what stands before the tokens of a source and of its translation.

        Args:
            source: Language code; not looked at where the model is not told the source language.
            target: Language code; neither is looked at in a model for one pair of languages.

        Raises:
            ConfigError: The model must be told a language that is missing or unknown.
        """
        if self.languages is None:
            return PLAIN
        return self.languages.prefixes(source if self.languages.takes_source else None, target)

    def tag(self, name: str) -> int:
        """Return the id of a tag, a token before the source that marks it as one of a kind.

        Raises:
            ConfigError: The vocabulary of the source lacks it.
        """
        index = self.source.id(name)
        if index == UNK:
            raise ConfigError(
                f"The tag '{name}' is not in the vocabulary of the source. Leave the tag out, or train with text that "
                "has it: a new model, or one that starts from this."
            )
        return index

    def save(self, folder: Path) -> None:
        """Write ``tokenizer.json`` and ``tokenizer.joint.model``, or one model a language, into a folder."""
        models = {"joint": self.source} if self.joint else {"source": self.source, "target": self.target}
        for name, tokenizer in models.items():
            with replacing_file(folder / f"tokenizer.{name}.model") as path:
                path.write_bytes(tokenizer.model)
        about: dict[str, Any] = {"joint": self.joint, "lowercase": self.source.lowercase}
        if self.languages:
            about["languages"] = self.languages.to_dict()
        if not self.ends_source:
            about["ends_source"] = False
        write_json(folder / "tokenizer.json", about)

    def save_sentencepiece(self, folder: Path) -> None:
        """Write the SentencePiece models as ``source.spm`` and ``target.spm``, for other programs."""
        (folder / "source.spm").write_bytes(self.source.model)
        (folder / "target.spm").write_bytes(self.target.model)

    @classmethod
    def load(cls, folder: Path) -> TokenizerPair:
        """Read what :meth:`save` wrote.

        Raises:
            CheckpointError: A file is missing or damaged.
            ConfigError: The language tokens are not described as they should be.
        """
        path = folder / "tokenizer.json"
        with explaining_damage(path):
            about = read_json(path)
            joint, lowercase, languages = bool(about["joint"]), bool(about["lowercase"]), about.get("languages")
        if languages is not None:
            languages = LanguageTokens.parse(languages, f"{path}: languages")

        def read(name: str) -> Tokenizer:
            path = folder / f"tokenizer.{name}.model"
            try:
                return Tokenizer(path.read_bytes(), lowercase=lowercase)
            except OSError as error:
                raise CheckpointError(f"The tokenizer {path} cannot be read: {error.strerror}.") from None

        source, target = (read("joint"),) * 2 if joint else (read("source"), read("target"))
        return cls(source, target, languages, ends_source=bool(about.get("ends_source", True)))
