"""Packages of Argos Translate, which LibreTranslate serves as well: a Locant model as one, and one as a Locant model.

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
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from pydantic import Field

from locant.errors import CheckpointError, ConfigError
from locant.files import replacing_file, replacing_folder, require_new_folder, write_json, write_text
from locant.interop.assembling import FOLDED, Parts, assemble
from locant.interop.ctranslate2 import require_ctranslate2
from locant.interop.ctranslate2_import import CTranslate2Weights, read_transformer, read_weights
from locant.interop.huggingface_files import Foreign
from locant.interop.sentencepiece_models import Side, Special, build_side, normalizing_model
from locant.languages import english_name, meant_language, parse_language
from locant.models.architectures import require_transformer
from locant.models.decoding_settings import DecodingSettings
from locant.models.model_card import CARD, model_card
from locant.models.model_folder import load_model_folder, save_model_folder
from locant.parsing import parse_json
from locant.text.tokenizer_pair import TokenizerPair
from locant.translation.ctranslate2 import write_model

SUFFIX = ".argosmodel"
"""What the file of a package is called."""

# Codes that Argos Translate has for scripts and regions.
_OWN = {("zh", "Hant"): ("zt", "Chinese (traditional)"), ("pt", "BR"): ("pb", "Portuguese (Brazil)")}
_PACKAGE_VERSION = "1.0"
_ARGOS_VERSION = "1.9.0"
"""Of the format, as the published packages have it."""
_LONGEST_SOURCE = 1024
"""CTranslate2 cuts a source after that many tokens."""
_BEAM = 4
_EPSILON = 1e-5  # of layer norms, in Locant and where CTranslate2 is told nothing
_PADDING = ("<blank>", "<pad>")
_NEVER = -50.0
"""Bias of a token that the package does not have and Locant has to."""

_METADATA = "/metadata.json"
_SMALL = 64 << 20
"""Bytes of the largest file that may have been compressed to any size."""
_MOST_EXPANSION = 20
"""Times that larger ones may be larger than what the archive holds of them; weights hardly shrink at all."""

_USE = """pip install argostranslate
python -c "from argostranslate import package; package.install_from_path('PACKAGE')"
argos-translate --from-lang {source} --to-lang {target} "..."
"""


class _Metadata(Foreign):
    type: str = "translate"
    target_prefix: str = ""
    from_code: str
    to_code: str
    locant: dict[str, Any] = Field(default_factory=dict)


class _ModelConfig(Foreign):
    unk_token: str = "<unk>"
    bos_token: str = "<s>"
    eos_token: str = "</s>"
    decoder_start_token: str | None = None
    add_source_bos: bool = False
    add_source_eos: bool = False
    layer_norm_epsilon: float = _EPSILON


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
    require_ctranslate2("Exporting to Argos Translate", quantization)
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
        # A position for each token of a source, and for its end.
        write_model(found, root / "model", quantization, least_positions=_LONGEST_SOURCE + 1)
        (root / "sentencepiece.model").write_bytes(normalizing_model(found.tokenizers.source))
        write_json(root / "metadata.json", metadata)
        write_text(root / CARD, model_card(run, _USE.format(**codes)))
        top = f"translate-{codes['source']}_{codes['target']}-{_PACKAGE_VERSION.replace('.', '_')}"
        own = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, path in (own | cutting).items():
                archive.write(path, f"{top}/{name}")
    notes = [
        "Argos Translate and LibreTranslate search with beam 4 and CTranslate2's length penalty 0.2, write a space for "
        "every underscore, and copy a word of the source where the model writes that it knows none."
    ]
    if not cutting:
        notes.append(
            "They cut text into sentences with a model of MiniSBD for the source language, which they fetch when it is "
            "first needed. For machines without a network put one into the package with --sentences."
        )
    if found.tokenizers.source.lowercase:
        notes.append("Text comes to lower case inside the package.")
    if quantization not in (None, "float32"):
        notes.append(f"Weights are {quantization}: translations may differ from those of float32.")
    return notes


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


class _Package:
    """An archive with one folder.

    Nothing is unpacked, so names and links that lead out of the folder lead nowhere.

    Args:
        path: The file.

    Raises:
        CheckpointError: It is no zip archive, or there is not one folder with ``metadata.json``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except FileNotFoundError:
            raise CheckpointError(f"There is no file {path}.") from None
        except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
            raise CheckpointError(f"{path} is no zip archive, or a damaged one: {error}") from None
        tops = {name.removesuffix(_METADATA) for name in self._archive.namelist() if name.endswith(_METADATA)}
        tops = {top for top in tops if "/" not in top}
        if len(tops) != 1:
            raise CheckpointError(
                f"{path} holds {len(tops) or 'no'} folders with metadata.json; a package of Argos Translate holds one."
            )
        (self._top,) = tops

    def has(self, name: str) -> bool:
        """Return whether the package has a file."""
        return f"{self._top}/{name}" in self._archive.NameToInfo

    def read(self, name: str) -> bytes:
        """Return the content of a file, by its path in the package's folder.

        Raises:
            CheckpointError: It is missing or damaged, or would become much larger than it is in the archive.
        """
        if not self.has(name):
            raise CheckpointError(f"{self.path} lacks {name}.")
        entry = self._archive.getinfo(f"{self._top}/{name}")
        if entry.file_size > max(_SMALL, _MOST_EXPANSION * entry.compress_size):
            raise CheckpointError(
                f"{self.path} is refused: its {name} would grow from {entry.compress_size:,} bytes to "
                f"{entry.file_size:,}. Argos Translate makes no such package."
            )
        try:
            return self._archive.read(entry)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
            raise CheckpointError(f"{self.path}: {name} is damaged: {error}") from None

    def json(self, name: str) -> Any:
        """Return the content of a JSON file.

        Raises:
            CheckpointError: As for :meth:`read`, or it is not JSON.
        """
        try:
            return parse_json(self.read(name))
        except ValueError as error:
            raise CheckpointError(f"{self.path}: {name} is not JSON: {error}") from None


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
    archive = _Package(package)
    about = _Metadata.of(archive.json("metadata.json"), f"{package}: metadata.json")
    if about.type != "translate":
        raise ConfigError(f"{package} is a package of the type {about.type!r}, not one that translates.")
    if about.target_prefix:
        raise ConfigError(
            f"{package} translates into several languages and is told which by target_prefix "
            f"({about.target_prefix!r}); packages for one pair of languages can be imported."
        )
    if not archive.has("sentencepiece.model"):
        other = " It has bpe.model, a tokenizer of another kind." if archive.has("bpe.model") else ""
        raise ConfigError(f"{package} has no sentencepiece.model, which Locant's tokenizer is.{other}")
    model_file = f"{package}: model/model.bin"
    weights = read_weights(archive.read("model/model.bin"), model_file)
    parts, zero_start, positions = read_transformer(weights, model_file)
    config = _config(archive, weights)
    source, target, parts = _sides(archive, config, parts, zero_start=zero_start)
    folded = bool((parts.bias[target.rows] != 0).any())
    model = assemble(parts, source.rows, target.rows, model_file)
    limits = {
        "max_source_length": min(_LONGEST_SOURCE, (positions or _LONGEST_SOURCE) - 1),
        "usual_source_length": about.locant.get("usual_source_length"),
    }
    decoding = DecodingSettings.parse({"beam": _BEAM, **limits}, f"{package}: metadata.json")
    same = source.tokenizer.model == target.tokenizer.model
    tokenizers = TokenizerPair(
        source.tokenizer, source.tokenizer if same else target.tokenizer, ends_source=config.add_source_eos
    )
    with replacing_folder(run) as temporary:
        save_model_folder(
            temporary, model, tokenizers, decoding, source_language=about.from_code, target_language=about.to_code
        )
        if archive.has(CARD):
            (temporary / CARD).write_bytes(archive.read(CARD))
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
    return [*notes, FOLDED] if folded else notes


