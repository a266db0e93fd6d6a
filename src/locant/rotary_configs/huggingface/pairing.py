"""Pairing of the features of a head: what a config.json says of it, and what of that the class of the model reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locant.positions.rotary.config import RotaryLayout
from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.without_rotation import speaks_of_rotation

LAYOUT_MARK = "locant_rotary_layout"
"""Entry of a config.json that says how weights pair features which were converted from the layout of their class."""


def stated_interleaving(part: Fields, in_vllm: bool, kind: ModelType | None) -> bool | None:
    """Return ``rope_interleave``, which vLLM's classes pass over; classes of transformers take null for false."""
    stated = part.flag("rope_interleave")
    if "rope_interleave" in part.values and kind is not None and families.is_in_transformers(kind.name):
        stated = bool(stated)
    return None if in_vllm else stated


def layout_of_conversion(config: Mapping[str, Any], findings: list[Finding]) -> RotaryLayout | None:
    """Return the layout of weights that were converted to one which their class does not have."""
    layout = Fields(config, "config.json").text(LAYOUT_MARK)
    if layout is None:
        return None
    from locant.positions.scheme import require_choice  # brings torch

    require_choice(f"{LAYOUT_MARK} of config.json", layout, ("half", "interleaved"))
    findings.append(
        Finding(
            "warning",
            f"By {LAYOUT_MARK} the weights were converted to the layout '{layout}' for other software; the model's "
            "class in transformers pairs features otherwise, and reads them wrongly.",
            "Convert them back to load them there: locant convert-layout.",
        )
    )
    return "half" if layout == "half" else "interleaved"


def doubts_about_layout(
    part: Fields, kind: ModelType | None, name: str | None, stated: tuple[str, RotaryLayout] | None
) -> list[Finding]:
    """Return what is doubtful about how features are paired.

    Args:
        part: The text part of config.json.
        kind: The facts of its class, where they are known.
        name: The model type.
        stated: The entry by which a file of an unknown class says it, and the layout.
    """
    found = []
    if kind is None:
        who = ("without model_type its class" if name is None else f"the model type '{name}'") + " is not known here"
        says = (
            f"config.json does not say how features are paired, and {who}: halves are assumed, as most models have it."
        )
        if stated is not None:
            part.get(stated[0])
            says = f"The layout is '{stated[1]}' by {stated[0]} of config.json; {who}."
        found.append(
            Finding(
                "warning",
                says + ("" if speaks_of_rotation(part.values) else " Nor does it say that the model rotates at all."),
                "Compare with the rotate_half of the model's class: x[..., ::2] there means layout 'interleaved'.",
            )
        )
    own = families.layout_of(name, None, kind)
    whose = " in transformers" if families.is_in_transformers(name) else ""
    for entry in ("rope_interleaved", "rope_interleave") if kind is not None else ():
        interleaves = part.flag(entry)
        is_read = entry == "rope_interleave" and kind is not None and kind.can_turn_to_halves
        if interleaves is not None and not is_read and interleaves is not (own == "interleaved"):
            found.append(
                Finding(
                    "warning",
                    f"config.json has {entry} {in_json(interleaves)}, but the class of '{name}'{whose} pairs "
                    f"{'halves' if own == 'half' else 'neighbours'}.",
                    "Compare with the code that trained the model; weights may have to be permuted from one to the "
                    "other.",
                )
            )
    if part.flag("use_mrope"):
        found.append(
            Finding(
                "warning",
                "config.json has use_mrope true, which neither transformers nor vLLM reads: positions have several "
                "axes where there is an mrope_section.",
                "Compare with the code that trained the model.",
            )
        )
    return found
