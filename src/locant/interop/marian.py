"""Marian (OPUS-MT) models in Hugging Face's format as Locant model folders, and Locant's as such.

Marian in Hugging Face (``transformers/models/marian/modeling_marian.py``) is the paper's Transformer: post-norm, one
matrix for all embeddings or one for each side, embeddings times ``sqrt(E)``, sinusoids in the concatenated dialect.
What a Locant model has beyond that is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from locant.errors import CheckpointError, ConfigError
from locant.files import require_new_folder, write_json
from locant.interop.ctranslate2 import require_ended_source
from locant.interop.huggingface import (
    BIAS,
    SEARCH_DIFFERS,
    MarianConfig,
    TokenizerConfig,
    require_same,
    write_weights,
    writing_model,
)
from locant.interop.huggingface_files import read_rows
from locant.interop.m2m100 import export_m2m100
from locant.interop.sentencepiece_models import GROUP_LANGUAGE, Side, Special, build_side
from locant.interop.tokenizer_json import SPECIAL_TOKENS, fast_tokenizer
from locant.models.architectures import require_transformer
from locant.models.model_folder import ModelFolder, load_model_folder
from locant.models.transformer import Transformer
from locant.text.sentencepiece_model import model_proto
from locant.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from locant.text.tokenizer_pair import LanguageTokens

_CLASS = "MarianTokenizer"
_TARGET_TOKENIZER = "target_tokenizer"

_USE = """from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

model = AutoModelForSeq2SeqLM.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER")
batch = tokenizer(["..."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))"""


def read_sides(folder: Path, config: MarianConfig) -> tuple[Side, Side, LanguageTokens | None]:
    """Read the tokenizers of the source and the target language, and the tokens of several target languages.

    Args:
        folder: Holds ``source.spm``, ``target.spm``, ``vocab.json`` and, with separate vocabularies,
            ``target_vocab.json``.
        config: Of the model.

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
    separate = (folder / "target_vocab.json").is_file()
    vocab = read_rows(folder / "vocab.json")
    target_vocab = read_rows(folder / "target_vocab.json") if separate else vocab
    about = TokenizerConfig.of_model(folder, config, [_CLASS])
    added = {name: token.id for name, token in about.added(folder, []).items() if vocab.get(name) != token.id}
    if added:
        raise ConfigError(
            f"Words were added to the tokenizer of {folder} ({', '.join(list(added)[:8])}), which Marian's cuts out of "
            "a text before SentencePiece reads it, unlike Locant's. Import the model without them."
        )
    for name, rows, size in (
        ("vocab.json", vocab, config.vocab_size),
        ("target_vocab.json" if separate else "vocab.json", target_vocab, config.target_size),
    ):
        if "<unk>" not in rows or len(rows) != size or set(rows.values()) != set(range(size)):
            raise CheckpointError(f"{folder / name} does not name each of the {size} rows once, <unk> among them.")
    about.require_tokens(folder, vocab, config.eos_token_id)
    special = Special(config.pad_token_id, config.decoder_start_token_id, config.eos_token_id)
    models = [(path.read_bytes(), str(path)) for path in (folder / "source.spm", folder / "target.spm")]
    source = build_side(*models[0], vocab, special, encodes=True)
    target = build_side(*models[1], target_vocab, special, encodes=False)
    codes = {found[1]: row for piece, row in vocab.items() if (found := GROUP_LANGUAGE.fullmatch(piece))}
    ids = {code: source.rows.index(row) for code, row in sorted(codes.items())}
    return source, target, LanguageTokens(layout="marian", ids=ids) if ids else None


