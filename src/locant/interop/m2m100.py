"""M2M-100 and NLLB models in Hugging Face's format as Locant model folders, and Locant's for several languages as such.

M2M-100 in Hugging Face (``transformers/models/m2m_100``) is a pre-norm Transformer with one vocabulary. Positions are
tensor2tensor's sinusoid, counted from the id of padding plus one. Its tokenizer knows a fixed list of languages, whose
tokens follow the vocabulary. NLLB has the same model; its tokenizer (``transformers/models/nllb``) is byte-pair
encoding with the rules of a SentencePiece model for its text, and has whatever languages ``tokenizer.json`` names. It
is written where the languages have NLLB's codes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from locant.errors import CheckpointError, ConfigError
from locant.files import write_json
from locant.interop.huggingface import (
    SEARCH_DIFFERS,
    AddedToken,
    M2M100Config,
    TokenizerConfig,
    require_same,
    write_weights,
    writing_model,
)
from locant.interop.huggingface_files import Foreign, Row, read_rows
from locant.interop.sentencepiece_models import SPECIAL, Side, Special, build_side, normalizing_model
from locant.models.architectures import require_transformer
from locant.models.model_folder import ModelFolder
from locant.text.sentencepiece_model import model_proto
from locant.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, normalize
from locant.text.tokenizer_pair import LanguageTokens, language_token

_MODEL_FILE = "sentencepiece.bpe.model"
_MASK = "<mask>"  # a special token of NLLB's that no text becomes
_M2M100, _NLLB = "M2M100Tokenizer", "NllbTokenizer"

# transformers/models/m2m_100/tokenization_m2m_100.py: FAIRSEQ_LANGUAGE_CODES, whose order is that of the rows.
_LANGUAGE_CODES = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr "
    "ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps "
    "pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}
"""The languages that the tokenizer knows, by the name of the list in its configuration."""
_M2M100_LANGUAGE = re.compile(r"__(\w+)__")
_NLLB_LANGUAGE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")

_USE = """from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

model = AutoModelForSeq2SeqLM.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER", src_lang="{source}")
batch = tokenizer(["..."], return_tensors="pt", padding=True)
found = model.generate(**batch, forced_bos_token_id=tokenizer.{method}("{target}"))
print(tokenizer.batch_decode(found, skip_special_tokens=True))"""


class _BytePairs(Foreign):
    vocab: dict[str, Row]


class _TokenizerJson(Foreign):
    model: _BytePairs
    added_tokens: list[AddedToken]


def read_multilingual(folder: Path, config: M2M100Config) -> tuple[Side, Side, LanguageTokens]:
    """Read the tokenizer of both sides and the language tokens.

    Args:
        folder: Holds ``sentencepiece.bpe.model`` and ``vocab.json`` (M2M-100) or ``tokenizer.json`` (NLLB).
        config: Of the model.

    Returns:
        Source and target, whose tokenizers are one object where they are equal, and the language tokens.

    Raises:
        CheckpointError: A file is missing or damaged, or does not fit the model.
        ConfigError: Locant cannot express the tokenizer.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    path = folder / _MODEL_FILE
    if not path.is_file():
        raise CheckpointError(f"{folder} lacks {_MODEL_FILE}; its tokenizer cannot be imported from other files.")
    model = path.read_bytes()
    about = TokenizerConfig.of_model(folder, config, [_M2M100, _NLLB, f"{_NLLB}Fast"])
    nllb = (about.tokenizer_class or config.tokenizer_class or "").startswith(_NLLB)
    if (folder / "vocab.json").is_file() and not nllb:
        vocab, languages = _read_m2m100(folder, about)
        always: list[str] = []
    elif (folder / "tokenizer.json").is_file():
        vocab, languages, always = _read_nllb(folder, about)
    else:
        raise CheckpointError(f"{folder} lacks vocab.json (M2M-100) or tokenizer.json (NLLB).")
    rows, size = set(vocab.values()), config.vocab_size
    if len(rows) != len(vocab) or max(rows, default=size) >= size or not {"<s>", "<unk>"} <= vocab.keys():
        raise CheckpointError(
            f"The tokenizer of {folder} has {len(vocab)} tokens, which are not ids of {size} rows, each for one token, "
            "<s> and <unk> among them. Tokenizer and weights must come from the same model."
        )
    vocab |= {f"<row {row}>": row for row in range(size) if row not in rows}
    special = Special(config.pad_token_id, vocab["<s>"], config.eos_token_id)
    source, target = (
        build_side(model, str(path), vocab, special, encodes=encodes, text_alone=True, always=always)
        for encodes in (True, False)
    )
    if source.tokenizer.model == target.tokenizer.model:
        target = source
    ids = {code: target.rows.index(row) for code, row in languages.items()}
    return source, target, LanguageTokens(layout="fairseq", ids=ids)


