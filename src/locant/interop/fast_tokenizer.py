"""A Locant tokenizer as the ``tokenizer.json`` that Hugging Face's ``tokenizers`` reads.

Marian's own tokenizer class knows neither Unicode NFC nor lower case, and takes ``>>xx<<`` at the beginning of a text
for a language; this one gives the ids of :meth:`locant.text.tokenizer.Tokenizer.encode` and EOS, for any text
whose characters Python's edition of Unicode and that of ``tokenizers`` both know.

SentencePiece never finds its control tokens in a text, while ``tokenizers`` would: a text that spells ``</s>`` would
end there. The control tokens, those of languages and tags too, are therefore written with the angle brackets U+2329 and
U+232A, which NFC replaces with others, so that no normalised text holds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locant.errors import ConfigError
from locant.text.sentencepiece_model import model_proto
from locant.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

SPECIAL_TOKENS = {
    "pad_token": "\u2329pad\u232a",
    "bos_token": "\u2329s\u232a",
    "eos_token": "\u2329/s\u232a",
}
_SPECIAL_IDS = {PAD: "pad_token", BOS: "bos_token", EOS: "eos_token"}

_UNKNOWN = " ⁇ "
"""What SentencePiece writes for an unknown token; it holds spaces, so no normalised text holds it."""

# The white space of str.split, and NUL.
_WHITE_SPACE = (
    r"[\x{0}\x{9}-\x{D}\x{1C}-\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}]+"
)

# str.lower writes a capital sigma that ends a word as a final one (Unicode Standard, table 3-17, Final_Sigma).
_FINAL_SIGMA = r"\p{Cased}\p{Case_Ignorable}*\KΣ(?!\p{Case_Ignorable}*\p{Cased})"


def fast_tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the content of ``tokenizer.json``.

    Args:
        tokenizer: Unigram or BPE.

    Raises:
        ConfigError: The SentencePiece model normalises text itself, or is of another kind.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    proto = model_proto(tokenizer.model)
    _require_plain(proto)
    names = [_UNKNOWN if piece.type == piece.UNKNOWN else piece.piece for piece in proto.pieces]
    special = {index: SPECIAL_TOKENS[key] for index, key in _SPECIAL_IDS.items()}
    special |= {
        index: f"\u2329{piece.piece}\u232a"
        for index, piece in enumerate(proto.pieces)
        if piece.type == piece.CONTROL and index not in special
    }
    for index, name in special.items():
        names[index] = name
    if proto.trainer_spec.model_type == proto.trainer_spec.BPE:
        model = _bpe(names, proto)
    else:
        scores = [piece.score for piece in proto.pieces]
        model = {
            "type": "Unigram",
            "unk_id": UNK,
            "vocab": [list(pair) for pair in zip(names, scores, strict=True)],
            "byte_fallback": proto.trainer_spec.byte_fallback,
        }
    end = SPECIAL_TOKENS["eos_token"]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": index,
                "content": name,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for index, name in special.items()
        ],
        "normalizer": _normalizer(lowercase=tokenizer.lowercase),
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end, "type_id": 0}}],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
                {"SpecialToken": {"id": end, "type_id": 0}},
            ],
            "special_tokens": {end: {"id": end, "ids": [EOS], "tokens": [end]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                _replace({"Regex": "^▁+"}, ""),
                _replace({"String": "▁"}, " "),
            ],
        },
        "model": model,
    }


def is_marian(tokenizer: Tokenizer) -> bool:
    """Whether only SentencePiece itself can cut text as this tokenizer does, as of an imported Marian model."""
    proto = model_proto(tokenizer.model)
    unused = any(piece.type == piece.UNUSED for piece in proto.pieces)
    return not tokenizer.lowercase and bool(unused or proto.normalizer_spec.precompiled_charsmap)


def takes_spelled_bytes(tokenizer: Tokenizer) -> bool:
    """Whether a text that spells out the name of a byte token, ``<0x41>``, becomes that token, unlike in Locant."""
    settings = model_proto(tokenizer.model).trainer_spec
    return bool(settings.byte_fallback and settings.model_type == settings.UNIGRAM)


def _require_plain(proto: Any) -> None:
    """Raise ConfigError unless the model is as Locant trains it."""
    rules, kind = proto.normalizer_spec, proto.trainer_spec.model_type
    if rules.precompiled_charsmap or not (rules.add_dummy_prefix and rules.remove_extra_whitespaces):
        raise ConfigError(
            f"The SentencePiece model normalises text by itself ('{rules.name}'), which tokenizers does in another "
            "way. Only tokenizers that Locant trained can be exported; export to ctranslate2 uses SentencePiece itself."
        )
    if kind not in (proto.trainer_spec.UNIGRAM, proto.trainer_spec.BPE):
        raise ConfigError("The SentencePiece model is neither unigram nor BPE; only these two can be exported.")
    if any(piece.type in (piece.USER_DEFINED, piece.UNUSED) for piece in proto.pieces):
        raise ConfigError(
            "The SentencePiece model has tokens that it always or never uses (as imported models have), which "
            "tokenizers cannot express. Only tokenizers that Locant trained can be exported."
        )


def _normalizer(*, lowercase: bool) -> dict[str, Any]:
    cased = [_replace({"Regex": _FINAL_SIGMA}, "ς"), {"type": "Lowercase"}] if lowercase else []
    return {
        "type": "Sequence",
        "normalizers": [
            *cased,
            {"type": "NFC"},
            _replace({"Regex": _WHITE_SPACE}, " "),
            {"type": "Strip", "strip_left": True, "strip_right": True},
            {"type": "Prepend", "prepend": "▁"},
            _replace({"String": " "}, "▁"),
            # SentencePiece drops its sign for a space from the end of a text even where the text wrote it out.
            _replace({"Regex": "▁+$"}, ""),
        ],
    }


def _replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def bpe_merges(scores: Mapping[str, float]) -> list[list[str]]:
    """Return byte-pair encoding as merges: SentencePiece joins the two neighbours whose union has the best score.

    Args:
        scores: Of every subword that text becomes.
    """
    return [
        [piece[:cut], piece[cut:]]
        for piece in sorted(scores, key=lambda piece: -scores[piece])
        for cut in range(1, len(piece))
        if piece[:cut] in scores and piece[cut:] in scores
    ]


def _bpe(names: list[str], proto: Any) -> dict[str, Any]:
    """Return the model of a tokenizer for byte-pair encoding."""
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == piece.NORMAL}
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": _UNKNOWN,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": proto.trainer_spec.byte_fallback,
        "ignore_merges": False,
        "vocab": {name: index for index, name in enumerate(names)},
        "merges": bpe_merges(scores),
    }
