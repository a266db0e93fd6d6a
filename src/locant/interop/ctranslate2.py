"""A Locant model as a CTranslate2 folder, for translation at the speed of C++ and with small weights."""

from __future__ import annotations

from pathlib import Path

from locant.errors import ConfigError, nearest
from locant.files import replacing_folder, require_new_folder, write_text
from locant.lazy import require_package
from locant.models.model_card import CARD, model_card
from locant.models.model_folder import load_model_folder
from locant.text.tokenizer_pair import TokenizerPair
from locant.translation.ctranslate2 import QUANTIZATIONS, write_model

_USE = """import ctranslate2, sentencepiece, unicodedata

source, target = (
    sentencepiece.SentencePieceProcessor(model_file=f"FOLDER/{side}.spm") for side in ("source", "target")
)
tokens = source.encode_as_pieces(unicodedata.normalize("NFC", "..."))
found = ctranslate2.Translator("FOLDER").translate_batch([tokens], max_decoding_length=256)
print(target.decode_pieces(found[0].hypotheses[0]))"""


def export_ctranslate2(run: Path | str, folder: Path | str, *, quantization: str | None = None) -> list[str]:
    """Write a model folder as a CTranslate2 model, with its SentencePiece models beside it.

    In float32 the tokens of greedy search are those of Locant.

    Args:
        run: A Locant model folder or finished run.
        folder: Where to write; must not exist, or be empty.
        quantization: One of :data:`QUANTIZATIONS`; ``None`` keeps float32.

    Returns:
        Sentences about what a user should know.

    Raises:
        ConfigError: CTranslate2 cannot express the model, or the quantization is unknown.
        CheckpointError: The run cannot be read, or the folder is taken or cannot be written.
        MissingExtraError: The package ``ctranslate2`` is not installed.
    """
    require_ctranslate2("Exporting to CTranslate2", quantization)
    run, folder = Path(run), Path(folder)
    require_new_folder(folder)
    found = load_model_folder(run, device="cpu")
    languages = found.tokenizers.languages
    with replacing_folder(folder) as temporary:
        write_model(found, temporary, quantization)
        found.tokenizers.save_sentencepiece(temporary)
        write_text(temporary / CARD, model_card(run, _USE))
    notes = [
        "Cut text with source.spm and join the output with target.spm; bring text to Unicode NFC before"
        + (" and to lower case." if found.tokenizers.source.lowercase else "."),
        "Beam search of CTranslate2 divides by length^length_penalty, Locant's by ((5 + length) / 6)^length_penalty, "
        "so it may choose another translation; greedy search gives the same in float32.",
    ]
    if languages:
        notes.append(
            "Put the token of a language before the tokens of a source"
            + (", and that of the target language into target_prefix." if languages.layout == "fairseq" else ".")
        )
    if quantization not in (None, "float32"):
        notes.append(f"Weights are {quantization}: translations may differ from those of float32.")
    return notes


def require_ctranslate2(feature: str, quantization: str | None) -> None:
    """Raise unless CTranslate2 is there and stores weights of the type that is asked for.

    Args:
        feature: What needs it, for the message.
        quantization: One of :data:`QUANTIZATIONS`; ``None`` asks for nothing.

    Raises:
        MissingExtraError: The package ``ctranslate2`` is not installed.
        ConfigError: The quantization is unknown.
    """
    require_package("ctranslate2", feature)
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise ConfigError(
            f"Unknown quantization '{quantization}'.{nearest(quantization, QUANTIZATIONS)} "
            f"Known: {', '.join(QUANTIZATIONS)}."
        )


def require_ended_source(tokenizers: TokenizerPair, format_name: str) -> None:
    """Raise ConfigError unless sources end in EOS, which programs other than CTranslate2 write by themselves.

    Args:
        tokenizers: Of the model.
        format_name: What the model is exported to, for the message.
    """
    if not tokenizers.ends_source:
        raise ConfigError(
            f"The model reads sources without a token at their end, and what loads {format_name}'s format writes one. "
            "Export it to ctranslate2 or argos."
        )
