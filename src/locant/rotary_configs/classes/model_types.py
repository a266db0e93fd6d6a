"""The facts of a model type's class that decide about its rotary positions, and that config.json does not state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from locant.positions.rotary.config import RotaryLayout
from locant.rotary_configs.classes.windows import windows_of_class

Behaviour = Literal["rotates", "still", "none"]
"""What the layers of a type do: rotate, attend without positions, or not attend at all."""


@dataclass(frozen=True)
class ModelType:
    """What the class of a model type does with positions.

    Attributes:
        name: ``model_type``.
        rotates: Whether any layer rotates, with :attr:`switch` on where there is one.
        reads_images: Whether it reads images, whose rows and columns it may rotate by, and no text.
        layout: How features are paired.
        can_turn_to_halves: Whether ``rope_interleave: false`` makes :attr:`layout` half.
        defaults: Values of entries that the file leaves out.
        entries: Names of all entries of its configuration, where the class itself was asked.
        rope: ``rope_parameters`` where the file has none: one group, or one for every layer type.
        keeps_its_base: Whether it takes its own base where the file has one beside no group.
        keeps_its_share: The groups beside which it takes the share of a head of :attr:`rope`, whatever the file states
            next to them; "" stands for no group.
        stands_without_base: Whether it has no rotary positions where the group has null for its base.
        takes_rotary_dim: Whether it has an entry with the number of rotated features.
        head_is_rotated_part: Whether it sets ``head_dim`` to ``qk_rope_head_dim``, whatever the file says.
        ignored: Entries of a group of rotary parameters that the class expects without reading them for its angles.
        aliases: Other names that it takes for sizes, and those sizes.
        rotates_partly: Whether the class heeds ``partial_rotary_factor`` without a scaling.
        passes_over_types: Whether all its layers are alike, whatever types the file states.
        layer_types: The types of the layers where the file does not state them; repeated as needed, from the first
            layer, or to the last one.
        first_type: The type of the first layer, where the rounds begin behind it.
        counts_from_back: Whether the last layer ends a round of :attr:`layer_types`.
        last_type: The type of the last layer, where it is not the one whose turn it is.
        forces_last: Whether the last layer has that type also where the file states another.
        period: An entry with the length of a round of layers, the type of most of them, that of the one other, and
            whether that is the ``first`` or the ``last`` of the round.
        by_list: The types of layers that ``no_rope_layers`` says to rotate, and not to, where the types follow it.
        pairs_blocks: Whether an attention block and an MLP block of the file's types are one layer of it.
        behaviour: What the layers of each type do.
        without_window: What layers without a window do where the file switches the sliding window off.
        is_windowless: Whether its masks have no window, whatever the file says.
        switch: An entry and the value of it with which the class rotates.
        features: First rotated feature, number of them and features of the head in the class's own size, by layer type.
        axes: Of a class with positions of several axes: ``sections`` where the file has none, or the number of axes
            that share the pairs in ``equal`` parts, and the ``order`` of :mod:`~locant.rotary_configs.axes`; ``any``
            where it has as many axes as a file has sections, which may have ``fractions`` that are 0.
        bases: Entries beside the groups of layer types that are bases where the file has no group, with their types.
        fills: Types of layers whose group the class fills in where the file has groups of other types alone.
        fills_share: Whether it fills in the share of a head, too, in a group of the file that has none.
        takes_share_beside: Whether it fills in a share that stands beside the groups of the file in those without.
        unscaled_share: The share of a head that it takes for a group with neither a share nor a scaling, if not 1.
        makes_groups: Whether it makes a group for every type that layers of a file have.
        one_group: What it does with one group in the place of those for types of layers, by the entry that holds it,
            if it does not take it for some of them: ``passed over`` or ``fails``.
        null_groups: Types of layers for which it takes its own group in the place of null.
        null_share: The share of a head that it takes where the file has null for it, if not its default.
        without_switch: The type of all layers where the file switches sliding windows off and states no types.
        beside_scaling: Base and share of a head where the file's group states neither, if not those of :attr:`rope`.
        heads_of: Entries, with the class's own values, whose product is the number of its heads of queries.
        computes_head: Whether it takes the width for each head, whatever ``head_dim`` the file has.
        refuses: Entries about windows and attention with which it refuses a file.
        needed_types: Types without a layer of which the class refuses a file.
        fails_with: Scalings with which the class fails, 'default' for none among them.
        fails_headless: Scalings with which it fails where the size of its heads is null, as it is where left out.
        needs_head: Whether it fails where the size of its heads is null, as it is in some where it is left out.
        floors_head: Whether its heads have the whole part of what they divide the width by, where ``head_dim`` is
            missing.
        fails_with_null: Entries beside its groups of which it makes no model where they are null.
        fails_with_zero: Entries with the length of a round of layers of which it makes no model where they are 0.
        choices: All values that it takes for entries about attention of which it refuses others, by their names, those
            of a group behind the name of that.
        refuses_scalings: Types of scalings with which it refuses a file, of a class that does not rotate.
        needs: Entries that it has no value for and fails without, those of a group behind the name of that, with other
            names that it takes for them.
        fails_with_share: Whether it fails with a share of a head and no scaling.
        fails_with_groups: Whether its latent attention fails with fewer heads of keys than of queries.
        keeps_short_list: Whether it turns pairs by the short list of LongRoPE in texts of any length.
        turns_odd_share: Whether it rotates an odd number of features, and one more.
        needs_sections: Whether its group must have an ``mrope_section``.
        turns_any_share: Whether it rotates a part of the head wherever it is told so (vLLM).
        turns_share_of_part: Whether it rotates a share of the separate part of heads of latent attention (vLLM).
        text_part: Name of the nested group that is the text part of a multimodal model, or has it.
        of_whole: Entries about rotary positions that the class of a whole has for something else than its text part.
        whole_nulls: Those of them with null for which it fails.
        text_names: Other names of that group that the class takes.
        text_type: Model type of that part where it does not state one.
        has_one_text_type: Whether that is its type also where it states another.
        text_defaults: What the class of the whole gives a part of that type where it leaves it out.
        text_alone: What it gives that part where the file has none at all, if that is something else.
        text_base: The base that it gives a group of that part which states none, if not that of the part's own class.
        text_keeps_base: Whether it passes over a base of that part beside no group.
        text_needs_type: Whether it fails with such a part that states no model type.
        parts_need_type: Other parts that must state a model type, with the one that they have by default.
        text_reads: Entries that it reads of that part, whatever its type, and fails without.
        text_types: Model types whose classes always have them.
        text_must: Entries of that part of which it takes one value alone, which is not the one by default.
        text_widths: Entries of other parts that must be as large as the width of that one, with their defaults.
        flat: Entries that it takes for that part from the file itself where it has no such group.
        handed_on: Entries that it takes from the file itself, whatever that part states, by names of the group.
    """

    name: str
    rotates: bool = True
    reads_images: bool = False
    layout: RotaryLayout = "half"
    can_turn_to_halves: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    entries: Collection[str] = ()
    rope: Mapping[str, Any] | None = None
    keeps_its_base: bool = False
    keeps_its_share: Sequence[str] = ()
    stands_without_base: bool = False
    takes_rotary_dim: bool = False
    head_is_rotated_part: bool = False
    ignored: Sequence[str] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    rotates_partly: bool = False
    passes_over_types: bool = False
    layer_types: Sequence[str] = ()
    first_type: str | None = None
    counts_from_back: bool = False
    last_type: str | None = None
    forces_last: bool = False
    period: tuple[str, str, str, str] | None = None
    by_list: tuple[str, str] | None = None
    pairs_blocks: bool = False
    behaviour: Mapping[str, Behaviour] = field(default_factory=dict)
    without_window: Behaviour | None = None
    is_windowless: bool = False
    switch: tuple[str, Any] | None = None
    features: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    axes: Mapping[str, Any] | None = None
    bases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fills: Sequence[str] = ()
    fills_share: bool = False
    takes_share_beside: bool = False
    unscaled_share: float | None = None
    makes_groups: bool = False
    one_group: Mapping[str, Literal["passed over", "fails"]] = field(default_factory=dict)
    null_groups: Sequence[str] = ()
    null_share: float | None = None
    without_switch: str | None = None
    beside_scaling: Mapping[str, float] = field(default_factory=dict)
    heads_of: Mapping[str, int] = field(default_factory=dict)
    computes_head: bool = False
    refuses: Sequence[str] = ()
    needed_types: Sequence[str] = ()
    fails_with: Sequence[str] = ()
    fails_headless: Sequence[str] = ()
    needs_head: bool = False
    floors_head: bool = False
    fails_with_null: Sequence[str] = ()
    fails_with_zero: Sequence[str] = ()
    needs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    choices: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    refuses_scalings: Sequence[str] = ()
    fails_with_share: bool = False
    fails_with_groups: bool = False
    keeps_short_list: bool = False
    turns_odd_share: bool = False
    needs_sections: bool = False
    turns_any_share: bool = False
    turns_share_of_part: bool = False
    text_part: tuple[str, ...] = ()
    of_whole: tuple[str, ...] = ()
    whole_nulls: tuple[str, ...] = ()
    text_names: tuple[str, ...] = ()
    text_type: str | None = None
    has_one_text_type: bool = False
    text_defaults: Mapping[str, Any] = field(default_factory=dict)
    text_alone: Mapping[str, Any] = field(default_factory=dict)
    text_base: float | None = None
    text_keeps_base: bool = False
    text_needs_type: bool = False
    parts_need_type: Mapping[str, str] = field(default_factory=dict)
    text_reads: Sequence[str] = ()
    text_types: Sequence[str] = ()
    text_must: Mapping[str, Any] = field(default_factory=dict)
    text_widths: Mapping[str, int] = field(default_factory=dict)
    flat: Sequence[str] = ()
    handed_on: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def has_latent_heads(self) -> bool:
        """Whether its heads have a rotated part of their own (MLA)."""
        return "qk_rope_head_dim" in self.defaults

    @property
    def rope_by_layer(self) -> bool:
        """Whether the class has a rotation for every layer type."""
        return self.rope is not None and all(each is None or isinstance(each, Mapping) for each in self.rope.values())


def _has_no_window(name: str, facts: Mapping[str, Any]) -> bool:
    """Whether the masks of a class have no window, whatever a file says."""
    own = windows_of_class(name)
    if own is None:
        return bool(facts.get("windowless", False))
    return not own.sizes and not any("sliding" in each for each in facts.get("layer_types", ()))  # of Unlimited-OCR


def from_facts(name: str, facts: Mapping[str, Any]) -> ModelType:
    """Return a model type from its entry in ``model_types.json``.

    Args:
        name: ``model_type``.
        facts: The entry.
    """
    switch = facts.get("switch")
    return ModelType(
        name,
        rotates=facts.get("rotates", True),
        reads_images=facts.get("reads") == "images",
        layout=facts.get("layout", "half"),
        can_turn_to_halves=facts.get("rope_interleave", False),
        defaults=facts.get("defaults", {}),
        rope=facts.get("rope"),
        keeps_its_base=facts.get("keeps_base", False),
        keeps_its_share=facts.get("keeps_share", ()),
        stands_without_base=facts.get("null_base", False),
        takes_rotary_dim=facts.get("rotary_dim", False),
        head_is_rotated_part=facts.get("head_is_part", False),
        ignored=facts.get("ignored", ()),
        aliases=facts.get("aliases", {}),
        rotates_partly=facts.get("partly", False),
        layer_types=facts.get("layer_types", ()),
        first_type=facts.get("first_type"),
        counts_from_back=facts.get("from_back", False),
        last_type=facts.get("last_type"),
        forces_last=facts.get("forces_last", False),
        period=None if (period := facts.get("period")) is None else tuple(period),
        by_list=None if (types := facts.get("by_list")) is None else tuple(types),
        pairs_blocks=facts.get("pairs_blocks", False),
        behaviour=facts.get("behaviour", {}),
        without_window=facts.get("without_window"),
        is_windowless=_has_no_window(name, facts),
        switch=None if switch is None else (switch[0], switch[1]),
        features={layer: tuple(numbers) for layer, numbers in facts.get("features", {}).items()},
        axes=facts.get("axes"),
        bases=facts.get("bases", {}),
        fills=facts.get("fills", ()),
        fills_share=facts.get("fills_share", False),
        takes_share_beside=facts.get("share_beside", False),
        unscaled_share=facts.get("unscaled_share"),
        makes_groups=facts.get("groups_for_all", False),
        one_group=facts.get("one_group", {}),
        null_groups=facts.get("null_groups", ()),
        null_share=facts.get("null_share"),
        without_switch=facts.get("without_switch"),
        beside_scaling=facts.get("beside_scaling", {}),
        heads_of=facts.get("heads_of", {}),
        computes_head=facts.get("computes_head", False),
        refuses=facts.get("refuses", ()),
        needed_types=facts.get("needed_types", ()),
        fails_with=facts.get("fails_with", ()),
        fails_headless=facts.get("fails_headless", ()),
        needs_head=facts.get("needs_head", False),
        floors_head=facts.get("floors_head", False),
        fails_with_null=facts.get("fails_with_null", ()),
        fails_with_zero=facts.get("fails_with_zero", ()),
        needs=facts.get("needs", {}),
        choices=facts.get("choices", {}),
        refuses_scalings=facts.get("refuses_scalings", ()),
        fails_with_share=facts.get("fails_with_share", False),
        fails_with_groups=facts.get("fails_with_groups", False),
        keeps_short_list=facts.get("keeps_short_list", False),
        turns_odd_share=facts.get("odd_share", False),
        needs_sections=facts.get("needs_sections", False),
        text_part=tuple(facts.get("text_part", ())),
        of_whole=tuple(facts.get("of_whole", ())),
        whole_nulls=tuple(facts.get("whole_nulls", ())),
        text_names=tuple(facts.get("text_names", ())),
        text_type=facts.get("text_type"),
        has_one_text_type=facts.get("one_text_type", False),
        text_defaults=facts.get("text_defaults", {}),
        text_alone=facts.get("text_alone", {}),
        text_base=facts.get("text_base"),
        text_keeps_base=facts.get("text_keeps_base", False),
        text_needs_type=facts.get("text_needs_type", False),
        parts_need_type=facts.get("parts_need_type", {}),
        text_reads=facts.get("text_reads", ()),
        text_types=facts.get("text_types", ()),
        text_must=facts.get("text_must", {}),
        text_widths=facts.get("text_widths", {}),
        flat=facts.get("flat", ()),
        handed_on=facts.get("handed_on", {}),
    )