def _read_m2m100(folder: Path, about: TokenizerConfig) -> tuple[dict[str, int], dict[str, int]]:
    """Return the row of every token, and of every language."""
    path = folder / "vocab.json"
    vocab = read_rows(path)
    if about.language_codes not in _LANGUAGE_CODES:
        raise ConfigError(f"{folder} names the language codes {about.language_codes!r}, which are unknown.")
    codes = _LANGUAGE_CODES[about.language_codes].split()
    listed = {language_token("fairseq", code): len(vocab) + place for place, code in enumerate(codes)}
    added = {name: token.id for name, token in about.added(folder).items() if token.id is not None}
    new = {name: row for name, row in added.items() if (vocab | listed).get(name) != row}
    first = len(vocab) + len(codes)
    wrong = [name for name, row in new.items() if row < first or not _M2M100_LANGUAGE.fullmatch(name)]
    if wrong:
        raise ConfigError(
            f"Tokens were added to the tokenizer of {folder} ({', '.join(wrong[:8])}) that are no languages in rows of "
            "their own, as __tyv__ is; Locant's tokenizer lacks them. Import the model without them."
        )
    vocab |= listed | new
    languages = {found[1]: row for name, row in (listed | new).items() if (found := _M2M100_LANGUAGE.fullmatch(name))}
    return vocab, languages


def _read_nllb(folder: Path, about: TokenizerConfig) -> tuple[dict[str, int], dict[str, int], list[str]]:
    """Return the row of every token, and of every language, and the words that were added."""
    path = folder / "tokenizer.json"
    if about.legacy_behaviour:
        raise ConfigError(f"{folder} puts the language behind the source (legacy_behaviour), which Locant does not.")
    found = _TokenizerJson.read(path)
    added = about.added(folder, found.added_tokens)
    rows = {name: token.id for name, token in added.items() if token.id is not None}
    languages = {name: row for name, row in rows.items() if _NLLB_LANGUAGE.fullmatch(name)}
    if not languages:
        raise ConfigError(f"{path} has no language tokens like eng_Latn among its added tokens.")
    words = [name for name in rows if name not in languages and name not in (*SPECIAL.values(), _MASK)]
    for token in map(added.__getitem__, words):
        plain = token.content and token.content == normalize(token.content, lowercase=False)
        if not plain or "▁" in token.content or token.single_word or token.lstrip or token.rstrip:
            raise ConfigError(
                f"The token {token.content!r} was added to the tokenizer of {folder} in a way that Locant's does not "
                "have: with spaces at its ends, or for whole words alone. Import the model without it."
            )
    return found.model.vocab | rows, languages, words


