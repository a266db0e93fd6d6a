"""A Locant model for several languages as a folder that Hugging Face's ``M2M100ForConditionalGeneration`` loads.

M2M-100 in Hugging Face (``transformers/models/m2m_100``) is a pre-norm Transformer with one vocabulary. Positions are
tensor2tensor's sinusoid, counted from the id of padding plus one. Its tokenizer knows a fixed list of languages, whose
tokens follow the vocabulary; that of NLLB, which has the same model, is written where the languages have NLLB's codes.
What a Locant model has beyond that is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.files import replacing_folder, write_json, write_tensors, write_text
from locant.interop.m2m100_import import LANGUAGE_CODES, SENTENCEPIECE_FILE
from locant.interop.marian_weights import to_marian
from locant.interop.model_differences import Difference, layer_differences, require_none
from locant.interop.nllb_tokenizer import has_nllb_codes, nllb_order, require_nllb, write_nllb_tokenizer
from locant.models.architectures import require_transformer
from locant.models.config import TransformerConfig
from locant.models.decoding_settings import DecodingSettings
from locant.models.model_card import CARD, model_card
from locant.models.model_folder import ModelFolder
from locant.models.transformer import Transformer
from locant.positions import PositionScheme
from locant.positions.embeddings.sinusoidal import sinusoid_table
from locant.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer
from locant.text.tokenizer_pair import LanguageTokens, language_token
from locant.version import __version__

_BIAS = "final_logits_bias"

_USE = """from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

model = AutoModelForSeq2SeqLM.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER", src_lang="SOURCE")
batch = tokenizer(["..."], return_tensors="pt", padding=True)
found = model.generate(**batch, forced_bos_token_id=tokenizer.LANGUAGE("TARGET"))
print(tokenizer.batch_decode(found, skip_special_tokens=True))"""


def export_m2m100(found: ModelFolder, run: Path, folder: Path) -> list[str]:
    """Write a model for several languages as an M2M-100 model and its tokenizer, or that of NLLB.

    Source: Fan et al. 2020, "Beyond English-Centric Multilingual Machine Translation"; Costa-jussà et al. 2022, "No
    Language Left Behind".

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
    config = model.config
    if languages.layout != "fairseq":
        raise ConfigError(
            "A model for several languages whose layout of language tokens is 'marian' cannot be exported to Hugging "
            "Face: M2M-100 has the layout 'fairseq'. Train with corpus.layout=fairseq, or export it to ctranslate2 or "
            "onnx."
        )
    start = _require_m2m100(config, model.encoder.scheme(0))
    if not found.tokenizers.joint:
        raise ConfigError(
            "M2M-100 has one vocabulary for all languages, but this model has one for each side. Train with "
            "tokenizer.joint=true, or export it to ctranslate2 or onnx."
        )
    tokenizer = found.tokenizers.source
    kind = None if has_nllb_codes(languages) else _language_codes(languages)
    if kind is None:
        require_nllb(tokenizer)
        order = _order(nllb_order(tokenizer), pad=start - 1)
        rows: list[int | None] = [*order]
    else:
        order = _order(_ordinary(tokenizer, languages), pad=start - 1)
        rows = [*order, *(languages.ids.get(code) for code in LANGUAGE_CODES[kind].split())]
    special = {name: order.index(index) for name, index in (("pad", PAD), ("bos", BOS), ("eos", EOS))}
    unused = [row for row, index in enumerate(rows) if index is None]
    weights = _weights(model, rows)
    with replacing_folder(folder) as temporary:
        write_json(temporary / "config.json", _config(found, config, special, len(rows)))
        write_json(temporary / "generation_config.json", _generation_config(found.decoding, languages, special, unused))
        write_tensors(temporary / "model.safetensors", weights)
        if kind is None:
            write_nllb_tokenizer(temporary, tokenizer, languages, order, found.decoding)
        else:
            write_json(temporary / "vocab.json", {tokenizer.token(index): row for row, index in enumerate(order)})
            (temporary / SENTENCEPIECE_FILE).write_bytes(tokenizer.model)
            write_json(temporary / "tokenizer_config.json", _tokenizer_config(found.decoding, languages, kind))
        names = list(languages.ids)
        use = _USE.replace("SOURCE", names[0]).replace("TARGET", names[-1])
        use = use.replace("LANGUAGE", "convert_tokens_to_ids" if kind is None else "get_lang_id")
        write_text(temporary / CARD, model_card(run, use))
    return _notes(found, unused, nllb=kind is None)


def _require_m2m100(config: TransformerConfig, scheme: PositionScheme) -> int:
    """Return the number that the model's first position counts as, or raise ConfigError."""
    differences = layer_differences(config, "pre")
    start = config.position_options.get("start", 0) if config.position == "sinusoidal" else 0
    positions = torch.arange(64)
    codes = scheme.code(positions) if scheme.acts_on == {"embedding"} else None
    if start < 1 or codes is None or not torch.allclose(codes, _table(positions + start, config.d_model)):
        ours = f"has '{config.position}' with {config.position_options or 'no options'}"
        settings = "'model.position_options={dialect: tensor2tensor, start: 2}'"
        if config.position != "sinusoidal":
            settings = f"model.position=sinusoidal {settings}"
        differences.append(Difference("the sinusoid of tensor2tensor, counted from 1 or more", ours, settings))
    require_none("M2M-100 in Hugging Face", differences)
    return int(start)


