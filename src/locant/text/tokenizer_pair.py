"""Tokenizers of a model: one for both languages or one for each.

A model for more than two languages has language tokens in its vocabulary as well.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal, NamedTuple

from locant.errors import CheckpointError, ConfigError, nearest
from locant.files import explaining_damage, read_json, replacing_file, write_json
from locant.languages import find_language, meant_language
from locant.settings import Settings
from locant.text.tokenizer import BOS, EOS, UNK, Tokenizer


class Direction(NamedTuple):
    """One direction of translation: two language codes."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


class Prefixes(NamedTuple):
    """Ids that are before the tokens of a sentence.

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
"""How language tokens are named and where they are, see :class:`LanguageTokens`."""


class LanguageTokens(Settings):
    """The id of each language's token, and where these tokens are.

    Attributes:
        layout: ``fairseq`` (M2M-100, Fan et al. 2020; NLLB, Costa-jussà et al. 2022): the token of the source language
            before the source; the decoder reads EOS and the token of the target language. ``marian``
            (OPUS-MT): the token of the target language before the source; the decoder reads BOS.
        ids: By language code, in the vocabulary where the token is (with ``fairseq`` both have the same ids).
    """

    layout: LanguageLayout
    ids: dict[str, int]

    @property
    def decoder_start(self) -> int:
        """The id that the decoder reads first."""
        return EOS if self.layout == "fairseq" else BOS

    @property
    def places(self) -> tuple[tuple[Side, ...], tuple[Side, ...]]:
        """Whose language's tokens are before the source, and after the id that the decoder reads first."""
        return (("source",), ("target",)) if self.layout == "fairseq" else (("target",), ())

    @property
    def takes_source(self) -> bool:
        """Whether the model is told the source language."""
        return self.layout == "fairseq"

    def prefixes(self, source: str | None, target: str | None) -> Prefixes:
        """Return what tells the model its languages.

        Args:
            source: Language code in any form, or ``None`` where the layout has no token for the source.
            target: Likewise.

        Raises:
            ConfigError: A language is missing or unknown, or the model cannot be told its source language.
        """
        if self.takes_source:
            return Prefixes([self._id("source", source)], [EOS, self._id("target", target)])
        if source is not None:
            raise ConfigError("The model is told the target language alone. Leave the source language out.")
        return Prefixes([self._id("target", target)], [BOS])

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
        found = find_language(language, self.ids)
        if found is None:
            hint = meant_language(language) or nearest(language, self.ids) or known
            raise ConfigError(f"The model has no language '{language}'.{hint}")
        return self.ids[found]


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
        self.source_end = [EOS] if ends_source else []  # what is behind the tokens of a source

    @property
    def joint(self) -> bool:
        """Whether both languages share one vocabulary."""
        return self.source is self.target

    @property
    def digest(self) -> str:
        """A hash of both tokenizers."""
        return hashlib.sha256(f"{self.source.digest}{self.target.digest}".encode()).hexdigest()

    def prefixes(self, source: str | None, target: str | None) -> Prefixes:
        """Return what is before the tokens of a source and of its translation.

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
