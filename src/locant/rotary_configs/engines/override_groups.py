"""The groups of rotary parameters that vLLM makes of those of a model and of ``--hf-overrides``.

Source: ``_update_nested`` (``vllm/config/model.py``), ``patch_rope_parameters`` and ``set_default_rope_theta``
(``vllm/transformers_utils/config.py``) and ``get_rope`` (``vllm/model_executor``) of vLLM 0.33.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.classes import families
from locant.rotary_configs.engines.override_words import OPTION
from locant.rotary_configs.layer_types import GLOBAL, LOCAL
from locant.rotary_configs.usual_values import GROUPS

SHARES = ("partial_rotary_factor", "rotary_pct", "rotary_emb_fraction")
"""Names of the share of a head that rotates, of which ``patch_rope_parameters`` takes the first."""

_RELEASE = "vLLM 0.33 (transformers 5.16 to 5.20)"
_BESIDE_A_TYPE = ("rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved")
_OWN_BASES = {  # set_default_rope_theta in vllm/model_executor/models
    **dict.fromkeys(("qwen2", "qwen3", "exaone4", "exaone_moe"), 1e6),
    "ernie4_5_moe": 5e5,
    "falcon_h1": 1e11,
}
_LOOKS_BY_LAYER = frozenset(("dory", "embedding_gemma2_text", "gemma3_text", "gemma3n_text", "modernbert"))
"""Model types whose classes in vLLM take ``rope_parameters[layer_type]``, whatever is there."""
_USUAL_BASE = 10_000.0


class OverriddenGroups:
    """What vLLM makes of groups of a model, by the class that reads its text part.

    Args:
        name: The model type of the text part.
        text: That part, before overrides.
        bases: The base of the layers of each type, before overrides.
        runs_transformers: Whether vLLM runs the model by the class of transformers.
        findings: Where findings go.

    Attributes:
        kind: The facts of the class, where they are known.
        is_gathered: Whether that is one of transformers, which gathers base and share in a group; code of people's own
            may keep its entries where it likes.
        bases: The base of the layers of each type.
    """

    def __init__(
        self,
        name: str | None,
        text: Mapping[str, Any],
        bases: Mapping[str, float],
        findings: list[Finding],
        *,
        runs_transformers: bool,
    ) -> None:
        self.kind, self.is_gathered = families.model_type(name), families.is_in_transformers(name)
        self.bases, self._text = dict(bases), text
        self._default = _OWN_BASES.get(name or "", _USUAL_BASE)
        self._runs_transformers = runs_transformers
        self._findings = findings

    def _error(self, message: str, remedy: str) -> None:
        self._findings.append(Finding("error", message, remedy))

    def fill_share(self, merged: dict[str, Any], entry: str, share: Any) -> None:
        """Give a share of the head to the group, or to those of layer types that have none (standardize_rope_params).

        Args:
            merged: The text part, which is changed.
            entry: Its name in the overrides.
            share: The share.
        """
        name = next((group for group in GROUPS if isinstance(merged.get(group), Mapping)), GROUPS[0])
        present = merged.get(name) or {}
        if self.kind is not None and self.kind.name in families.READS_NEW_NAME_ALONE and not present:
            base = next(iter(self.bases.values()), self._default)
            merged[name] = {"rope_type": "default", "rope_theta": base, SHARES[0]: share}
            return
        if self.kind is None or not self.kind.rope_by_layer or (present and not is_group_by_layer(present)):
            merged[SHARES[0]] = share
            return
        groups = {}
        of_class = [] if present else [name for name, group in (self.kind.rope or {}).items() if group]
        for layer in dict.fromkeys((*self.bases, *of_class)):  # also of types of which the file has no layer
            own = present.get(layer) or self._group_of_class(layer)
            stated = own if isinstance(own, Mapping) else {"rope_type": "default"}
            groups[layer] = {SHARES[0]: share, "rope_theta": self.bases.get(layer), **stated}
        shares = {group[SHARES[0]] for group in groups.values()}
        if share not in shares and len(shares) == 1:
            self.pass_over(entry, share, shares.pop())
        merged[name] = groups

    def _group_of_class(self, layer: str) -> Any:
        """Return the group that the class of transformers has for a type of layers of which the file has none."""
        assert self.kind is not None
        own, share = (self.kind.rope or {}).get(layer), self._text.get(SHARES[0])
        takes_share = self.kind.takes_share_beside and "" not in self.kind.keeps_its_share
        return {**own, SHARES[0]: share} if isinstance(own, Mapping) and takes_share and share is not None else own

    def with_share_of_file(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """Return the text part of a file whose share of the head stands where ``patch_rope_parameters`` puts it."""
        filled = dict(part)
        stated = next((name for name in SHARES if part.get(name) is not None), None)
        kind = self.kind
        if stated is None or kind is None or not self.is_gathered or not is_number(part[stated]):
            return filled
        if stated != SHARES[0] and self.share({name: part[name] for name in GROUPS if name in part}) is not None:
            return filled  # that of the class, of which the share has another name
        fills_groups = kind.rope_by_layer and "qk_rope_head_dim" not in kind.defaults
        if fills_groups or stated != SHARES[0] or kind.name in families.READS_NEW_NAME_ALONE:
            self.fill_share(filled, stated, part[stated])
        return filled

    def pass_over(self, name: str, value: Any, present: Any) -> None:
        """Say that an entry has no effect, unless its value is the one that the model has.

        Args:
            name: Its name in the overrides.
            value: What it has there.
            present: What the model has, ``None`` where that is not known.
        """
        if value == present:
            return
        has = "its class has its own" if present is None else f"the model has {present:.10g}"
        self._error(
            f"{name} in {OPTION} has no effect: {has}, and {_RELEASE} fills in only what is missing.",
            f"State {name} in rope_parameters, together with rope_type and all else that belongs there.",
        )

    def share(self, part: Mapping[str, Any]) -> float | None:
        """Return the rotated share that the group has before overrides, where the file or its class states one."""
        groups = [part.get(group) for group in GROUPS]
        places = [part, *(each for each in groups if isinstance(each, Mapping))]
        if self.kind is not None:
            places += [each for each in (self.kind.rope, self.kind.defaults) if each]
        found = (place.get(name) for place in places for name in SHARES)
        return next((share for share in found if isinstance(share, int | float)), None)

    def of_null(self, where: str, layer: str) -> dict[str, Any] | None:
        """Return what ``get_rope`` of vLLM takes for a type of layers whose group is null, where its class is known."""
        kind = self.kind
        if kind is None or kind.name not in _LOOKS_BY_LAYER or layer not in kind.null_groups:
            return None
        base = self.bases.get(layer)
        if not self._runs_transformers and base not in (None, _USUAL_BASE):
            self._error(
                f"{where} in {OPTION} is null: {_RELEASE} takes base {_USUAL_BASE:.10g} there, where the model has "
                f"{base:.10g}.",
                f"State rope_type and rope_theta {base:.10g} there.",
            )
        return None if self._runs_transformers else {"rope_type": "default", "rope_theta": _USUAL_BASE}

    def completed(self, given: Mapping[str, Any], name: str, share: float | None) -> dict[str, Any]:
        """Return a group that replaces that of the model, or those of its layer types, as vLLM reads it.

        Args:
            given: The group of the overrides.
            name: Its name there.
            share: The rotated share that the model has, where it states one.

        Raises:
            ConfigError: vLLM cannot start with it.
        """
        kind, is_by_layer = self.kind, is_group_by_layer(given)
        looks_by_layer = kind is not None and (
            kind.rope_by_layer if self._runs_transformers else kind.name in _LOOKS_BY_LAYER
        )
        if kind is not None and looks_by_layer and not is_by_layer:
            raise ConfigError(
                f"{name} in {OPTION} has no groups for layer types: vLLM looks for the one of every layer in models of "
                f"the type '{kind.name}', and cannot start. State a group for each layer type."
            )
        groups = given if is_by_layer else {"": given}
        complete = {
            layer: self.of_null(f"'{layer}' of {name}", layer)
            if each is None
            else self._completed(each, f"'{layer}' of {name}" if layer else name, layer, share)
            for layer, each in groups.items()
        }
        return complete if is_by_layer else complete[""] or {}

    def _completed(self, rope: Mapping[str, Any], where: str, layer: str, share: float | None) -> dict[str, Any]:
        """Return a group as vLLM reads it, which is not patched any more."""
        complete = self._typed(rope, where)
        base = self.bases.get(layer, next(iter(self.bases.values()), None))
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
            if self._runs_transformers or not (self.kind and self.kind.name.startswith("glm")):
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

    def stands_beside(self, present: Mapping[str, Any], name: str, value: Mapping[str, Any]) -> bool:
        """Whether entries for all layers are merged into groups for each layer type, as their class has them."""
        if self.kind is None or not self.kind.rope_by_layer or self.has_layers(value):
            return False
        group = present.get(name)
        is_flat = isinstance(group, Mapping) and bool(group) and not is_group_by_layer(group)
        merges = self.kind.name in families.MERGES_INTO_ALL_LAYERS | families.MERGES_INTO_FULL_LAYERS
        return merges or not is_flat

    def has_layers(self, value: Mapping[str, Any]) -> bool:
        """Whether entries are groups of layer types, or nothing in the place of one."""
        return any(isinstance(each, Mapping) for each in value.values()) or (bool(value) and {*value} <= {*self.bases})

    def by_type(self, group: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a group as the class gathers it: one for all is that of full attention where it has several."""
        if is_group_by_layer(group) or not {GLOBAL, LOCAL} <= {*self.bases}:
            return group
        return {
            layer: {**(group if layer == GLOBAL else {"rope_type": "default"}), "rope_theta": base}
            for layer, base in self.bases.items()
        }

    def merged(self, present: Mapping[str, Any], given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return a group with entries of overrides in it (``_update_nested``).

        Args:
            present: The group of the model.
            given: The entries.
            where: Its name in the overrides.
        """
        if self.has_layers(given):
            merged = dict(present)
            for layer, value in given.items():
                both = isinstance(value, Mapping) and isinstance(present.get(layer), Mapping)
                merged[layer] = self.merged(present[layer], value, f"'{layer}' of {where}") if both else value
            return merged
        merged = {key: value for key, value in present.items() if key != "type"} | dict(given)
        stated = present.get("rope_type", present.get("type", "default"))
        if "type" in merged and "rope_type" not in given and merged.pop("type") != stated:
            self._error(
                f"'type' of {where} in {OPTION} has no effect: the group has rope_type '{stated}', which {_RELEASE} "
                "reads.",
                "State rope_type there.",
            )
        return {"rope_type": stated, **merged} if not is_group_by_layer(merged) else merged


def is_group_by_layer(group: Mapping[str, Any]) -> bool:
    """Return whether all entries of a group are groups of layer types, but for nulls."""
    values = [each for each in group.values() if each is not None]
    return bool(values) and all(isinstance(each, Mapping) for each in values)
