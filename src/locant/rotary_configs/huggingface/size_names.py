"""Sizes of layers under names that other classes of transformers have for them, which a class passes over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from locant.positions.scaling.fields import Finding
from locant.rotary_configs.classes.entries import entries_of_class
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.spellings import HEADS, LAYERS, LENGTHS, WIDTHS, is_count


def longest_text(
    given: Mapping[str, Any], stated: int | None, kind: ModelType, findings: list[Finding], *, is_computed_with: bool
) -> int | None:
    """Return the longest text of a file in which its class may pass over the name of that length.

    It stays the length that is shown, as it is what the file says of the model and limits no text in the class, unless
    the class computes frequencies with the length: then it is that of the class.

    Args:
        given: The entries of a text part.
        stated: The length that the file has under any name.
        kind: The facts of its class.
        findings: Where it goes that the name is passed over.
        is_computed_with: Whether a scaling of the file goes by the length.
    """
    own = entries_of_class(kind.name)
    taken = frozenset[str]() if own is None else own.size_names & {*LENGTHS}
    read = next((name for name in LENGTHS if name in taken and name in kind.defaults), None)
    if stated is None or read is None:
        return stated
    length = next((given[name] for name in LENGTHS if name in taken and is_count(given.get(name))), None)
    if length is not None:
        return length if is_computed_with else stated
    name = next((name for name in LENGTHS if is_count(given.get(name))), None)
    length = kind.defaults[read]
    if name is None or stated == length:
        return stated
    shown = (
        "the scaling is computed by that, as is shown" if is_computed_with else "the length shown is that of the file"
    )
    findings.append(
        Finding(
            "warning" if is_computed_with else "note",
            f"'{name}' in config.json is {stated}, which the class of '{kind.name}' in transformers passes over: it "
            f"takes {length} for {read}, and {shown}.",
            f"State {read}, where that length is meant.",
        )
    )
    return length if is_computed_with else stated


def without_sizes_of_others(given: dict[str, Any], kind: ModelType, findings: list[Finding]) -> None:
    """Remove sizes under names that other classes have for them, with an error where the class's own is left out.

    Args:
        given: The entries of a text part, which are changed.
        kind: The facts of its class.
        findings: Where findings go.
    """
    own = entries_of_class(kind.name)
    taken = frozenset[str]() if own is None else own.size_names | {*kind.aliases}
    for names in (HEADS, WIDTHS, LAYERS):
        read = [name for name in names if name in taken]
        for name in [name for name in names if read and name not in taken and is_count(given.get(name))]:
            value = given.pop(name)
            aliases = (other for other, usual in kind.aliases.items() if usual in read)
            if all(given.get(each) is None for each in (*read, *aliases)):
                usual = kind.defaults.get(read[0])
                takes = "" if usual is None else f": it takes {usual} for {read[0]}"
                findings.append(
                    Finding(
                        "error",
                        f"'{name}' in config.json is {value}, which the class of '{kind.name}' in transformers passes "
                        f"over{takes}. Did you mean '{read[0]}'?",
                        f"State {read[0]}, as the weights have it.",
                    )
                )
    findings += _heads_that_are_computed(given, kind)


def _heads_that_are_computed(given: dict[str, Any], kind: ModelType) -> list[Finding]:
    """Return the warning about a number of heads where a class multiplies other entries for it."""
    name = next((name for name in HEADS if kind.heads_of and is_count(given.get(name))), None)
    factors = {each: given.get(each, usual) for each, usual in kind.heads_of.items()}
    if name is None or not all(map(is_count, factors.values())) or math.prod(factors.values()) == given[name]:
        return []
    product = " times ".join(f"{each} {value}" for each, value in factors.items())
    return [
        Finding(
            "warning",
            f"{name} is {given[name]} in config.json, which the class of '{kind.name}' in transformers passes over: it "
            f"has {math.prod(factors.values())} heads, {product}.",
            f"State {' and '.join(factors)}, as the weights have them.",
        )
    ]
