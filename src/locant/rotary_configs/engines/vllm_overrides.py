"""The effect of vLLM's ``--hf-overrides`` on a config.json.

Source: ``ModelConfig.__post_init__``, ``_apply_dict_overrides`` and ``_update_nested`` (``vllm/config/model.py``) and
``get_config`` and ``patch_rope_parameters`` (``vllm/transformers_utils/config.py``) of vLLM 0.33, which requires
transformers from 5.16.1 up to but without 5.21. In this order:

1. the class of the file gathers base and share in one group, ``rope_parameters``, of which ``rope_scaling`` is another
   name;
2. entries that are no objects are set on the class, and what the group does not have yet is filled in from them: a base
   never is missing there;
3. objects replace groups as they are, and are merged into nested configurations (``text_config``). Nothing is filled
   in any more: ``rope_type`` alone is the type, and where ``rope_theta`` is missing the base is 10000 or that of vLLM's
   own class (``set_default_rope_theta``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.base import UNREADABLE
from locant.rotary_configs.classes import families
from locant.rotary_configs.engines.override_words import OPTION
from locant.rotary_configs.huggingface.engine_classes import runs_class_of_transformers
from locant.rotary_configs.huggingface.reading import read_config
from locant.rotary_configs.huggingface.text_parts import (
    beside_a_lacking_part,
    class_of_last_whole,
    given_by_the_whole,
    lacking_text_part,
    passed_over_in_the_file,
    text_part,
    text_type,
)
from locant.rotary_configs.layer_types import GLOBAL, LOCAL

GROUPS = ("rope_parameters", "rope_scaling")
_RELEASE = "vLLM 0.33 (transformers 5.16 to 5.20)"
_BASES = ("rope_theta", "rotary_emb_base")
_SHARES = ("partial_rotary_factor", "rotary_pct", "rotary_emb_fraction")
_BESIDE_A_TYPE = ("rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved")
_LENGTH = "max_position_embeddings"
_TEXT_NAMES = ("text_config", "decoder", "generator")  # where get_text_config of transformers looks
_OF_VLLM = frozenset(("dots3_note",))
"""Model types whose file vLLM reads by a class of its own (``_CONFIG_REGISTRY``), of those with such a part."""

_OWN_BASES = {  # set_default_rope_theta in vllm/model_executor/models
    **dict.fromkeys(("qwen2", "qwen3", "exaone4", "exaone_moe"), 1e6),
    "ernie4_5_moe": 5e5,
    "falcon_h1": 1e11,
}
_LOOKS_BY_LAYER = frozenset(("dory", "embedding_gemma2_text", "gemma3_text", "gemma3n_text", "modernbert"))
"""Model types whose classes in vLLM take ``rope_parameters[layer_type]``, whatever is there."""
_USUAL_BASE = 10_000.0


class _Overrides:
    """Overrides on their way into a config.json.

    Args:
        config: The content of config.json.
        findings: Where findings go.
    """

    def __init__(self, config: Mapping[str, Any], findings: list[Finding]) -> None:
        self._findings = findings
        self._own_part = part_of_the_class(config)
        self._text = text_part(config) if self._own_part is None else _entries_of_own_part(config)
        self._is_made_of_file = lacking_text_part(config) is None
        name = text_type(config)
        # Code of people's own may keep its entries where it likes.
        self._is_gathered = families.is_in_transformers(name)
        self._kind = families.model_type(name)
        self._default = _OWN_BASES.get(name or "", _USUAL_BASE)
        self._runs_transformers = runs_class_of_transformers(config, name)
        try:
            configs = read_config(config, in_vllm=True).configs
        except UNREADABLE:
            configs = {}
        self._bases = {layer: read.base for layer, read in configs.items()}
        # Of layer types, under names that the class takes into their groups when it is made.
        taken = {} if self._kind is None or not self._is_gathered else self._kind.bases
        self._taken_bases = {
            alias: self._bases.get(layers[0]) for alias, layers in taken.items() if layers and alias not in _BASES
        }

    def _error(self, message: str, remedy: str) -> None:
        self._findings.append(Finding("error", message, remedy))

    def of_file(self, config: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the file under all overrides."""
        merged, is_text = dict(config), config is self._text
        plain = {name: value for name, value in given.items() if not isinstance(value, Mapping)}
        beside = [name for name in given if self._own_part is not None and self._is_of_text(name)]
        for name in beside:
            place = f"rope_parameters of {self._own_part}" if name in (*_BASES, *_SHARES) else self._own_part
            of = "of the entries of the file" if self._is_made_of_file else "of its own"
            self._error(
                f"{name} in {OPTION} has no effect: the class of '{config.get('model_type')}' makes a text part {of}, "
                "and vLLM sets this one beside it.",
                f"State {name} in {place} of {OPTION}.",
            )
        for name, value in plain.items():
            if name not in beside:
                self._set(merged, name, value, plain, is_text=is_text)
        for name, value in given.items():
            if name in plain or name in beside:
                continue
            if name in GROUPS and is_text:
                self._replace(merged, name, value)
            elif isinstance(config.get(name), Mapping) and name.endswith("_config"):
                merged[name] = self._nested(config[name], value)
            elif name == self._own_part:
                merged = self._beside_own_part(config, merged)
                merged[name] = self._nested(self._text, value)
            elif name in _TEXT_NAMES and is_text and self._is_gathered:
                raise ConfigError(
                    f"{OPTION} has {name}, but the model has no such part: vLLM takes it for the text part, and cannot "
                    f"start. State the entries of {name} by themselves."
                )
            else:
                merged[name] = value
        return merged

    def _beside_own_part(self, config: Mapping[str, Any], merged: Mapping[str, Any]) -> dict[str, Any]:
        """Return a file without what its class takes from there for a text part, or passes over."""
        taken = [*self._text, *passed_over_in_the_file(config)] if self._is_made_of_file else []
        if passed_over := beside_a_lacking_part(config):
            taken += passed_over
            stated = " and ".join(f"{name} {in_json(config[name]):.40}" for name in passed_over)
            have = "have" if len(passed_over) > 1 else "has"
            self._findings.append(
                Finding(
                    "warning",
                    f"{stated} of config.json {have} no effect: the class of '{config.get('model_type')}' makes a text "
                    "part of its own.",
                    f"State it in {self._own_part}, if it is meant.",
                )
            )
        return {entry: value for entry, value in merged.items() if entry not in taken}

    def _is_of_text(self, name: str) -> bool:
        """Whether the class of the text part reads an entry about its positions."""
        read = (*GROUPS, *_BASES, *_SHARES, *self._taken_bases, _LENGTH)
        return name in read or (self._kind is not None and name in self._kind.defaults)

    def _set(self, merged: dict[str, Any], name: str, value: Any, plain: Mapping[str, Any], *, is_text: bool) -> None:
        """Set an entry that is no object."""
        if name in _TEXT_NAMES and isinstance(merged.get(name), Mapping):
            raise ConfigError(
                f"{OPTION} puts {json.dumps(value)} in the place of {name}: vLLM cannot start without it."
            )
        if not (is_text and self._is_gathered):
            merged[name] = value
        elif name in GROUPS and value is None:
            base = next((plain[each] for each in _BASES if plain.get(each) is not None), None)
            self._replace(merged, name, {"rope_type": "default", **({} if base is None else {"rope_theta": base})})
        elif name in _BASES and not any(group in plain and plain[group] is None for group in GROUPS):
            self._pass_over(name, value, next(iter(self._bases.values()), None))
        elif name in self._taken_bases:
            self._pass_over(name, value, self._taken_bases[name])
        elif name in _SHARES and (share := self._share(merged)) is not None:
            self._pass_over(name, value, share)
        elif name in _SHARES and value is not None:
            # patch_rope_parameters takes the first of them, whatever the class calls it.
            first = next(each for each in _SHARES if plain.get(each) is not None)
            self._fill_share(merged, first, plain[first])
        elif name not in _BASES:
            merged[name] = value

    def _fill_share(self, merged: dict[str, Any], entry: str, share: Any) -> None:
        """Give a share of the head to the group, or to those of layer types that have none (standardize_rope_params).

        Args:
            merged: The text part, which is changed.
            entry: Its name in the overrides.
            share: The share.
        """
        name = next((group for group in GROUPS if isinstance(merged.get(group), Mapping)), GROUPS[0])
        present = merged.get(name) or {}
        if self._kind is not None and self._kind.name in families.READS_NEW_NAME_ALONE and not present:
            base = next(iter(self._bases.values()), self._default)
            merged[name] = {"rope_type": "default", "rope_theta": base, _SHARES[0]: share}
            return
        if self._kind is None or not self._kind.rope_by_layer or (present and not _is_by_layer(present)):
            merged[_SHARES[0]] = share
            return
        groups = {}
        of_class = [] if present else [name for name, group in (self._kind.rope or {}).items() if group]
        for layer in dict.fromkeys((*self._bases, *of_class)):  # also of types of which the file has no layer
            own = present.get(layer) or self._group_of_class(layer)
            stated = own if isinstance(own, Mapping) else {"rope_type": "default"}
            groups[layer] = {_SHARES[0]: share, "rope_theta": self._bases.get(layer), **stated}
        shares = {group[_SHARES[0]] for group in groups.values()}
        if share not in shares and len(shares) == 1:
            self._pass_over(entry, share, shares.pop())
        merged[name] = groups

    def _group_of_class(self, layer: str) -> Any:
        """Return the group that the class of transformers has for a type of layers of which the file has none."""
        assert self._kind is not None
        own, share = (self._kind.rope or {}).get(layer), self._text.get(_SHARES[0])
        takes_share = self._kind.takes_share_beside and "" not in self._kind.keeps_its_share
        return {**own, _SHARES[0]: share} if isinstance(own, Mapping) and takes_share and share is not None else own

    def with_share_of_file(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """Return the text part of a file whose share of the head stands where ``patch_rope_parameters`` puts it."""
        filled = dict(part)
        stated = next((name for name in _SHARES if part.get(name) is not None), None)
        kind = self._kind
        if stated is None or kind is None or not self._is_gathered or not is_number(part[stated]):
            return filled
        if stated != _SHARES[0] and self._share({name: part[name] for name in GROUPS if name in part}) is not None:
            return filled  # that of the class, of which the share has another name
        fills_groups = kind.rope_by_layer and "qk_rope_head_dim" not in kind.defaults
        if fills_groups or stated != _SHARES[0] or kind.name in families.READS_NEW_NAME_ALONE:
            self._fill_share(filled, stated, part[stated])
        return filled

    def _pass_over(self, name: str, value: Any, present: Any) -> None:
        if value == present:
            return
        has = "its class has its own" if present is None else f"the model has {present:.10g}"
        self._error(
            f"{name} in {OPTION} has no effect: {has}, and {_RELEASE} fills in only what is missing.",
            f"State {name} in rope_parameters, together with rope_type and all else that belongs there.",
        )

    def _share(self, part: Mapping[str, Any]) -> float | None:
        """Return the rotated share that the group has before overrides, where the file or its class states one."""
        groups = [part.get(group) for group in GROUPS]
        places = [part, *(each for each in groups if isinstance(each, Mapping))]
        if self._kind is not None:
            places += [each for each in (self._kind.rope, self._kind.defaults) if each]
        found = (place.get(name) for place in places for name in _SHARES)
        return next((share for share in found if isinstance(share, int | float)), None)

    def _replace(self, merged: dict[str, Any], name: str, given: Mapping[str, Any]) -> None:
        """Put a group in the place of the one that is there, under either name."""
        if not self._is_gathered:
            for each in (*GROUPS, *(_BASES if "rope_theta" in given else ())):
                merged.pop(each, None)
            merged[name] = given
            return
        looks_by_layer = self._kind is not None and (
            self._kind.rope_by_layer if self._runs_transformers else self._kind.name in _LOOKS_BY_LAYER
        )
        if self._kind is not None and looks_by_layer and not _is_by_layer(given):
            raise ConfigError(
                f"{name} in {OPTION} has no groups for layer types: vLLM looks for the one of every layer in models of "
                f"the type '{self._kind.name}', and cannot start. State a group for each layer type."
            )
        share = self._share(merged)
        for each in (*GROUPS, *_BASES, *_SHARES):
            merged.pop(each, None)
        is_by_layer = _is_by_layer(given)
        groups = given if is_by_layer else {"": given}
        complete = {
            layer: self._of_null(f"'{layer}' of {name}", layer)
            if each is None
            else self._completed(each, f"'{layer}' of {name}" if layer else name, layer, share)
            for layer, each in groups.items()
        }
        merged[name] = complete if is_by_layer else complete[""]

    def _of_null(self, where: str, layer: str) -> dict[str, Any] | None:
        """Return what ``get_rope`` of vLLM takes for a type of layers whose group is null, where its class is known."""
        kind = self._kind
        if kind is None or kind.name not in _LOOKS_BY_LAYER or layer not in kind.null_groups:
            return None
        base = self._bases.get(layer)
        if not self._runs_transformers and base not in (None, _USUAL_BASE):
            self._error(
                f"{where} in {OPTION} is null: {_RELEASE} takes base {_USUAL_BASE:.10g} there, where the model has "
                f"{base:.10g}.",
                f"State rope_type and rope_theta {base:.10g} there.",
            )
        return None if self._runs_transformers else {"rope_type": "default", "rope_theta": _USUAL_BASE}

    def _completed(self, rope: Mapping[str, Any], where: str, layer: str, share: float | None) -> dict[str, Any]:
        """Return a group as vLLM reads it, which is not patched any more."""
        complete = self._typed(rope, where)
        base = self._bases.get(layer, next(iter(self._bases.values()), None))
        if "rope_theta" in complete and complete["rope_theta"] is None:
            raise ConfigError(f"rope_theta is null for {where} in {OPTION}: vLLM cannot start with it.")
        if "rope_theta" not in complete and self._runs_transformers:
            base_of_file = "" if base is None else f" {base:.10g}"
            raise ConfigError(
                f"{where} in {OPTION} has no rope_theta: vLLM runs this model by the class of transformers, which "
                f"fails without. State rope_theta{base_of_file} there."
            )
        if "rope_theta" not in complete:
            complete["rope_theta"] = self._default
            if base not in (None, self._default):
                self._error(
                    f"{where} in {OPTION} has no rope_theta, and the group of the model, with {base:.10g}, is replaced "
                    f"as a whole: {_RELEASE} takes {self._default:.10g}, unless its class for the model has a base of "
                    "its own.",
                    f"State rope_theta {base:.10g} there.",
                )
            elif base not in (None, _USUAL_BASE):
                self._findings.append(
                    Finding(
                        "note",
                        f"{where} in {OPTION} has no rope_theta: {_RELEASE} fills in {base:.10g} for this model type.",
                        "State rope_theta there: other releases take 10000, or fail.",
                    )
                )
        if "partial_rotary_factor" not in complete and share not in (None, 1):
            # Classes of vLLM for GLM fill it in.
            if self._runs_transformers or not (self._kind and self._kind.name.startswith("glm")):
                complete["partial_rotary_factor"] = 1.0
            does = "rotates whole heads, unless its class for the model says otherwise"
            if self._runs_transformers:
                does = "runs the model by the class of transformers, which rotates whole heads then, or fails"
            self._error(
                f"{where} in {OPTION} has no partial_rotary_factor, and the group of the model, with {share:g}, is "
                f"replaced as a whole: {_RELEASE} {does}.",
                f"State partial_rotary_factor {share:g} there.",
            )
        return complete

    def _typed(self, rope: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return a group with the type that vLLM reads there."""
        old = rope.get("type")
        typed = {key: value for key, value in rope.items() if key != "type"}
        if "rope_type" in typed or not (set(rope) - set(_BESIDE_A_TYPE)):
            return typed
        said = "has no rope_type" if old is None else f"has type '{old}' and no rope_type"
        self._error(
            f"{where} in {OPTION} {said}: {_RELEASE} reads rope_type alone there, and scales nothing.",
            f"State rope_type '{old or '...'}' there.",
        )
        return {"rope_type": "default", **{key: value for key, value in typed.items() if key in _BESIDE_A_TYPE}}

    def _nested(self, present: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a nested configuration with overrides in it; groups are merged, under either name."""
        updated, is_text = dict(present), present is self._text and self._is_gathered
        for name, value in given.items():
            # Both names are of one group, also where an override has brought it.
            there = next((group for group in GROUPS if isinstance(updated.get(group), Mapping)), name)
            if name in _TEXT_NAMES and is_text and name not in present:
                self._error(f"{name} in {name} of {OPTION} has no effect: vLLM takes the outer one.", "Remove it.")
            elif (
                name in GROUPS and isinstance(value, Mapping) and is_text and self._stands_beside(updated, there, value)
            ):
                self._error(
                    f"{name} in {OPTION} has no effect: vLLM puts its entries beside the groups that the class has for "
                    "each layer type, and takes these alone.",
                    "State the entries in the group of a layer type.",
                )
            elif name in GROUPS and isinstance(value, Mapping) and is_text:
                group = updated.get(there) or {}
                if not isinstance(group, Mapping):
                    raise ConfigError(f"'{there}' of the model must be a group of named values; got {group!r}.")
                if self._has_layers(value):
                    group = self._by_type(group)
                merged = self._merged_group(group, value, name)
                nulls = (layer for layer in merged if layer in value and merged[layer] is None)
                updated[there] = merged | {layer: self._of_null(f"'{layer}' of {name}", layer) for layer in nulls}
                for names in (_BASES, _SHARES):  # which the class has gathered in the group, where it is replaced
                    if any(value.get(each) is not None for each in names):
                        updated = {entry: updated[entry] for entry in updated if entry not in names}
            elif name in GROUPS and value is None and is_text:
                self._replace(updated, name, {"rope_type": "default"})
            elif name in _BASES and is_text:
                self._pass_over(name, value, next(iter(self._bases.values()), None))
            elif name in self._taken_bases and is_text:
                self._pass_over(name, value, self._taken_bases[name])
            elif name in _SHARES and is_text:
                self._pass_over(name, value, self._share(present) or 1)
            elif isinstance(value, Mapping) and isinstance(present.get(name), Mapping):
                updated[name] = self._nested(present[name], value)
            else:
                updated[name] = value
        return updated

    def _stands_beside(self, present: Mapping[str, Any], name: str, value: Mapping[str, Any]) -> bool:
        """Whether entries for all layers are merged into groups for each layer type, as their class has them."""
        if self._kind is None or not self._kind.rope_by_layer or self._has_layers(value):
            return False
        group = present.get(name)
        is_flat = isinstance(group, Mapping) and bool(group) and not _is_by_layer(group)
        merges = self._kind.name in families.MERGES_INTO_ALL_LAYERS | families.MERGES_INTO_FULL_LAYERS
        return merges or not is_flat

    def _has_layers(self, value: Mapping[str, Any]) -> bool:
        """Whether entries are groups of layer types, or nothing in the place of one."""
        return any(isinstance(each, Mapping) for each in value.values()) or (bool(value) and {*value} <= {*self._bases})

    def _by_type(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a group as the class gathers it: one for all is that of full attention where it has several."""
        if _is_by_layer(group) or not {GLOBAL, LOCAL} <= {*self._bases}:
            return group
        return {
            layer: {**(group if layer == GLOBAL else {"rope_type": "default"}), "rope_theta": base}
            for layer, base in self._bases.items()
        }

    def _merged_group(self, present: Mapping[str, Any], given: Mapping[str, Any], where: str) -> dict[str, Any]:
        if self._has_layers(given):
            merged = dict(present)
            for layer, value in given.items():
                both = isinstance(value, Mapping) and isinstance(present.get(layer), Mapping)
                merged[layer] = self._merged_group(present[layer], value, f"'{layer}' of {where}") if both else value
            return merged
        merged = {key: value for key, value in present.items() if key != "type"} | dict(given)
        stated = present.get("rope_type", present.get("type", "default"))
        if "type" in merged and "rope_type" not in given and merged.pop("type") != stated:
            self._error(
                f"'type' of {where} in {OPTION} has no effect: the group has rope_type '{stated}', which {_RELEASE} "
                "reads.",
                "State rope_type there.",
            )
        return {"rope_type": stated, **merged} if not _is_by_layer(merged) else merged


def _is_by_layer(group: Mapping[str, Any]) -> bool:
    values = [each for each in group.values() if each is not None]
    return bool(values) and all(isinstance(each, Mapping) for each in values)


def part_of_the_class(config: Mapping[str, Any]) -> str | None:
    """Return the name of the text part that the class of a file makes where the file has none.

    It makes it of the entries of the file, or passes over these.

    Args:
        config: The content of config.json, or of its text part.
    """
    whole = None if text_part(config) is not config else class_of_last_whole(config)
    is_made = whole is not None and (bool(whole.flat) or lacking_text_part(config) is not None)
    return whole.text_part[0] if whole is not None and is_made and whole.name not in _OF_VLLM else None


def _entries_of_own_part(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a class that makes a text part takes for it: some of its file, or what it has itself."""
    if lacking_text_part(config) is not None:
        return given_by_the_whole(config, {})
    others = ("model_type", "architectures", *passed_over_in_the_file(config))
    entries = ((name, value) for name, value in config.items() if name in GROUPS or not isinstance(value, Mapping))
    return {name: value for name, value in entries if name not in others}


def with_overrides(config: Mapping[str, Any], given: Mapping[str, Any], findings: list[Finding]) -> dict[str, Any]:
    """Return a config.json whose reading is what vLLM computes under overrides.

    Args:
        config: The content of config.json.
        given: The overrides.
        findings: Where findings go.

    Raises:
        ConfigError: vLLM cannot start with them.
    """
    return _Overrides(config, findings).of_file(config, given) if given else dict(config)


def with_share_of_file(config: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text part of a file with its share of the head where vLLM reads it.

    Where the class of transformers made no share part of a group, vLLM fills the first of three names into every group
    that has none, those of layer types among them.

    Args:
        config: The content of config.json.
        part: Its text part.
    """
    return _Overrides(config, []).with_share_of_file(part)
