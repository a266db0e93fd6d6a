"""A Locant model as a package of Argos Translate, which LibreTranslate serves as well.

A package is a zip archive of one folder: ``metadata.json`` (languages and versions), ``model/`` in CTranslate2's
format, ``sentencepiece.model``, ``README.md`` and, where it brings the means to cut text into sentences, ``stanza/`` or
``minisbd/`` (https://github.com/argosopentech/argos-translate: ``package.py``, ``tokenizer.py``, ``sbd.py``).

Argos Translate cuts a source with that one SentencePiece model and hands CTranslate2 the names of the subwords; of the
names that come back it joins those that the SentencePiece model lacks as they are. So the model of the source is enough
where the languages have a vocabulary each. What Locant does to text before (Unicode NFC, white space, lower case) goes
into the SentencePiece model as rules, see :func:`normalizing_model`.
"""

from __future__ import annotations

import tempfile
import zipfile
from itertools import chain
from pathlib import Path
from typing import Any

from locant.errors import CheckpointError, ConfigError
from locant.files import replacing_file, write_json, write_text
from locant.interop.ctranslate2 import require_ctranslate2
from locant.interop.text_rules import normalizing_model
from locant.languages import english_name, meant_language, parse_language
from locant.models.architectures import require_transformer
from locant.models.model_card import model_card
from locant.models.model_folder import ModelFolder, load_model_folder
from locant.translation.ctranslate2 import write_model

SUFFIX = ".argosmodel"
"""What the file of a package is called."""

_PACKAGE_VERSION = "1.0"
_ARGOS_VERSION = "1.9.0"
"""Of the format, as the published packages have it."""

_POSITIONS = 1025
"""CTranslate2 cuts a source after 1024 tokens, and the package has a position for each and for the end."""

_USE = """pip install argostranslate
python -c "from argostranslate import package; package.install_from_path('PACKAGE')"
argos-translate --from-lang {source} --to-lang {target} "..."
"""

# Codes that Argos Translate has for scripts and regions.
_OWN = {("zh", "Hant"): ("zt", "Chinese (traditional)"), ("pt", "BR"): ("pb", "Portuguese (Brazil)")}


def export_argos(
    run: Path | str,
    package: Path | str,
    *,
    quantization: str | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    sentences: Path | str | None = None,
) -> list[str]:
    """Write a model folder as a package for Argos Translate and LibreTranslate.

    Its translations are those of CTranslate2 with the beam (4) and the length penalty (0.2) of Argos Translate.

    Args:
        run: A Locant model folder or finished run, for one pair of languages.
        package: The file to write; its name ends in ``.argosmodel``.
        quantization: One of :data:`~locant.translation.ctranslate2.QUANTIZATIONS`; ``None`` keeps float32.
        source_language: Its code in any form; by default that of the model. The package has that of Argos Translate.
        target_language: Likewise.
        sentences: What cuts text into sentences without a network: a folder of Stanza's models or an ``.onnx`` file of
            MiniSBD. ``None`` leaves it to Argos Translate, which fetches one for the source language.

    Returns:
        Sentences about what a user should know.

    Raises:
        ConfigError: A package cannot express the model, a language is missing or unknown, or the quantization is.
        CheckpointError: The run cannot be read, or the package is there already or cannot be written.
        MissingExtraError: A package of the extra ``argos`` is not installed.
    """
    require_ctranslate2("Exporting to Argos Translate", "argos", quantization)
    run, package = Path(run), Path(package)
    if package.suffix != SUFFIX:
        raise ConfigError(f"A package of Argos Translate is one file; name it {package.name}{SUFFIX}.")
    if package.exists():
        raise CheckpointError(f"{package} already exists. Name a new file.")
    cutting = _cutting_files(Path(sentences)) if sentences else {}
    found = load_model_folder(run, device="cpu")
    require_transformer(found.model, "Export to Argos Translate")
    if found.tokenizers.languages:
        raise ConfigError(
            "A package of Argos Translate is for one pair of languages, but this model translates between several and "
            "must be told which. Train a model for one pair, or export this one to ctranslate2."
        )
    given = {"source": source_language or found.source_language, "target": target_language or found.target_language}
    languages = {side: _language(side, code) for side, code in given.items()}
    codes, names = ({side: one[place] for side, one in languages.items()} for place in (0, 1))
    metadata: dict[str, Any] = {
        "package_version": _PACKAGE_VERSION,
        "argos_version": _ARGOS_VERSION,
        "from_code": codes["source"],
        "from_name": names["source"],
        "to_code": codes["target"],
        "to_name": names["target"],
    }
    if found.decoding.usual_source_length:
        metadata["locant"] = {"usual_source_length": found.decoding.usual_source_length}
    with replacing_file(package) as temporary, tempfile.TemporaryDirectory(prefix="locant-") as folder:
        root = Path(folder)
        (root / "model").mkdir()
        write_model(found, root / "model", quantization, least_positions=_POSITIONS)
        (root / "sentencepiece.model").write_bytes(normalizing_model(found.tokenizers.source))
        write_json(root / "metadata.json", metadata)
        write_text(root / "README.md", model_card(run, _USE.format(**codes)))
        top = f"translate-{codes['source']}_{codes['target']}-{_PACKAGE_VERSION.replace('.', '_')}"
        own = ((path, path.relative_to(root)) for path in sorted(root.rglob("*")) if path.is_file())
        brought = ((path, Path(name)) for name, path in cutting.items())
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, name in chain(own, brought):
                archive.write(path, f"{top}/{name.as_posix()}")
    return _notes(found, quantization, cuts=bool(cutting))


def _language(side: str, code: str | None) -> tuple[str, str]:
    """Return Argos Translate's code of a language, and its English name."""
    option = f"--{side}-language ({side}_language)"
    if code is None:
        raise ConfigError(f"The model does not know its {side} language. Name its ISO 639 code with {option}.")
    said, name = parse_language(code), english_name(code)
    if name is None:
        hint = meant_language(code) or f" Name one with {option}."
        raise ConfigError(f"The {side} language '{code}' is no ISO 639 code of a language.{hint}")
    own = _OWN.get((said.code, said.script)) or _OWN.get((said.code, said.region))
    return own or (code.lower() if len(code) == 2 else said.code, name)


def _cutting_files(path: Path) -> dict[str, Path]:
    """Return the files that cut text into sentences, by their names in a package."""
    if path.is_file() and path.suffix == ".onnx":
        return {f"minisbd/{path.name}": path}
    if (path / "resources.json").is_file():
        return {
            f"stanza/{file.relative_to(path).as_posix()}": file for file in sorted(path.rglob("*")) if file.is_file()
        }
    raise ConfigError(
        f"{path} is neither an .onnx file of MiniSBD nor a folder of Stanza's models, which holds resources.json."
    )


def _notes(found: ModelFolder, quantization: str | None, *, cuts: bool) -> list[str]:
    notes = [
        "Argos Translate and LibreTranslate search with beam 4 and CTranslate2's length penalty 0.2, write a space for "
        "every underscore, and copy a word of the source where the model writes that it knows none."
    ]
    if not cuts:
        notes.append(
            "They cut text into sentences with a model of MiniSBD for the source language, which they fetch when it is "
            "first needed. For machines without a network put one into the package with --sentences."
        )
    if found.tokenizers.source.lowercase:
        notes.append("Text comes to lower case inside the package.")
    if quantization not in (None, "float32"):
        notes.append(f"Weights are {quantization}: translations may differ from those of float32.")
    return notes
