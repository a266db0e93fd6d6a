"""Shares of attention heads that rotate, by config.json and by the model's class, and findings about them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from locant.errors import ConfigError
from locant.positions.scaling.contexts import OF_THE_CLASS
from locant.positions.scaling.fields import Fields, Finding, agreed
from locant.rotary_configs.base import NoRotaryPositionsError
from locant.rotary_configs.classes.families import is_in_transformers
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.refusals import null_of
from locant.rotary_configs.rope_parameters import read_type
from locant.rotary_configs.usual_values import GROUPS

_IN_THE_GROUP = "State it in the group of the layer type in rope_parameters, where it is meant."


def share_of_head(
    part: Fields,
    rope: Fields,
    kind: ModelType | None,
    layer: str,
    findings: list[Finding],
    *,
    names: Collection[str] = (),
) -> float | None:
    """Return the share of a head that layers of one type rotate, ``None`` where nobody states one.

    Args:
        part: The text part of config.json.
        rope: The rotary parameters of that type.
        kind: The facts of the class, where they are known.
        layer: The type.
        findings: Where findings go.
        names: Types of all layers.

    Raises:
        ConfigError: Two shares contradict each other, or one is none.
    """
    percent = "rotary_percent" if kind is None and part.values.get("rotary_pct") is None else "rotary_pct"  # Megatron's
    beside = agreed(
        part.number("partial_rotary_factor"), part.number(percent), f"partial_rotary_factor and {percent} differ."
    )
    inside = rope.number("partial_rotary_factor")
    is_of_file = rope.where.startswith("'")  # a group for this layer type, of which the class takes 1 without a share
    if kind is not None and inside is None and _passes_over_share(kind) and (beside is not None or is_of_file):
        if is_of_file and not kind.fills_share and beside is not None:
            filler = _scaled_before(part, kind, layer, names)
            if filler is not None and (filler == layer or rotates_partly(kind)):
                findings.append(_share_is_filled_in(kind, beside, layer, filler))
                return beside
        group = None if is_of_file and not kind.fills_share else (kind.rope or {}).get(layer)
        share = group.get("partial_rotary_factor") if isinstance(group, Mapping) else None
        if is_of_file and share is None and read_type(rope) == "default":
            share = kind.unscaled_share
        if beside not in (None, 1 if share is None else share):
            part.pass_over("partial_rotary_factor")
            findings.append(
                _share_beside_groups(kind, beside, layer, share)
                if is_of_file
                else _share_beside_no_groups(kind, beside, layer, share, part)
            )
        return share
    factor = None if part.values.get("rotary_pct") is not None else beside
    if kind is not None and factor is not None and _keeps_its_share(kind, part):
        own = _share_of_class(kind, part, layer) if inside is None else inside
        if own is not None and factor != own:
            findings.append(_share_is_its_own(kind, factor, own, layer))
            beside = own
    if inside is not None and beside not in (None, inside) and kind is not None and is_in_transformers(kind.name):
        part.pass_over("partial_rotary_factor")
        findings.append(_share_beside_another(kind, beside, inside, rope.where))
        beside = inside
    message = f"partial_rotary_factor is {inside} in {rope.where} but {beside} next to it; keep one of them."
    fraction = agreed(inside, beside, message)
    is_of_all = kind is not None and not kind.rope_by_layer and "qk_rope_head_dim" not in kind.defaults
    if fraction == 0 and kind is not None and is_of_all and is_in_transformers(kind.name):
        if rotates_partly(kind):
            raise NoRotaryPositionsError(
                "partial_rotary_factor is 0: no feature of a head is rotated then, so the model has no rotary "
                "positions. A share from 0.25 to 1 is usual."
            )
        return fraction  # which the class passes over
    if fraction is not None and not 0 < fraction <= 1:
        raise ConfigError(f"partial_rotary_factor must be above 0 and at most 1; got {fraction:g}.")
    if fraction is not None or kind is None:
        return fraction
    if is_of_file and kind.rope_by_layer and is_in_transformers(kind.name) and not kind.fills_share:
        is_filled = _scaled_before(part, kind, layer, names) is not None
        return kind.defaults.get("default_partial_rotary_factor") if is_filled else None
    default = kind.rope or {}
    own = default.get(layer)
    default = own if isinstance(own, Mapping) else default
    found = default.get("partial_rotary_factor", kind.defaults.get("partial_rotary_factor"))
    if rope.values and not rope.where.startswith(OF_THE_CLASS):
        found = kind.beside_scaling.get("partial_rotary_factor", found)
    if not isinstance(found, int | float):
        return None
    takes_null = kind.null_share is not None and "partial_rotary_factor" not in kind.fails_with_null
    if "partial_rotary_factor" in part.values and takes_null and is_in_transformers(kind.name):
        findings.append(_null_share(kind, found))
        return kind.null_share
    null = next((name for name in ("partial_rotary_factor", "rotary_pct") if name in part.values), None)
    if null is not None:
        remedy = "State the share of a head that the model was trained with."
        findings.append(null_of(null, kind, f"{found:g}", remedy))
    return found


def _keeps_its_share(kind: ModelType, part: Fields) -> bool:
    """Whether a class takes its own share of a head in the place of one that stands next to the group of a file."""
    return next((name for name in reversed(GROUPS) if part.values.get(name)), "") in kind.keeps_its_share


def _share_of_class(kind: ModelType, part: Fields, layer: str) -> float | None:
    """Return the share that a class has by itself: of a head with a separate rotated part, that of the file's part."""
    group = (kind.rope or {}).get(layer) if kind.rope_by_layer else kind.rope
    own: float | None = (group or {}).get("partial_rotary_factor")
    names = ("qk_nope_head_dim", "qk_rope_head_dim")
    if own is None or not all(kind.defaults.get(name) for name in names):
        return own
    rest, rotated = (part.whole(name) or kind.defaults[name] for name in names)
    return rotated / (rest + rotated)


