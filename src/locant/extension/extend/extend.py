"""Extending the context of an existing model, and saving it so that its users need no Locant."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from locant.errors import ConfigError, DataError, UsageError
from locant.extension.extend.finetune import FineTuning, FineTuningStep, check_finetuning, finetune, read_tokens
from locant.extension.extend.folder import ExtensionReport, MeasuredMethod, write_card, write_folder, write_trained
from locant.extension.extend.gguf import extend_gguf, write_extended_gguf
from locant.extension.extend.methods import (
    AUTO,
    DEFAULT,
    DROPE,
    Extended,
    check_request,
    extend_config,
    extension_methods,
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
_ALIKE = 1.01  # perplexities that differ by less say nothing about which method is better


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
    texts: Sequence[Path] = (),
    finetuning: FineTuning | None = None,
    device: torch.device | str = "cpu",
    on_measured: Callable[[MeasuredMethod], None] | None = None,
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
        method: One of :func:`~locant.extension.extend.methods.extension_methods`, or ``auto`` to measure and choose.
            Where the model cannot have it, because it is scaled already (Llama 3.1) or its class knows no such scaling
            (Phi-3), ``longrope`` takes its place, which the report tells.
        format: Of the result; that of the model where it is ``None``, but ``huggingface`` after training.
        texts: What ``auto`` measures on; without any, the World English Bible of the built-in corpus.
        finetuning: How to train the extended model, if at all.
        device: Where to measure and train.
        on_measured: Called after each measurement of ``auto``.
        on_step: Called after each update of training.

    Raises:
        UsageError: The model cannot be read or extended so, or the arguments contradict each other.
        CheckpointError: The output exists, files are damaged, or the disk is full.
        DataError: A text is too short or cannot be read.
        MissingExtraError: An optional package is missing.

    Example:
        >>> extended = extend_model("smollm2", Path("smollm2-16k"), 16384)  # doctest: +SKIP
    """
    check_request(DEFAULT if method == AUTO else method, target_length)
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
    content = load_config(source.path) if format == "huggingface" or method == AUTO else {}

    def extend(method: str, *, may_go_on: bool = False) -> Extended:
        if format == "gguf":
            return extend_gguf(source, method, target_length, may_go_on=may_go_on)
        return extend_config(content, method, target_length, read_by_class, may_go_on=may_go_on)

    measured: dict[str, Any] = {}
    if method == AUTO:
        found, contents, errors = dict[str, Extended](), {"none": content}, list[ConfigError]()
        # Not those that do not compute with cached keys what would be measured.
        for name in (name for name, about in extension_methods().items() if about.comparable):
            try:
                possible = extend(name)
                measurable = (
                    extend_config(content, name, target_length, read_by_class) if format == "gguf" else possible
                )
                found[name], contents[name] = possible, measurable.content
            except ConfigError as error:
                errors.append(error)
        if not found:
            raise errors[0]
        lengths = _length(next(iter(found.values()))), target_length
        method, measured = _choose_method(source.path, contents, lengths, texts, device, on_measured)
    extended = extend(method, may_go_on=True)
    name = source.path.stem if source.kind == "gguf" else source.path.resolve().parent.name
    report = ExtensionReport(
        name if Path(model).exists() else str(model),
        extended.method,
        _length(extended),
        target_length,
        extended.before,
        extended.after,
        instead_of=method if extended.method != method else "",
        **measured,
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


def _choose_method(
    model: Path,
    candidates: Mapping[str, dict[str, Any]],
    lengths: tuple[int, int],
    texts: Sequence[Path],
    device: torch.device | str,
    on_measured: Callable[[MeasuredMethod], None] | None,
) -> tuple[str, dict[str, Any]]:
    """Return the best of methods, and for the report ``measurements`` and the ``lengths`` of the texts.

    Each is measured by the perplexity of one text of the original and one of the target length, the beginning of the
    text given; see the metric ``prefix`` of :data:`~locant.extension.evaluate.perplexity.METRICS`. Of the methods whose
    perplexity at the target length is within a hundredth of the best, the one that is best at the original length is
    taken. ``candidates`` has the content of config.json for ``none``, the model as it is, and for every method.
    """
    import torch

    from locant.extension.evaluate.documents import read_texts
    from locant.extension.evaluate.perplexity import perplexity_of
    from locant.extension.evaluate.prefill import Reader

    tokenizer, text, ids = load_tokenizer(model), "\n".join(each.text for each in read_texts(texts)), list[int]()
    for characters in (8 * lengths[1], len(text)):  # all of the text only if its beginning is too short
        if len(ids) < lengths[1]:
            ids = tokenizer(text[:characters], verbose=False)["input_ids"]
    if len(ids) <= lengths[0]:
        raise DataError(f"The text has {len(ids):,} tokens for this model; at least {lengths[0] + 1:,} are needed.")
    tokens = torch.tensor(ids[: lengths[1]])
    measured = []
    for method, content in candidates.items():
        reader = Reader(load_model(model, content, device=device))
        short, long = (
            perplexity_of(reader.losses(each).double().mean().item()) for each in (tokens[: lengths[0]], tokens)
        )
        del reader  # before the next one needs the memory
        measured.append(MeasuredMethod(method, short, long))
        if on_measured is not None:
            on_measured(measured[-1])
    best = min(each.long for each in measured[1:])
    if not math.isfinite(best):
        raise DataError("No perplexity is a number; the model's weights are damaged, or the text is no text.")
    alike = [each for each in measured[1:] if each.long <= _ALIKE * best]
    chosen = min(alike, key=lambda each: each.short).method
    return chosen, {"measurements": measured, "lengths": (lengths[0], len(tokens))}


def _length(extended: Extended) -> int:
    return present_length(extended.before[main_layer(extended.before)])


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