def export_huggingface(run: Path | str, folder: Path | str) -> list[str]:
    """Write a model folder as a Marian model and its tokenizer; one for several languages as M2M-100 or NLLB.

    The logits are those of Locant but for rounding, and so are greedy translations; the ids of a text are the same.

    Args:
        run: A Locant model folder or finished run.
        folder: Where to write; must not exist, or be empty.

    Returns:
        Sentences about what a user should know: what plain ``transformers`` does in another way than Locant.

    Raises:
        ConfigError: Marian (or M2M-100, NLLB) cannot express the model or its tokenizer; the message says why.
        CheckpointError: The run cannot be read, or the folder is taken or cannot be written.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    run, folder = Path(run), Path(folder)
    require_new_folder(folder)
    found = load_model_folder(run, device="cpu")
    pair = found.tokenizers
    require_ended_source(pair, "Hugging Face")
    own_files = _is_marian(pair.source) or _is_marian(pair.target)
    if pair.languages and not (own_files and pair.languages.layout == "marian"):
        return export_m2m100(found, run, folder)
    model = require_transformer(found.model, "Export to Hugging Face's Marian")
    config = model.config
    reorder = require_marian(model)["dialect"] == "paper"
    tokenizers = {} if own_files else {".": fast_tokenizer(pair.source)}
    if not own_files and not pair.joint:
        tokenizers[_TARGET_TOKENIZER] = fast_tokenizer(pair.target)
    special = {"pad": PAD, "bos": BOS, "eos": EOS, "decoder_start": BOS}
    weights = write_weights(model, order=concatenated_order(config.d_model) if reorder else None)
    weights[BIAS] = torch.zeros(1, config.target_vocab_size)
    about = {
        "architectures": ["MarianMTModel"],
        "vocab_size": config.source_vocab_size,
        "decoder_vocab_size": config.target_vocab_size,
        "share_encoder_decoder_embeddings": config.share_embeddings,
        "tie_word_embeddings": config.tie_output,
        "forced_eos_token_id": None,
        "locant": {
            "position_dialect": "concatenated",
            "trained_position_dialect": "paper" if reorder else "concatenated",
            "source_language": found.source_language,
            "target_language": found.target_language,
        },
    }
    fast = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **SPECIAL_TOKENS,
        "model_max_length": found.decoding.max_source_length + 1,
        "padding_side": "right",
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    with writing_model(folder, run, found, MarianConfig, weights, special, about, use=_USE) as temporary:
        for place, content in tokenizers.items():
            write_json(temporary / place / "tokenizer.json", content)
            write_json(temporary / place / "tokenizer_config.json", fast)
        if own_files:
            _write_marian_tokenizer(temporary, found)
    return _notes(found, reorder=reorder, own_files=own_files)


def require_marian(model: Transformer) -> dict[str, Any]:
    """Return the options of a model's sinusoid, and check that Marian in Hugging Face can express the model.

    Raises:
        ConfigError: It cannot; all differences are named, and the settings without them.
    """
    sinusoids = [{"dialect": "paper"}, {"dialect": "concatenated"}]
    return require_same(MarianConfig, model, sinusoids, "model.position_options={}")


def concatenated_order(dim: int) -> Tensor:
    """Return the permutation ``[E]``: the feature of the paper's order that is at each place of Marian's."""
    return torch.cat((torch.arange(0, dim, 2), torch.arange(1, dim, 2)))


def _is_marian(tokenizer: Tokenizer) -> bool:
    """Whether only SentencePiece itself can cut text as this tokenizer does, as of an imported Marian model."""
    proto = model_proto(tokenizer.model)
    unused = any(piece.type == piece.UNUSED for piece in proto.pieces)
    return not tokenizer.lowercase and bool(unused or proto.normalizer_spec.precompiled_charsmap)


def _write_marian_tokenizer(folder: Path, found: ModelFolder) -> None:
    """Write the files of Marian's own tokenizer: a model that came as Marian leaves as Marian."""
    found.tokenizers.save_sentencepiece(folder)
    source, target = (
        {one.token(index): index for index in range(one.vocab_size)}
        for one in (found.tokenizers.source, found.tokenizers.target)
    )
    write_json(folder / "vocab.json", source)
    if source != target:
        write_json(folder / "target_vocab.json", target)
    names = {"pad_token": PAD, "unk_token": UNK, "eos_token": EOS}
    about = {
        "tokenizer_class": _CLASS,
        "source_lang": found.source_language,
        "target_lang": found.target_language,
        "separate_vocabs": source != target,
        "model_max_length": found.decoding.max_source_length + 1,
        **{key: found.tokenizers.source.token(index) for key, index in names.items()},
    }
    write_json(folder / "tokenizer_config.json", {key: value for key, value in about.items() if value is not None})


def _notes(found: ModelFolder, *, reorder: bool, own_files: bool) -> list[str]:
    notes = [
        SEARCH_DIFFERS,
        f"Translations may have {found.decoding.longest_sequence()} tokens; Locant's limit grows with the source "
        f"({found.decoding.max_length_ratio:g} per token and {found.decoding.max_length_extra} more).",
    ]
    if reorder:
        notes.append("The features were put in the order of Marian's sinusoid (the paper's was interleaved).")
    if own_files:
        notes.append(
            "The tokenizer is Marian's own (source.spm, target.spm, vocab.json), as that of the model it came from; it "
            "does not bring text to Unicode NFC."
        )
        return notes
    if not found.tokenizers.joint:
        notes.append(
            "The languages have a vocabulary each: the folder's tokenizer is for the source, "
            f"{_TARGET_TOKENIZER}/ decodes translations."
        )
    trained = model_proto(found.tokenizers.source.model).trainer_spec
    if trained.byte_fallback and trained.model_type == trained.UNIGRAM:
        notes.append("A text that spells out the name of a byte token, such as <0x41>, is tokenised in another way.")
    return notes
