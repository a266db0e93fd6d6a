"""Rotation by one group of rotary parameters, as the class of its text part takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from locant.positions.rotary.config import RotaryConfig, RotaryLayout
from locant.positions.scaling.contexts import OF_THE_CLASS, RopeContext
from locant.positions.scaling.fields import Fields, Finding
from locant.rotary_configs.base import declared_length
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.entries import type_taken_for
from locant.rotary_configs.classes.groups import base_of_class
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.refusals import null_of
from locant.rotary_configs.huggingface.around_scalings import (
    base_of_one_more,
    length_for,
    original_length_for,
    with_list_of_class,
    with_ramp_of_transformers,
)
from locant.rotary_configs.huggingface.axis_entries import has_one_axis, read_axes
from locant.rotary_configs.huggingface.bases_beside_groups import lacks_base
from locant.rotary_configs.huggingface.head_sizes import head_sizes
from locant.rotary_configs.rope_parameters import read_scaling, read_type
from locant.rotary_configs.unusual_bases import as_computed, config_class


@dataclass(frozen=True)
class TextEntries:
    """The entries of a text part, and the class that reads them.

    Attributes:
        config: The content of config.json.
        part: The entries, in the names of transformers.
        name: The model type.
        kind: The facts of its class, where they are known.
        in_vllm: Whether the class is that of vLLM.
        layout: How features are paired.
        names: Types of the layers.
        max_length: Length in tokens that the model is declared for.
        original_length: ``original_max_position_embeddings`` beside groups.
    """

    config: Mapping[str, Any]
    part: Fields
    name: str | None
    kind: ModelType | None
    in_vllm: bool
    layout: RotaryLayout
    names: tuple[str, ...]
    max_length: int | None
    original_length: int | None

    @property
    def is_known(self) -> bool:
        """Whether the class is one of transformers."""
        return families.is_in_transformers(self.name) and self.kind is not None

    @property
    def kind_in_transformers(self) -> ModelType | None:
        """The facts of the class, where it is not that of vLLM."""
        return None if self.in_vllm else self.kind


def rotation_of_group(
    text: TextEntries, layer: str, rope: Fields, base: float | None, multimodal: dict[str, dict[str, Any]]
) -> tuple[RotaryConfig, list[Finding]]:
    """Return the rotation of layers by their group of rotary parameters, with findings about it.

    Args:
        text: The text part.
        layer: The type of the layers.
        rope: Their group.
        base: The base, where a file states one.
        multimodal: Positions with several axes, by the types of layers, to which those of this group are added.
    """
    part, name, kind, is_known, in_vllm = text.part, text.name, text.kind, text.is_known, text.in_vllm
    for entry in () if kind is None else kind.ignored:
        rope.get(entry)
    sizes = head_sizes(part, rope, kind, layer, text.names)
    original = original_length_for(rope, text.original_length, kind)
    context = RopeContext(
        length_for(rope, text.max_length, kind),
        original,
        sizes.fraction,
        heeds_mscale=in_vllm or not is_known or name in families.HEEDS_MSCALE,
        scales_scores=not is_known or name in families.SCALES_SCORES,
        is_of_transformers=is_known,
        is_in_vllm=in_vllm,
        # ``standardize_rope_params`` puts it into the one group for all layers, not into groups of layer types.
        takes_length_beside=not rope.where.startswith("'") and not (kind is not None and kind.rope_by_layer),
    )
    if original != text.original_length:
        context.warn(
            f"original_max_position_embeddings is missing in {rope.where}; the class of '{name}' takes its own, "
            f"{original}, and so is it here.",
            "State it beside the group of the scaling: engines that do not ask the class take another one.",
        )
    if base is None:
        base = base_of_class(kind, layer, is_scaled=bool(rope.values) and not rope.where.startswith(OF_THE_CLASS))
        bases = [each["rope_theta"] for each in (part.values, rope.values) if "rope_theta" in each]
        if None in bases:
            remedy = "State the base that the weights were trained with."
            context.findings.append(null_of("rope_theta", text.kind_in_transformers, f"{base:.10g}", remedy))
        elif not bases:  # one that the class passes over is told as such
            taken = f"{base:.10g} is taken, as {'its class' if kind else 'most code'} has"
            said = f"{lacks_base(text.config, rope)}; {taken}."
            if is_known and not in_vllm and name in families.PASSES_OVER_GROUPS:
                said = f"The class of '{name}' in transformers has the base {base:.10g}, which no entry changes."
            context.note(
                said,
                "Compare with the model's publication.",
                "base of the class",
            )
    if name in families.HEEDS_MSCALE and read_type(rope) != "default" and not in_vllm:
        missing = [key for key in ("short_mscale", "long_mscale") if rope.values.get(key) is None]
        if missing:
            context.warn(
                f"{rope.where} lacks {' and '.join(missing)}: the class "
                f"of '{name}' in transformers refuses a scaling without.",
                "State both, the attention scales of short texts and of long ones.",
            )
    if not (is_known and not in_vllm and has_one_axis(rope, kind, context)):
        read_axes(rope, layer, context, multimodal, text.kind_in_transformers, sizes.rotary_dim // 2)
    scaling = read_scaling(
        rope,
        context,
        taken_for=type_taken_for(name, read_type(rope)),
        passes_over_unknown=is_known,
        refuses_two_types=in_vllm or not is_known,
    )
    scaling = with_list_of_class(scaling, rope.where, text.kind_in_transformers, context)
    rotary_dim = sizes.rotated_by(scaling)
    if rotary_dim == sizes.rotary_dim + 1:
        base = base_of_one_more(sizes.rotary_dim, base, context)
    scaling = with_ramp_of_transformers(scaling, rotary_dim, base, context)
    scaling = as_computed(base, scaling, rotary_dim, layer, context)
    config = config_class(base)(
        head_dim=sizes.head_dim,
        base=base,
        rotary_dim=rotary_dim,
        layout=text.layout,
        scaling=scaling,
        max_length=declared_length(scaling, text.max_length, context.findings),
    )
    return config, [*sizes.findings, *context.findings]
