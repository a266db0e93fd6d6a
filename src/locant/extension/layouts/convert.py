"""Whole checkpoints in the other rotary layout, tensor by tensor, with the proof that nothing else has changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from locant.errors import LocantError, UsageError
from locant.extension.layouts.asked import (
    AskedLayout,
    ask_layout,
    checkpoint_class,
    class_model,
    first_line,
    layout_switch,
    typed_config,
    with_entry,
)
from locant.extension.layouts.names import rows_in_files
from locant.extension.layouts.proof import LayoutProof, prove, prove_with_weights
from locant.extension.layouts.report import LayoutReport, write_card
from locant.extension.layouts.rows import RotatedRows, RotatingLayer, in_layout
from locant.extension.layouts.stored import StoredTensor, copy_converted, stored_tensors
from locant.extension.load import check_weights, weight_files
from locant.extension.passed_on import WEIGHTS, pass_on, passed_on_files, require_room
from locant.extension.source import Source, load_source, resolve_model
from locant.files import replacing_folder, require_new_folder
from locant.positions.rotary.config import RotaryLayout
from locant.positions.scheme import require_choice
from locant.rotary_configs.classes.families import INDEXERS
from locant.rotary_configs.huggingface.pairing import LAYOUT_MARK
from locant.rotary_configs.huggingface.text_parts import text_part, text_type

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
    verify: bool = False,
    on_progress: Callable[[float], None] = lambda share: None,
) -> ConvertedCheckpoint:
    """Write a checkpoint whose rotated features are paired in another layout.

    ``half`` pairs feature ``i`` of a head with ``i + n/2`` (GPT-NeoX, Llama in transformers), ``interleaved`` pairs
    ``2i`` with ``2i + 1`` (the paper, GPT-J, Llama as published). Rows of the weights that make queries and keys, of
    their biases and norms, change places; no number changes. Which rows, the model's class in transformers is asked:
    it is built at its real heads and layers with weights of low rank. The files are copied tensor by tensor, and
    the folder appears when it is whole.

    Before anything is written, logits of that model are compared, before and after, with the pairs turned in the
    layout of the weights by Locant's own rotation.

    Args:
        model: A folder of transformers with safetensors, or an id on Hugging Face's Hub.
        output: A new folder.
        layout: The layout that the weights shall have.
        verify: Whether to compare logits with the checkpoint's own weights as well, in float32, for which the whole
            model is loaded, twice, one after the other.
        on_progress: Called with the share of bytes that are written.

    Returns:
        The folder and what was done.

    Raises:
        UsageError: The model cannot be read or has that layout already; it is quantized, a LoRA adapter or a GGUF file,
            or transformers has no class for it.
        LocantError: Rotated features have no rows of their own in the class, or the proof fails.
        CheckpointError: The output exists, files are damaged, or the disk is full.
        MissingExtraError: transformers is not installed.

    Example:
        >>> converted = convert_layout("models/llama", Path("models/llama-gptj"), "interleaved")  # doctest: +SKIP
    """
    require_choice("layout", layout, ("half", "interleaved"))
    require_new_folder(output)
    path = resolve_model(model)
    _refuse_adapter(path)
    source = load_source(path)
    _refuse_kinds(source)
    folder = source.path.parent
    check_weights(folder)
    stored = stored_tensors(weight_files(folder))
    try:
        plan = _plan(source, layout)
        rows = rows_in_files(plan.asked.model, plan.rows, stored)
        proof = plan.prove()
    except LocantError:
        raise
    except Exception as error:  # classes of transformers raise whatever they like
        raise UsageError(
            f"The model's class in transformers failed while it was asked: {first_line(error)} Nothing was written."
        ) from error
    name = folder.resolve().name if Path(model).exists() else str(model)
    report = plan.report(name, rows, stored, proof)
    with replacing_folder(_empty(output)) as temporary:
        _write_weights(folder, temporary, stored, rows, layout, on_progress)
        for file in passed_on_files(folder):
            if file.suffix != WEIGHTS and file.name not in (_CONFIG, _CARD):
                pass_on(file, temporary / file.name)
        if verify:
            report = replace(report, verified=plan.verify(folder, temporary))
        entries = {key: value for key, value in plan.after.items() if key != "auto_map"}
        _write(temporary / _CONFIG, json.dumps(entries, indent=2, ensure_ascii=False) + "\n")
        card = folder / _CARD
        old = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
        _write(temporary / _CARD, write_card(old, report))
    return ConvertedCheckpoint(output, report)


@dataclass(frozen=True)
class _Plan:
    """What is to be done.

    Attributes:
        asked: What the class does.
        layers: The layers that are converted.
        rows: Their rows by the class's names, in the layout that they have.
        source: That layout.
        target: The layout that they shall have.
        before: The content of config.json as the class reads it.
        after: The new content.
        switch: The entry that lets the class read the result, where it has one.
    """

    asked: AskedLayout
    layers: tuple[RotatingLayer, ...]
    rows: Mapping[str, RotatedRows]
    source: RotaryLayout
    target: RotaryLayout
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    switch: tuple[str, bool] | None

    @property
    def is_native(self) -> bool:
        """Whether the class reads the result as it is, or with the switch."""
        return LAYOUT_MARK not in self.after

    def prove(self) -> LayoutProof:
        switched = None if self.switch is None else class_model(self.after)
        proof = prove(self.asked.model, self.layers, self.rows, self.source, self.target, switched)
        proof.require(self.asked.name)
        return proof

    def verify(self, before: Path, after: Path) -> LayoutProof:
        found = checkpoint_class(self.before, typed_config(self.before))
        configs = typed_config(self.before), typed_config(self.after if self.switch else self.before)
        proof = prove_with_weights(
            found, configs, (before, after), self.layers, self.source, self.target, switched=self.switch is not None
        )
        proof.require(self.asked.name)
        return proof

    def report(
        self, name: str, rows: Mapping[str, RotatedRows], stored: Mapping[str, StoredTensor], proof: LayoutProof
    ) -> LayoutReport:
        return LayoutReport(
            model=name,
            class_name=self.asked.name,
            release=self.asked.release,
            source=self.source,
            target=self.target,
            tensors=dict(rows),
            total=len(stored),
            layers=len(self.layers),
            switch=self.switch,
            is_native=self.is_native,
            proof=proof,
            indexer=INDEXERS.get(text_type(self.before) or "", (None,))[0],
        )


def _plan(source: Source, target: RotaryLayout) -> _Plan:
    content = copy.deepcopy(dict(source.content))
    mark = content.pop(LAYOUT_MARK, None)
    if mark is not None:
        require_choice(f"{LAYOUT_MARK} of config.json", mark, ("half", "interleaved"))
    asked = ask_layout(content)
    turning = tuple(layer for layer in asked.layers if layer.rotary_dim > 2)
    if not turning:
        raise UsageError(
            f"{asked.name} rotates one pair of features of a head, which is of both layouts at once: nothing is to be "
            "converted."
        )
    stated: RotaryLayout | None = mark
    layers = tuple(layer for layer in turning if (stated or layer.layout) != target)
    if not layers:
        raise UsageError(
            f"{source.path.parent} has the layout '{target}' already"
            + (
                f", by {LAYOUT_MARK} of its config.json."
                if mark
                else f": so {asked.name} of transformers pairs features."
            )
        )
    own = layers[0].layout
    present = stated or own
    rows = {name: each for name, each in asked.rows.items() if each.layout == own and each.count > 2}
    switch, after = None, content
    if target != own:
        switch = layout_switch(content, asked, target)
        after = content | {LAYOUT_MARK: target} if switch is None else with_entry(content, *switch)
    return _Plan(asked, layers, in_layout(rows, present), present, target, content, after, switch)


def _refuse_adapter(path: Path) -> None:
    if path.is_dir() and (path / _ADAPTER).is_file():
        raise UsageError(
            f"{path} holds an adapter ({_ADAPTER}), whose rows only change places together with those of its model. "
            "Merge it into the model first: PeftModel.from_pretrained(MODEL, ADAPTER).merge_and_unload()."
        )


def _refuse_kinds(source: Source) -> None:
    if source.kind == "gguf":
        raise UsageError(
            f"{source.path} is a GGUF file: llama.cpp takes the layout from its architecture, so another one could not "
            "be read. Convert the model's folder of transformers."
        )
    for part in (source.content, text_part(source.content)):
        name = next((name for name in _QUANTIZED if part.get(name)), None)
        if name is not None:
            raise UsageError(
                f"{source.path} has {name}: the weights are quantized, and their rows do not stand alone. Convert the "
                "weights that they were made of, then quantize those."
            )


def _write_weights(
    folder: Path,
    target: Path,
    stored: Mapping[str, StoredTensor],
    rows: Mapping[str, RotatedRows],
    layout: RotaryLayout,
    on_progress: Callable[[float], None],
) -> None:
    files = weight_files(folder)
    changed = {file for file in files if any(stored[name].file == file for name in rows)}
    size, done = sum(file.stat().st_size for file in changed), 0
    require_room(size, target)

    def count(written: int) -> None:
        nonlocal done
        done += written
        on_progress(done / max(1, size))

    for file in files:
        if file in changed:
            own = {name: tensor for name, tensor in stored.items() if tensor.file == file}
            copy_converted(file, target / file.name, own, rows, layout, count)
        else:
            pass_on(file, target / file.name)


def _empty(folder: Path) -> Path:
    """Return a folder that may be renamed to: an empty one is removed, which renaming does not do everywhere."""
    if folder.is_dir():
        folder.rmdir()
    return folder


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
