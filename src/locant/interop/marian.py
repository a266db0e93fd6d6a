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
from locant.interop.sentencepiece_models import GROUP_LANGUAGE, Side, Special, build_side, normalizing_model
from locant.models.architectures import require_transformer
from locant.models.model_folder import ModelFolder, load_model_folder
from locant.models.transformer import Transformer
from locant.text.tokenizer import BOS, EOS, PAD, UNK
from locant.text.tokenizer_pair import LanguageTokens

_CLASS = "MarianTokenizer"

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
    if not all((folder / name).is_file() for name in ("source.spm", "target.spm", "vocab.json")):
        raise CheckpointError(
            f"{folder} lacks source.spm, target.spm or vocab.json, which the tokenizer of a Marian model is made of."
        )
    about = TokenizerConfig.of_model(folder, config, [_CLASS])
    paths = [folder / "vocab.json", folder / "target_vocab.json"]
    vocab, target_vocab = (read_rows(path if path.is_file() else paths[0]) for path in paths)
    added = [name for name, token in about.added(folder).items() if vocab.get(name) != token.id]
    if added:
        raise ConfigError(
            f"Words were added to the tokenizer of {folder} ({', '.join(added[:8])}), which Marian's cuts out of a "
            "text before SentencePiece reads it, unlike Locant's. Import the model without them."
        )
    for side, rows, size in (("source", vocab, config.vocab_size), ("target", target_vocab, config.target_size)):
        if "<unk>" not in rows or len(rows) != size or {*rows.values()} != {*range(size)}:
            raise CheckpointError(
                f"The {side} vocabulary in {folder} does not name each of the {size} rows once, <unk> among them."
            )
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
    languages, decoding = found.tokenizers.languages, found.decoding
    require_ended_source(found.tokenizers, "Hugging Face")
    if languages and languages.layout == "fairseq":
        return export_m2m100(found, run, folder)
    model = require_transformer(found.model, "Export to Hugging Face's Marian")
    config = model.config
    reorder = require_marian(model)["dialect"] == "paper"
    weights = write_weights(model, order=concatenated_order(config.d_model) if reorder else None)
    weights[BIAS] = torch.zeros(1, config.target_vocab_size)
    about = {
        "architectures": ["MarianMTModel"],
        "vocab_size": config.source_vocab_size,
        "decoder_vocab_size": config.target_vocab_size,
        "share_encoder_decoder_embeddings": config.share_embeddings,
        "tie_word_embeddings": config.tie_output,
        "forced_eos_token_id": None,
    }
    special = {"pad": PAD, "bos": BOS, "eos": EOS, "decoder_start": BOS}
    with writing_model(folder, run, found, MarianConfig, weights, special, about, use=_USE) as temporary:
        _write_tokenizer(temporary, found)
    notes = [
        SEARCH_DIFFERS,
        f"Translations may have {decoding.longest_sequence()} tokens; Locant's limit grows with the source "
        f"({decoding.max_length_ratio:g} per token and {decoding.max_length_extra} more).",
        "The tokenizer is Marian's: it leaves unknown tokens out of translations, and takes >>xx<< at the beginning of "
        "a text for a language.",
    ]
    if reorder:
        notes.append("The features were put in the order of Marian's sinusoid (the paper's was interleaved).")
    return notes


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


def _write_tokenizer(folder: Path, found: ModelFolder) -> None:
    """Write the files of Marian's tokenizer, whose SentencePiece models prepare text as Locant does."""
    pair = found.tokenizers
    source = normalizing_model(pair.source)
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(source if pair.joint else normalizing_model(pair.target))
    rows, target_rows = ({one.token(row): row for row in range(one.vocab_size)} for one in (pair.source, pair.target))
    write_json(folder / "vocab.json", rows)
    if rows != target_rows:
        write_json(folder / "target_vocab.json", target_rows)
    about = {
        "tokenizer_class": _CLASS,
        "source_lang": found.source_language,
        "target_lang": found.target_language,
        "separate_vocabs": rows != target_rows,
        "model_max_length": found.decoding.max_source_length + 1,
        "split_special_tokens": True,  # a text that spells </s> does not end there
        **{key: pair.source.token(row) for key, row in (("pad_token", PAD), ("unk_token", UNK), ("eos_token", EOS))},
    }
    write_json(folder / "tokenizer_config.json", {key: value for key, value in about.items() if value is not None})
