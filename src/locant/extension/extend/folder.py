"""The folder of an extended model: what is kept and what is new, and the section of the model card that tells it."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.errors import CheckpointError
from locant.extension.extend.methods import extension_methods, main_layer
from locant.extension.load import quiet_transformers
from locant.extension.passed_on import WEIGHTS, card_with, pass_on, passed_on_files
from locant.extension.source import Source
from locant.files import read_json
from locant.positions.rotary.config import RotaryConfig
from locant.version import __version__

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_CARD, _CONFIG, _TOKENIZER, _GENERATION = "README.md", "config.json", "tokenizer_config.json", "generation_config.json"


@dataclass(frozen=True)
class MeasuredMethod:
    """The perplexities of one candidate of the method ``auto``.

    Attributes:
        method: Its name; ``none`` for the model as it was.
        short: Perplexity of texts of the original length.
        long: Perplexity of texts of the target length, or of as much text as there was.
    """

    method: str
    short: float
    long: float


@dataclass(frozen=True)
class ExtensionReport:
    """What was done to a model.

    Attributes:
        model: Its name.
        method: One of :func:`~locant.extension.extend.methods.extension_methods`.
        original_length: Length in tokens that it read before.
        target_length: Length in tokens that it reads now.
        before: Its rotary configurations, by layer type.
        after: Those it has now.
        instead_of: The method that was asked for, where the model cannot have it.
        measurements: Of the candidates, where the method was chosen by them.
        lengths: The two lengths of text in tokens that were measured.
        training: How it was adapted, in a sentence, or nothing.
    """

    model: str
    method: str
    original_length: int
    target_length: int
    before: dict[str, RotaryConfig]
    after: dict[str, RotaryConfig]
    instead_of: str = ""
    measurements: Sequence[MeasuredMethod] = ()
    lengths: tuple[int, int] = (0, 0)
    training: str = ""

    @property
    def why_instead(self) -> str:
        """Why another method was taken than was asked for, in a sentence, or nothing."""
        if not self.instead_of:
            return ""
        scaling = self.before[main_layer(self.before)].scaling.name
        return (
            f"{self.instead_of} cannot be expressed for this model, whose scaling is {scaling}; {self.method} can, "
            "because it goes on from any frequencies."
        )


def write_card(card: str, report: ExtensionReport) -> str:
    """Return a model card with the section about the extension; a section that is there already is replaced.

    Args:
        card: The text of README.md, empty where there is none.
        report: What was done.
    """
    about, (short, long) = extension_methods()[report.method], report.lengths
    adapted = report.training or "The weights are unchanged: the model was not trained on longer texts."
    rows = [
        f"| {layer} | base {old.base:.10g}, {old.describe()} | base {new.base:.10g}, {new.describe()} |"
        for layer, new in report.after.items()
        for old in [report.before[layer]]
    ]
    measured = [
        f"\nThe method was chosen by perplexity, measured on texts of {short:,} and {long:,} tokens:\n",
        f"| method | {short:,} tokens | {long:,} tokens |\n| --- | --- | --- |",
        *(f"| {each.method} | {each.short:.3f} | {each.long:.3f} |" for each in report.measurements),
    ]
    lines = [
        f"## Extended context\n\nThe context of {report.model} was extended from {report.original_length:,} to "
        f"{report.target_length:,} tokens by the method `{report.method}` ({about.source}), with Locant {__version__}. "
        f"{report.why_instead}{' ' if report.instead_of else ''}{adapted}\n",
        "| layers | rotary positions before | now |\n| --- | --- | --- |",
        *rows,
        *(measured if report.measurements else ()),
        f"\n{about.limits}",
    ]
    title = f"{report.model}, extended to {report.target_length:,} tokens"
    return card_with("\n".join(lines), card, command="extend", title=title)


def write_folder(source: Path, target: Path, content: Mapping[str, Any], report: ExtensionReport) -> None:
    """Write the folder of a model whose weights stay: they are linked, where the file system can, or else copied.

    Hard links are used, so that the new folder stays whole when the old one is removed. ``target`` is empty, and should
    be a temporary one.

    Raises:
        CheckpointError: A JSON file of the model is damaged, or the disk has no room for a copy.
        OSError: The disk is full or not writable.
    """
    for file in passed_on_files(source):
        if file.name not in (_CONFIG, _CARD, _TOKENIZER, _GENERATION):
            pass_on(file, target / file.name)
    _finish(target, content, report, {_TOKENIZER: source, _GENERATION: source}, source / _CARD)


def write_trained(
    source: Source,
    target: Path,
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    content: Mapping[str, Any],
    report: ExtensionReport,
) -> None:
    """Write the folder of a model whose weights are not those of a file any more.

    They keep the dtype that config.json states; where it states none, as of a GGUF file, they are float32. Errors are
    those of :func:`write_folder`.
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
    entries = {"architectures": [type(model).__name__], **content, "dtype": str(model.dtype).removeprefix("torch.")}
    entries = {key: value for key, value in entries.items() if key not in ("torch_dtype", "quantization_config")}
    folder = source.path.parent if source.kind == "huggingface" else target
    _finish(target, entries, report, {_TOKENIZER: target, _GENERATION: folder}, folder / _CARD)


def _finish(
    target: Path, content: Mapping[str, Any], report: ExtensionReport, settings: Mapping[str, Path], card: Path
) -> None:
    """Write config.json, settings in which the old length, where it is stated, is the new one, and the model card."""
    # Code of its own is not passed on, and would have another idea of the new entries.
    written = {_CONFIG: {key: value for key, value in content.items() if key != "auto_map"}}
    for name, folder in settings.items():
        if (folder / name).is_file():
            if not isinstance(found := read_json(folder / name), dict):
                raise CheckpointError(f"{folder / name} must hold a JSON object; it holds a {type(found).__name__}.")
            for key in ("model_max_length", "max_length"):
                if type(found.get(key)) is int and found[key] == report.original_length:
                    found[key] = report.target_length
            written[name] = found
    for name, data in written.items():
        (target / name).write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    before = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    (target / _CARD).write_text(write_card(before, report), encoding="utf-8")
