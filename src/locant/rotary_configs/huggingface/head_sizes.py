"""Widths of attention heads and of their rotated part, by config.json and by the model's class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling import FrequencyScaling, LongRoPE
from locant.positions.scaling.fields import Fields, Finding
from locant.rotary_configs.classes.families import is_in_transformers, model_type
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.refusals import no_multiple
from locant.rotary_configs.huggingface.head_shares import (
    angles_of_a_share,
    fails_with_a_share,
    rotary_dim_passed_over,
    rotates_partly,
    share_beside_a_part,
    share_of_head,
    share_passed_over,
    whole_heads_without_rotary_dim,
)
from locant.rotary_configs.layer_types import GLOBAL, entries_by_layer
from locant.rotary_configs.rope_parameters import read_type
from locant.rotary_configs.spellings import HEAD_SIZES, HEADS, LAYERS, WIDTHS, words_of

_TEXT, _NAMES = frozenset(["text", "llm", "language"]), frozenset(["id", "name", "path"])
"""Words of entries that name a model elsewhere."""


@dataclass(frozen=True)
class HeadSizes:
    """The features of a head.

    Attributes:
        head_dim: All of them, or those of the separate rotated part.
        rotary_dim: Those that are rotated.
        fraction: ``partial_rotary_factor``, where it is stated or the class has one.
        findings: What is doubtful about it.
        turns_one_more: Whether the class rotates one feature more where they are an odd number.
    """

    head_dim: int
    rotary_dim: int
    fraction: float | None
    findings: tuple[Finding, ...] = ()
    turns_one_more: bool = False

    def rotated_by(self, scaling: FrequencyScaling) -> int:
        """Return the features that a scaling rotates: the whole head where it says itself which pairs turn.

        Raises:
            ConfigError: They are no pairs.
        """
        features = self.rotary_dim if scaling.turning_fraction is None else self.head_dim
        follows_length = scaling.depends_on_length and not isinstance(scaling, LongRoPE)  # by the number of features
        if features % 2 and self.turns_one_more and features < self.head_dim and not follows_length:
            return features + 1
        if features % 2 and features < self.head_dim and self.fraction is not None:
            raise ConfigError(
                f"partial_rotary_factor {self.fraction:g} of a head of {self.head_dim} features is {features} of them, "
                "but rotary positions turn features in pairs, so their number must be even. Classes of transformers "
                f"fail there, or turn {features + 1} by frequencies for {features}; no other engine does."
            )
        if features % 2:
            name = "head_dim" if features == self.head_dim else "rotary_dim"
            raise ConfigError(
                f"{name} is {features}, but rotary positions turn features in pairs, so their number must be even."
            )
        return features


def head_sizes(part: Fields, rope: Fields, kind: ModelType | None, layer: str, names: tuple[str, ...]) -> HeadSizes:
    """Return the sizes for the layers of one type.

    Args:
        part: The text part of config.json.
        rope: The rotary parameters of that type.
        kind: The facts of the class, where they are known.
        layer: The type.
        names: Types of all layers.

    Raises:
        ConfigError: They contradict each other, or are not told.
    """
    own = _of_the_layer(part, layer, names)
    findings: list[Finding] = []
    fraction = share_of_head(part, rope, kind, layer, findings, names=names)
    separate = own("qk_rope_head_dim") or (None if kind is None else kind.defaults.get("qk_rope_head_dim"))
    if separate is not None:
        reads_share = kind is None or kind.fails_with_share or read_type(rope) != "default"
        is_stated = any(group.values.get("partial_rotary_factor") is not None for group in (part, rope))
        rotated = _of_other_heads(own, kind, layer) or separate
        sizes = _separate(own, rotated, fraction, kind, layer, is_stated=is_stated and reads_share)
        if kind is not None and kind.turns_share_of_part and fraction is not None:
            return replace(sizes, rotary_dim=int(rotated * fraction), fraction=fraction)
        if kind is None or fraction is None or not is_stated or reads_share or not is_in_transformers(kind.name):
            return sizes
        stated, rest = (own(name) or kind.defaults.get(name) or 0 for name in ("head_dim", "qk_nope_head_dim"))
        says_again = any(int(size * fraction) == rotated for size in (rotated, rest + rotated))
        if says_again or fraction == (kind.rope or {}).get("partial_rotary_factor"):
            return sizes
        same = stated if int(stated * fraction) == rotated else None
        return replace(sizes, findings=(*sizes.findings, share_beside_a_part(kind, fraction, rotated, same)))
    head_dim = _head_dim(own, kind, layer, findings)
    features = None if kind is None else kind.features.get(layer, next(iter(kind.features.values()), None))
    # A class that has frequencies for the part fails, or has a scaling alone that looks at it.
    partly = kind is None or rotates_partly(kind)
    fails = kind is not None and not partly and (read_type(rope) != "default" or kind.fails_with_share)
    rotary_dim = _rotary_dim(own, kind, head_dim, fraction, findings)
    if (
        kind is not None
        and _passes_over_its_rotary_dim(kind)
        and (stated := own("rotary_dim")) not in (None, rotary_dim)
    ):
        findings.append(rotary_dim_passed_over(kind, stated, rotary_dim))
    if (
        kind is not None
        and not kind.takes_rotary_dim
        and is_in_transformers(kind.name)
        and (features is None or features[1] == features[2] or fraction is not None)
        and (stated := own("rotary_dim"))
    ):
        is_whole = fraction is None or (not partly and not fails)
        rotary_dim = head_dim if is_whole or fraction is None else int(head_dim * fraction)
        findings += [rotary_dim_passed_over(kind, stated, rotary_dim)] if stated != rotary_dim else []
    if fraction not in (None, 1) and kind is not None and not partly and not fails:
        findings.append(share_passed_over(kind, fraction, layer))
        rotary_dim, fraction = head_dim, None
    elif (
        fraction not in (None, 1)
        and kind is not None
        and not partly
        and is_in_transformers(kind.name)
        and read_type(rope) != "proportional"  # whose frequencies are those of the whole head
    ):
        findings.append(fails_with_a_share(kind, fraction, is_scaled=read_type(rope) != "default"))
    if kind is not None and fraction is None and own("rotary_dim") is None and _leaves_its_rotary_dim_out(kind):
        findings.append(whole_heads_without_rotary_dim(kind, head_dim))
    if features is not None and features[0] > 0:
        head_dim = rotary_dim  # the class rotates the last features, which no configuration of a whole head says
    turns_one_more = kind is not None and kind.turns_odd_share
    return HeadSizes(head_dim, rotary_dim, fraction, tuple(findings), turns_one_more)


class _Sizes:
    """Whole numbers of the part, those of one layer type first where the file has entries by layer."""

    def __init__(self, part: Fields, own: Mapping[str, Any]) -> None:
        self.part = part
        self.own = Fields(own, f"per_layer_config of {part.where}")

    def __call__(self, name: str) -> int | None:
        value = self.part.whole(name)
        return self.own.whole(name) or value


def _of_the_layer(part: Fields, layer: str, names: tuple[str, ...]) -> _Sizes:
    given = entries_by_layer(part.get("per_layer_config"))
    index = next((index for index, name in enumerate(names) if name == layer), -1)
    return _Sizes(part, given.get(index, {}))


def _has_several_heads(kind: ModelType | None) -> bool:
    """Whether the heads of a class differ in size from one layer type to the other."""
    return kind is not None and len({head for _, _, head in kind.features.values()}) > 1


def _of_other_heads(own: _Sizes, kind: ModelType | None, layer: str) -> int | None:
    """Return the rotated features of a layer type whose heads the entries of latent attention are not about.

    Sliding layers of dots3.note have heads of their own, and entries that begin with ``swa_``.
    """
    if kind is None or own.own.values or not _has_several_heads(kind) or layer not in kind.features:
        return None
    _, rotated, head = kind.features[layer]
    if head == kind.defaults.get("qk_nope_head_dim", 0) + kind.defaults.get("qk_rope_head_dim", 0):
        return None
    stated = own("swa_qk_rope_head_dim")
    rest = own("swa_qk_nope_head_dim") or head - rotated
    return stated or (own("swa_head_dim") or head) - rest


def _separate(
    own: _Sizes, rotated: int, fraction: float | None, kind: ModelType | None, layer: str, *, is_stated: bool
) -> HeadSizes:
    """Return the sizes of a head whose rotated part has a projection of its own.

    Args:
        own: The sizes of the file.
        rotated: Features of that part.
        fraction: The share of a head, by the file or the class.
        kind: The facts of the class.
        layer: The layer type.
        is_stated: Whether the file states the share, and the class reads it.
    """
    stated, rest = own("head_dim"), own("qk_nope_head_dim")
    is_ours = kind is not None and "qk_rope_head_dim" in kind.defaults and is_in_transformers(kind.name)
    if rest is None and is_ours and kind is not None:
        rest = kind.defaults.get("qk_nope_head_dim")
    whole = None if rest is None else rest + rotated
    share = None if stated is None or fraction is None else int(stated * fraction)
    findings: tuple[Finding, ...] = ()
    is_of_others = _has_several_heads(kind) and kind is not None and layer in kind.features
    own_size = None if kind is None else kind.defaults.get("head_dim")
    features = () if kind is None else kind.features.values()
    is_whole = stated is not None and stated > rotated and rotated % 2 == 0
    if is_whole and any(head == own_size != turned for _, turned, head in features):
        is_of_others = True  # that entry is about the whole head
    says_the_whole = stated == whole
    if is_ours and kind is not None:
        says_the_whole &= not (kind.head_is_rotated_part or _has_angles_for_the_head(kind, fraction))
    if stated in (None, rotated) or share == rotated or is_of_others or says_the_whole:
        pass
    elif kind is not None and kind.head_is_rotated_part and stated in (whole, rotated + (own("kv_lora_rank") or 0)):
        # Sarvam's file has the latter.
        of_what = "the whole head" if stated == whole else "the features of a token that are cached"
        findings = (
            Finding(
                "note",
                f"head_dim is {stated} in config.json, {of_what}, which the class of '{kind.name}' in "
                f"transformers passes over: it sets head_dim to qk_rope_head_dim, {rotated}.",
                "Leave head_dim out: engines that read it take it for the features that are rotated.",
            ),
        )
    elif kind is not None and (kind.head_is_rotated_part or _has_angles_for_the_head(kind, fraction)):
        does = "takes the second, and passes over the first."
        if not kind.head_is_rotated_part:
            does = "has angles for the first, and fails. The second is shown."
        findings = (
            Finding(
                "warning",
                f"config.json has head_dim {stated} and qk_rope_head_dim {rotated}. The class of '{kind.name}' in "
                f"transformers {does}",
                f"Set head_dim to {rotated}, or leave it out.",
            ),
        )
    else:
        raise ConfigError(
            f"config.json has head_dim {stated} and qk_rope_head_dim {rotated}; it cannot be told which features "
            "are rotated."
        )
    if stated is None and is_ours and kind is not None and _keeps_its_angles(kind, fraction, rotated):
        findings = (
            Finding(
                "error",
                f"qk_rope_head_dim is {rotated} in config.json, which leaves head_dim out: the class of '{kind.name}' "
                f"in transformers has angles for its own head_dim, {own_size}, then, and fails. The first is shown.",
                f"State head_dim {rotated} as well.",
            ),
        )
    if findings == () and kind is not None and is_stated and fraction is not None and is_in_transformers(kind.name):
        # Mistral 4's class has a share of the whole head by itself, and that head where a file leaves head_dim out.
        left_out = whole if whole is not None and (kind.rope or {}).get("partial_rotary_factor") else rotated
        angles = int((rotated if kind.head_is_rotated_part else left_out if stated is None else stated) * fraction)
        if angles != rotated:
            findings = (angles_of_a_share(kind, fraction, angles, rotated),)
    # partial_rotary_factor says what share of the whole head that part is, or repeats what qk_rope_head_dim says.
    return HeadSizes(rotated, rotated, None if fraction is None else 1.0, findings)


def _has_angles_for_the_head(kind: ModelType, fraction: float | None) -> bool:
    """Whether a class of latent attention rotates ``qk_rope_head_dim`` features by angles for ``head_dim`` of them."""
    is_own = "qk_rope_head_dim" in kind.defaults and is_in_transformers(kind.name)
    return is_own and fraction is None and "head_dim" not in kind.aliases


def _keeps_its_angles(kind: ModelType, fraction: float | None, rotated: int) -> bool:
    """Whether a class whose ``head_dim`` is its rotated part by default has that one, whatever that part is."""
    own = kind.defaults.get("head_dim")
    is_part = own is not None and own == kind.defaults.get("qk_rope_head_dim") != rotated
    return is_part and not kind.head_is_rotated_part and _has_angles_for_the_head(kind, fraction)


def _head_dim(own: _Sizes, kind: ModelType | None, layer: str, findings: list[Finding]) -> int:
    defaults = {} if kind is None else kind.defaults
    if layer == GLOBAL and own.part.values.get("per_layer_config") is None:
        usual = None if kind is None else kind.features.get(GLOBAL)
        sliding = None if kind is None else kind.features.get("sliding_attention")
        stated = own("global_head_dim")
        if stated is not None:
            return stated
        if usual is not None and sliding is not None and usual[2] != sliding[2]:
            return usual[2]
    stated = next((size for name in HEAD_SIZES if (size := own(name)) is not None), None)
    if stated is not None:
        return stated
    for name in HEAD_SIZES:
        # Where the file says null there, a class takes the width for each head or fails, whatever its default is.
        if isinstance(defaults.get(name), int) and name not in own.part.values:
            return int(defaults[name])
    # Code after Llama's first has dim beside n_heads.
    widths = (*WIDTHS, "dim") if own("n_heads") is not None else WIDTHS
    width = next((size for name in widths if (size := own(name)) is not None), None)
    heads = next((size for name in HEADS if (size := own(name)) is not None), None)
    taken = []
    if width is None:
        width, said = _default(defaults, WIDTHS)
        taken += [said] if said else []
    if heads is None:
        heads, said = _default(defaults, HEADS)
        taken += [said] if said else []
    if width is None and heads is None and (stacks := _stacks(own.part)):
        raise ConfigError(
            f"config.json describes stacks of layers with heads and positions of their own: {', '.join(stacks)}. Put "
            "one of these objects into a file of its own to read it."
        )
    if width is None or heads is None:
        missing = " and ".join(name for name, size in ((WIDTHS[0], width), (HEADS[0], heads)) if size is None)
        raise ConfigError(
            "config.json has neither head_dim nor a hidden_size that num_attention_heads divides: "
            f"{missing} is missing.{_named_model(own.part)}"
        )
    is_floored = width > heads and kind is not None and kind.floors_head
    if width % heads and taken and kind is not None and (width // heads % 2 or not is_floored):
        raise ConfigError(
            f"The file leaves out {' and '.join(taken)}; these are the values of the class of '{kind.name}', and the "
            "heads do not divide the width. State both, or head_dim, as the weights have them."
        )
    if width % heads and is_floored and kind is not None:
        then = f"the class of '{kind.name}' in transformers gives each head {width // heads} features."
        findings.append(no_multiple(WIDTHS[0], width, HEADS[0], heads, then))
    elif width % heads:
        raise ConfigError(
            f"config.json has neither head_dim nor a hidden_size ({width}) that num_attention_heads ({heads}) divides."
        )
    if taken and kind is not None:
        if all(own.part.values.get(name) is None for name in LAYERS):
            taken += [said] if (said := _default(defaults, LAYERS)[1]) else []
        *first, last = taken
        listed = f"{', '.join(first)} and {last}" if first else last
        findings.append(
            Finding(
                "note",
                f"The file leaves out {listed}; these are the values of the class of '{kind.name}'.",
                "Compare with the shapes of the model's weights.",
            )
        )
    return width // heads


def _named_model(part: Fields) -> str:
    """Return in a sentence which model's file has the sizes, where an entry names it: ``text_model_id`` of Ultravox."""
    for name, value in part.values.items():
        if isinstance(value, str) and value and words_of(name) & _TEXT and words_of(name) & _NAMES:
            return f" {name} names the model whose config.json tells it: {value!r:.80}."
    return ""