def _config(archive: _Package, weights: CTranslate2Weights) -> _ModelConfig:
    """Return what the model is told beside its weights: special tokens, and what is added to a source."""
    if weights.version >= 6:
        given = archive.json("model/config.json")
    else:
        # As SequenceToSequenceModel::initialize reads older models (src/models/sequence_to_sequence.cc).
        values = {name: value.flatten().tolist() for name, value in weights.variables.items() if value.ndim < 2}
        names = [name for name in ("unk_token", "bos_token", "eos_token") if name in values]
        given = {name: bytes(int(one) & 255 for one in values[name]).decode("utf-8", "replace") for name in names}
        flags = {name: bool(value[0]) for name, value in values.items() if len(value) == 1}
        given |= {f"add_{side}": flags.get(f"with_{side}", False) for side in ("source_bos", "source_eos")}
        if not flags.get("user_decoder_start_tokens"):
            start, usual = ("bos_token", "<s>") if flags.get("with_target_bos", True) else ("eos_token", "</s>")
            given["decoder_start_token"] = given.get(start, usual)
    config = _ModelConfig.of(given, f"{archive.path}: model/config.json")
    for wrong, why in (
        (config.add_source_bos, "reads a token before each source, which Locant does not write"),
        (config.decoder_start_token is None, "must be told what its decoder reads first; it has no such token"),
        (
            config.layer_norm_epsilon != _EPSILON,
            f"adds {config.layer_norm_epsilon} to the variance in layer norms, and Locant {_EPSILON}",
        ),
    ):
        if wrong:
            raise ConfigError(f"The model in {archive.path} {why}.")
    return config


