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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

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
from locant.interop.sentencepiece_models import (
    SPECIAL,
    Side,
    Special,
    build_side,
    fairseq_model,
    normalizing_model,
    read_model,
)
from locant.interop.tokenizer_json import MASK, nllb_tokenizer
from locant.models.architectures import require_transformer
from locant.models.model_folder import ModelFolder
from locant.text.sentencepiece_model import model_proto
from locant.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, normalize
from locant.text.tokenizer_pair import LanguageTokens, language_token

_MODEL_FILE = "sentencepiece.bpe.model"
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

# What tokenizer.json may do to a text that a SentencePiece model does too, beside that model's own rules.
_USUAL_RULES = (
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
    {"type": "Strip", "strip_left": False, "strip_right": True},
    {"type": "Strip", "strip_left": True, "strip_right": True},
)
_USUAL_CUTS = ("Metaspace", "WhitespaceSplit")

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
    normalizer: dict[str, Any] = Field(default_factory=dict)
    pre_tokenizer: dict[str, Any] = Field(default_factory=dict)


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
        vocab, languages, always = _read_nllb(folder, about, model)
    else:
        raise CheckpointError(f"{folder} lacks vocab.json (M2M-100) or tokenizer.json (NLLB).")
    rows, size = set(vocab.values()), config.vocab_size
    if len(rows) != len(vocab) or max(rows, default=size) >= size:
        raise CheckpointError(
            f"The tokenizer of {folder} has {len(vocab)} tokens, which are not ids of {size} rows, each for one token. "
            "Tokenizer and weights must come from the same model."
        )
    missing = [name for name in ("<s>", "<unk>") if name not in vocab]
    if missing:
        raise CheckpointError(f"The tokenizer of {folder} has no token {' and no token '.join(missing)}.")
    about.require_tokens(folder, vocab, config.eos_token_id)
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
    added = {name: token.id for name, token in about.added(folder, []).items()}
    new = {name: row for name, row in added.items() if row is not None and (vocab | listed).get(name) != row}
    words = [name for name in new if not _M2M100_LANGUAGE.fullmatch(name)]
    taken = [name for name, row in new.items() if row < len(vocab) + len(codes)]
    for names, why in (
        (words, "which M2M-100's cuts out of a text before SentencePiece reads it, unlike Locant's"),
        (taken, "whose rows are those of other tokens"),
    ):
        if names:
            raise ConfigError(
                f"Tokens were added to the tokenizer of {folder} ({', '.join(names[:8])}), {why}. Import the model "
                "without them."
            )
    vocab |= listed | new
    languages = {found[1]: row for name, row in (listed | new).items() if (found := _M2M100_LANGUAGE.fullmatch(name))}
    return vocab, languages


def _read_nllb(folder: Path, about: TokenizerConfig, model: bytes) -> tuple[dict[str, int], dict[str, int], list[str]]:
    """Return the row of every token, and of every language, and the words that were added."""
    path = folder / "tokenizer.json"
    if about.legacy_behaviour:
        raise ConfigError(f"{folder} puts the language behind the source (legacy_behaviour), which Locant does not.")
    found = _TokenizerJson.read(path)
    pieces = read_model(model, str(folder / _MODEL_FILE))
    own = base64.b64encode(pieces.normalizer_spec.precompiled_charsmap).decode()
    usual = [*_USUAL_RULES, {"type": "Precompiled", "precompiled_charsmap": own}]
    unusual = [rule for rule in _leaves(found.normalizer, "normalizers") if rule not in usual]
    unusual += [cut for cut in _leaves(found.pre_tokenizer, "pretokenizers") if cut.get("type") not in _USUAL_CUTS]
    if unusual:
        raise ConfigError(
            f"{path} prepares text by rules that {_MODEL_FILE} does not have ({unusual[0].get('type')!r}), so text "
            "would become other tokens here."
        )
    added = about.added(folder, found.added_tokens)
    rows = {name: token.id for name, token in added.items() if token.id is not None}
    languages = {name: row for name, row in rows.items() if _NLLB_LANGUAGE.fullmatch(name)}
    if not languages:
        raise ConfigError(f"{path} has no language tokens like eng_Latn among its added tokens.")
    words = [name for name in rows if name not in languages and name not in (*SPECIAL.values(), MASK)]
    for token in map(added.__getitem__, words):
        plain = token.content and token.content == normalize(token.content, lowercase=False)
        if not plain or "▁" in token.content or token.single_word or token.lstrip or token.rstrip:
            raise ConfigError(
                f"The token {token.content!r} was added to the tokenizer of {folder} in a way that Locant's does not "
                "have: with spaces at its ends, or for whole words alone. Import the model without it."
            )
    different = [name for name, row in rows.items() if found.model.vocab.get(name, row) != row]
    if different:
        raise CheckpointError(f"{path} gives {different[0]!r} two rows.")
    return found.model.vocab | rows, languages, words


