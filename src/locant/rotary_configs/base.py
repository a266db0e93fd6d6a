"""The meaning of a model's configuration, by layer type, and what all readers and writers share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Explanation, FrequencyScaling, Unscaled
from locant.positions.scaling.fields import Fields, Finding

UNREADABLE = (ConfigError, ArithmeticError, ValueError, RecursionError)
"""What readers raise for a file that cannot be right; the last three for numbers or nesting beyond any range."""

_LONGEST_MESSAGE = 1000


class NoRotaryPositionsError(ConfigError):
    """A model has other positions than rotary ones, or none: it cannot be read as a rotary configuration.

    Args:
        message: What it has.
        remedy: What would give it positions, where nothing tells it the order of a text, or an entry that is left out
            takes its rotation away. Empty where nothing is wrong.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


ALL_LAYERS = "all"
"""The layer type of models whose layers all have the same rotary positions."""


MOST_LAYERS = 10_000
"""Layers of the deepest model that is read; a file may state any number, and lists are made of it."""


@dataclass(frozen=True)
class LayerType:
    """The layers of a model that treat positions alike.

    Attributes:
        name: The type by the file's name (``full_attention``, ``linear_attention``), ``all`` where there is one; layers
            of a type that rotates in some layers alone are told apart as "full_attention without positions".
        layers: Their indices, from 0.
        config: Key of their configuration in :attr:`ParsedConfig.configs`; ``None`` where they do not rotate.
        window: Tokens that they look back over, themselves among them, where they do not see the whole text.
        attends: Whether they have attention at all: layers of a state space or a convolution have not.
    """

    name: str
    layers: tuple[int, ...]
    config: str | None
    window: int | None = None
    attends: bool = True

    @property
    def type_name(self) -> str:
        """The type by the file's name alone, of layers with positions and without."""
        return self.name.removesuffix(" without positions")


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
        layers: Which layers are of which type, in the order of their first layer; empty where the file does not tell
            how many layers there are.
    """

    configs: dict[str, RotaryConfig]
    findings: tuple[Finding, ...] = ()
    multimodal: dict[str, dict[str, Any]] = field(default_factory=dict)
    layers: tuple[LayerType, ...] = ()

    def of_layer(self, index: int) -> RotaryConfig | None:
        """Return the configuration of one layer, ``None`` where it does not rotate.

        Args:
            index: The layer, from 0.

        Raises:
            ConfigError: It is not known of which type the layer is.
        """
        for kind in self.layers:
            if index in kind.layers:
                return None if kind.config is None else self.configs[kind.config]
        if self.layers:
            raise ConfigError(
                f"This model has no layer {index}: it has {sum(len(kind.layers) for kind in self.layers)}."
            )
        return self.config

    def explain(self) -> dict[str, Explanation]:
        """Return the explanation of every configuration, by layer type."""
        return {layer: config.explain() for layer, config in self.configs.items()}

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

    def layers_with(self, config: str) -> str:
        """Return which layers have a configuration, in words: "layers 5, 11, 17 (3 of 18), window 512 tokens".

        Args:
            config: Key of the configuration; the words are empty where the file does not tell its layers.
        """
        total = sum(len(kind.layers) for kind in self.layers)
        said = []
        for kind in self.layers:
            if kind.config != config:
                continue
            which = f"all {total} layers" if len(kind.layers) == total else in_words(kind.layers)
            counted = "" if len(kind.layers) == total else f" ({len(kind.layers)} of {total})"
            window = f", window {kind.window} tokens" if kind.window else ""
            named = f"{kind.name}: " if kind.name not in (config, ALL_LAYERS) else ""
            said.append(f"{named}{which}{counted}{window}")
        return "; ".join(said)

    def layers_without(self) -> tuple[str, ...]:
        """Return sentences about the layers that do not rotate, with their windows.

        "Layers 3, 7 have no positions.", "Layer 11 has no positions, and a window of 512 tokens.".
        """
        layers: dict[tuple[bool, int | None], list[int]] = {}
        for kind in self.layers:
            if kind.config is None:
                layers.setdefault((kind.attends, kind.window), []).extend(kind.layers)
        found = []
        for attends, window in sorted(layers, key=lambda each: (not each[0], each[1] or 0)):
            words = in_words(indices := layers[attends, window])
            what = "no positions" if attends else "no attention"
            seen = f", and a window of {window} tokens" if window and attends else ""
            found.append(f"{words[0].upper()}{words[1:]} {'has' if len(indices) == 1 else 'have'} {what}{seen}.")
        return tuple(found)


def number_of_layers(entries: Fields, name: str) -> int | None:
    """Return the number of layers that an entry states, ``None`` where it is left out.

    Args:
        entries: The entries of a file.
        name: The one with the number.

    Raises:
        ConfigError: It is no positive whole number, or more than :data:`MOST_LAYERS`.
    """
    found = entries.whole(name)
    if found is not None and found > MOST_LAYERS:
        raise ConfigError(f"{name} in {entries.where} is {found}; {MOST_LAYERS} is the most here.")
    return found


def in_words(layers: Iterable[int], most: int = 12) -> str:
    """Return the indices of layers in words.

    Example:
        >>> in_words([11, 3, 7]), in_words([5])
        ('layers 3, 7, 11', 'layer 5')
    """
    indices = sorted(layers)
    shown = ", ".join(map(str, indices[:most]))
    more = f" and {len(indices) - most} more, up to {indices[-1]}" if len(indices) > most else ""
    return f"layer{'' if len(indices) == 1 else 's'} {shown}{more}"


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


def error_finding(error: ArithmeticError | ValueError | RecursionError, where: str) -> Finding:
    """Return the finding for a configuration that cannot be read.

    Args:
        error: What its reader raised, one of :data:`UNREADABLE`.
        where: The file, for the message.

    Returns:
        An error; for a model without rotary positions a note, or a warning where something may be wrong with that.
    """
    beyond = "groups nested beyond any depth" if isinstance(error, RecursionError) else "a number beyond any range"
    message = str(error) if isinstance(error, ConfigError) else f"{where} holds {beyond}."
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]} ..."
    if isinstance(error, NoRotaryPositionsError):
        nothing = "There is nothing to correct, and nothing that scales frequencies applies to it."
        return Finding("warning" if error.remedy else "note", message, error.remedy or nothing)
    remedy = (
        "Correct the entry; where the file is as its publisher released it, the publisher's own code is the measure."
    )
    return Finding("error", message, remedy)