def rotates_partly(kind: ModelType) -> bool:
    """Whether the class heeds a share of the head without a scaling; 'proportional' alone may read it."""
    groups = (kind.rope or {}).values() if kind.rope_by_layer and is_in_transformers(kind.name) else ()
    types = {
        group.get("rope_type") for group in groups if isinstance(group, Mapping) and "partial_rotary_factor" in group
    }
    return kind.turns_any_share or (kind.rotates_partly and types != {"proportional"})


def _passes_over_share(kind: ModelType) -> bool:
    """Whether a class with a rotation for every layer type takes their shares from their groups alone."""
    return kind.rope_by_layer and is_in_transformers(kind.name) and not kind.takes_share_beside


def _scaled_before(part: Fields, kind: ModelType, layer: str, names: Collection[str]) -> str | None:
    """Return the type of layers whose scaling fills the share beside the groups into that of a type, its own first.

    Classes make the rotations by the names of the types, in their order, or in that of their own labels for groups. The
    functions of scalings, and not that without one, call ``standardize_rope_params``, which fills in what any group
    lacks.
    """
    groups = part.values.get("rope_scaling") or part.values.get("rope_parameters")
    groups = groups if isinstance(groups, Mapping) else {}
    order = sorted({*(names or groups)})
    order = order if layer in order else [*(kind.rope or {})]
    before = order[: order.index(layer)] if layer in order else []
    for name in (layer, *before):
        group = groups.get(name)
        if isinstance(group, Mapping) and read_type(Fields(group, part.where)) != "default":
            return name
    return None


def share_beside_a_part(kind: ModelType, share: float, rotated: int, same: int | None) -> Finding:
    """Return the finding about a share beside the size of a separate rotated part, which the class takes alone.

    Args:
        kind: The facts of the class.
        share: The share that the file states.
        rotated: The features of that part.
        same: The head_dim of which the share is as many features, if it is.
    """
    said = (
        f"partial_rotary_factor is {share:g}, which the class of '{kind.name}' in transformers passes over: it rotates "
        f"{rotated} features of a head, by qk_rope_head_dim"
    )
    if same is not None:
        return Finding("note", f"{said}, and {share:g} of head_dim {same} are as many.", "Nothing has to be done.")
    return Finding(
        "warning",
        f"{said}.",
        "Remove partial_rotary_factor, or state the qk_rope_head_dim that the weights have.",
    )


def angles_of_a_share(kind: ModelType, share: float, angles: int, rotated: int) -> Finding:
    """Return the finding about a share by which a class has angles for other features than it rotates."""
    return Finding(
        "warning",
        f"partial_rotary_factor is {share:g}, by which the class of '{kind.name}' in transformers computes angles "
        f"for {angles} features, but {rotated} features of a head are rotated, by qk_rope_head_dim: it fails then.",
        "Leave partial_rotary_factor out.",
    )


def fails_with_a_share(kind: ModelType, fraction: float | None, *, is_scaled: bool) -> Finding:
    """Return the finding about a share with which a class fails, as it rotates whole heads."""
    return Finding(
        "warning",
        f"partial_rotary_factor is {fraction}{' beside a scaling' if is_scaled else ''}: the class of '{kind.name}' in "
        "transformers has frequencies for that part of a head then, rotates whole heads, and fails. What is shown "
        "rotates the part.",
        "Remove the entry, or name a model type whose class rotates a part of the head.",
    )


