"""Entries of Hunyuan's models: the type 'dynamic' with an ``alpha``, by which their classes raise the base."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from locant.errors import ConfigError
from locant.positions.scaling.fields import Finding, in_json
from locant.rotary_configs.classes import families
from locant.rotary_configs.classes.entries import type_taken_for
from locant.rotary_configs.classes.own_entries import Findings, number
from locant.rotary_configs.classes.refusals import incomplete_groups

RAISED_BASE: Final = "raised base"
"""Code of the note on the base that an alpha raises."""

PUBLISHED_ALPHA = 1000
"""That of most published files: of Hunyuan-7B, Hunyuan-A13B and Hunyuan-Large, though not of Hunyuan-MT-7B."""


def hunyuan(given: dict[str, Any], findings: Findings) -> None:
    """Hunyuan (modeling_hunyuan_v1_dense.py): ``alpha`` raises the base to base * alpha^(d / (d - 2))."""
    for name in ("rope_scaling", "rope_parameters"):
        group = given.get(name)
        if not isinstance(group, Mapping):
            continue
        stated = group.get("rope_type", group.get("type", "default"))
        if type_taken_for(given.get("model_type"), stated) != "dynamic":  # HunYuan-VL's class: 'xdrope', too
            if group.get("alpha"):
                findings.append(_beside_another_type(group["alpha"], name, stated))
            given[name] = {key: value for key, value in group.items() if key != "alpha"}
            continue
        alpha = number(group.get("alpha"), "alpha")
        base = number(group.get("rope_theta", given.get("rope_theta")), "rope_theta") or 10_000.0
        if not alpha:
            findings.append(_without_alpha(given, name, base, group))
            given[name] = {key: value for key, value in group.items() if key != "alpha"}
            continue
        size = _head(given)
        if alpha < 0:
            raise ConfigError(f"alpha in {name} of config.json must be above 0; got {alpha:g}.")
        if not isinstance(size, int) or size < 3:
            stated = "left out" if size is None else in_json(size)
            raise ConfigError(
                f"head_dim of config.json is {stated}, and alpha {alpha:g} in {name} raises the base by a head of more "
                "than 2 features."
            )
        given["rope_theta"] = _raised(base, alpha, size)
        read = ("alpha", "rope_theta", "type", "rope_type")
        unread = [key for key in group if key not in read and not key.endswith("rope_section")]
        said = f" Beside it {', '.join(unread)} {'has' if len(unread) == 1 else 'have'} no effect." if unread else ""
        findings.append(
            Finding(
                "note",
                f"alpha {alpha:g} in {name} raises the base from {base:.10g} to {given['rope_theta']:.10g}, for texts "
                f"of every length.{said}",
                "For an engine without alpha, state that base as rope_theta, and no scaling.",
                RAISED_BASE,
            )
        )
        kind = families.model_type(given.get("model_type"))
        if kind is not None and families.is_in_transformers(kind.name):
            findings += incomplete_groups(given, kind)  # of which the factor has no effect, and must be there
        # HunYuan-VL's class calls its xdrope_section mrope_section.
        given[name] = {key: value for key, value in group.items() if key.endswith("rope_section")} or None


def _head(given: Mapping[str, Any]) -> Any:
    """Return the features of a head by the file, or by the sizes of its class, which may fail without ``head_dim``."""
    kind = families.model_type(given.get("model_type"))
    defaults = {} if kind is None else kind.defaults
    width, heads = (given.get(name) or defaults.get(name) for name in ("hidden_size", "num_attention_heads"))
    divided = width // heads if isinstance(width, int) and isinstance(heads, int) and heads else None
    return given.get("head_dim") or given.get("attention_head_dim") or divided


def _raised(base: float, alpha: float, size: int) -> float:
    return float(base * alpha ** (size / (size - 2)))


def _beside_another_type(alpha: Any, name: str, stated: Any) -> Finding:
    return Finding(
        "warning",
        f"alpha {in_json(alpha)} in {name} of config.json has no effect beside the type {in_json(stated)}: Hunyuan's "
        "classes read it beside 'dynamic' alone.",
        f"State the type 'dynamic' in {name}, if the weights were trained so.",
    )


def _without_alpha(given: Mapping[str, Any], name: str, base: float, group: Mapping[str, Any]) -> Finding:
    """Return the warning about 'dynamic' without the ``alpha`` that published files have."""
    size = _head(given)
    of_type = f"the type {in_json(group.get('rope_type', group.get('type')))}".replace('"', "'")
    raised = (
        f" from {base:.10g} to {_raised(base, PUBLISHED_ALPHA, size):.10g}"
        if isinstance(size, int) and size > 2
        else ""
    )
    return Finding(
        "warning",
        f"{name} of config.json has {of_type} {'and an alpha of 0' if 'alpha' in group else 'without alpha'}: the "
        f"class of '{given.get('model_type')}' keeps the base {base:.10g} in texts of the declared length, and goes by "
        f"the factor beyond it. Most published files of such models have alpha {PUBLISHED_ALPHA} there, which "
        f"raises the base{raised}, for texts of every length.",
        f"State the alpha that the weights were trained with in {name}.",
    )