def _stacks(part: Fields) -> list[str]:
    """Return the names of the groups that describe layers with attention."""
    groups = ((name, group) for name, group in part.values.items() if isinstance(group, Mapping))
    return [name for name, group in groups if any(each in group for each in HEADS)]


def _default(defaults: Mapping[str, Any], names: tuple[str, ...]) -> tuple[int | None, str]:
    return next(((int(defaults[name]), f"{name} ({defaults[name]})") for name in names if name in defaults), (None, ""))


def _rotary_dim(
    own: _Sizes, kind: ModelType | None, head_dim: int, fraction: float | None, findings: list[Finding]
) -> int:
    stated = own("rotary_dim") or own("attn_rotary_emb")
    if kind is not None and _passes_over_its_rotary_dim(kind):
        return head_dim if fraction is None else int(head_dim * fraction)
    if stated is None and kind is not None and fraction is None:
        stated = kind.defaults.get("rotary_dim")
    counted = None if fraction is None else int(head_dim * fraction)
    if stated is not None and counted is not None and stated != counted:
        said = f"rotary_dim is {stated}, but partial_rotary_factor {fraction} of {head_dim} features is {counted}"
        if kind is None or not is_in_transformers(kind.name):
            raise ConfigError(f"{said}.")
        of_class = model_type(kind.name)
        if of_class is not None and of_class.takes_rotary_dim:  # otherwise it is passed over, as is said elsewhere
            findings.append(
                Finding(
                    "error",
                    f"{said}: the class of '{kind.name}' in transformers takes the share, as is shown; engines that "
                    f"look for rotary_dim first rotate {stated}.",
                    "Keep one of them, the one that the weights were trained with.",
                )
            )
        return counted
    return stated or (head_dim if counted is None else counted)


def _leaves_its_rotary_dim_out(kind: ModelType) -> bool:
    """Whether a class rotates whole heads where ``rotary_dim``, which it reads, is left out."""
    own = model_type(kind.name)  # of transformers: other engines read it for all classes
    is_read = own is not None and own.takes_rotary_dim and is_in_transformers(kind.name)
    usual = {**kind.defaults, **(kind.rope or {})}
    return is_read and "rotary_dim" not in usual and "partial_rotary_factor" not in usual


def _passes_over_its_rotary_dim(kind: ModelType) -> bool:
    """Whether a class has an entry for the number of rotated features, and rotates whole heads by it all the same."""
    return "rotary_dim" in kind.defaults and any(rotated == head for _, rotated, head in kind.features.values())
