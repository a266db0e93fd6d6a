"""A package of Argos Translate as a Locant model folder: weights, tokenizer and languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from locant.errors import CheckpointError, ConfigError
from locant.files import replacing_folder, require_new_folder, write_text
from locant.interop.argos_package import ArgosPackage
from locant.interop.ctranslate2_import import ReadTransformer, Rows, build_transformer, read_transformer
from locant.interop.ctranslate2_weights import CTranslate2Weights, read_weights
from locant.interop.marian_import import Side, Special, build_side
from locant.models.decoding_settings import DecodingSettings
from locant.models.model_card import CARD
from locant.models.model_folder import save_model_folder
from locant.text.tokenizer_pair import TokenizerPair

_BEAM = 4
_LONGEST_SOURCE = 1024
_EPSILON = 1e-5  # of layer norms, in Locant and where CTranslate2 is told nothing
_PADDING = ("<blank>", "<pad>")
_NEVER = -50.0
"""Bias of a token that the package does not have and Locant has to."""


def import_argos(package: Path | str, run: Path | str) -> list[str]:
    """Write a package of Argos Translate as a Locant model folder with the same logits.

    Args:
        package: A file ``.argosmodel``. It is not unpacked, and no code in it is run.
        run: The model folder to write; must not exist, or be empty.

    Returns:
        Sentences about what a user should know.

    Raises:
        ConfigError: The package holds another kind of model, or one that Locant cannot express; the message says why.
        CheckpointError: A file is missing or damaged, the files do not fit each other, the archive is not what Argos
            Translate makes, or ``run`` is taken.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    package, run = Path(package), Path(run)
    require_new_folder(run)
    archive = ArgosPackage(package)
    languages = _languages(archive)
    model_file = f"{package}: model/model.bin"
    weights = read_weights(archive.read("model/model.bin", large=True), model_file)
    read = read_transformer(weights, model_file)
    config = _config(archive, weights)
    source, target, read = _sides(archive, config, read)
    model = build_transformer(read, Rows(source.rows, target.rows), model_file)
    if source.tokenizer.model == target.tokenizer.model:
        target = source
    longest = min(_LONGEST_SOURCE, (read.positions or _LONGEST_SOURCE) - 1)
    ours = archive.metadata.get("locant")
    usual = ours.get("usual_source_length") if isinstance(ours, dict) else None
    limits = {"max_source_length": longest, "usual_source_length": usual}
    decoding = DecodingSettings.parse({"beam": _BEAM, **limits}, f"{package}: metadata.json")
    tokenizers = TokenizerPair(source.tokenizer, target.tokenizer, ends_source=bool(config["add_source_eos"]))
    with replacing_folder(run) as temporary:
        save_model_folder(
            temporary, model, tokenizers, decoding, source_language=languages[0], target_language=languages[1]
        )
        if archive.has(CARD):
            write_text(temporary / CARD, archive.text(CARD))
    return _notes(weights, decoding, folded=bool((read.bias[target.rows] != 0).any()))


def _languages(archive: ArgosPackage) -> tuple[str, str]:
    metadata = archive.metadata
    kind = metadata.get("type", "translate")
    if kind != "translate":
        raise ConfigError(f"{archive.path} is a package of the type {kind!r}, not one that translates.")
    if metadata.get("target_prefix"):
        raise ConfigError(
            f"{archive.path} translates into several languages and is told which by target_prefix "
            f"({metadata['target_prefix']!r}); packages for one pair of languages can be imported."
        )
    source, target = metadata.get("from_code"), metadata.get("to_code")
    if not isinstance(source, str) or not isinstance(target, str):
        raise CheckpointError(f"{archive.path}: metadata.json lacks from_code or to_code.")
    if not archive.has("sentencepiece.model"):
        other = " It has bpe.model, a tokenizer of another kind." if archive.has("bpe.model") else ""
        raise ConfigError(f"{archive.path} has no sentencepiece.model, which Locant's tokenizer is.{other}")
    return source, target


def _config(archive: ArgosPackage, weights: CTranslate2Weights) -> dict[str, Any]:
    """Return what the model is told beside its weights: special tokens, and what is added to a source."""

    def text(name: str, default: str) -> str:
        value = weights.variables.get(name)
        return default if value is None else bytes(value.to(torch.uint8).tolist()).decode("utf-8", "replace")

    def flag(name: str, *, default: bool) -> bool:
        value = weights.variables.get(name)
        return default if value is None or value.numel() != 1 else bool(value)

    if weights.version < 6:
        # As SequenceToSequenceModel::initialize reads older models (src/models/sequence_to_sequence.cc).
        config: dict[str, Any] = {
            "unk_token": text("unk_token", "<unk>"),
            "bos_token": text("bos_token", "<s>"),
            "eos_token": text("eos_token", "</s>"),
            "add_source_bos": flag("with_source_bos", default=False),
            "add_source_eos": flag("with_source_eos", default=False),
        }
        start = config["bos_token" if flag("with_target_bos", default=True) else "eos_token"]
        config["decoder_start_token"] = None if flag("user_decoder_start_tokens", default=False) else start
    else:
        given = archive.json("model/config.json")
        names = ("unk_token", "bos_token", "eos_token", "decoder_start_token")
        if not isinstance(given, dict) or not all(isinstance(given.get(name, ""), str | None) for name in names):
            raise CheckpointError(f"{archive.path}: model/config.json does not say the special tokens as texts.")
        config = {"add_source_bos": False, "add_source_eos": False, **given}
    if config["add_source_bos"]:
        raise ConfigError(f"The model in {archive.path} reads a token before each source, which Locant does not write.")
    if config.get("decoder_start_token") is None:
        raise ConfigError(
            f"The model in {archive.path} must be told what its decoder reads first; it has no such token."
        )
    epsilon = config.get("layer_norm_epsilon")
    if epsilon is not None and epsilon != _EPSILON:
        raise ConfigError(f"The layer norms of {archive.path} add {epsilon} to the variance; Locant's add {_EPSILON}.")
    return config