def _sides(archive: _Package, config: _ModelConfig, parts: Parts, *, zero_start: bool) -> tuple[Side, Side, Parts]:
    """Return both tokenizers, and the model with a row for each special token."""
    kinds = [f"model/{name}_vocabulary.{kind}" for name in ("source", "target") for kind in ("json", "txt")]
    two = sum(map(archive.has, kinds)) >= 2
    read = [config.unk_token, config.eos_token]
    source_rows = _vocabulary(archive, "source" if two else "shared", len(parts.source), read)
    read.append(str(config.decoder_start_token))
    target_rows = _vocabulary(archive, "target" if two else "shared", len(parts.target), read)
    start = target_rows[str(config.decoder_start_token)]
    padding = next((target_rows[name] for name in _PADDING if name in target_rows), None)
    eos, unknown = target_rows[config.eos_token], target_rows[config.unk_token]
    if zero_start or start in (eos, unknown):
        # A row of its own for what the decoder reads first, which is never written.
        parts, start = _with_row(parts, None if zero_start else start)
    if padding is None or padding in (start, eos, unknown):
        parts, padding = _with_row(parts, None)
    # What the source has no row for, it never reads.
    source_eos = source_rows[config.eos_token]
    spare = [source_rows.get(name, source_eos) for name in (*_PADDING, config.bos_token)]
    special = Special(padding, start, eos)
    own = Special(next((row for row in spare[:2] if row != source_eos), source_eos), spare[2], source_eos)
    if source_rows == target_rows:
        own = special
    model, what = archive.read("sentencepiece.model"), f"{archive.path}: sentencepiece.model"
    # The unknown token has Locant's name for it.
    source_rows, target_rows = (
        {"<unk>" if token == config.unk_token else token: row for token, row in rows.items()}
        for rows in (source_rows, target_rows)
    )
    source = build_side(model, what, source_rows, own, encodes=True)
    target = build_side(model, what, target_rows, special, encodes=False)
    return source, target, parts


def _with_row(parts: Parts, like: int | None) -> tuple[Parts, int]:
    """Return a model with one more row, which reads like another or as zeros and is never written, and its number."""
    zeros = torch.zeros(1, parts.target.shape[1])
    added = zeros if like is None else parts.target[like : like + 1]
    same = parts.source.shape == parts.target.shape
    changed = replace(
        parts,
        source=torch.cat((parts.source, added)) if same else parts.source,
        target=torch.cat((parts.target, added)),
        output=torch.cat((parts.output, zeros)),
        bias=torch.cat((parts.bias, torch.tensor([_NEVER]))),
    )
    return changed, len(parts.target)


def _vocabulary(archive: _Package, name: str, size: int, needed: list[str]) -> dict[str, int]:
    """Return the row of each token."""
    path = f"model/{name}_vocabulary"
    if archive.has(f"{path}.json"):
        tokens = archive.json(f"{path}.json")
    else:
        tokens = archive.read(f"{path}.txt").decode("utf-8", "replace").removesuffix("\n").split("\n")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        tokens = []
    rows = {token: row for row, token in enumerate(tokens)}
    if len(tokens) != size or len(rows) != size or not rows.keys() >= {*needed}:
        raise CheckpointError(
            f"{archive.path}: {path} does not name each of the {size} rows of the embeddings once, "
            f"{', '.join(needed)} among them."
        )
    return rows
