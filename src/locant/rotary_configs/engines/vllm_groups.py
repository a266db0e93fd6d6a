"""Groups of rotary parameters that classes of vLLM 0.33 make of a file otherwise than those of transformers.

Source: ``gemma4.py``, ``dbrx.py``, ``gpt_oss.py``, ``step3p5.py`` and ``config.py`` (GTE) in
``vllm/model_executor/models``, and ``dots3_note`` and ``muse_spark`` in ``vllm/models``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs.layer_types import GLOBAL, LOCAL
from locant.rotary_configs.usual_values import GROUPS

_ONE_GROUP = "gemma4"  # the beginning of the model types whose class takes one group for layers of both types
_YARN_OF_ALL = ("factor", "original_max_position_embeddings", "beta_fast", "beta_slow")
_SHARE = "partial_rotary_factor"
_BASE_OF_DEEPSEEK = 10_000.0
_WHOLE_HEADS = frozenset(["dbrx", "gpt_oss", "gte", "muse_spark_text", "step3p5"])
"""Model types whose classes hand over a share of their own, or none, whatever the file has."""

_SLIDING_BASE_NEEDED = ("dots3_note", "dots3_note_text")
"""Model types whose class in vLLM is made of DeepSeek V3's configuration, without groups for layer types."""


def with_own_groups(
    part: Mapping[str, Any], model_type: str, where: str, findings: list[Finding], *, never_scales: bool = False
) -> dict[str, Any]:
    """Return a text part with its groups as vLLM's class of its model type has them.

    Args:
        part: The entries.
        model_type: The model type.
        where: Where they stand, for messages.
        findings: Where findings go.
        never_scales: Whether the class takes a base alone.

    Raises:
        ConfigError: The class fails with them.
    """
    made = dict(part)
    if model_type in _WHOLE_HEADS:
        made = _without_shares(made)
    if never_scales:
        made = _unscaled(made, model_type, where, findings)
    if model_type in _SLIDING_BASE_NEEDED:
        made = _with_bases_of_dots3(made, where)
    if model_type.startswith(_ONE_GROUP):
        made = _with_groups_by_layer(made, where, findings)
    elif model_type == "dbrx":
        made = {key: value for key, value in made.items() if key not in GROUPS}
        made |= {"rope_theta": _base_of_attention_group(part)}
    elif model_type == "gpt_oss":
        made = _with_yarn_of_all(made, where, findings)
    return made


