"""Extending the context of an existing model, and saving it so that its users need no Locant."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from locant.errors import ConfigError, UsageError
from locant.extension.extend.choose_method import choose_method
from locant.extension.extend.finetune import FineTuning, FineTuningStep, check_finetuning, finetune, read_tokens
from locant.extension.extend.folder import write_folder, write_trained
from locant.extension.extend.gguf import extended_configs, write_extended_gguf
from locant.extension.extend.methods import (
    AUTO,
    DEFAULT,
    apply_method,
    before_extension,
    check_request,
    main_layer,
    mark_trained,
)
from locant.extension.extend.report import ExtensionReport, MeasuredMethod, write_card
from locant.extension.load import check_weights, load_config, load_model, load_tokenizer
from locant.extension.source import Source, load_source, resolve_model
from locant.files import replacing_folder, require_new_folder
from locant.locks import holding
from locant.positions.rotary.config import RotaryConfig
from locant.rotary_configs.classes import families
from locant.rotary_configs.huggingface.reading import read_huggingface
from locant.rotary_configs.huggingface.text_parts import text_part

if TYPE_CHECKING:
    import torch

Format = Literal["huggingface", "gguf"]
_WORK = ".training"


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
    asked for or trained, a folder of transformers with unpacked float32 weights. The folder appears when it is whole.

    Args:
        model: A folder, a GGUF file, ``smollm2`` or an id on Hugging Face's Hub.
        output: A new folder.
        target_length: Length in tokens that the model shall read.
        method: One of :func:`~locant.extension.extend.methods.extension_methods`, or ``auto`` to measure and choose.
        format: Of the result; that of the model where it is ``None``, but ``huggingface`` after training.
        texts: What ``auto`` measures on, see :func:`~locant.extension.extend.choose_method.choose_method`.
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
    source = load_source(resolve_model(model))
    name = source.path.stem if source.kind == "gguf" else source.path.resolve().parent.name
    job = _Job(name if Path(model).exists() else str(model), source, output, target_length, device)
    if format is None:
        format = "gguf" if source.kind == "gguf" and finetuning is None else "huggingface"
    if format == "gguf" and (source.kind != "gguf" or finetuning is not None):
        raise UsageError(
            "GGUF can be written of a GGUF file whose weights stay. Write a folder of transformers, then convert that "
            "with llama.cpp's convert_hf_to_gguf.py."
        )
    configs: Callable[[str], _Configs] = job.gguf_configs if format == "gguf" else job.huggingface_configs
    measured: dict[str, Any] = {}
    if method == AUTO:
        method, measurements, lengths = choose_method(
            source.path,
            (job.present_length(), target_length),
            check=configs,
            texts=texts,
            device=device,
            on_measured=on_measured,
        )
        measured = {"measurements": measurements, "lengths": lengths}
    report = replace(job.report(method, *configs(method)), **measured)
    if format == "gguf":
        job.write_gguf(report)
    elif finetuning is not None:
        report = job.write_trained(report, finetuning, on_step)
    else:
        job.write_huggingface(report)
    return ExtendedModel(output, format, report)


_Configs = tuple[Mapping[str, RotaryConfig], Mapping[str, RotaryConfig]]


@dataclass(frozen=True)
class _Job:
    """One model on its way to one folder."""

    name: str
    source: Source
    output: Path
    target_length: int
    device: torch.device | str

    def content(self) -> dict[str, Any]:
        return load_config(self.source.path)

    def huggingface_configs(self, method: str) -> _Configs:
        """Return the configurations before and after, as config.json expresses them."""
        content = self.content()
        before = read_huggingface(before_extension(content, method)).configs
        return before, read_huggingface(apply_method(content, method, self.target_length)).configs

    def gguf_configs(self, method: str) -> _Configs:
        """Return the configurations before and after, as GGUF expresses them."""
        return extended_configs(self.source, method, self.target_length)

    def present_length(self) -> int:
        configs = read_huggingface(before_extension(self.content())).configs
        return configs[main_layer(configs)].present_length()

    def report(
        self, method: str, before: Mapping[str, RotaryConfig], after: Mapping[str, RotaryConfig]
    ) -> ExtensionReport:
        length = before[main_layer(before)].present_length()
        return ExtensionReport(self.name, method, length, self.target_length, dict(before), dict(after))

    def write_gguf(self, report: ExtensionReport) -> None:
        file = f"{self.source.path.stem}-{self.target_length}-{report.method}.gguf"
        with replacing_folder(_empty(self.output)) as folder:
            write_extended_gguf(self.source, folder / file, report.method, self.target_length)
            (folder / "README.md").write_text(write_card("", report), encoding="utf-8")

    def write_huggingface(self, report: ExtensionReport) -> None:
        content = apply_method(self.content(), report.method, self.target_length)
        if self.source.kind == "huggingface":
            check_weights(self.source.path.parent)
            _refuse_own_code(content)
            with replacing_folder(_empty(self.output)) as folder:
                write_folder(self.source.path.parent, folder, content, report)
            return
        model = load_model(self.source.path, content)
        with replacing_folder(_empty(self.output)) as folder:
            write_trained(self.source, folder, model, load_tokenizer(self.source.path), content, report)

    def write_trained(
        self, report: ExtensionReport, settings: FineTuning, on_step: Callable[[FineTuningStep], None] | None
    ) -> ExtensionReport:
        import torch

        content = mark_trained(apply_method(self.content(), report.method, self.target_length))
        settings = settings if settings.length else replace(settings, length=self.target_length)
        assert settings.length is not None
        if settings.length > self.target_length:
            raise ConfigError(
                f"Pieces of {settings.length} tokens are longer than the {self.target_length} that the model shall "
                "read."
            )
        tokenizer = load_tokenizer(self.source.path)
        tokens = read_tokens(settings.texts, tokenizer, settings.length)
        how = "LoRA" if settings.kind == "lora" else "all weights"
        report = replace(
            report,
            training=f"Then it was trained on ({how}, {settings.steps:,} steps of {settings.length:,} tokens, learning "
            f"rate {settings.learning_rate:g}).",
        )
        # What is trained is float32; LoRA leaves the weights of the model alone, so that they may be coarser.
        dtype = torch.float32 if settings.kind == "full" else None
        work = self.output.with_name(self.output.name + _WORK)
        identity = f"{self.source.path.resolve()} {report.method} {self.target_length}"
        with holding(work, "fine-tuning"):
            require_new_folder(self.output)  # another process may have written it until the other folder was held
            model = load_model(self.source.path, content, device=self.device, dtype=dtype)
            model = finetune(model, tokens, settings, work, identity=identity, on_step=on_step)
            with replacing_folder(_empty(self.output)) as folder:
                write_trained(self.source, folder, model, tokenizer, content, report)
            shutil.rmtree(work, ignore_errors=True)
        return report


def _refuse_own_code(content: Mapping[str, Any]) -> None:
    """Raise UsageError for a model that plain transformers could not load without code from its folder."""
    part = text_part(content)
    names = (content.get("model_type"), part.get("model_type"))
    if content.get("auto_map") and not any(families.is_in_transformers(name) for name in names):
        raise UsageError(
            f"The model type '{content.get('model_type')}' needs code of its own, which is neither run nor passed on, "
            "so the result could not be loaded."
        )


def _empty(folder: Path) -> Path:
    """Return a folder that may be renamed to: an empty one is removed, which renaming does not do everywhere."""
    if folder.is_dir():
        folder.rmdir()
    return folder
