"""Entries about positions of several axes in a group of rotary parameters, and what a class makes of them."""

from __future__ import annotations

from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.contexts import OF_THE_CLASS, RopeContext
from locant.positions.scaling.fields import Fields
from locant.rotary_configs.axes import AxisOrder, several_axes
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.rope_parameters import read_type


def has_one_axis(rope: Fields, kind: ModelType | None, context: RopeContext) -> bool:
    """Whether the class has positions of one axis, and passes over sections, of which it warns then.

    Args:
        rope: The group.
        kind: The facts of the class.
        context: Where the warning goes.
    """
    theirs = [name for name in rope.values if name.endswith("rope_section")]
    if kind is None or kind.axes is not None or kind.rope is None or not theirs or read_type(rope) == "mrope":
        return False
    for name in theirs:
        rope.get(name)
    context.warn(
        f"{theirs[0]} stands in {rope.where}, which the class of '{kind.name}' in transformers passes over: its "
        "positions have one axis.",
        "Name the model type whose positions have several axes, if it reads images.",
    )
    return True


def read_axes(
    rope: Fields,
    layer: str,
    context: RopeContext,
    multimodal: dict[str, dict[str, Any]],
    kind: ModelType | None,
    pairs: int,
) -> None:
    """Read which axis turns each pair, by the file and by what the class has where the file leaves it out.

    Args:
        rope: The group.
        layer: The type of the layers.
        context: Where findings go.
        multimodal: Where what was read goes.
        kind: The facts of the class; ``None`` for the classes of vLLM.
        pairs: Pairs that are rotated.
    """
    theirs = [name for name in rope.values if name.endswith("rope_section")]
    sections = next((found for name in theirs if (found := rope.numbers(name)) is not None), None)
    stated = rope.flag("mrope_interleaved")
    known = None if kind is None else kind.axes
    if sections is None and read_type(rope) == "mrope":
        raise ConfigError(f"{rope.where} has type 'mrope' without mrope_section, the numbers of pairs of each axis.")
    if sections is None and known is None:
        return
    if sections is None and kind is not None and kind.needs_sections and rope.values:
        where = "config.json" if rope.where.startswith(OF_THE_CLASS) else rope.where
        context.warn(
            f"{where} has no mrope_section, the numbers of pairs of each axis: the class of '{kind.name}' in "
            "transformers fails without.",
            "State mrope_section.",
        )
        return
    order: AxisOrder = "alternating" if stated else "sections"
    if known is not None:
        usual = tuple(known.get("sections") or [pairs // known["equal"]] * known["equal"])
        if sections is not None and len(sections) != len(usual) and not known.get("any"):
            context.warn(
                f"mrope_section has {len(sections)} axes; the class of '{kind.name if kind else ''}' in transformers "
                f"has {len(usual)}, and passes over the others or fails.",
                f"State the pairs of {len(usual)} axes.",
            )
        sections = usual if sections is None else sections
        are_floats = any(isinstance(size, float) for name in theirs for size in rope.values[name] or ())
        if are_floats and not known.get("fractions"):
            context.warn(
                f"mrope_section in {rope.where} has numbers with a fraction, by which the class of "
                f"'{kind.name if kind else ''}' in transformers cannot split features: it fails, also where they are "
                "whole.",
                f"Write {[int(size) for size in sections]}.",
            )
        if stated is not None and stated != (known["order"] == "alternating"):
            context.warn(
                f"mrope_interleaved is {str(stated).lower()}, which the class of '{kind.name if kind else ''}' in "
                "transformers passes over.",
                "Remove the entry, or name a model type whose class shares out the pairs so.",
            )
        order = known["order"]
    assert sections is not None
    multimodal[layer] = several_axes(sections, order, pairs)
    if order == "mixed":
        context.warn(
            f"The class of '{kind.name if kind else ''}' in transformers turns the two features of a pair by different "
            "axes of an image, which is no rotation; the configuration is exact for text alone.",
            "Look into the class for what it does with images.",
        )
        return
    axes = multimodal[layer]["axis_of_pair"]
    # Sections of another sum than the pairs are cut, or the first axis has what they leave.
    turned = sections if axes is None or sum(sections) == pairs else [*map(axes.count, range(len(sections)))]
    context.note(
        f"Positions have {len(sections)} axes, with {', '.join(f'{size:g}' for size in turned)} pairs each; the "
        "configuration holds the frequencies, and is exact for text alone.",
        "Use locant.positions.rotary.multiaxis.MultimodalRotary with the sections for images and video.",
        "several axes",
    )