def _sides(archive: ArgosPackage, config: dict[str, Any], read: ReadTransformer) -> tuple[Side, Side, ReadTransformer]:
    """Return both tokenizers, and the model with a row for each special token."""
    names = [name for name in ("source", "target") if _has_vocabulary(archive, name)]
    if names == ["source", "target"]:
        vocabularies = [_vocabulary(archive, name) for name in names]
    else:
        vocabularies = [_vocabulary(archive, "shared")] * 2
    matrices = (read.source_embedding, read.target_embedding)
    for name, vocabulary, matrix in zip(("source", "target"), vocabularies, matrices, strict=True):
        if len(vocabulary) != len(matrix):
            raise CheckpointError(
                f"{archive.path}: the {name} vocabulary has {len(vocabulary)} tokens, but the model has {len(matrix)} "
                "rows for them."
            )
    source_rows, target_rows = ({token: row for row, token in enumerate(one)} for one in vocabularies)
    for name, known in (("source", source_rows), ("target", target_rows)):
        missing = [config[key] for key in ("unk_token", "eos_token") if config[key] not in known]
        if missing:
            raise CheckpointError(f"{archive.path}: the {name} vocabulary lacks the token {missing[0]}.")
    if config["decoder_start_token"] not in target_rows:
        raise CheckpointError(
            f"{archive.path}: the target vocabulary lacks the token {config['decoder_start_token']}, with which the "
            "decoder starts."
        )
    start = target_rows[config["decoder_start_token"]]
    padding = next((target_rows[name] for name in _PADDING if name in target_rows), None)
    eos, unknown = target_rows[config["eos_token"]], target_rows[config["unk_token"]]
    if read.zero_start or start in (eos, unknown):
        # A row of its own for what the decoder reads first, which is never written.
        read, start = _with_row(read, None if read.zero_start else start)
    if padding is None or padding in (start, eos, unknown):
        read, padding = _with_row(read, None)
    model, what = archive.read("sentencepiece.model"), f"{archive.path}: sentencepiece.model"
    target = build_side(model, what, _renamed(target_rows, config), Special(padding, start, eos), encodes=False)
    # What the source has no row for, it never reads.
    source_eos = source_rows[config["eos_token"]]
    spare = [source_rows.get(name, source_eos) for name in (*_PADDING, config["bos_token"])]
    special = Special(next((row for row in spare[:2] if row != source_eos), source_eos), spare[2], source_eos)
    if source_rows == target_rows:
        special = Special(padding, start, eos)
    source = build_side(model, what, _renamed(source_rows, config), special, encodes=True)
    return source, target, read


def _renamed(rows: dict[str, int], config: dict[str, Any]) -> dict[str, int]:
    """Return the rows with the unknown token under Locant's name for it."""
    return {"<unk>" if token == config["unk_token"] else token: row for token, row in rows.items()}


def _with_row(read: ReadTransformer, like: int | None) -> tuple[ReadTransformer, int]:
    """Return a model with one more row, which reads like another or as zeros and is never written, and its number."""
    width = read.target_embedding.shape[1]
    zeros = torch.zeros(1, width)
    added = zeros if like is None else read.target_embedding[like : like + 1]
    same = read.source_embedding.shape == read.target_embedding.shape
    return (
        ReadTransformer(
            read.options,
            read.state,
            torch.cat((read.source_embedding, added)) if same else read.source_embedding,
            torch.cat((read.target_embedding, added)),
            torch.cat((read.output, zeros)),
            torch.cat((read.bias, torch.tensor([_NEVER]))),
            read.zero_start,
            read.positions,
        ),
        len(read.target_embedding),
    )


def _has_vocabulary(archive: ArgosPackage, name: str) -> bool:
    return any(archive.has(f"model/{name}_vocabulary.{kind}") for kind in ("json", "txt"))


def _vocabulary(archive: ArgosPackage, name: str) -> list[str]:
    path = f"model/{name}_vocabulary"
    if archive.has(f"{path}.json"):
        tokens = archive.json(f"{path}.json")
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise CheckpointError(f"{archive.path}: {path}.json is not a list of tokens.")
    else:
        lines = archive.text(f"{path}.txt").split("\n")
        tokens = lines[:-1] if lines[-1] == "" else lines
        if tokens and all(token.endswith("\r") for token in tokens):
            tokens = [token[:-1] for token in tokens]
    if len(set(tokens)) != len(tokens):
        raise CheckpointError(f"{archive.path}: {path} names a token twice.")
    return tokens


def _notes(weights: CTranslate2Weights, decoding: DecodingSettings, *, folded: bool) -> list[str]:
    notes = [
        f"Translations are searched with beam {decoding.beam} and Locant's length penalty "
        f"({decoding.length_penalty:g}); Argos Translate divides by length^0.2.",
        "Each text is translated as one sentence: what cut text into sentences in the package was not taken over.",
    ]
    if weights.quantized:
        notes.append(
            f"Weights were {', '.join(sorted(weights.quantized))} and are float32 now, of the same values: "
            "translations are those of the package computed in float32, and the folder is as much larger."
        )
    if folded:
        notes.append(
            "The bias of the logits was folded into the output matrix, which is now apart from the embeddings."
        )
    return notes
