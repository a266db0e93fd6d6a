"""The meaning of a model's configuration, by layer type, and what all readers and writers share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import FrequencyScaling, Unscaled
from locant.positions.scaling.fields import Finding

UNREADABLE = (ConfigError, ArithmeticError, ValueError)
"""What readers raise for a file that cannot be right; the last two for numbers beyond any range or domain."""

_LONGEST_MESSAGE = 1000

ALL_LAYERS = "all"
"""The layer type of models whose layers all have the same rotary positions."""


@dataclass(frozen=True)
class ParsedConfig:
    """The rotary positions of a model, read from another software's configuration.

    Attributes:
        configs: A configuration for every layer type that the model distinguishes (``full_attention``,
            ``sliding_attention``); most models have the single one ``all``. Layer types without rotary positions have
            none.
        findings: What is doubtful about it.
        multimodal: For every layer type with positions of several axes (M-RoPE) the entries of the file:
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


def only_config(configs: RotaryConfig | Mapping[str, RotaryConfig], engine: str) -> RotaryConfig:
    """Return the one configuration, for a format that has no more."""
    given = by_layer(configs)
    if len(given) > 1:
        raise ConfigError(
            f"{engine} cannot express different rotary positions for {', '.join(given)}: it has one for all layers."
        )
    return next(iter(given.values()))


def declared_length(scaling: FrequencyScaling, length: int | None, findings: list[Finding]) -> int | None:
    """Return the declared length where the scaling reaches it, otherwise ``None`` and a finding."""
    target = scaling.reach
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


def with_equivalent_base(config: RotaryConfig) -> RotaryConfig:
    """Return an equal configuration in which a scaling that only changes the base is that base; others as they are."""
    assert config.rotary_dim is not None
    base = config.scaling.equivalent_base(config.rotary_dim, config.base)
    if base is None:
        return config
    return replace(config, base=base, scaling=Unscaled(), max_length=config.max_length or config.scaling.reach)


def cannot_express(engine: str, scaling: FrequencyScaling, why: str) -> ConfigError:
    """Return the error for a scaling that an engine or a format does not have."""
    return ConfigError(f"{engine} cannot express the scaling '{scaling.name}': {why}.")


def error_finding(error: ArithmeticError | ValueError, where: str) -> Finding:
    """Return the finding for a configuration that cannot be read.

    Args:
        error: What its reader raised, one of :data:`UNREADABLE`.
        where: The file, for the message.
    """
    message = str(error) if isinstance(error, ConfigError) else f"{where} holds a number beyond any range ({error})."
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]} ..."
    return Finding("error", message, "Correct the entry; the configuration that the publisher released is the measure.")
