"""Stacks of layers that a model has beside the one that is shown, with rotary positions of their own."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Unscaled
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.base import UNREADABLE, NoRotaryPositionsError, ParsedConfig
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.model_types import ModelType, from_facts
from locant.rotary_configs.classes.stack_types import facts_of_stack, stacks_of_type
from locant.rotary_configs.huggingface.text_parts import is_ours, name_of


class _Reads(Protocol):
    def __call__(self, config: Mapping[str, Any], *, kind: ModelType | None) -> ParsedConfig: ...


def kind_of_stack(name: str | None) -> ModelType | None:
    """Return the facts of a model type that is known as a stack of other models alone, ``None`` for others.

    Args:
        name: The model type.
    """
    facts = None if name is None else facts_of_stack(name)
    return None if name is None or facts is None else from_facts(name, facts)


def stacks_beside(config: Mapping[str, Any], parsed: ParsedConfig, read: _Reads) -> Iterator[Finding]:
    """Yield the note on the stacks of a model that are not shown, and what is wrong with them.

    Args:
        config: The content of config.json.
        parsed: The reading of what is shown.
        read: Reads a stack as a file of its own.
    """
    said = []
    said_before = {each.message for each in parsed.findings}
    for way, facts in (stacks_of_type(name_of(config)) if is_ours(config) else {}).items():
        group = functools.reduce(_within, way.split("."), config)
        stated = group if isinstance(group, Mapping) else facts.get("alone", {})
        try:
            own = _reading(stated, facts, read)
        except NoRotaryPositionsError:
            said += [f"'{way}' (no rotary positions)"] if isinstance(group, Mapping) else []
            continue
        except UNREADABLE as error:
            yield Finding("warning", f"'{way}' of config.json: {error}", f"Correct it in '{way}'.")
            continue
        if own is None:
            continue
        if (own.configs, own.layers) != (parsed.configs, parsed.layers):
            said.append(f"'{way}' ({_in_words(own)})")
        for each in own.findings:
            is_usual = (
                each.code != "beyond published values"
            )  # published ranges are those of texts, not of frames and codebooks
            if is_usual and each.severity != "note" and each.message not in said_before:
                yield replace(each, message=f"In '{way}': {each.message}")
    if said:
        yield Finding(
            "note",
            f"The model has other stacks of layers than the one that is shown, with positions of their own: "
            f"{', '.join(said)}.",
            "Put such a group into a file of its own, with its model_type, to see its positions.",
        )


def _within(part: Any, name: str) -> Any:
    return part.get(name) if isinstance(part, Mapping) else None


def _reading(group: Mapping[str, Any], facts: Mapping[str, Any], read: _Reads) -> ParsedConfig | None:
    """Return the reading of a stack, ``None`` where its group states a model type of which nothing is known."""
    stated, usual = name_of(group), facts["type"]
    if stated not in (None, usual) and families.is_in_transformers(stated):
        return read(group, kind=None)
    if stated not in (None, usual) and "facts" in facts:
        return None
    kind = from_facts(usual, facts["facts"]) if "facts" in facts else None
    return read({**group, "model_type": usual}, kind=kind)


def _in_words(parsed: ParsedConfig) -> str:
    """Return layers, windows, heads, base and scaling of a stack."""
    count = sum(len(each.layers) for each in parsed.layers)
    windows = sorted({each.window for each in parsed.layers if each.window is not None})
    sees = f", windows of {' and '.join(map(str, windows))} tokens" if windows else ""
    by_type = [
        f"{f'{name}: ' if len(parsed.configs) > 1 else ''}{_config_in_words(config)}"
        for name, config in parsed.configs.items()
    ]
    return f"{count} layer{'' if count == 1 else 's'}{sees}, {'; '.join(by_type)}"


def _config_in_words(config: RotaryConfig) -> str:
    rotated = "" if config.rotary_dim == config.head_dim else f", {config.rotary_dim} of them rotated"
    scaling = config.scaling
    factor = getattr(scaling, "factor", None)
    by = "" if factor is None else f" with factor {factor:g}"
    scaled = "" if isinstance(scaling, Unscaled) else f", scaling {scaling.name}{by}"
    return f"heads of {config.head_dim} features{rotated}, base {config.base:.10g}{scaled}"