def _without_shares(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without shares of the head, also in its groups and in those of layer types."""
    return {
        key: _without_shares(value) if isinstance(value, Mapping) else value
        for key, value in part.items()
        if key != _SHARE
    }


def _with_bases_of_dots3(part: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a configuration with the two bases that vLLM's class of dots3.note reads, in place of groups.

    Raises:
        ConfigError: The file has groups for layer types, or no base for layers with a window.
    """
    groups = [part[name] for name in GROUPS if isinstance(part.get(name), Mapping)]
    if any(isinstance(each, Mapping) for group in groups for each in group.values()):
        raise ConfigError(
            f"rope_parameters of {where} has groups for layer types: vLLM's class of dots3.note looks for rope_theta "
            "there, and fails. State rope_theta and swa_rope_theta in their place."
        )
    if part.get("swa_rope_theta") is None:
        raise ConfigError(f"swa_rope_theta is missing in {where}, and vLLM's class of dots3.note fails without.")
    stated = [group["rope_theta"] for group in groups if group.get("rope_theta") is not None]
    beside = part.get("rope_theta")
    base = stated[0] if stated else _BASE_OF_DEEPSEEK if beside is None else beside
    return {key: value for key, value in part.items() if key not in GROUPS} | {"rope_theta": base}


def _unscaled(part: Mapping[str, Any], model_type: str, where: str, findings: list[Finding]) -> dict[str, Any]:
    """Return a configuration whose groups have their bases alone, and say what of them is lost."""
    made = dict(part)
    for name in GROUPS:
        rope = made.get(name)
        if isinstance(rope, Mapping) and not any(isinstance(each, Mapping) for each in rope.values()):
            made[name] = {"rope_type": "default"} | {key: rope[key] for key in ("rope_theta", _SHARE) if key in rope}
            kind = rope.get("rope_type", rope.get("type"))
            if kind not in (None, "default"):
                findings.append(
                    Finding(
                        "warning",
                        f"{name} of {where} has the scaling '{kind}': vLLM's class of '{model_type}' takes the base "
                        "alone, and never scales.",
                        "Serve the model with an engine that scales, or leave the scaling out.",
                    )
                )
    return made


def _with_groups_by_layer(part: Mapping[str, Any], where: str, findings: list[Finding]) -> dict[str, Any]:
    """Return a configuration with one group for all layers as vLLM's class of Gemma 4 takes it for each type.

    Layers with a window have the same scaling, and the base ``rope_local_base_freq``, or 10000; a share of the head
    that the group does not state is the whole.

    Raises:
        ConfigError: There is no base, without which it fails.
    """
    made = dict(part)
    for name in GROUPS:
        rope = part.get(name)
        if not isinstance(rope, Mapping) or not rope or any(isinstance(each, Mapping) for each in rope.values()):
            continue
        base = rope.get("rope_theta", made.pop("rope_theta", None))
        if base is None:
            raise ConfigError(f"{name} of {where} has no rope_theta, and vLLM's class of Gemma 4 fails without.")
        local = made.pop("rope_local_base_freq", None)
        local = 10_000.0 if local is None else local
        full = {_SHARE: 1.0, **rope, "rope_theta": base}
        made[name] = {GLOBAL: full, LOCAL: {**full, "rope_theta": local}}
        findings.append(
            Finding(
                "warning",
                f"{name} of {where} has no groups for layer types: vLLM's class of Gemma 4 scales layers of both types "
                f"by it, and gives those with a window the base {in_json(local)}.",
                "Write a group for each layer type.",
            )
        )
    return made


def _base_of_attention_group(part: Mapping[str, Any]) -> float:
    """Return the base in ``attn_config``, which vLLM's class of DBRX takes.

    Raises:
        ConfigError: There is none, and the class has none of its own.
    """
    group = part.get("attn_config")
    base = Fields(group, "attn_config of config.json").number("rope_theta") if isinstance(group, Mapping) else None
    if base is None:
        raise ConfigError("attn_config of config.json has no rope_theta, and vLLM's class of DBRX fails without.")
    return base


def _with_yarn_of_all(part: Mapping[str, Any], where: str, findings: list[Finding]) -> dict[str, Any]:
    """Return a configuration whose group is YaRN's, as which vLLM's class of gpt-oss takes any.

    Raises:
        ConfigError: A number of YaRN is missing there.
    """
    made = dict(part)
    for name in GROUPS:
        rope = part.get(name)
        if not isinstance(rope, Mapping):
            continue
        stated = {key: part[key] for key in _YARN_OF_ALL[1:2] if key in part} | dict(rope)
        missing = [key for key in _YARN_OF_ALL if stated.get(key) is None]
        if missing:
            raise ConfigError(
                f"{name} of {where} has no {' and no '.join(missing)}: vLLM's class of gpt-oss takes every group for "
                "YaRN with these numbers, and fails without."
            )
        kept = {key: stated[key] for key in (*_YARN_OF_ALL, "truncate", "rope_theta") if key in stated}
        made[name] = {"rope_type": "yarn", **kept}
        lost = [key for key in ("attention_factor", "mscale", "mscale_all_dim") if stated.get(key) is not None]
        if lost:
            findings.append(
                Finding(
                    "warning",
                    f"{' and '.join(lost)} of {name} in {where}: vLLM's class of gpt-oss passes over "
                    f"{'them' if len(lost) > 1 else 'it'}, and scales by 0.1 * ln(factor) + 1.",
                    "Compare with the model's publication, and serve it with an engine that reads them.",
                )
            )
    return made
