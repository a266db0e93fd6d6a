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
from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.base import UNREADABLE
from locant.rotary_configs.engines.override_groups import SHARES, OverriddenGroups
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
from locant.rotary_configs.usual_values import GROUPS

_BASES = ("rope_theta", "rotary_emb_base")
_LENGTH = "max_position_embeddings"
_TEXT_NAMES = ("text_config", "decoder", "generator")  # where get_text_config of transformers looks
_OF_VLLM = frozenset(("dots3_note",))
"""Model types whose file vLLM reads by a class of its own (``_CONFIG_REGISTRY``), of those with such a part."""


class _Overrides:
    """Overrides on their way into a config.json.

    Args:
        config: The content of config.json.
        findings: Where findings go.
    """

    def __init__(self, config: Mapping[str, Any], findings: list[Finding]) -> None:
        self._findings = findings
        self._own_part = part_of_the_class(config)
        self._text = _text_of(config)
        self._is_made_of_file = lacking_text_part(config) is None
        self._groups = _groups_of(config, self._text, findings)
        self._is_gathered, self._bases = self._groups.is_gathered, self._groups.bases
        # Of layer types, under names that the class takes into their groups when it is made.
        kind = self._groups.kind
        taken = {} if kind is None or not self._is_gathered else kind.bases
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
            place = f"rope_parameters of {self._own_part}" if name in (*_BASES, *SHARES) else self._own_part
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
        read = (*GROUPS, *_BASES, *SHARES, *self._taken_bases, _LENGTH)
        kind = self._groups.kind
        return name in read or (kind is not None and name in kind.defaults)

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
            self._groups.pass_over(name, value, next(iter(self._bases.values()), None))
        elif name in self._taken_bases:
            self._groups.pass_over(name, value, self._taken_bases[name])
        elif name in SHARES and (share := self._groups.share(merged)) is not None:
            self._groups.pass_over(name, value, share)
        elif name in SHARES and value is not None:
            # patch_rope_parameters takes the first of them, whatever the class calls it.
            first = next(each for each in SHARES if plain.get(each) is not None)
            self._groups.fill_share(merged, first, plain[first])
        elif name not in _BASES:
            merged[name] = value

    def _replace(self, merged: dict[str, Any], name: str, given: Mapping[str, Any]) -> None:
        """Put a group in the place of the one that is there, under either name."""
        share = self._groups.share(merged) if self._is_gathered else None
        complete = self._groups.completed(given, name, share) if self._is_gathered else given
        gone = (*_BASES, *SHARES) if self._is_gathered else (_BASES if "rope_theta" in given else ())
        for each in (*GROUPS, *gone):
            merged.pop(each, None)
        merged[name] = complete

    def _nested(self, present: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a nested configuration with overrides in it; groups are merged, under either name."""
        updated, is_text = dict(present), present is self._text and self._is_gathered
        for name, value in given.items():
            # Both names are of one group, also where an override has brought it.
            there = next((group for group in GROUPS if isinstance(updated.get(group), Mapping)), name)
            if name in _TEXT_NAMES and is_text and name not in present:
                self._error(f"{name} in {name} of {OPTION} has no effect: vLLM takes the outer one.", "Remove it.")
            elif (
                name in GROUPS
                and isinstance(value, Mapping)
                and is_text
                and self._groups.stands_beside(updated, there, value)
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
                if self._groups.has_layers(value):
                    group = self._groups.by_type(group)
                merged = self._groups.merged(group, value, name)
                nulls = (layer for layer in merged if layer in value and merged[layer] is None)
                updated[there] = merged | {
                    layer: self._groups.of_null(f"'{layer}' of {name}", layer) for layer in nulls
                }
                for names in (_BASES, SHARES):  # which the class has gathered in the group, where it is replaced
                    if any(value.get(each) is not None for each in names):
                        updated = {entry: updated[entry] for entry in updated if entry not in names}
            elif name in GROUPS and value is None and is_text:
                self._replace(updated, name, {"rope_type": "default"})
            elif name in _BASES and is_text:
                self._groups.pass_over(name, value, next(iter(self._bases.values()), None))
            elif name in self._taken_bases and is_text:
                self._groups.pass_over(name, value, self._taken_bases[name])
            elif name in SHARES and is_text:
                self._groups.pass_over(name, value, self._groups.share(present) or 1)
            elif isinstance(value, Mapping) and isinstance(present.get(name), Mapping):
                updated[name] = self._nested(present[name], value)
            else:
                updated[name] = value
        return updated


def _text_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the text part of a file before overrides, which its class may make itself."""
    return text_part(config) if part_of_the_class(config) is None else _entries_of_own_part(config)


def _groups_of(config: Mapping[str, Any], text: Mapping[str, Any], findings: list[Finding]) -> OverriddenGroups:
    """Return what becomes of the groups of a model, by its text part before overrides."""
    try:
        configs = read_config(config, in_vllm=True).configs
    except UNREADABLE:
        configs = {}
    name, bases = text_type(config), {layer: read.base for layer, read in configs.items()}
    is_run = runs_class_of_transformers(config, name)
    return OverriddenGroups(name, text, bases, findings, runs_transformers=is_run)


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
    return _groups_of(config, _text_of(config), []).with_share_of_file(part)
