"""Import of other programs' models as Locant model folders, by the ``model_type`` of their ``config.json``."""

from __future__ import annotations

from pathlib import Path

from locant.errors import CheckpointError, ConfigError, nearest
from locant.interop.argos import SUFFIX, import_argos
from locant.interop.huggingface import M2M100Config, MarianConfig
from locant.interop.huggingface_files import Foreign, short_messages
from locant.interop.m2m100 import import_m2m100
from locant.interop.marian import import_marian

_IMPORTS = {MarianConfig.kind: import_marian, M2M100Config.kind: import_m2m100}


class _Named(Foreign):
    model_type: str | None = None


@short_messages
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
    folder = Path(folder)
    if folder.suffix == SUFFIX or folder.is_file():
        return import_argos(folder, run)
    if not folder.is_dir():
        raise CheckpointError(f"There is no folder {folder}.")
    path = folder / "config.json"
    kind, known = _Named.read(path).model_type, ", ".join(_IMPORTS)
    if kind is None:
        raise ConfigError(
            f"{path} names no model_type, as Hugging Face's format does; an export for CTranslate2 is no model to "
            f"start from. Known: {known}."
        )
    if kind not in _IMPORTS:
        raise ConfigError(
            f"{path} describes a model of type {kind!r}, which cannot be imported.{nearest(kind, _IMPORTS)} Known: "
            f"{known}."
        )
    return _IMPORTS[kind](folder, run)
