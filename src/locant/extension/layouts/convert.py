"""Whole checkpoints in the other rotary layout, tensor by tensor, with the proof that nothing else has changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from locant.errors import LocantError, UsageError
from locant.extension.layouts.proof import prove
from locant.extension.layouts.report import LayoutReport, write_card
from locant.extension.layouts.rows import ask_layout
from locant.extension.layouts.stored import permute_rows, rows_in_files, stored_tensors
from locant.extension.load import weight_files
from locant.extension.passed_on import WEIGHTS, pass_on, passed_on_files
from locant.extension.source import LAYOUT_MARK, load_source, resolve_model
from locant.files import replacing_folder, require_new_folder
from locant.positions.rotary.config import RotaryLayout
from locant.positions.scheme import require_choice

_CARD, _CONFIG, _ADAPTER = "README.md", "config.json", "adapter_config.json"
_QUANTIZED = ("quantization_config", "compression_config", "quantization")


@dataclass(frozen=True)
class ConvertedCheckpoint:
    """A checkpoint in another layout.

    Attributes:
        path: Its folder.
        report: What was done.
    """

    path: Path
    report: LayoutReport


def convert_layout(
    model: str | Path,
    output: Path,
    layout: RotaryLayout,
    *,
    on_progress: Callable[[float], None] = lambda share: None,
) -> ConvertedCheckpoint:
    """Write a checkpoint whose rotated features are paired in another layout.

    ``half`` pairs feature ``i`` of a head with ``i + n/2`` (GPT-NeoX, Llama in transformers), ``interleaved`` pairs
    ``2i`` with ``2i + 1`` (the paper, GPT-J, Llama as published). Rows of the weights that make queries and keys, of
    their biases and norms, change places; no number changes. Which rows, the model's class in transformers is asked.
    Before anything is written, logits of that class with random weights are compared, before and after, with the pairs
    turned in the layout of the weights. Files are copied, then permuted tensor by tensor; the folder appears when it is
    whole.

    Args:
        model: A folder of transformers with safetensors, or an id on Hugging Face's Hub.
        output: A new folder.
        layout: The layout that the weights should have.
        on_progress: Called with the share of the tensors that are permuted.

    Raises:
        UsageError: The model cannot be read or has that layout already; it is quantized, a LoRA adapter or a GGUF file.
        LocantError: transformers or its class for the model is missing, rotated features have no rows of their own in
            it, or the proof fails.
        CheckpointError: The output exists, files are damaged, or the disk is full.

    Example:
        >>> converted = convert_layout("models/llama", Path("models/llama-gptj"), "interleaved")  # doctest: +SKIP
    """
    require_choice("layout", layout, ("half", "interleaved"))
    require_new_folder(output)
    source = load_source(resolve_model(model))
    folder = source.path.parent
    if source.kind == "gguf":
        raise UsageError(
            f"{source.path} is a GGUF file, whose architecture decides the layout. Convert the folder of transformers."
        )
    if (folder / _ADAPTER).is_file():
        raise UsageError(
            f"{folder} holds an adapter ({_ADAPTER}), whose rows only change places together with those of its model. "
            "Merge it into the model first: PeftModel.from_pretrained(MODEL, ADAPTER).merge_and_unload()."
        )
    for group in (source.content, *source.content.values()):
        if isinstance(group, Mapping) and any(map(group.get, _QUANTIZED)):
            raise UsageError(f"By {source.path} the weights are quantized. Convert those that they were made of.")
    files = weight_files(folder)
    stored = stored_tensors(files)
    content = dict(source.content)
    mark: RotaryLayout | None = content.pop(LAYOUT_MARK, None)
    require_choice(f"{LAYOUT_MARK} of config.json", mark or "half", ("half", "interleaved"))
    try:
        asked = ask_layout(content)
        present = mark or asked.layout
        if present == layout:
            raise UsageError(f"{folder} has the layout '{layout}' already, by {LAYOUT_MARK if mark else asked.name}.")
        if layout != asked.layout:
            content[LAYOUT_MARK] = layout
        rows = rows_in_files(asked.model, asked.rows, stored)
        proof = prove(asked, present, layout)
    except LocantError:
        raise
    except Exception as error:  # classes of transformers raise whatever they like
        said = f"{type(error).__name__}, {error!s:.200}"
        raise UsageError(f"The model's class in transformers failed while it was asked: {said}.") from error
    import transformers

    report = LayoutReport(
        model=folder.resolve().name if Path(model).exists() else str(model),
        class_name=asked.name,
        release=transformers.__version__,
        source=present,
        target=layout,
        tensors=rows,
        total=len(stored),
        layers=len(asked.turns),
        is_native=LAYOUT_MARK not in content,
        proof=proof,
    )
    with replacing_folder(output) as temporary:
        done = 0
        for file in files:
            inside = [name for name in rows if stored[name].file == file]
            pass_on(file, temporary / file.name, may_link=not inside)
            for name in inside:
                permute_rows(temporary / file.name, stored[name], rows[name], present, layout)
                done += 1
                on_progress(done / len(rows))
        for file in passed_on_files(folder):
            if file.suffix != WEIGHTS and file.name not in (_CONFIG, _CARD):
                pass_on(file, temporary / file.name)
        content.pop("auto_map", None)
        (temporary / _CONFIG).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        old = (folder / _CARD).read_text("utf-8", "replace") if (folder / _CARD).is_file() else ""
        (temporary / _CARD).write_text(write_card(old, report), encoding="utf-8")
    return ConvertedCheckpoint(output, report)
