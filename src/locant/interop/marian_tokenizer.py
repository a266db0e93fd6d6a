"""The tokenizer of a Marian folder as Locant's.

Marian keeps a SentencePiece model for each language and, apart from them, ``vocab.json``, which gives every piece the
number of its row in the embeddings. Locant's ids are those of the SentencePiece model itself, with four special pieces
first. So each language's model is written anew: its pieces stand in the order of the rows, those that the language
does not use are marked so that they are decoded but never encoded, and scores and normalisation stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from locant.errors import CheckpointError, ConfigError
from locant.files import read_json
from locant.interop.fast_tokenizer import model_proto
from locant.text.languages import LanguageTokens
from locant.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

_SPECIAL = {PAD: ("pad", "<pad>"), UNK: ("unk", "<unk>"), BOS: ("bos", "<s>"), EOS: ("eos", "</s>")}
"""The name of each special id in a SentencePiece model's settings, and its piece."""

# What stands before a source of OPUS-MT's models for several target languages.
_LANGUAGE = re.compile(">>(.+)<<")


@dataclass(frozen=True)
class Special:
    """Marian's ids of padding, decoder start and end of sentence."""

    pad: int
    start: int
    eos: int


@dataclass(frozen=True)
class Side:
    """One language's tokenizer.

    Attributes:
        tokenizer: With Locant's ids.
        rows: Marian's id of each of Locant's; a row that serves two of them is there twice.
    """

    tokenizer: Tokenizer
    rows: list[int]


def read_sides(
    folder: Path, special: Special, source_size: int, target_size: int
) -> tuple[Side, Side, LanguageTokens | None]:
    """Read the tokenizers of the source and the target language, and the tokens of several target languages.

    Args:
        folder: Holds ``source.spm``, ``target.spm``, ``vocab.json`` and, with separate vocabularies,
            ``target_vocab.json``.
        special: Marian's special ids.
        source_size: Rows of the source embedding.
        target_size: Rows of the target embedding.

    Raises:
        CheckpointError: A file is missing or damaged, or does not fit the model.
        ConfigError: Locant cannot express the tokenizer.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    missing = [name for name in ("source.spm", "target.spm", "vocab.json") if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(
            f"{folder} lacks {' and '.join(missing)}. A Marian folder holds source.spm, target.spm and vocab.json; "
            "its tokenizer cannot be imported from other files."
        )
    target_vocab = folder / "target_vocab.json"
    target_vocab = target_vocab if target_vocab.is_file() else folder / "vocab.json"
    vocab = _read_vocab(folder / "vocab.json", source_size)
    source = build_side(folder / "source.spm", vocab, special, encodes=True)
    target = build_side(folder / "target.spm", _read_vocab(target_vocab, target_size), special, encodes=False)
    codes = {found[1]: row for piece, row in vocab.items() if (found := _LANGUAGE.fullmatch(piece))}
    ids = {code: source.rows.index(row) for code, row in sorted(codes.items())}
    return source, target, LanguageTokens(layout="marian", ids=ids) if ids else None


def _read_vocab(path: Path, size: int) -> dict[str, int]:
    vocab = read_json(path)
    if not isinstance(vocab, dict) or len(vocab) != size or set(vocab.values()) != set(range(size)):
        raise CheckpointError(f"{path} does not name each of the {size} rows of the embeddings once.")
    if "<unk>" not in vocab:
        raise CheckpointError(f"{path} has no piece <unk>.")
    return vocab


def build_side(
    path: Path, vocab: Mapping[str, int], special: Special, *, encodes: bool, text_alone: bool = False
) -> Side:
    """Build one side's tokenizer.

    Args:
        path: The SentencePiece model.
        vocab: The row of every piece.
        special: Rows of the special pieces; ``vocab`` has that of ``<unk>``.
        encodes: Whether to add the model's pieces without a row, which Marian takes for unknown.
        text_alone: Whether pieces that the SentencePiece model lacks are no text (language tokens, say), and so left
            out when ids are decoded.

    Raises:
        CheckpointError: The SentencePiece model is damaged.
        ConfigError: An ordinary piece has a name that Locant has for its own use.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    proto = model_proto(path.read_bytes(), f"The tokenizer model {path}")
    usual = {
        piece.piece: (piece.score, piece.type)
        for piece in proto.pieces
        if piece.type not in (piece.CONTROL, piece.UNKNOWN, piece.UNUSED)
    }
    unknown = vocab["<unk>"]
    rows = [special.pad, unknown, special.start, special.eos]
    names = [name for _, name in _SPECIAL.values()]
    ordinary = {name: row for name, row in vocab.items() if row not in rows or name in usual}
    taken = sorted(ordinary.keys() & set(names))
    if taken:
        raise ConfigError(f"{path.parent} has an ordinary piece {taken[0]}, which Locant has for its own use.")
    rows += sorted(ordinary.values())
    names += sorted(ordinary, key=ordinary.__getitem__)
    if encodes:
        without_row = [name for name in usual if name not in vocab]
        rows += [unknown] * len(without_row)
        names += without_row

    kind = type(proto).SentencePiece
    other = kind.CONTROL if text_alone else kind.UNUSED
    pieces = []
    for index, name in enumerate(names):
        if index in _SPECIAL:
            pieces.append(kind(piece=name, score=0.0, type=kind.UNKNOWN if index == UNK else kind.CONTROL))
        else:
            score, use = usual.get(name, (0.0, kind.CONTROL if _LANGUAGE.fullmatch(name) else other))
            pieces.append(kind(piece=name, score=score, type=use))
    del proto.pieces[:]
    proto.pieces.extend(pieces)
    proto.DiscardUnknownFields()  # Samples for a self-test, which show the old ids.
    for index, (key, name) in _SPECIAL.items():
        setattr(proto.trainer_spec, f"{key}_id", index)
        setattr(proto.trainer_spec, f"{key}_piece", name)
    proto.trainer_spec.vocab_size = len(names)
    return Side(Tokenizer(proto.SerializeToString()), rows)
