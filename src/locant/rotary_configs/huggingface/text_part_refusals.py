"""Findings about parts of a config.json for which the class around its text part refuses the file, or fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.huggingface.text_parts import Step, is_ours, name_of, steps_to_text

ONE_TEXT_PART = ("decoder", "generator", "text_config")
"""Names of the text part to transformers, which refuses a file with two of them (``get_text_config``)."""


def refused_text_parts(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield warnings about a text part for which the class of the whole refuses the file.

    Args:
        config: The content of config.json.
    """
    for step in steps_to_text(config):
        whole, part = step.kind, step.part
        if whole is None or not step.is_ours or step.name not in whole.text_part:
            continue
        refuses = f"the class of '{whole.name}' in transformers"
        own = name_of(part)
        if whole.text_needs_type and own is None:
            yield Finding(
                "warning",
                f"'{step.name}' states no model_type: {refuses} fails without.",
                f"State the model_type of that part: '{whole.text_type}'.",
            )
        elif not whole.has_one_text_type and "model_type" in part and own is None:
            yield Finding(
                "warning",
                f"model_type is {in_json(part['model_type'])} in '{step.name}': {refuses} refuses the file, though not "
                "one that leaves it out there.",
                f"State the model_type of that part: '{whole.text_type}'.",
            )
        missing = [name for name in whole.text_reads if name not in part]
        if own is not None and missing and own not in (*whole.text_types, whole.text_type):
            yield Finding(
                "warning",
                f"model_type is '{own}' in '{step.name}', which states no {missing[0]}: {refuses} reads that of its "
                f"text part, which one of '{own}' has not, and fails.",
                f"Name the model type of a whole that takes such a text part, or state {missing[0]}.",
            )
        for name, value in whole.text_must.items():
            if (name not in part or part[name] != value) and own in (None, whole.text_type):
                said = f"is {in_json(part[name])}" if name in part else "is left out"
                yield Finding(
                    "warning",
                    f"{name} {said} in '{step.name}', where {refuses} takes {in_json(value)} alone: it refuses the "
                    "file.",
                    f"State {name} {in_json(value)}.",
                )
        yield from other_widths(step, whole, whole.text_defaults)
        if len(named := [name for name in ONE_TEXT_PART if step.whole.get(name) is not None]) > 1:
            yield Finding(
                "warning",
                f"config.json has {' and '.join(map(repr, named))}, each of which is a text part to transformers: "
                f"{refuses} refuses the file.",
                f"Remove all but '{step.name}'.",
            )


def refused_parts_beside(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield warnings about other parts than that of text for which the class of the whole refuses the file.

    Args:
        config: The content of config.json.
    """
    whole, steps = families.model_type(name_of(config)), steps_to_text(config)
    if whole is None or not is_ours(config):
        return
    for name in whole.whole_nulls:
        if name in config and config[name] is None:
            yield Finding(
                "warning",
                f"{name} is null in config.json: the class of '{whole.name}' in transformers takes it for a rotation "
                "beside that of its text part, and fails.",
                f"Leave {name} out, or state the one that the weights were trained with.",
            )
    for name, usual in whole.parts_need_type.items():
        part = config.get(name)
        if isinstance(part, Mapping) and "model_type" not in part:
            yield Finding(
                "warning",
                f"'{name}' of config.json states no model_type: the class of '{whole.name}' in transformers refuses "
                "the file.",
                f"State the model_type of that part: '{usual}'.",
            )
    if whole.flat and not steps:  # with its text part in itself
        yield from other_widths(Step("config.json", config, config, whole, is_ours=True), whole, {})


def other_widths(step: Step, whole: ModelType, given: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield that entries of other parts are not as large as the width of the text part, where they must be.

    Args:
        step: The step to the text part, which is empty where the file has none.
        whole: The facts of the class around it.
        given: What that class gives the part.
    """
    is_flat = step.part is step.whole
    text = families.model_type((None if is_flat else name_of(step.part)) or whole.text_type)
    usual = None if text is None else text.defaults.get("hidden_size")
    width = step.part.get("hidden_size", given.get("hidden_size", usual))
    quoted = step.name if is_flat else f"'{step.name}'"
    for path, default in whole.text_widths.items():
        name, entry = path.split(".")
        other = part.get(entry, default) if isinstance(part := step.whole.get(name) or {}, Mapping) else default
        if width is not None and other != width:
            yield Finding(
                "warning",
                f"hidden_size is {in_json(width)} in {quoted}, and {entry} {in_json(other)} in '{name}': the "
                f"class of '{whole.name}' in transformers refuses a file in which they differ.",
                f"State {entry} {in_json(width)} in '{name}', or correct the width of the text part.",
            )