def _table(positions: Tensor, dim: int) -> Tensor:
    return sinusoid_table(positions, dim, dialect="tensor2tensor")


def _language_codes(languages: LanguageTokens) -> str:
    """Return the shortest of the tokenizer's lists of languages that has all of the model's."""
    fitting = [kind for kind, codes in LANGUAGE_CODES.items() if set(languages.ids) <= set(codes.split())]
    if fitting:
        return min(fitting, key=lambda kind: len(LANGUAGE_CODES[kind].split()))
    known = LANGUAGE_CODES["m2m100"].split()
    unknown = ", ".join(code for code in languages.ids if code not in known)
    raise ConfigError(
        f"M2M-100's tokenizer in Hugging Face knows a hundred languages by codes such as en and de, but not {unknown}. "
        "Train a model whose corpus names its languages so, or all of them as NLLB does (eng_Latn, deu_Latn), or "
        "export it to ctranslate2 or onnx."
    )


def _ordinary(tokenizer: Tokenizer, languages: LanguageTokens) -> list[int]:
    """Return Locant's ids but those of special tokens and languages."""
    others = {PAD, UNK, BOS, EOS, *languages.ids.values()}
    return [index for index in range(tokenizer.vocab_size) if index not in others]


def _order(ordinary: list[int], *, pad: int) -> list[int]:
    """Return Locant's id of each row; padding is where the positions want it."""
    order = [BOS, EOS, UNK, *ordinary]
    if pad > len(order):
        raise ConfigError(
            f"M2M-100 in Hugging Face counts positions from the id of padding plus one, and this model's begin at "
            f"{pad + 1}, beyond its vocabulary of {len(order) + 1}. Train a model with "
            "model.position_options={dialect: tensor2tensor, start: 2}."
        )
    order.insert(pad, PAD)
    return order


def _weights(model: Transformer, rows: list[int | None]) -> dict[str, Tensor]:
    """Return the model's weights by their names in Hugging Face, with the rows of the vocabulary that is written."""
    weights = to_marian(model.state_dict(), model.config, None)
    del weights[_BIAS]
    target = weights.get("model.decoder.embed_tokens.weight")
    if target is not None:  # M2M-100 ties all matrices of a model or none.
        weights.setdefault("model.shared.weight", target)
        weights.setdefault("lm_head.weight", target)
    for name in list(weights):
        if name.endswith(("shared.weight", "embed_tokens.weight", "lm_head.weight")):
            weights[name] = _rows(weights[name], rows)
    return weights


def _rows(matrix: Tensor, rows: list[int | None]) -> Tensor:
    """Return rows of a matrix, zeros for those of languages that the model does not know."""
    chosen = matrix[torch.tensor([row or 0 for row in rows])]
    chosen[torch.tensor([row is None for row in rows])] = 0
    return chosen


def _config(found: ModelFolder, config: TransformerConfig, special: dict[str, int], size: int) -> dict[str, Any]:
    return {
        "architectures": ["M2M100ForConditionalGeneration"],
        "model_type": "m2m_100",
        "vocab_size": size,
        "tie_word_embeddings": config.share_embeddings and config.tie_output,
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": config.feed_forward,
        "scale_embedding": True,
        "max_position_embeddings": found.decoding.longest_sequence(found.tokenizers.languages),
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.feed_forward_dropout,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        **{f"{name}_token_id": row for name, row in special.items()},
        "decoder_start_token_id": special["eos"],
        "is_encoder_decoder": True,
        "dtype": "float32",
        "locant": {
            "version": __version__,
            "languages": list(found.tokenizers.languages.ids) if found.tokenizers.languages else [],
            "usual_source_length": found.decoding.usual_source_length,
        },
    }


def _generation_config(
    decoding: DecodingSettings, languages: LanguageTokens, special: dict[str, int], unused: list[int]
) -> dict[str, Any]:
    return {
        **{f"{name}_token_id": row for name, row in special.items()},
        "decoder_start_token_id": special["eos"],
        "suppress_tokens": [special["pad"], special["bos"], *unused],
        "max_length": decoding.longest_sequence(languages),
        "num_beams": decoding.beam,
        **({"length_penalty": decoding.length_penalty} if decoding.beam > 1 else {}),
    }


def _tokenizer_config(decoding: DecodingSettings, languages: LanguageTokens, kind: str) -> dict[str, Any]:
    return {
        "tokenizer_class": "M2M100Tokenizer",
        "language_codes": kind,
        "src_lang": next(iter(languages.ids)),
        "model_max_length": decoding.max_source_length + 2,
    }


def _notes(found: ModelFolder, unused: list[int], *, nllb: bool) -> list[str]:
    prepare = "Unicode NFC and to lower case" if found.tokenizers.source.lowercase else "Unicode NFC"
    ends = ", without white space at its ends," if nllb else ""
    spelled = "eng_Latn" if nllb else language_token("fairseq", "en")
    notes = [
        f"Bring text to {prepare}{ends} before it is tokenised; a text that spells a language's token, such as "
        f"{spelled}, is tokenised in another way.",
        "Greedy search gives Locant's translations. Beam search may give others: transformers divides by length^alpha, "
        "Locant by ((5 + length) / 6)^alpha, and they end a search by different rules.",
    ]
    if unused:
        notes.append(
            f"The tokenizer's list has {len(unused)} languages that the model does not know; their rows are zero and "
            "never chosen, but count in log-probabilities."
        )
    return notes
