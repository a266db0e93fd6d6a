"""What a reader returns, and what all dialects share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from typing import Any, Literal

from locant.errors import ConfigError
from locant.positions.exact import EXACT
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import (
    DynamicNTK,
    FrequencyScaling,
    LongRoPE,
    NTKAware,
    NTKByParts,
    Unscaled,
    YaRN,
)

ALL_LAYERS = "all"
"""The layer type of models whose layers all have the same rotary positions."""


@dataclass(frozen=True)
class Finding:
    """Something about a configuration that its owner should know, though it can be read.

    Attributes:
        severity: ``warning`` where the configuration may well mean something else than it says, ``note`` where part of
            the model's behaviour lies outside of what was read.
        message: What was found.
        remedy: What to do about it.
    """

    severity: Literal["warning", "note"]
    message: str
    remedy: str


@dataclass(frozen=True)
class Reading:
    """What a foreign configuration says about rotary positions.

    Attributes:
        configs: A configuration for every layer type that the model distinguishes (``full_attention``,
            ``sliding_attention``); most models have the single one ``all``. Layer types without rotary positions have
            none.
        findings: What is doubtful about it.
        multimodal: For every layer type with positions of several axes (M-RoPE) what the file says about them:
            ``sections``, the numbers of pairs of each axis, and ``interleaved``. For text alone, where all axes have
            the same position, the configuration in ``configs`` is exact without it.
    """

    configs: dict[str, RotaryConfig]
    findings: tuple[Finding, ...] = ()
    multimodal: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def config(self) -> RotaryConfig:
        """The configuration of a model whose layers all have the same.

        Raises:
            ConfigError: There are several, or none.
        """
        if len(self.configs) != 1:
            raise ConfigError(
                f"This model has {len(self.configs)} rotary configurations ({', '.join(self.configs) or 'none'}), not "
                "one for all layers; choose from 'configs'."
            )
        return next(iter(self.configs.values()))


def by_layer(configs: RotaryConfig | Mapping[str, RotaryConfig]) -> dict[str, RotaryConfig]:
    """Return configurations by layer type; a single one is that of all layers."""
    given = {ALL_LAYERS: configs} if isinstance(configs, RotaryConfig) else dict(configs)
    if not given:
        raise ConfigError("There is no rotary configuration to write.")
    if ALL_LAYERS in given and len(given) > 1:
        raise ConfigError(f"A configuration of '{ALL_LAYERS}' layers cannot stand beside others: {', '.join(given)}.")
    return given


def only_config(configs: RotaryConfig | Mapping[str, RotaryConfig], dialect: str) -> RotaryConfig:
    """Return the one configuration, for a dialect that can say no more."""
    given = by_layer(configs)
    if len(given) > 1:
        raise ConfigError(
            f"{dialect} cannot say different rotary positions for {', '.join(given)}: it has one for all layers."
        )
    return next(iter(given.values()))


def declared_length(scaling: FrequencyScaling, length: int | None, findings: list[Finding]) -> int | None:
    """Return the declared length where the scaling reaches it, otherwise ``None`` and a finding."""
    target = getattr(scaling, "target_length", None)
    if length is None or target is None or length <= target or not scaling.limits_length:
        return length
    findings.append(
        Finding(
            "warning",
            f"The model is declared for {length} tokens, but its scaling '{scaling.name}' extends it to {target}.",
            "The declared length is left out of the configuration; check it against the model's publication.",
        )
    )
    return None


def with_base_for_ntk(config: RotaryConfig) -> RotaryConfig:
    """Return an equal configuration in which a static NTK scaling is said by a larger base.

    The formulas are ``base * factor^(d/(d-2))`` and nothing else, so nothing is lost. Others are returned as they are.
    """
    scaling = config.scaling
    if not isinstance(scaling, NTKAware) and not (isinstance(scaling, DynamicNTK) and scaling.target_length):
        return config
    assert config.rotary_dim is not None
    with localcontext(EXACT):
        base = float(config.frequencies()[1] ** (Decimal(-config.rotary_dim) / 2))
    return replace(config, base=base, scaling=Unscaled(), max_length=config.max_length or scaling.target_length)


def as_yarn(scaling: NTKByParts) -> YaRN:
    """Return NTK-by-parts as the YaRN of the same frequencies that leaves scores alone; YaRN as it is."""
    if isinstance(scaling, YaRN):
        return scaling
    return YaRN(
        factor=scaling.factor,
        original_length=scaling.original_length,
        target_length=scaling.target_length,
        beta_fast=scaling.beta_fast,
        beta_slow=scaling.beta_slow,
        truncate=scaling.truncate,
        attention_factor=1.0,
    )


def paper_attention_scale(scaling: YaRN) -> float:
    """Return the attention scale that YaRN's own formula gives for the factor."""
    return replace(scaling, attention_factor=None, mscale=None, mscale_all_dim=None).attention_scale()


def refuse_final_length(scaling: LongRoPE, dialect: str) -> None:
    """Raise ConfigError for a choice of LongRoPE's list that a dialect leaves to the engine."""
    if scaling.final_length is not None:
        raise ConfigError(
            f"{dialect} cannot say final_length {scaling.final_length} of the scaling 'longrope': the engine chooses "
            "between the lists. Write the configuration without final_length, or with the list of that length as both."
        )


def cannot_say(dialect: str, scaling: FrequencyScaling, why: str) -> ConfigError:
    """Return the error for a scaling that a dialect has no words for."""
    return ConfigError(f"{dialect} cannot say the scaling '{scaling.name}': {why}.")