def _leaves(rule: Any, parts: str) -> Iterator[dict[str, Any]]:
    """Yield the rules of a sequence of them, as ``tokenizer.json`` nests them."""
    inner = rule.get(parts) if isinstance(rule, dict) else None
    if isinstance(inner, list):
        for one in inner:
            yield from _leaves(one, parts)
    elif rule:
        yield rule if isinstance(rule, dict) else {"type": rule}


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
    if languages.layout != "fairseq":
        raise ConfigError(
            "A model for several languages whose layout of language tokens is 'marian' cannot be exported to Hugging "
            "Face: M2M-100 has the layout 'fairseq'. Train with corpus.layout=fairseq, or export it to ctranslate2 or "
            "onnx."
        )
    start = int(config.position_options.get("start", 0)) if config.position == "sinusoidal" else 0
    sinusoids = [{"dialect": "tensor2tensor", "start": max(1, start)}]
    require_same(M2M100Config, model, sinusoids, "'model.position_options={dialect: tensor2tensor, start: 2}'")
    if not found.tokenizers.joint:
        raise ConfigError(
            "M2M-100 has one vocabulary for all languages, but this model has one for each side. Train with "
            "tokenizer.joint=true, or export it to ctranslate2 or onnx."
        )
    nllb = all(map(_NLLB_LANGUAGE.fullmatch, languages.ids))
    kind = None if nllb else _language_codes(languages)
    if nllb:
        _require_nllb(tokenizer)
    order = [BOS, EOS, UNK, *_ordinary(tokenizer, languages, nllb=nllb)]
    if start - 1 > len(order):
        raise ConfigError(
            f"M2M-100 in Hugging Face counts positions from the id of padding plus one, and this model's begin at "
            f"{start}, beyond its vocabulary of {len(order) + 1}. Train a model with "
            "model.position_options={dialect: tensor2tensor, start: 2}."
        )
    order.insert(start - 1, PAD)
    rows = [*order, *(languages.ids.get(code) for code in (_LANGUAGE_CODES[kind].split() if kind else []))]
    unused = [row for row, index in enumerate(rows) if index is None]
    special = {name: order.index(index) for name, index in (("pad", PAD), ("bos", BOS), ("eos", EOS))}
    special["decoder_start"] = special["eos"]
    about = {
        "architectures": ["M2M100ForConditionalGeneration"],
        "vocab_size": len(rows),
        "tie_word_embeddings": config.share_embeddings and config.tie_output,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "locant": {"languages": list(languages.ids)},
    }
    settings = {
        "tokenizer_class": _NLLB if nllb else _M2M100,
        "src_lang": next(iter(languages.ids)),
        "model_max_length": found.decoding.max_source_length + 2,
    }
    names = [tokenizer.token(index) for index in order]
    source, *_, target = [*languages.ids, next(iter(languages.ids))][: max(2, len(languages.ids))]
    use = _USE.format(source=source, target=target, method="convert_tokens_to_ids" if nllb else "get_lang_id")
    weights = write_weights(model, rows=rows)
    with writing_model(folder, run, found, M2M100Config, weights, special, about, never=unused, use=use) as temporary:
        if nllb:
            write_json(temporary / "tokenizer.json", nllb_tokenizer(tokenizer, languages, order))
            settings |= {"extra_special_tokens": list(languages.ids), "legacy_behaviour": False}
            settings |= {"mask_token": MASK if MASK in names else None}
            proto = model_proto(normalizing_model(tokenizer))
            (temporary / _MODEL_FILE).write_bytes(fairseq_model(proto, order))
        else:
            write_json(temporary / "vocab.json", {name: row for row, name in enumerate(names)})
            settings["language_codes"] = kind
            (temporary / _MODEL_FILE).write_bytes(tokenizer.model)
        write_json(temporary / "tokenizer_config.json", settings)
    prepare = "Unicode NFC and to lower case" if tokenizer.lowercase else "Unicode NFC"
    notes = [
        f"Bring text to {prepare}{', without white space at its ends,' if nllb else ''} before it is tokenised; a text "
        f"that spells a language's token, such as {'eng_Latn' if nllb else '__en__'}, is tokenised in another way.",
        SEARCH_DIFFERS,
    ]
    if unused:
        notes.append(
            f"The tokenizer's list has {len(unused)} languages that the model does not know; their rows are zero and "
            "never chosen, but count in log-probabilities."
        )
    return notes


