"""What all readers and writers of rotary configurations share: checked fields, findings and the result of a reading."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from typing import Any, Literal

from locant.errors import ConfigError, nearest
from locant.positions.exact import EXACT
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import DynamicNTK, FrequencyScaling, LongRoPE, NTKAware, NTKByParts, Unscaled, YaRN
from locant.positions.scaling.frequency import MOST_TOKENS, is_number


class Fields:
    """The entries of a foreign configuration, which notes what was taken from it so that nothing is dropped.

    An entry that is ``None`` (``null`` in JSON) counts as absent.

    Args:
        values: The entries.
        where: Where they stand, for messages: "rope_scaling of config.json".
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = values
        self.where = where
        self._taken: set[str] = set()

    def get(self, name: str) -> Any:
        """Take an entry of any type, ``None`` where it is absent."""
        self._taken.add(name)
        return self.values.get(name)

    def number(self, name: str) -> float | None:
        """Take a finite number."""
        value = self.get(name)
        if value is not None and not is_number(value):
            raise self._wrong(name, value, "a number")
        return value

    def whole(self, name: str) -> int | None:
        """Take a positive whole number; a float without a fraction, as JSON may hold it, is one."""
        value = self.get(name)
        if value is None:
            return None
        if not is_number(value) or value != int(value) or value < 1:
            raise self._wrong(name, value, "a positive whole number")
        if value > MOST_TOKENS:
            raise self._wrong(name, value, f"at most {MOST_TOKENS}")
        return int(value)

    def flag(self, name: str) -> bool | None:
        """Take true or false."""
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def text(self, name: str) -> str | None:
        """Take a piece of text."""
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, value, "text")
        return value

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        """Take a group of entries."""
        value = self.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise self._wrong(name, value, "a group of named values")
        return value

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """Take a list of finite numbers."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, str) or not isinstance(value, Sequence) or not all(is_number(item) for item in value):
            raise self._wrong(name, value, "a list of numbers")
        return tuple(value)

    def need(self, value: float | None, name: str, why: str) -> float:
        """Return ``value``, or raise ConfigError because ``name`` is missing."""
        if value is None:
            raise ConfigError(f"'{name}' is missing in {self.where}: {why}.")
        return value

    def refuse_rest(self, known: Iterable[str], among: Iterable[str] | None = None) -> None:
        """Raise ConfigError for an entry that nobody took.

        Args:
            known: Names to suggest.
            among: The entries to look at; all of them when ``None``.
        """
        for name in self.values if among is None else among:
            if name not in self._taken and self.values[name] is not None:
                raise ConfigError(
                    f"'{name}' in {self.where} is not known here.{nearest(name, known)} Known: "
                    f"{', '.join(sorted(known))}."
                )

    def refuse_misspelt(self, names: Iterable[str]) -> None:
        """Raise ConfigError for an entry that nobody took and that is nearly one of ``names``."""
        for name in names:
            for close in difflib.get_close_matches(name, [key for key in self.values if key != name], cutoff=0.9):
                if close not in self._taken:
                    raise ConfigError(f"'{close}' in {self.where} is not known. Did you mean '{name}'?")

    def _wrong(self, name: str, value: Any, expected: str) -> ConfigError:
        return ConfigError(f"'{name}' in {self.where} must be {expected}; got {reprlib.repr(value)}.")


def agreed(first: float | None, second: float | None, message: str) -> float | None:
    """Return the value that is given, or raise ConfigError with ``message`` where two are given and differ."""
    if first is not None and second is not None and first != second:
        raise ConfigError(message)
    return second if first is None else first


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


def cannot_express(dialect: str, scaling: FrequencyScaling, why: str) -> ConfigError:
    """Return the error for a scaling that a dialect has no words for."""
    return ConfigError(f"{dialect} cannot say the scaling '{scaling.name}': {why}.")
