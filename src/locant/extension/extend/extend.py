"""Extending the context of an existing model, and saving it so that its users need no Locant."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from locant.errors import ConfigError, UsageError
from locant.extension.extend.finetune import FineTuning, FineTuningStep, check_finetuning, finetune, read_tokens
from locant.extension.extend.folder import ExtensionReport, write_card, write_folder, write_trained
from locant.extension.extend.gguf import extend_gguf, write_extended_gguf
from locant.extension.extend.methods import (
    DEFAULT,
    DROPE,
    Extended,
    check_request,
    extend_config,
    main_layer,
    mark_trained,
    present_length,
    read_by_class,
)
from locant.extension.load import load_config, load_model, load_tokenizer, weight_files
from locant.extension.source import Source, load_source, resolve_model
from locant.files import replacing_folder, require_new_folder
from locant.locks import holding

if TYPE_CHECKING:
    import torch

Format = Literal["huggingface", "gguf"]


@dataclass(frozen=True)
class ExtendedModel:
    """An extended model.

    Attributes:
        path: Its folder.
        format: What it holds.
        report: What was done.
    """

    path: Path
    format: Format
    report: ExtensionReport

    @property
    def model(self) -> Path:
        """What to name as the model: the folder, or the GGUF file in it."""
        return next(self.path.glob("*.gguf")) if self.format == "gguf" else self.path


def extend_model(
    model: str | Path,
    output: Path,
    target_length: int,
    *,
    method: str = DEFAULT,
    format: Format | None = None,
    finetuning: FineTuning | None = None,
    device: torch.device | str = "cpu",
    on_step: Callable[[FineTuningStep], None] | None = None,
) -> ExtendedModel:
    """Extend the context of a model with rotary positions.

    A folder of Hugging Face's transformers becomes another one, whose weights are links to the same files unless they
    are trained. A GGUF file becomes a folder with a GGUF file, all of whose tensors are copied byte for byte, or, if
    asked for or trained, a folder of transformers with unpacked float32 weights. The folder appears when it is whole,
    and only if the model's class in transformers, where it is installed, computes the frequencies meant in every layer.

    Args:
        model: A folder, a GGUF file, ``smollm2`` or an id on Hugging Face's Hub.
        output: A new folder.
        target_length: Length in tokens that the model should read.
        method: One of :func:`~locant.extension.extend.methods.extension_methods`. Where the model cannot have it,
            because it is scaled already (Llama 3.1) or its class knows no such scaling (Phi-3), ``longrope`` takes its
            place, which the report tells.
        format: Of the result; that of the model where it is ``None``, but ``huggingface`` after training.
        finetuning: How to train the extended model, if at all.
        device: Where to train.
        on_step: Called after each update of training.

    Raises:
        UsageError: The model cannot be read or extended so, or the arguments contradict each other.
        CheckpointError: The output exists, files are damaged, or the disk is full.
        DataError: A text is too short or cannot be read.
        MissingExtraError: An optional package is missing.

    Example:
        >>> extended = extend_model("smollm2", Path("smollm2-16k"), 16384)  # doctest: +SKIP
    """
    check_request(method, target_length)
    require_new_folder(output)
    if finetuning is not None:
        check_finetuning(finetuning)
    elif method == DROPE:
        raise UsageError("A model that no longer rotates reads nothing before it is trained: give drope --finetune.")
    source = load_source(resolve_model(model))
    if format is None:
        format = "gguf" if source.kind == "gguf" and finetuning is None else "huggingface"
    if format == "gguf" and (source.kind != "gguf" or finetuning is not None):
        raise UsageError(
            "GGUF can be written of a GGUF file whose weights stay. Write a folder of transformers, then convert that "
            "with llama.cpp's convert_hf_to_gguf.py."
        )
    content: dict[str, Any] = {}
    if format == "gguf":
        extended = extend_gguf(source, method, target_length, may_go_on=True)
    else:
        content = load_config(source.path)
        extended = extend_config(content, method, target_length, read_by_class, may_go_on=True)
    name = source.path.stem if source.kind == "gguf" else source.path.resolve().parent.name
    report = ExtensionReport(
        name if Path(model).exists() else str(model),
        extended.method,
        present_length(extended.before[main_layer(extended.before)]),
        target_length,
        extended.before,
        extended.after,
        instead_of=method if extended.method != method else "",
    )
    if format == "gguf":
        file = f"{source.path.stem}-{target_length}-{extended.method}.gguf"
        with replacing_folder(output) as folder:
            write_extended_gguf(source, folder / file, extended)
            (folder / "README.md").write_text(write_card("", report), encoding="utf-8")
    elif finetuning is not None:
        report = _train(source, output, extended, report, finetuning, device, on_step)
    elif source.kind == "huggingface":
        weight_files(source.path.parent)
        if content.get("auto_map") and extended.source == "entries":
            raise UsageError(
                f"The model type '{content.get('model_type')!s:.60}' needs code of its own, which is neither run nor "
                "passed on, so the result could not be loaded."
            )
        with replacing_folder(output) as folder:
            write_folder(source.path.parent, folder, extended.content, report)
    else:
        loaded, tokenizer = load_model(source.path, extended.content), load_tokenizer(source.path)
        with replacing_folder(output) as folder:
            write_trained(source, folder, loaded, tokenizer, extended.content, report)
    return ExtendedModel(output, format, report)


def _train(
    source: Source,
    output: Path,
    extended: Extended,
    report: ExtensionReport,
    settings: FineTuning,
    device: torch.device | str,
    on_step: Callable[[FineTuningStep], None] | None,
) -> ExtensionReport:
    import torch

    content = mark_trained(extended.content)
    length = settings.length or (report.original_length if report.method == DROPE else report.target_length)
    settings = settings.model_copy(update={"length": length})
    if length > report.target_length:
        raise ConfigError(
            f"Pieces of {length} tokens are longer than the {report.target_length} that the model should read."
        )
    tokenizer = load_tokenizer(source.path)
    tokens = read_tokens(settings.texts, tokenizer, length)
    how = "LoRA" if settings.kind == "lora" else "all weights"
    training = (
        f"Then it was trained on ({how}, {settings.steps:,} steps of {length:,} tokens, learning rate "
        f"{settings.rate:g})."
    )
    report = replace(report, training=training)
    # What is trained is float32; LoRA leaves the weights of the model alone, so that they may be coarser.
    dtype = torch.float32 if settings.kind == "full" else None
    work = output.with_name(f"{output.name}.training")
    identity = f"{source.path.resolve()} {report.method} {report.target_length}"
    with holding(work, "fine-tuning"):
        require_new_folder(output)  # another process may have written it until the other folder was held
        model = load_model(source.path, content, device=device, dtype=dtype)
        model = finetune(model, tokens, settings, work, identity=identity, on_step=on_step)
        with replacing_folder(output) as folder:
            write_trained(source, folder, model, tokenizer, content, report)
        shutil.rmtree(work, ignore_errors=True)
    return report
