"""A Locant tokenizer as the ``tokenizer.json`` that Hugging Face's ``tokenizers`` reads, plain or as NLLB has it.

The plain one gives the ids of :meth:`locant.text.tokenizer.Tokenizer.encode` and EOS, for any text whose characters
Python's edition of Unicode and that of ``tokenizers`` both know. Marian's own tokenizer class would not: it knows
neither Unicode NFC nor lower case, and takes ``>>xx<<`` at the beginning of a text for a language.

SentencePiece never finds its control tokens in a text, while ``tokenizers`` would: a text that spells ``</s>`` would
end there. The control tokens, those of tags too, are therefore written with the angle brackets U+2329 and U+232A, which
NFC replaces with others, so that no normalised text holds them. NLLB's tokens have fixed names.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from locant.errors import ConfigError
from locant.interop.sentencepiece_models import SPECIAL, normalizing_model
from locant.text.sentencepiece_model import model_proto
from locant.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from locant.text.tokenizer_pair import LanguageTokens

SPECIAL_TOKENS = {
    "pad_token": "\u2329pad\u232a",
    "bos_token": "\u2329s\u232a",
    "eos_token": "\u2329/s\u232a",
}
_SPECIAL_IDS = {PAD: "pad_token", BOS: "bos_token", EOS: "eos_token"}
MASK = "<mask>"
"""A special token of NLLB's that no text becomes."""

_UNKNOWN = " ⁇ "
"""What SentencePiece writes for an unknown token; it holds spaces, so no normalised text holds it."""

# The white space of str.split, and NUL.
_WHITE_SPACE = (
    r"[\x{0}\x{9}-\x{D}\x{1C}-\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}]+"
)

# str.lower writes a capital sigma that ends a word as a final one (Unicode Standard, table 3-17, Final_Sigma).
_FINAL_SIGMA = r"\p{Cased}\p{Case_Ignorable}*\KΣ(?!\p{Case_Ignorable}*\p{Cased})"


def fast_tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the content of ``tokenizer.json`` for ``PreTrainedTokenizerFast``.

    Args:
        tokenizer: Unigram or BPE.

    Raises:
        ConfigError: The SentencePiece model normalises text itself, or is of another kind.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    proto = model_proto(tokenizer.model)
    rules, trained = proto.normalizer_spec, proto.trainer_spec
    own_rules = rules.precompiled_charsmap or not (rules.add_dummy_prefix and rules.remove_extra_whitespaces)
    for found, what in (
        (own_rules, f"normalises text by itself ('{rules.name}')"),
        (trained.model_type not in (trained.UNIGRAM, trained.BPE), "is neither unigram nor BPE"),
        (any(piece.type in (piece.USER_DEFINED, piece.UNUSED) for piece in proto.pieces), "has imported tokens"),
    ):
        if found:
            raise ConfigError(
                f"The SentencePiece model {what}, which tokenizers cannot express. Only tokenizers that Locant trained "
                "can be exported so; export to ctranslate2 keeps the SentencePiece model."
            )
    names = [_UNKNOWN if piece.type == piece.UNKNOWN else piece.piece for piece in proto.pieces]
    special = {
        index: SPECIAL_TOKENS[_SPECIAL_IDS[index]] if index in _SPECIAL_IDS else f"\u2329{piece.piece}\u232a"
        for index, piece in enumerate(proto.pieces)
        if piece.type == piece.CONTROL
    }
    for index, name in special.items():
        names[index] = name
    if trained.model_type == trained.BPE:
        vocab = {name: index for index, name in enumerate(names)}
        model = _bpe(vocab, proto, unknown=_UNKNOWN, bytes_too=trained.byte_fallback)
    else:
        model = {
            "type": "Unigram",
            "unk_id": UNK,
            "vocab": [[name, piece.score] for name, piece in zip(names, proto.pieces, strict=True)],
            "byte_fallback": trained.byte_fallback,
        }
    end = SPECIAL_TOKENS["eos_token"]
    cased = [_replace({"Regex": _FINAL_SIGMA}, "ς"), {"type": "Lowercase"}] if tokenizer.lowercase else []
    normalizers = [
        *cased,
        {"type": "NFC"},
        _replace({"Regex": _WHITE_SPACE}, " "),
        {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "Prepend", "prepend": "▁"},
        _replace({"String": " "}, "▁"),
        # SentencePiece drops its sign for a space from the end of a text even where the text wrote it out.
        _replace({"Regex": "▁+$"}, ""),
    ]
    decoders = [
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        _replace({"Regex": "^▁+"}, ""),
        _replace({"String": "▁"}, " "),
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(name, index) for index, name in special.items()],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": None,
        "post_processor": _template([], {end: EOS}),
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": model,
    }


