"""Locant's preparation of text for its tokenizers, as rules of a SentencePiece model.

Locant brings text to Unicode NFC, its white space to single spaces and, where so set, its letters to lower case before
SentencePiece sees it, and its models change nothing more. A program that hands text to the SentencePiece model as it
is gets the same subwords when the model has these rules itself.
"""

from __future__ import annotations

import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import sentencepiece

from locant.text.sentencepiece_model import model_proto
from locant.text.tokenizer import Tokenizer

_NO_TEXT = ("Cn", "Co", "Cs")  # not assigned, private, surrogates


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