def export_m2m100(found: ModelFolder, run: Path, folder: Path) -> list[str]:
    """Write a model for several languages as an M2M-100 model and its tokenizer, or that of NLLB.

    Args:
        found: What was read from ``run``.
        run: A Locant model folder or finished run.
        folder: Where to write; must not exist, or be empty.

    Returns:
        Sentences about what a user should know.

    Raises:
        ConfigError: M2M-100 cannot express the model or its languages; the message says why and what would do.
        CheckpointError: The folder cannot be written.
    """
    languages = found.tokenizers.languages
    assert languages is not None
    model = require_transformer(found.model, "Export to Hugging Face's M2M-100")
    config, tokenizer = model.config, found.tokenizers.source
    sinusoids = [{"dialect": "tensor2tensor", "start": 2}]  # after the row of padding, which is 1
    require_same(M2M100Config, model, sinusoids, "'model.position_options={dialect: tensor2tensor, start: 2}'")
    if not found.tokenizers.joint:
        raise ConfigError(
            "M2M-100 has one vocabulary for all languages, but this model has one for each side. Train with "
            "tokenizer.joint=true, or export it to ctranslate2 or onnx."
        )
    nllb = all(map(_NLLB_LANGUAGE.fullmatch, languages.ids))
    listed = [] if nllb else _LANGUAGE_CODES["m2m100"].split()
    if nllb:
        _require_nllb(tokenizer)
    elif unknown := [code for code in languages.ids if code not in listed]:
        raise ConfigError(
            "M2M-100's tokenizer in Hugging Face knows a hundred languages by codes such as en and de, but not "
            f"{', '.join(unknown)}. Train a model whose corpus names its languages so, or all of them as NLLB does "
            "(eng_Latn, deu_Latn), or export it to ctranslate2 or onnx."
        )
    behind = {*SPECIAL, *(() if nllb else languages.ids.values())}  # M2M-100's languages follow the vocabulary
    order = [BOS, PAD, EOS, UNK, *(index for index in range(tokenizer.vocab_size) if index not in behind)]
    rows = [*order, *map(languages.ids.get, listed)]
    unused = [row for row, index in enumerate(rows) if index is None]
    special = {"bos": 0, "pad": 1, "eos": 2, "decoder_start": 2}
    about = {
        "architectures": ["M2M100ForConditionalGeneration"],
        "vocab_size": len(rows),
        "tie_word_embeddings": config.share_embeddings and config.tie_output,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
    }
    settings = {
        "tokenizer_class": _NLLB if nllb else _M2M100,
        "src_lang": next(iter(languages.ids)),
        "model_max_length": found.decoding.max_source_length + 2,
    }
    source, *_, target = [*languages.ids, next(iter(languages.ids))][: max(2, len(languages.ids))]
    use = _USE.format(source=source, target=target, method="convert_tokens_to_ids" if nllb else "get_lang_id")
    weights, prepared = write_weights(model, rows=rows), normalizing_model(tokenizer)
    with writing_model(folder, run, found, M2M100Config, weights, special, about, never=unused, use=use) as temporary:
        if nllb:
            write_json(temporary / "tokenizer.json", _nllb_tokenizer(model_proto(prepared), languages, order))
            settings |= {"extra_special_tokens": list(languages.ids), "legacy_behaviour": False}
            settings |= {"mask_token": _MASK if tokenizer.id(_MASK) != UNK else None}
        else:
            write_json(temporary / "vocab.json", {tokenizer.token(index): row for row, index in enumerate(order)})
            settings["language_codes"] = "m2m100"
        (temporary / _MODEL_FILE).write_bytes(prepared)
        write_json(temporary / "tokenizer_config.json", settings)
    notes = [
        f"A text that spells a language's token, such as {'eng_Latn' if nllb else '__en__'}, is tokenised in another "
        f"way{', and so is one with white space at its ends' if nllb else ''}.",
        SEARCH_DIFFERS,
    ]
    if unused:
        notes.append(
            f"The tokenizer's list has {len(unused)} languages that the model does not know; their rows are zero and "
            "never chosen, but count in log-probabilities."
        )
    return notes


def _require_nllb(tokenizer: Tokenizer) -> None:
    """Raise ConfigError unless NLLB's tokenizer in Hugging Face can cut text as this one does."""
    proto = model_proto(tokenizer.model)
    settings, usual = proto.trainer_spec, {piece.piece for piece in proto.pieces if piece.type == piece.NORMAL}
    joins_unknown = bool({character for piece in usual for character in piece} - usual)
    plain = proto.normalizer_spec.add_dummy_prefix and not settings.byte_fallback
    if settings.model_type != settings.BPE or joins_unknown or not plain:
        raise ConfigError(
            "NLLB's tokenizer in Hugging Face is byte-pair encoding of known characters, with a space before every "
            "text and no bytes, which this model's is not. Train with tokenizer.algorithm=bpe "
            "tokenizer.byte_fallback=false, or export the model to ctranslate2 or onnx."
        )


def _nllb_tokenizer(proto: Any, languages: LanguageTokens, order: Sequence[int]) -> dict[str, Any]:
    """Return the content of ``tokenizer.json`` for ``NllbTokenizer``: byte-pair encoding with SentencePiece's rules.

    Args:
        proto: The SentencePiece model of both sides, with its rules; its user-defined tokens become added ones.
        languages: The language tokens.
        order: Locant's id of each row.
    """
    codes = SPECIAL | {index: code for code, index in languages.ids.items()}
    always = {
        index: piece.piece.replace("▁", " ")
        for index, piece in enumerate(proto.pieces)
        if piece.type == piece.USER_DEFINED
    }
    vocab = {(codes | always).get(index, proto.pieces[index].piece): row for row, index in enumerate(order)}
    special = {*SPECIAL.values(), *languages.ids, _MASK}
    added = [
        {
            "id": row,
            "content": name,
            "single_word": False,
            "lstrip": name == _MASK,
            "rstrip": False,
            "normalized": name == _MASK or name not in special,
            "special": name in special,
        }
        for name, row in vocab.items()
        if name in {*special, *always.values()}
    ]
    rules = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode("ascii")
    normalizers = [
        {"type": "Precompiled", "precompiled_charsmap": rules},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    ]
    spaces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    # SentencePiece joins the two neighbours whose union has the best score.
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == piece.NORMAL}
    merges = [
        [piece[:cut], piece[cut:]]
        for piece in sorted(scores, key=lambda piece: -scores[piece])
        for cut in range(1, len(piece))
        if piece[:cut] in scores and piece[cut:] in scores
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": spaces,
        "post_processor": None,  # the tokenizer's class puts language and end around a text
        "decoder": spaces,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": SPECIAL[UNK],
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": merges,
        },
    }
