"""Import of other programs' models as Locant model folders."""

from __future__ import annotations

from pathlib import Path

from locant.errors import CheckpointError, ConfigError, nearest
from locant.files import replacing_folder, require_new_folder
from locant.interop.argos import SUFFIX, import_argos
from locant.interop.assembling import FOLDED, assemble
from locant.interop.huggingface import (
    M2M100Config,
    MarianConfig,
    TokenizerConfig,
    read_config,
    read_parts,
    read_search,
)
from locant.interop.huggingface_files import Foreign
from locant.interop.m2m100 import read_multilingual
from locant.interop.marian import read_sides
from locant.models.model_folder import save_model_folder
from locant.text.tokenizer_pair import LanguageTokens, TokenizerPair

_KINDS: dict[str, type[MarianConfig]] = {kind.kind: kind for kind in (MarianConfig, M2M100Config)}


class _Named(Foreign):
    model_type: str = ""


def import_model(folder: Path | str, run: Path | str) -> list[str]:
    """Write a model in another format as a Locant model folder with the same logits.

    Sources: Junczys-Dowmunt et al. 2018, "Marian"; Fan et al. 2020, "Beyond English-Centric Multilingual Machine
    Translation" (M2M-100); Costa-jussà et al. 2022, "No Language Left Behind" (NLLB).

    Args:
        folder: A package of Argos Translate, or a folder in Hugging Face's format with ``config.json``,
            ``model.safetensors`` or ``pytorch_model.bin`` (or their shards), and the tokenizer: ``source.spm``,
            ``target.spm`` and ``vocab.json`` (Marian), ``sentencepiece.bpe.model`` and ``vocab.json`` (M2M-100) or
            ``tokenizer.json`` (NLLB). No code in it is run.
        run: The model folder to write; must not exist, or be empty.

    Returns:
        Sentences about what a user should know.

    Raises:
        ConfigError: The folder holds another kind of model, or one that Locant cannot express; the message says why.
        CheckpointError: A file is missing or damaged, or the files do not fit each other, or ``run`` is taken.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    folder, run = Path(folder), Path(run)
    if folder.suffix == SUFFIX or folder.is_file():
        return import_argos(folder, run)
    require_new_folder(run)
    if not folder.is_dir():
        raise CheckpointError(f"There is no folder {folder}.")
    path = folder / "config.json"
    kind = _Named.read(path).model_type
    if kind not in _KINDS:
        raise ConfigError(
            f"{path} describes a model of type {kind!r}, which cannot be imported.{nearest(kind, _KINDS)} Known: "
            f"{', '.join(_KINDS)}."
        )
    config = read_config(folder, _KINDS[kind])
    parts = read_parts(folder, config)
    has_bias = bool((parts.bias != 0).any())
    languages: LanguageTokens | None
    if isinstance(config, M2M100Config):
        source, target, languages = read_multilingual(folder, config)
    else:
        source, target, languages = read_sides(folder, config)
    model = assemble(parts, source.rows, target.rows, str(path))
    tokenizers = TokenizerPair(source.tokenizer, target.tokenizer, languages)
    decoding, notes = read_search(folder, config, special_tokens=2 if languages else 1)
    about = TokenizerConfig.read(folder / "tokenizer_config.json", optional=True)
    # The name of several languages is that of their group.
    named = {"source_language": about.source_lang, "target_language": None if languages else about.target_lang}
    with replacing_folder(run) as temporary:
        save_model_folder(temporary, model, tokenizers, decoding, **{} if config.several else named)
    if languages:
        codes, side = list(languages.ids), "--source-language and " if languages.takes_source else ""
        notes.append(
            f"The model knows {len(codes)} languages ({', '.join(codes[:8])}{' ...' if codes[8:] else ''}): name them "
            f"with {side}--target-language."
        )
    if not config.several and config.pad_token_id == config.decoder_start_token_id:
        notes.append(
            "Padding and the decoder's start share a row in Marian and have one each in Locant: logits are the same, "
            "but log-probabilities count that row twice."
        )
    return [*notes, FOLDED] if has_bias else notes
