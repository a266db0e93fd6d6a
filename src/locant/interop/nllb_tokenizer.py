"""A Locant tokenizer as the files of NLLB's own in Hugging Face: ``tokenizer.json`` and ``sentencepiece.bpe.model``.

``NllbTokenizer`` (``transformers/models/nllb/tokenization_nllb.py``) is byte-pair encoding with the rules of a
SentencePiece model for its text. Of ``tokenizer.json`` it takes the vocabulary, the merges and these rules, and the
tokens of languages, whatever they are; without it, it counts the subwords of the SentencePiece model, so that both
have them in one order, and the languages after them.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from locant.errors import ConfigError
from locant.files import write_json
from locant.interop.fast_tokenizer import bpe_merges
from locant.interop.m2m100_import import NLLB_LANGUAGE, SENTENCEPIECE_FILE
from locant.interop.text_rules import normalizing_model
from locant.models.decoding_settings import DecodingSettings
from locant.text.sentencepiece_model import model_proto
from locant.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from locant.text.tokenizer_pair import LanguageTokens

_SPECIAL = {BOS: "<s>", PAD: "<pad>", EOS: "</s>", UNK: "<unk>"}
_MASK = "<mask>"


def has_nllb_codes(languages: LanguageTokens) -> bool:
    """Whether all languages have codes such as ``eng_Latn``."""
    return all(map(NLLB_LANGUAGE.fullmatch, languages.ids))


def require_nllb(tokenizer: Tokenizer) -> None:
    """Raise ConfigError unless NLLB's tokenizer in Hugging Face can cut text as this one does.

    Raises:
        ConfigError: It cannot; the message says why and what would do.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    proto = model_proto(tokenizer.model)
    what = "NLLB's tokenizer in Hugging Face"
    if proto.trainer_spec.model_type != proto.trainer_spec.BPE:
        raise ConfigError(
            f"{what} is byte-pair encoding, but this model's is {tokenizer.algorithm}. Train with "
            "tokenizer.algorithm=bpe, or export it to ctranslate2 or onnx."
        )
    if proto.trainer_spec.byte_fallback:
        raise ConfigError(
            f"{what} cannot spell characters in bytes, as this model's does. Train with tokenizer.byte_fallback=false, "
            "or export it to ctranslate2 or onnx."
        )
    usual = {piece.piece for piece in proto.pieces if piece.type == piece.NORMAL}
    for found, why in (
        (any(piece.type == piece.USER_DEFINED for piece in proto.pieces), "joins no subwords of a text beforehand"),
        ({character for piece in usual for character in piece} - usual, "joins known characters alone"),
        (not proto.normalizer_spec.add_dummy_prefix, "puts a space before every text"),
    ):
        if found:
            raise ConfigError(
                f"{what} {why}, unlike this model's. Export it to ctranslate2 or onnx, which keep the SentencePiece "
                "model."
            )


def nllb_order(tokenizer: Tokenizer) -> list[int]:
    """Return Locant's ids but those of the special tokens: subwords, then what no text becomes, such as languages."""
    proto = model_proto(tokenizer.model)
    text: list[int] = []
    others: list[int] = []
    for index, piece in enumerate(proto.pieces):
        if index not in _SPECIAL:
            (text if piece.type == piece.NORMAL else others).append(index)
    return [*text, *others]


def write_nllb_tokenizer(
    folder: Path, tokenizer: Tokenizer, languages: LanguageTokens, order: Sequence[int], decoding: DecodingSettings
) -> None:
    """Write the files of a tokenizer.

    Args:
        folder: Where to.
        tokenizer: Of both sides, which :func:`require_nllb` found fit.
        languages: The language tokens.
        order: Locant's id of each row, with the subwords as in :func:`nllb_order`.
        decoding: Says how long a source may be.
    """
    proto = model_proto(normalizing_model(tokenizer))
    codes = {index: code for code, index in languages.ids.items()}
    named = [(_SPECIAL | codes).get(index, proto.pieces[index].piece) for index in order]
    vocab = {name: row for row, name in enumerate(named)}
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == piece.NORMAL}
    special = [*_SPECIAL.values(), *languages.ids, *({_MASK} & vocab.keys())]
    rules = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode("ascii")
    spaces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    write_json(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": sorted((_added(name, vocab[name]) for name in special), key=lambda token: token["id"]),
            "normalizer": {
                "type": "Sequence",
                "normalizers": [
                    {"type": "Precompiled", "precompiled_charsmap": rules},
                    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
                ],
            },
            "pre_tokenizer": spaces,
            "post_processor": _template(next(iter(languages.ids)), vocab),
            "decoder": spaces,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": _SPECIAL[UNK],
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": True,
                "byte_fallback": False,
                "ignore_merges": False,
                "vocab": vocab,
                "merges": bpe_merges(scores),
            },
        },
    )
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "NllbTokenizer",
            "src_lang": next(iter(languages.ids)),
            "extra_special_tokens": list(languages.ids),
            "mask_token": _MASK if _MASK in vocab else None,
            "legacy_behaviour": False,
            "model_max_length": decoding.max_source_length + 2,
        },
    )
    (folder / SENTENCEPIECE_FILE).write_bytes(_own_ids(proto, order))


def _added(name: str, row: int) -> dict[str, Any]:
    return {
        "id": row,
        "content": name,
        "single_word": False,
        "lstrip": name == _MASK,
        "rstrip": False,
        "normalized": name == _MASK,
        "special": True,
    }


def _template(language: str, vocab: dict[str, int]) -> dict[str, Any]:
    """Return what puts a language's token before a text, and EOS behind."""
    end = _SPECIAL[EOS]

    def special(name: str) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": 0}}

    def text(name: str) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": 0}}

    return {
        "type": "TemplateProcessing",
        "single": [special(language), text("A"), special(end)],
        "pair": [special(language), text("A"), text("B"), special(end)],
        "special_tokens": {name: {"id": name, "ids": [vocab[name]], "tokens": [name]} for name in (language, end)},
    }


def _own_ids(proto: Any, order: Sequence[int]) -> bytes:
    """Return the SentencePiece model with ids of its own, as fairseq has them: special tokens, then subwords."""
    kind = type(proto).SentencePiece
    pieces = [
        kind(piece=_SPECIAL[UNK], type=kind.UNKNOWN),
        kind(piece=_SPECIAL[BOS], type=kind.CONTROL),
        kind(piece=_SPECIAL[EOS], type=kind.CONTROL),
        *(proto.pieces[index] for index in order if proto.pieces[index].type == kind.NORMAL),
    ]
    changed = type(proto)()
    changed.CopyFrom(proto)
    del changed.pieces[:]
    changed.pieces.extend(pieces)
    for key, index in {"unk": 0, "bos": 1, "eos": 2, "pad": -1}.items():
        setattr(changed.trainer_spec, f"{key}_id", index)
    changed.trainer_spec.vocab_size = len(pieces)
    return bytes(changed.SerializeToString())