def _language_codes(languages: LanguageTokens) -> str:
    """Return the shortest of the tokenizer's lists of languages that has all of the model's."""
    fitting = [kind for kind, codes in _LANGUAGE_CODES.items() if set(languages.ids) <= set(codes.split())]
    if fitting:
        return min(fitting, key=lambda kind: len(_LANGUAGE_CODES[kind]))
    unknown = ", ".join(code for code in languages.ids if code not in _LANGUAGE_CODES["m2m100"].split())
    raise ConfigError(
        f"M2M-100's tokenizer in Hugging Face knows a hundred languages by codes such as en and de, but not {unknown}. "
        "Train a model whose corpus names its languages so, or all of them as NLLB does (eng_Latn, deu_Latn), or "
        "export it to ctranslate2 or onnx."
    )


def _ordinary(tokenizer: Tokenizer, languages: LanguageTokens, *, nllb: bool) -> list[int]:
    """Return Locant's ids but those of special tokens.

    M2M-100's languages are not among them. NLLB counts the subwords of the SentencePiece model where ``tokenizer.json``
    is missing, so they come first there, and what no text becomes behind them.
    """
    if not nllb:
        others = {*SPECIAL, *languages.ids.values()}
        return [index for index in range(tokenizer.vocab_size) if index not in others]
    pieces = model_proto(tokenizer.model).pieces
    return sorted(
        (index for index in range(len(pieces)) if index not in SPECIAL),
        key=lambda index: bool(pieces[index].type != pieces[index].NORMAL),
    )


def _require_nllb(tokenizer: Tokenizer) -> None:
    """Raise ConfigError unless NLLB's tokenizer in Hugging Face can cut text as this one does."""
    proto = model_proto(tokenizer.model)
    settings, usual = proto.trainer_spec, {piece.piece for piece in proto.pieces if piece.type == piece.NORMAL}
    for found, why in (
        (
            settings.model_type != settings.BPE,
            "is byte-pair encoding, which this model's is not. Train with tokenizer.algorithm=bpe",
        ),
        (
            settings.byte_fallback,
            "cannot spell characters in bytes, as this model's does. Train with tokenizer.byte_fallback=false",
        ),
        (
            {character for piece in usual for character in piece} - usual,
            "joins known characters alone, unlike this model's. Leave that tokenizer",
        ),
        (
            not proto.normalizer_spec.add_dummy_prefix,
            "puts a space before every text, unlike this model's. Leave that tokenizer",
        ),
    ):
        if found:
            raise ConfigError(f"NLLB's tokenizer in Hugging Face {why}, or export the model to ctranslate2 or onnx.")
