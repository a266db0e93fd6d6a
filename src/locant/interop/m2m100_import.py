"""An M2M-100 or NLLB model in Hugging Face's format as a Locant model folder: weights and tokenizer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar, Literal

from locant.errors import CheckpointError, ConfigError
from locant.files import read_json, replacing_folder, require_new_folder
from locant.interop.huggingface_files import MarianConfig, read_config, read_optional, read_weights
from locant.interop.marian_import import Side, Special, build_model, build_side, decoding_settings, require_expressible
from locant.models.model_folder import save_model_folder
from locant.models.transformer import Transformer
from locant.text.tokenizer_pair import LanguageTokens, TokenizerPair

SENTENCEPIECE_FILE = "sentencepiece.bpe.model"

# transformers/models/m2m_100/tokenization_m2m_100.py: FAIRSEQ_LANGUAGE_CODES, whose order is that of the rows.
LANGUAGE_CODES = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr "
    "ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps "
    "pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}
"""The languages that the tokenizer knows, by the name of the list in its configuration."""
NLLB_LANGUAGE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
"""A code of NLLB's languages."""


def read_multilingual(folder: Path, pad: int, eos: int, size: int) -> tuple[Side, Side, LanguageTokens]:
    """Read the tokenizer of both sides and the language tokens.

    Args:
        folder: Holds ``sentencepiece.bpe.model`` and ``vocab.json`` (M2M-100) or ``tokenizer.json`` (NLLB).
        pad: The model's id of padding.
        eos: The model's id of the end of a sentence, which is also what its decoder reads first.
        size: Rows of the embeddings.

    Returns:
        Source and target, whose tokenizers are one object where they are equal, and the language tokens.

    Raises:
        CheckpointError: A file is missing or damaged, or does not fit the model.
        ConfigError: Locant cannot express the tokenizer.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    path = folder / SENTENCEPIECE_FILE
    if not path.is_file():
        raise CheckpointError(
            f"{folder} lacks {SENTENCEPIECE_FILE}; its tokenizer cannot be imported from other files."
        )
    if (folder / "vocab.json").is_file():
        vocab, languages = _m2m100(folder)
    elif (folder / "tokenizer.json").is_file():
        vocab, languages = _nllb(folder)
    else:
        raise CheckpointError(f"{folder} lacks vocab.json (M2M-100) or tokenizer.json (NLLB).")
    rows = set(vocab.values())
    if len(rows) != len(vocab) or not rows <= set(range(size)):
        raise CheckpointError(
            f"The tokenizer of {folder} has {len(vocab)} tokens, which are not ids of {size} rows, each for one token. "
            "Tokenizer and weights must come from the same model."
        )
    missing = [name for name in ("<s>", "<unk>") if name not in vocab]
    if missing:
        raise CheckpointError(f"The tokenizer of {folder} has no token {' and no token '.join(missing)}.")
    vocab |= {f"<row {row}>": row for row in range(size) if row not in rows}
    special = Special(pad, vocab["<s>"], eos)
    model = path.read_bytes(), str(path)
    source = build_side(*model, vocab, special, encodes=True, text_alone=True)
    target = build_side(*model, vocab, special, encodes=False, text_alone=True)
    if source.tokenizer.model == target.tokenizer.model:
        target = source
    ids = {code: target.rows.index(row) for code, row in languages.items()}
    return source, target, LanguageTokens(layout="fairseq", ids=ids)


def _m2m100(folder: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return the row of every token, and of every language."""
    vocab = _mapping(read_json(folder / "vocab.json"), folder / "vocab.json")
    kind = read_optional(folder / "tokenizer_config.json", "language_codes") or "m2m100"
    if kind not in LANGUAGE_CODES:
        raise ConfigError(f"{folder / 'tokenizer_config.json'} names the language codes {kind!r}, which are unknown.")
    languages = {code: len(vocab) + place for place, code in enumerate(LANGUAGE_CODES[str(kind)].split())}
    return vocab | {f"__{code}__": row for code, row in languages.items()}, languages


