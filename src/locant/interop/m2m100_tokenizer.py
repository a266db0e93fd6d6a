"""The tokenizer of an M2M-100 or NLLB folder as Locant's.

Both have one SentencePiece model for all languages, ``sentencepiece.bpe.model``; what differs is where the rows of its
pieces and of the language tokens are written down. M2M-100 has ``vocab.json`` for the pieces, and its language tokens
follow in a fixed order; NLLB has all of them in ``tokenizer.json``. Rows that neither names were never trained
("made-up words" in fairseq).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from locant.errors import CheckpointError, ConfigError
from locant.files import read_json
from locant.interop.marian_files import read_optional
from locant.interop.marian_tokenizer import Side, Special, build_side
from locant.text.languages import LanguageTokens

_MODEL = "sentencepiece.bpe.model"

# transformers/models/m2m_100/tokenization_m2m_100.py: FAIRSEQ_LANGUAGE_CODES, whose order is that of the rows.
_LANGUAGES = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr "
    "ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps "
    "pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}
_NLLB_LANGUAGE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")


def read_multilingual(folder: Path, pad: int, eos: int, size: int) -> tuple[Side, Side, LanguageTokens]:
    """Read the tokenizer of both sides and the language tokens.

    Args:
        folder: Holds ``sentencepiece.bpe.model`` and ``vocab.json`` (M2M-100) or ``tokenizer.json`` (NLLB).
        pad: The model's id of padding.
        eos: The model's id of the end of a sentence, which is also what its decoder reads first.
        size: Rows of the embeddings.

    Returns:
        Source and target, whose tokenizers are one object where they are equal, and the language tokens.

    Raises:
        CheckpointError: A file is missing or damaged, or does not fit the model.
        ConfigError: Locant cannot express the tokenizer.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    path = folder / _MODEL
    if not path.is_file():
        raise CheckpointError(f"{folder} lacks {_MODEL}; its tokenizer cannot be imported from other files.")
    if (folder / "vocab.json").is_file():
        vocab, languages = _m2m100(folder)
    elif (folder / "tokenizer.json").is_file():
        vocab, languages = _nllb(folder)
    else:
        raise CheckpointError(f"{folder} lacks vocab.json (M2M-100) or tokenizer.json (NLLB).")
    rows = set(vocab.values())
    if len(rows) != len(vocab) or not rows <= set(range(size)):
        raise CheckpointError(
            f"The tokenizer of {folder} has {len(vocab)} pieces, which are not ids of {size} rows, each for one piece. "
            "Tokenizer and weights must come from the same model."
        )
    missing = [name for name in ("<s>", "<unk>") if name not in vocab]
    if missing:
        raise CheckpointError(f"The tokenizer of {folder} has no piece {' and no piece '.join(missing)}.")
    vocab |= {f"<row {row}>": row for row in range(size) if row not in rows}
    special = Special(pad, vocab["<s>"], eos)
    source = build_side(path, vocab, special, encodes=True, text_alone=True)
    target = build_side(path, vocab, special, encodes=False, text_alone=True)
    if source.tokenizer.model == target.tokenizer.model:
        target = source
    ids = {code: target.rows.index(row) for code, row in languages.items()}
    return source, target, LanguageTokens(layout="fairseq", ids=ids)


def _m2m100(folder: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return the row of every piece, and of every language."""
    vocab = _mapping(read_json(folder / "vocab.json"), folder / "vocab.json")
    kind = read_optional(folder / "tokenizer_config.json", "language_codes") or "m2m100"
    if kind not in _LANGUAGES:
        raise ConfigError(f"{folder / 'tokenizer_config.json'} names the language codes {kind!r}, which are unknown.")
    languages = {code: len(vocab) + place for place, code in enumerate(_LANGUAGES[str(kind)].split())}
    return vocab | {f"__{code}__": row for code, row in languages.items()}, languages


def _nllb(folder: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return the row of every piece, and of every language."""
    path = folder / "tokenizer.json"
    if read_optional(folder / "tokenizer_config.json", "legacy_behaviour"):
        raise ConfigError(f"{folder} puts the language behind the source (legacy_behaviour), which Locant does not.")
    data = read_json(path)
    try:
        vocab = _mapping(data["model"]["vocab"], path)
        added = {str(token["content"]): int(token["id"]) for token in data["added_tokens"]}
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(f"{path} does not list pieces and added tokens as a tokenizer of NLLB does.") from None
    languages = {name: row for name, row in added.items() if _NLLB_LANGUAGE.fullmatch(name)}
    if not languages:
        raise ConfigError(f"{path} has no language tokens like eng_Latn among its added tokens.")
    return vocab | added, languages


def _mapping(data: Any, path: Path) -> dict[str, int]:
    if not isinstance(data, dict) or not all(isinstance(row, int) for row in data.values()):
        raise CheckpointError(f"{path} does not give pieces their ids.")
    return {str(name): row for name, row in data.items()}
