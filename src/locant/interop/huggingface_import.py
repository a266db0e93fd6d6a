"""Import of other programs' models as Locant model folders, by the ``model_type`` of their ``config.json``."""

from __future__ import annotations

from pathlib import Path

from locant.errors import ConfigError, nearest
from locant.interop.argos_export import SUFFIX
from locant.interop.argos_import import import_argos
from locant.interop.huggingface_files import MarianConfig, read_model_type
from locant.interop.m2m100_import import M2M100Config, import_m2m100
from locant.interop.marian_import import import_marian

_IMPORTS = {MarianConfig.model_type: import_marian, M2M100Config.model_type: import_m2m100}


def import_model(folder: Path | str, run: Path | str) -> list[str]:
    """Write a model in another format as a Locant model folder with the same logits.

    Args:
        folder: Of a Marian (OPUS-MT), M2M-100 or NLLB model in Hugging Face's format, or a package of Argos Translate;
            no code in it is run.
        run: The model folder to write; must not exist, or be empty.

    Returns:
        Sentences about what a user should know.

    Raises:
        ConfigError: The folder holds another kind of model, or one that Locant cannot express; the message says why.
        CheckpointError: A file is missing or damaged, or the files do not fit each other, or ``run`` is taken.
        MissingExtraError: The package ``protobuf`` is not installed.
    """
    if Path(folder).suffix == SUFFIX or Path(folder).is_file():
        return import_argos(folder, run)
    kind = read_model_type(Path(folder))
    if kind is None:
        raise ConfigError(
            f"{Path(folder) / 'config.json'} names no model_type, as Hugging Face's format does; an export for "
            f"CTranslate2 is no model to start from. Known: {', '.join(_IMPORTS)}."
        )
    if kind not in _IMPORTS:
        raise ConfigError(
            f"{Path(folder) / 'config.json'} describes a model of type {kind!r}, which cannot be imported."
            f"{nearest(str(kind), _IMPORTS)} Known: {', '.join(_IMPORTS)}."
        )
    return _IMPORTS[kind](folder, run)
