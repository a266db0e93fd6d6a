"""SentencePiece models of other programs as Locant's, and Locant's as other programs want them.

An imported model gets Locant's special ids and a piece for every row of the embeddings. An exported one gets rules:
Locant brings text to Unicode NFC, its white space to single spaces and, where so set, its letters to lower case before
SentencePiece sees it, and its models change nothing more. A program that hands text to the SentencePiece model as it is
gets the same subwords when the model has these rules itself.
"""

from __future__ import annotations

import re
import sys
import tempfile
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from locant.errors import CheckpointError, ConfigError
from locant.lazy import optional_package
from locant.text.sentencepiece_model import model_proto
from locant.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

sentencepiece = optional_package("sentencepiece", "Cutting text into subwords")

SPECIAL = {PAD: "<pad>", UNK: "<unk>", BOS: "<s>", EOS: "</s>"}
"""The token of each special id."""
_SETTINGS = {PAD: "pad", UNK: "unk", BOS: "bos", EOS: "eos"}

GROUP_LANGUAGE = re.compile(">>(.+)<<")
"""What is before a source of OPUS-MT's models for several target languages."""

_NO_TEXT = ("Cn", "Co", "Cs")  # not assigned, private, surrogates


@dataclass(frozen=True)
class Special:
    """Another program's ids of padding, decoder start and end of sentence."""

    pad: int
    start: int
    eos: int


@dataclass(frozen=True)
class Side:
    """One language's tokenizer.

    Attributes:
        tokenizer: With Locant's ids.
        rows: The other program's id of each of Locant's; a row that serves two of them is there twice.
    """

    tokenizer: Tokenizer
    rows: list[int]


def build_side(
    model: bytes,
    what: str,
    vocab: Mapping[str, int],
    special: Special,
    *,
    encodes: bool,
    text_alone: bool = False,
    always: Collection[str] = (),
) -> Side:
    """Build one side's tokenizer.

    Args:
        model: The SentencePiece model.
        what: Its name in messages.
        vocab: The row of every token.
        special: Rows of the special tokens; ``vocab`` has that of ``<unk>``.
        encodes: Whether to add the model's subwords without a row, which the other program takes for unknown.
        text_alone: Whether tokens that the SentencePiece model lacks are no text (language tokens, say), and so left
            out when ids are decoded.
        always: Tokens that a text becomes wherever it spells them.

    Raises:
        CheckpointError: The SentencePiece model is damaged.
        ConfigError: An ordinary token has a name that Locant has for its own use.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    proto = model_proto(model, f"The tokenizer model {what}")
    if not proto.pieces:
        raise CheckpointError(f"The tokenizer model {what} is damaged: it has no subwords.")
    kind = type(proto).SentencePiece
    usual = {
        piece.piece: (piece.score, piece.type)
        for piece in proto.pieces
        if piece.type not in (kind.CONTROL, kind.UNKNOWN, kind.UNUSED)
    } | {name.replace(" ", "▁"): (0.0, kind.USER_DEFINED) for name in always}
    vocab = {name.replace(" ", "▁") if name in always else name: row for name, row in vocab.items()}
    unknown = vocab["<unk>"]
    rows = [special.pad, unknown, special.start, special.eos]
    names = list(SPECIAL.values())
    ordinary = {name: row for name, row in vocab.items() if row not in rows or name in usual}
    taken = sorted(ordinary.keys() & set(names))
    if taken:
        raise ConfigError(
            f"The vocabulary of {what} has an ordinary token {taken[0]}, which Locant has for its own use."
        )
    rows += sorted(ordinary.values())
    names += sorted(ordinary, key=ordinary.__getitem__)
    if encodes:
        without_row = [name for name in usual if name not in vocab]
        rows += [unknown] * len(without_row)
        names += without_row

    other = kind.CONTROL if text_alone else kind.UNUSED
    pieces = []
    for index, name in enumerate(names):
        if index in SPECIAL:
            pieces.append(kind(piece=name, score=0.0, type=kind.UNKNOWN if index == UNK else kind.CONTROL))
        else:
            score, use = usual.get(name, (0.0, kind.CONTROL if GROUP_LANGUAGE.fullmatch(name) else other))
            pieces.append(kind(piece=name, score=score, type=use))
    del proto.pieces[:]
    proto.pieces.extend(pieces)
    proto.trainer_spec.vocab_size = len(pieces)
    proto.DiscardUnknownFields()  # Samples for a self-test, which show the old ids.
    for index, key in _SETTINGS.items():
        setattr(proto.trainer_spec, f"{key}_id", index)
        setattr(proto.trainer_spec, f"{key}_piece", SPECIAL[index])
    return Side(Tokenizer(proto.SerializeToString()), rows)


def normalizing_model(tokenizer: Tokenizer) -> bytes:
    """Return a tokenizer's SentencePiece model with rules that do what the tokenizer does to text before.

    They compose the letters and marks of every character that NFC has composed, in any order of the marks. What they
    cannot do: put marks in order that belong to no composed character, and choose between the two small sigmas. A model
    that brings rules of its own, as imported ones do, keeps them.

    Raises:
        CheckpointError: The model is damaged.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    proto = model_proto(tokenizer.model)
    if not proto.normalizer_spec.precompiled_charsmap:
        proto.normalizer_spec.name = "user_defined"
        proto.normalizer_spec.precompiled_charsmap = _compiled(text_rules(lowercase=tokenizer.lowercase))
        proto.DiscardUnknownFields()
    return bytes(proto.SerializeToString())


def text_rules(*, lowercase: bool) -> dict[str, str]:
    r"""Return what is written for each character, or sequence of characters, that does not stay.

    Args:
        lowercase: Whether letters come to lower case.

    Example:
        >>> text_rules(lowercase=False)["e\u0302"]
        'ê'
    """
    rules = {}
    for code in range(1, sys.maxunicode + 1):
        character = chr(code)
        if unicodedata.category(character) in _NO_TEXT:
            continue
        for spelling in _spellings(character):
            cased = spelling.lower() if lowercase else spelling
            written = " " if character.isspace() else unicodedata.normalize("NFC", cased)
            if written != spelling:
                rules[spelling] = written
    return rules


def _spellings(character: str) -> Iterator[str]:
    """Yield a character, and every sequence of composed and single characters that NFC makes the same of."""
    yield character
    parts = unicodedata.normalize("NFD", character)
    same = unicodedata.normalize("NFC", character)
    if parts == character:
        return
    for marks in permutations(parts[1:]):
        for split in range(len(marks) + 1):
            begun = unicodedata.normalize("NFC", parts[0] + "".join(marks[:split]))
            spelling = begun + "".join(marks[split:])
            if spelling != same and unicodedata.normalize("NFC", spelling) == same:
                yield spelling


def _compiled(rules: dict[str, str]) -> bytes:
    """Return rules in the form in which SentencePiece keeps them in a model."""

    def codes(text: str) -> str:
        return " ".join(f"{ord(character):x}" for character in text)

    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "rules.tsv")
        lines = [f"{codes(found)}\t{codes(written)}\n" for found, written in sorted(rules.items())]
        table.write_text("".join(lines), encoding="ascii")
        # SentencePiece compiles rules where it trains a model, here the smallest one that there is.
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a"]),
            model_prefix=str(Path(folder, "rules")),
            model_type="char",
            vocab_size=8,
            hard_vocab_limit=False,
            normalization_rule_tsv=str(table),
            minloglevel=4,
        )
        trained = model_proto(Path(folder, "rules.model").read_bytes())
    return bytes(trained.normalizer_spec.precompiled_charsmap)