def _nllb(folder: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return the row of every token, and of every language."""
    path = folder / "tokenizer.json"
    if read_optional(folder / "tokenizer_config.json", "legacy_behaviour"):
        raise ConfigError(f"{folder} puts the language behind the source (legacy_behaviour), which Locant does not.")
    data = read_json(path)
    try:
        vocab = _mapping(data["model"]["vocab"], path)
        added = {str(token["content"]): int(token["id"]) for token in data["added_tokens"]}
    except (KeyError, TypeError, ValueError):
        raise CheckpointError(f"{path} does not list tokens and added tokens as a tokenizer of NLLB does.") from None
    languages = {name: row for name, row in added.items() if NLLB_LANGUAGE.fullmatch(name)}
    if not languages:
        raise ConfigError(f"{path} has no language tokens like eng_Latn among its added tokens.")
    return vocab | added, languages


def _mapping(data: Any, path: Path) -> dict[str, int]:
    if not isinstance(data, dict) or not all(isinstance(row, int) for row in data.values()):
        raise CheckpointError(f"{path} does not give tokens their ids.")
    return {str(name): row for name, row in data.items()}


class M2M100Config(MarianConfig):
    """What matters of the ``config.json`` of an M2M-100 model, with the defaults of ``transformers``.

    The modules have Marian's names. What differs: layers are pre-norm, each stack ends in a layer norm, positions are
    counted from ``pad_token_id + 1`` on in tensor2tensor's sinusoid, as in fairseq, and logits have no bias.
    """

    model_type: ClassVar[str] = "m2m_100"
    title: ClassVar[str] = "M2M-100"
    norm: ClassVar[Literal["post", "pre"]] = "pre"
    tables: ClassVar[tuple[str, ...]] = (
        "model.encoder.embed_positions.weights",
        "model.decoder.embed_positions.weights",
    )
    has_bias: ClassVar[bool] = False

    vocab_size: int = 128112
    activation_function: str = "relu"
    attention_dropout: float = 0.1
    decoder_start_token_id: int = 2
    scale_embedding: bool = True
    pad_token_id: int = 1
    eos_token_id: int = 2

    @property
    def position_options(self) -> dict[str, Any]:
        """Options of Locant's sinusoidal scheme."""
        return {"dialect": "tensor2tensor", "start": self.pad_token_id + 1}


def import_m2m100(folder: Path | str, run: Path | str) -> list[str]:
    """Write an M2M-100 or NLLB model as a Locant model folder with the same logits.

    Source: Fan et al. 2020, "Beyond English-Centric Multilingual Machine Translation"; Costa-jussà et al. 2022, "No
    Language Left Behind".

    Args:
        folder: Holds ``config.json``, ``model.safetensors`` or ``pytorch_model.bin``, ``sentencepiece.bpe.model`` and
            ``vocab.json`` (M2M-100) or ``tokenizer.json`` (NLLB); no code in it is run.
        run: The model folder to write; must not exist, or be empty.

    Returns:
        Sentences about what a user should know.

    Raises:
        ConfigError: The folder holds another kind of model, or one that Locant cannot express; the message says why.
        CheckpointError: A file is missing or damaged, or the files do not fit each other, or ``run`` is taken.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    folder, run = Path(folder), Path(run)
    require_new_folder(run)
    config = read_config(folder, M2M100Config)
    require_expressible(config)
    if config.decoder_start_token_id != config.eos_token_id:
        raise ConfigError(
            f"The decoder starts with id {config.decoder_start_token_id}; M2M-100 and NLLB start with EOS "
            f"({config.eos_token_id})."
        )
    weights = read_weights(folder, config)
    source, target, languages = read_multilingual(folder, config.pad_token_id, config.eos_token_id, config.vocab_size)
    model = build_model(folder, weights, config, source.rows, target.rows)
    decoding, notes = decoding_settings(folder, config, special_tokens=2)
    with replacing_folder(run) as temporary:
        save_model_folder(temporary, model, TokenizerPair(source.tokenizer, target.tokenizer, languages), decoding)
    shown = ", ".join(list(languages.ids)[:8])
    notes.append(
        f"The model knows {len(languages.ids)} languages ({shown} ...): name two of them with --source-language and "
        "--target-language."
    )
    return notes


def import_m2m100_weights(folder: Path | str) -> Transformer:
    """Return the model of an M2M-100 folder (M2M-100, NLLB) without its tokenizer, with the same logits.

    The ids are those of the folder's own tokenizer. A source is its language's token, its subwords and EOS; a
    target begins with EOS and its language's token. Rows are padded on the right, with any id: the lengths
    of the sources say what is padding.

    Args:
        folder: Holds ``config.json`` and ``model.safetensors`` or ``pytorch_model.bin``; no code in it is run.

    Returns:
        The model in evaluation mode, float32, on the CPU.

    Raises:
        ConfigError: The folder holds another kind of model, or one that Locant cannot express; the message says why.
        CheckpointError: A file is missing or damaged, or the files do not fit each other.
    """
    folder = Path(folder)
    config = read_config(folder, M2M100Config)
    require_expressible(config)
    weights = read_weights(folder, config)
    rows = list(range(config.vocab_size))
    return build_model(folder, weights, config, rows, rows)
