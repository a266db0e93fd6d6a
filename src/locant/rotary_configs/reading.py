"""The rotary positions of a model, as they were read from another software's configuration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Explanation, FrequencyScaling, Unscaled

UNREADABLE = (ConfigError, ArithmeticError, ValueError, RecursionError)
"""What readers raise for a file that cannot be right; the last three for numbers or nesting beyond any range."""

ALL_LAYERS = "all"
"""The layer type of models whose layers all have the same rotary positions."""

MOST_LAYERS = 10_000
"""Layers of the deepest model that is read; a file may state any number, and lists are made of it."""


class NoRotaryPositionsError(ConfigError):
    """A model has other positions than rotary ones, or none: it cannot be read as a rotary configuration."""


@dataclass(frozen=True)
class LayerType:
    """The layers of a model that treat positions alike.

    Attributes:
        name: The type by the file's name (``full_attention``, ``linear_attention``), ``all`` where there is one.
        layers: Their indices, from 0.
        config: Key of their configuration in :attr:`ParsedConfig.configs`; ``None`` for layers without RoPE.
        window: Tokens that they look back over, themselves among them, where they do not see the whole text.
        attends: Whether they have attention at all: layers of a state space or a convolution have not.
    """

    name: str
    layers: tuple[int, ...]
    config: str | None
    window: int | None = None
    attends: bool = True


@dataclass(frozen=True)
class ParsedConfig:
    """The rotary positions of a model, read from another software's configuration.

    Attributes:
        configs: A configuration for every layer type that the model distinguishes (``full_attention``,
            ``sliding_attention``); most models have the single one ``all``. Layer types without RoPE have none.
        multimodal: For every layer type with positions of several axes (M-RoPE): ``sections``, the numbers of pairs of
            each axis, and ``interleaved``. For text alone, where all axes have the same position, the configuration in
            ``configs`` is exact without it.
        layers: Which layers are of which type, in the order of their first layer; empty where the file does not tell
            how many layers there are.
        source: Who says so: "entries", "LlamaModel of transformers 5.24.0", "GGUF metadata".
        assumed: What the file does not state and nobody was asked for: "pairing of halves", "base 10000".
    """

    configs: dict[str, RotaryConfig]
    multimodal: dict[str, dict[str, Any]] = field(default_factory=dict)
    layers: tuple[LayerType, ...] = ()
    source: str = "entries"
    assumed: tuple[str, ...] = ()

    def of_layer(self, index: int) -> RotaryConfig | None:
        """Return the configuration of one layer, ``None`` where it has no RoPE.

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
        """Return sentences about the layers without RoPE: "Layers 3, 7 have no RoPE.", "Layer 2 has no attention."."""
        layers: dict[tuple[bool, int | None], list[int]] = {}
        for kind in self.layers:
            if kind.config is None:
                layers.setdefault((kind.attends, kind.window), []).extend(kind.layers)
        found = []
        for attends, window in sorted(layers, key=lambda each: (not each[0], each[1] or 0)):
            words = in_words(indices := layers[attends, window])
            what = "no RoPE" if attends else "no attention"
            seen = f", and a window of {window} tokens" if window and attends else ""
            found.append(f"{words[0].upper()}{words[1:]} {'has' if len(indices) == 1 else 'have'} {what}{seen}.")
        return tuple(found)


def layers_alike(kinds: Iterable[tuple[str, str | None, int | None, bool]]) -> tuple[LayerType, ...]:
    """Return the layers that treat positions alike together.

    Args:
        kinds: Of every layer its type, the key of its configuration, its window, and whether it attends.
    """
    found: dict[tuple[str, str | None, int | None, bool], list[int]] = {}
    for index, kind in enumerate(kinds):
        found.setdefault(kind, []).append(index)
    return tuple(LayerType(kind[0], tuple(indices), *kind[1:]) for kind, indices in found.items())


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
        raise ConfigError(f"A configuration of '{ALL_LAYERS}' layers cannot be beside others: {', '.join(given)}.")
    return given


def only_config(configs: RotaryConfig | Mapping[str, RotaryConfig], engine: str) -> RotaryConfig:
    """Return the one configuration, for a format that has no more."""
    given = by_layer(configs)
    if len(given) > 1:
        raise ConfigError(
            f"{engine} cannot express different rotary positions for {', '.join(given)}: it has one for all layers."
        )
    return next(iter(given.values()))


def with_equivalent_base(config: RotaryConfig) -> RotaryConfig:
    """Return an equal configuration in which a scaling that only changes the base is that base; others as they are."""
    assert config.rotary_dim is not None
    base = config.scaling.equivalent_base(config.rotary_dim, config.base)
    if base is None:
        return config
    return replace(config, base=base, scaling=Unscaled(), max_length=config.max_length or config.scaling.reach)


def turn_alike(one: RotaryConfig | None, other: RotaryConfig | None) -> bool:
    """Whether two configurations turn the same pairs by the same angles, in short texts and in the longest."""
    if one is None or other is None or (one.rotary_dim, one.layout) != (other.rotary_dim, other.layout):
        return one is other

    def numbers(config: RotaryConfig) -> list[float]:
        lengths = (None, 1, 1 << 30)
        scales = [config.attention_scale(length) for length in lengths]
        return scales + [float(each) for length in lengths for each in config.frequencies(length)]

    return all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(numbers(one), numbers(other), strict=True))


def cannot_express(engine: str, scaling: FrequencyScaling, why: str) -> ConfigError:
    """Return the error for a scaling that an engine or a format does not have."""
    return ConfigError(f"{engine} cannot express the scaling '{scaling.name}': {why}.")
