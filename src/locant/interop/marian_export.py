"""A Locant model as a folder that Hugging Face's ``MarianMTModel`` loads.

Marian in Hugging Face (``transformers/models/marian/modeling_marian.py``) is the paper's Transformer: post-norm, one
matrix for all embeddings or one for each side, embeddings times ``sqrt(E)``, sinusoids in the concatenated dialect.
What a Locant model has beyond that is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from locant.files import replacing_folder, require_new_folder, write_json, write_tensors, write_text
from locant.interop.ctranslate2 import require_ended_source
from locant.interop.fast_tokenizer import SPECIAL_TOKENS, fast_tokenizer, is_marian, takes_spelled_bytes
from locant.interop.m2m100_export import export_m2m100
from locant.interop.marian_weights import concatenated_order, to_marian
from locant.interop.model_differences import Difference, layer_differences, require_none
from locant.models.architectures import require_transformer
from locant.models.config import TransformerConfig
from locant.models.decoding_settings import DecodingSettings
from locant.models.model_card import CARD, model_card
from locant.models.model_folder import ModelFolder, load_model_folder
from locant.positions import PositionScheme
from locant.positions.embeddings.sinusoidal import SinusoidDialect, sinusoid_table
from locant.text.tokenizer import BOS, EOS, PAD, UNK
from locant.version import __version__

_TARGET_TOKENIZER = "target_tokenizer"

_USE = """from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

model = AutoModelForSeq2SeqLM.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER")
batch = tokenizer(["..."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))"""


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
    own_files = is_marian(pair.source) or is_marian(pair.target)
    if pair.languages and not (own_files and pair.languages.layout == "marian"):
        return export_m2m100(found, run, folder)
    model = require_transformer(found.model, "Export to Hugging Face's Marian")
    config = model.config
    reorder = _require_marian(config, model.encoder.scheme(0)) == "paper"
    order = concatenated_order(config.d_model) if reorder else None
    tokenizers = {} if own_files else {".": fast_tokenizer(pair.source)}
    if not own_files and not pair.joint:
        tokenizers[_TARGET_TOKENIZER] = fast_tokenizer(pair.target)
    with replacing_folder(folder) as temporary:
        write_json(temporary / "config.json", _config(found, config, reorder=reorder))
        write_json(temporary / "generation_config.json", _generation_config(found.decoding))
        write_tensors(temporary / "model.safetensors", to_marian(model.state_dict(), config, order))
        for place, content in tokenizers.items():
            write_json(temporary / place / "tokenizer.json", content)
            write_json(temporary / place / "tokenizer_config.json", _tokenizer_config(found.decoding))
        if own_files:
            _write_marian_tokenizer(temporary, found)
        write_text(temporary / CARD, model_card(run, _USE))
    return _notes(found, reorder=reorder, own_files=own_files)


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
    about = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": found.source_language,
        "target_lang": found.target_language,
        "separate_vocabs": source != target,
        "model_max_length": found.decoding.max_source_length + 1,
    }
    names = {"pad_token": PAD, "unk_token": UNK, "eos_token": EOS}
    tokens = {key: found.tokenizers.source.token(index) for key, index in names.items()}
    write_json(
        folder / "tokenizer_config.json",
        {**{key: value for key, value in about.items() if value is not None}, **tokens},
    )


def _require_marian(config: TransformerConfig, scheme: PositionScheme) -> SinusoidDialect:
    """Return the dialect of the model's sinusoid, or raise ConfigError unless Marian can express the model."""
    differences = layer_differences(config, "post")
    dialect = _dialect(config, scheme)
    if dialect is None and config.position != "sinusoidal":
        settings = "model.position=sinusoidal" + (" model.position_options={}" if config.position_options else "")
        differences.append(Difference("sinusoidal positions alone", f"has '{config.position}'", settings))
    elif dialect is None:
        harmless = {"dialect": ("paper", "concatenated"), "features": (None, config.d_model)}
        options = {key: value for key, value in config.position_options.items() if value not in harmless.get(key, ())}
        shown = " and ".join(f"{option}={value}" for option, value in options.items())
        theirs = "sinusoids of base 10000 from position 0 added to all features"
        differences.append(Difference(theirs, f"has them with {shown}", "model.position_options={}"))
    require_none("Marian in Hugging Face", differences)
    assert dialect is not None
    return dialect


def _dialect(config: TransformerConfig, scheme: PositionScheme) -> SinusoidDialect | None:
    """Return the dialect of the model's sinusoid, ``None`` where its positions are no sinusoid of Marian's."""
    positions = torch.arange(64)
    codes = scheme.code(positions) if scheme.acts_on == {"embedding"} else None
    dialects: tuple[SinusoidDialect, ...] = ("paper", "concatenated")
    for dialect in dialects:
        if codes is not None and torch.allclose(codes, sinusoid_table(positions, config.d_model, dialect=dialect)):
            return dialect
    return None


def _config(found: ModelFolder, config: TransformerConfig, *, reorder: bool) -> dict[str, Any]:
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": config.source_vocab_size,
        "decoder_vocab_size": config.target_vocab_size,
        "share_encoder_decoder_embeddings": config.share_embeddings,
        "tie_word_embeddings": config.tie_output,
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": config.feed_forward,
        "scale_embedding": True,
        "max_position_embeddings": found.decoding.longest_sequence(),
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.feed_forward_dropout,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
        "is_encoder_decoder": True,
        "dtype": "float32",
        "locant": {
            "version": __version__,
            "position_dialect": "concatenated",
            "trained_position_dialect": "paper" if reorder else "concatenated",
            "source_language": found.source_language,
            "target_language": found.target_language,
            "usual_source_length": found.decoding.usual_source_length,
        },
    }


def _generation_config(decoding: DecodingSettings) -> dict[str, Any]:
    return {
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "suppress_tokens": [PAD, BOS],
        "max_length": decoding.longest_sequence(),
        "num_beams": decoding.beam,
        **({"length_penalty": decoding.length_penalty} if decoding.beam > 1 else {}),
    }


def _tokenizer_config(decoding: DecodingSettings) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **SPECIAL_TOKENS,
        "model_max_length": decoding.max_source_length + 1,
        "padding_side": "right",
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }


def _notes(found: ModelFolder, *, reorder: bool, own_files: bool) -> list[str]:
    notes = []
    if reorder:
        notes.append("The features were put in the order of Marian's sinusoid (the paper's was interleaved).")
    if own_files:
        notes.append(
            "The tokenizer is Marian's own (source.spm, target.spm, vocab.json), as that of the model it came from; it "
            "does not bring text to Unicode NFC."
        )
    elif not found.tokenizers.joint:
        notes.append(
            "The languages have a vocabulary each: the folder's tokenizer is for the source, "
            f"{_TARGET_TOKENIZER}/ decodes translations."
        )
    notes.append(
        "Greedy search gives Locant's translations. Beam search may give others: transformers divides by length^alpha, "
        "Locant by ((5 + length) / 6)^alpha, and they end a search by different rules."
    )
    notes.append(
        f"Translations may have {found.decoding.longest_sequence()} tokens; Locant's limit grows with the source "
        f"({found.decoding.max_length_ratio:g} per token and {found.decoding.max_length_extra} more)."
    )
    if not own_files and takes_spelled_bytes(found.tokenizers.source):
        notes.append("A text that spells out the name of a byte token, such as <0x41>, is tokenised in another way.")
    return notes
