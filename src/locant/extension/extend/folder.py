"""Writing the folder of an extended model."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.errors import CheckpointError
from locant.extension.extend.report import ExtensionReport, write_card
from locant.extension.load import quiet_transformers
from locant.extension.passed_on import WEIGHTS, pass_on, passed_on_files
from locant.extension.source import Source
from locant.files import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_CARD, _CONFIG, _TOKENIZER, _GENERATION = "README.md", "config.json", "tokenizer_config.json", "generation_config.json"


def write_folder(source: Path, target: Path, content: Mapping[str, Any], report: ExtensionReport) -> None:
    """Write the folder of a model whose weights stay: they are linked, where the file system can, or else copied.

    Hard links are used, so that the new folder stays whole when the old one is removed.

    Args:
        source: The model's folder.
        target: An empty folder, which should be a temporary one.
        content: The new content of config.json.
        report: What was done, for the model card.

    Raises:
        CheckpointError: A JSON file of the model is damaged, or the disk has no room for a copy.
        OSError: The disk is full or not writable.
    """
    for file in passed_on_files(source):
        if file.name not in (_CONFIG, _CARD, _TOKENIZER, _GENERATION):
            pass_on(file, target / file.name)
    for name in (_TOKENIZER, _GENERATION):
        if (source / name).is_file():
            _write(target / name, _with_length(read_json(source / name), report, source / name))
    finish_folder(target, content, report, read_card(source))


def write_trained(
    source: Source,
    target: Path,
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    content: Mapping[str, Any],
    report: ExtensionReport,
) -> None:
    """Write the folder of a model whose weights are not those of a file any more.

    They keep the dtype that config.json states; where it states none, as of a GGUF file, they are float32.

    Args:
        source: Where the model came from.
        target: An empty folder, which should be a temporary one.
        model: With its new weights.
        tokenizer: Its tokenizer.
        content: The new content of config.json.
        report: What was done, for the model card.

    Raises:
        CheckpointError: The disk is full.
        OSError: It is not writable.
    """
    import torch
    from safetensors import SafetensorError

    stated = str(content.get("dtype") or content.get("torch_dtype") or "float32").removeprefix("torch.")
    dtype = getattr(torch, stated, None)
    model = model.to(dtype if isinstance(dtype, torch.dtype) and dtype.is_floating_point else torch.float32)
    # The weights of a GGUF file are unpacked, but still marked as quantized.
    model.hf_quantizer = None
    model.config.__dict__.pop("quantization_config", None)
    try:
        with quiet_transformers():
            model.save_pretrained(target)
    except SafetensorError as error:
        if f"os error {errno.ENOSPC}" in str(error):  # safetensors hides what the system said in its message
            raise OSError(errno.ENOSPC, str(error)) from error
        raise CheckpointError(f"The weights could not be written: {error}.") from error
    tokenizer.save_pretrained(target)
    for file in target.glob(f"*{WEIGHTS}"):
        file.chmod((target / _CONFIG).stat().st_mode)  # safetensors lets nobody else read
    tokenizer_settings = target / _TOKENIZER
    if tokenizer_settings.is_file():
        _write(tokenizer_settings, _with_length(read_json(tokenizer_settings), report, tokenizer_settings))
    folder = source.path.parent
    if source.kind == "huggingface" and (folder / _GENERATION).is_file():
        _write(target / _GENERATION, _with_length(read_json(folder / _GENERATION), report, folder / _GENERATION))
    architectures = {"architectures": [type(model).__name__]}
    entries = architectures | dict(content) | {"dtype": str(model.dtype).removeprefix("torch.")}
    for name in ("torch_dtype", "quantization_config"):
        entries.pop(name, None)
    finish_folder(target, entries, report, read_card(folder) if source.kind == "huggingface" else "")


def finish_folder(target: Path, content: Mapping[str, Any], report: ExtensionReport, card: str) -> None:
    """Write config.json and the model card.

    Args:
        target: The folder.
        content: The content of config.json.
        report: What was done.
        card: The model card so far.
    """
    # Code of its own is not passed on, and would have another idea of the new entries.
    _write(target / _CONFIG, {key: value for key, value in content.items() if key != "auto_map"})
    (target / _CARD).write_text(write_card(card, report), encoding="utf-8")


def read_card(source: Path) -> str:
    """Return the text of a model card, empty where there is none."""
    card = source / _CARD
    return card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""


def _with_length(settings: Any, report: ExtensionReport, path: Path) -> dict[str, Any]:
    """Return settings in which the old length, where it is stated, is the new one."""
    if not isinstance(settings, dict):
        raise CheckpointError(f"{path} must hold a JSON object; it holds a {type(settings).__name__}.")
    changed = dict(settings)
    for name in ("model_max_length", "max_length"):
        stated = settings.get(name)
        if isinstance(stated, int) and not isinstance(stated, bool) and stated == report.original_length:
            changed[name] = report.target_length
    return changed


def _write(path: Path, data: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