def share_passed_over(kind: ModelType, fraction: float | None, layer: str) -> Finding:
    """Return the finding about a share that a class passes over, as it rotates whole heads of layers of a type."""
    where = f" for '{layer}'" if kind.rope_by_layer else ""
    return Finding(
        "warning",
        f"partial_rotary_factor is {fraction}, which the class of '{kind.name}' in transformers passes over{where}: it "
        f"rotates all features of a head{' there' if where else ''}.",
        "Remove the entry, or name a model type whose class rotates a part of the head.",
    )


def _share_beside_groups(kind: ModelType, share: float, layer: str, own: float | None) -> Finding:
    taken = "the whole head" if own is None else f"{own:g} of each head"
    return Finding(
        "warning",
        f"partial_rotary_factor is {share:g} beside the groups of the layer types, where the class of '{kind.name}' in "
        f"transformers passes over it for '{layer}': it takes {taken} there.",
        _IN_THE_GROUP,
    )


def _share_beside_no_groups(kind: ModelType, share: float, layer: str, own: float | None, part: Fields) -> Finding:
    """Return the finding about a share of a file without groups for layer types, where the class has its own ones."""
    group = next((name for name in GROUPS if part.values.get(name)), None)
    said = f"partial_rotary_factor is {share:g} in config.json"
    if group is not None and kind.one_group.get(group) == "fails":
        return Finding(
            "warning",
            f"{said}, beside {group}: the class of '{kind.name}' in transformers reads no share there. What is shown "
            f"for '{layer}' is the {1 if own is None else own:g} that it has of its own.",
            _IN_THE_GROUP,
        )
    return Finding(
        "warning",
        f"{said}, which the class of '{kind.name}' in transformers passes over for '{layer}': it takes "
        f"{'the whole head' if own is None else f'its own {own:g} of each head'} there.",
        _IN_THE_GROUP,
    )


def _share_is_filled_in(kind: ModelType, share: float, layer: str, filler: str) -> Finding:
    scaled = "its scaling" if filler == layer else f"the scaling of '{filler}'"
    return Finding(
        "warning",
        f"partial_rotary_factor is {share:g} beside the groups of the layer types, and the class of '{kind.name}' in "
        f"transformers takes it for '{layer}', whose group has none: {scaled} fills it in there.",
        "State it in the group of every layer type in rope_parameters.",
    )


def _null_share(kind: ModelType, usual: float) -> Finding:
    return Finding(
        "warning",
        f"partial_rotary_factor of the file is null: the class of '{kind.name}' in transformers rotates a share of "
        f"{kind.null_share:g} of each head then, and {usual:g} where it is left out.",
        "State the share of a head that the model was trained with.",
    )


def _share_beside_another(kind: ModelType, beside: float, inside: float, where: str) -> Finding:
    return Finding(
        "warning",
        f"partial_rotary_factor is {inside:g} in {where} and {beside:g} next to it: the class of '{kind.name}' in "
        "transformers takes the first; releases 4 took the second.",
        "Keep one of them.",
    )


def _share_is_its_own(kind: ModelType, stated: float, own: float, layer: str) -> Finding:
    where = f" for '{layer}'" if kind.rope_by_layer else ""
    return Finding(
        "warning",
        f"partial_rotary_factor is {stated:g} in config.json, which the class of '{kind.name}' in transformers passes "
        f"over{where}: it rotates a share of {own:g} of each head{' there' if where else ''}.",
        "Compare with the code that trained the model.",
    )


def rotary_dim_passed_over(kind: ModelType, stated: int, rotated: int) -> Finding:
    """Return the finding about a number of rotated features that a class passes over."""
    takes_share = rotates_partly(kind)
    return Finding(
        "warning",
        f"rotary_dim is {stated} in config.json, which the class of '{kind.name}' in transformers passes over: it "
        f"rotates {rotated} features of a head.",
        "State partial_rotary_factor, or name a model type whose class reads rotary_dim."
        if takes_share
        else "Name a model type whose class rotates a part of the head, if the weights were trained so.",
    )


def whole_heads_without_rotary_dim(kind: ModelType, features: int) -> Finding:
    """Return the note on a file without the entry by which the heads of its class may rotate in part."""
    return Finding(
        "note",
        f"The file has neither rotary_dim nor partial_rotary_factor; all {features} features of a head are rotated, as "
        f"the class of '{kind.name}' in transformers does then.",
        "Compare with the model's publication.",
    )
