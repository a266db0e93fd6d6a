"""Bases that cannot be meant, and that classes of transformers compute with all the same: true, 1, 1e300."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from locant.positions.rotary.config import RotaryConfig, SmallBaseRotaryConfig
from locant.positions.scaling import FrequencyScaling, Linear, Proportional, Unscaled
from locant.positions.scaling.contexts import RopeContext
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.base import ALL_LAYERS
from locant.rotary_configs.usual_values import GROUPS

_NAMES = ("rope_theta", "rotary_emb_base")
_MOST = (2 - 2**-23) * 2.0**127
"""The largest float32."""


def with_true_for_1(given: dict[str, Any], findings: list[Finding]) -> None:
    """Replace ``true`` in the place of a base by 1, as Python counts it.

    Args:
        given: The entries of a text part, which are changed.
        findings: Where findings go.
    """
    for name in _NAMES:
        if given.get(name) is True:
            given[name] = 1
            findings.append(_true(name, "config.json"))
    for name in GROUPS:
        group = given.get(name)
        if isinstance(group, Mapping) and group.get("rope_theta") is True:
            given[name] = {**group, "rope_theta": 1}
            findings.append(_true("rope_theta", f"{name} of config.json"))


def _true(name: str, where: str) -> Finding:
    return Finding(
        "error",
        f"{name} in {where} is true, which is no number: transformers computes with it as 1, as is shown.",
        "State the base that the weights were trained with; 10000, 500000 and 1000000 are common.",
    )


def config_class(base: float) -> type[RotaryConfig]:
    """Return the class of configurations that takes a base which the class of a model computes with."""
    return RotaryConfig if base > 1 else SmallBaseRotaryConfig


def with_base(config: RotaryConfig, base: float, **changes: Any) -> RotaryConfig:
    """Return a configuration with another base, of the class that takes it.

    Args:
        config: The configuration.
        base: The base, above 0.
        changes: Its other fields that change.
    """
    kept = {field.name: getattr(config, field.name) for field in fields(config)}
    return config_class(base)(**{**kept, **changes, "base": base})


def of_small_base(said: str, base: float, engine: str) -> Finding:
    """Return the finding about a base up to 1, with which an engine computes all the same.

    Args:
        said: Which base it is, with its number.
        base: The number.
        engine: Who computes with it.
    """
    alike = "all pairs turn by the same angle" if base == 1 else "later pairs turn faster than the first"
    return Finding(
        "error",
        f"{said}, with which {alike}: {engine} computes it so, as is shown, but no published model has that.",
        "State the base that the weights were trained with; it is above 1, like 10000.",
    )


def as_computed(
    base: float, scaling: FrequencyScaling, rotary_dim: int, layer: str, context: RopeContext
) -> FrequencyScaling:
    """Return the scaling by which a class of transformers turns pairs with a base that no model has.

    Args:
        base: The base.
        scaling: The scaling of the file.
        rotary_dim: Features that are rotated.
        layer: The layer type.
        context: Where a finding about the base goes; that of other code than classes of transformers is left alone.
    """
    if not context.is_of_transformers:
        return scaling
    said = f"{'rope_theta' if layer == ALL_LAYERS else f'The base of {layer!r} layers'} is {base:.10g}"
    if base <= 1:
        context.findings.append(of_small_base(said, base, "transformers"))
    if base > _MOST and isinstance(scaling, Unscaled | Linear):  # other ones compute with it otherwise
        context.warn(
            f"{said}, which is beyond float32, in which transformers computes: the first pair alone turns there, and "
            "all others stand still, as is shown by the scaling 'proportional'.",
            "State the base that the weights were trained with; 10000, 500000 and 1000000 are common.",
        )
        return Proportional(rotary_fraction=2 / rotary_dim, factor=scaling.stretch or 1.0)
    return scaling