def nllb_tokenizer(tokenizer: Tokenizer, languages: LanguageTokens, order: Sequence[int]) -> dict[str, Any]:
    """Return the content of ``tokenizer.json`` for ``NllbTokenizer``: byte-pair encoding with SentencePiece's rules.

    Args:
        tokenizer: Of both sides, byte-pair encoding; its user-defined tokens become added ones.
        languages: The language tokens.
        order: Locant's id of each row.
    """
    proto = model_proto(normalizing_model(tokenizer))
    codes = SPECIAL | {index: code for code, index in languages.ids.items()}
    always = {
        index: piece.piece.replace("▁", " ")
        for index, piece in enumerate(proto.pieces)
        if piece.type == piece.USER_DEFINED
    }
    vocab = {(codes | always).get(index, proto.pieces[index].piece): row for row, index in enumerate(order)}
    special = [*SPECIAL.values(), *languages.ids, *({MASK} & vocab.keys())]
    added = [
        _added(name, row, special=name in special, mask=name == MASK)
        for name, row in vocab.items()
        if name in {*special, *always.values()}
    ]
    rules = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode("ascii")
    spaces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    normalizers = [{"type": "Precompiled", "precompiled_charsmap": rules}, _replace({"Regex": " {2,}"}, " ")]
    first = next(iter(languages.ids))
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": spaces,
        "post_processor": _template([first], {first: vocab[first], SPECIAL[EOS]: vocab[SPECIAL[EOS]]}),
        "decoder": spaces,
        "model": _bpe(vocab, proto, unknown=SPECIAL[UNK], bytes_too=False),
    }


def _added(name: str, row: int, *, special: bool = True, mask: bool = False) -> dict[str, Any]:
    settings = {"single_word": False, "lstrip": mask, "rstrip": False, "normalized": mask or not special}
    return {"id": row, "content": name, **settings, "special": special}


def _template(before: list[str], rows: Mapping[str, int]) -> dict[str, Any]:
    """Return what puts tokens before a text and the last of ``rows`` behind it."""
    end = list(rows)[-1]

    def special(name: str) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": 0}}

    def around(*texts: str) -> list[dict[str, Any]]:
        return [*map(special, before), *({"Sequence": {"id": text, "type_id": 0}} for text in texts), special(end)]

    return {
        "type": "TemplateProcessing",
        "single": around("A"),
        "pair": around("A", "B"),
        "special_tokens": {name: {"id": name, "ids": [row], "tokens": [name]} for name, row in rows.items()},
    }


def _replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _bpe(vocab: dict[str, int], proto: Any, *, unknown: str, bytes_too: bool) -> dict[str, Any]:
    """Return byte-pair encoding as merges: SentencePiece joins the two neighbours whose union has the best score."""
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == piece.NORMAL}
    merges = [
        [piece[:cut], piece[cut:]]
        for piece in sorted(scores, key=lambda piece: -scores[piece])
        for cut in range(1, len(piece))
        if piece[:cut] in scores and piece[cut:] in scores
    ]
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": unknown,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": bytes_too,
        "ignore_merges": False,
        "vocab": vocab,
        "merges": merges,
    }
