"""Comparison of rotary positions as they were read from a file with those that a model's class computes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from locant.extension.inspect.model_class.observe import ObservedLayer
from locant.positions.rotary.config import RotaryConfig
from locant.rotary_configs.base import ParsedConfig

_RELATIVE = 2e-5
_SCALE = 1e-4
_SLOW = 1e-4  # radians within the text that do not show
_SEEN = 1e-2  # radians within the text that show in every layer, however small its weights for a pair are


@dataclass(frozen=True)
class Difference:
    """One way in which layers of the class do something else than the file was read to say.

    Attributes:
        subject: What differs: ``rotation``, ``features``, ``layout``, ``frequencies``, ``scale`` or ``window``.
        layers: The layers, from 0.
        read: What was read.
        found: What the class does.
    """

    subject: str
    layers: tuple[int, ...]
    read: str
    found: str


def compare_with_class(
    parsed: ParsedConfig, layers: Sequence[ObservedLayer], length: int, built: Collection[int] = ()
) -> list[Difference]:
    """Return where the class computes something else.

    Args:
        parsed: The reading.
        layers: What the layers of the class were seen to do.
        length: Length of the text in tokens that they computed, one more than its last position.
        built: Indices of the layers that were built with an attention, also those that did not compute with the text.
    """
    grouped: dict[tuple[str, str, str], list[int]] = {}
    widest = _widest(parsed, layers)
    for layer in layers:
        if layer.layer is None:
            continue
        config = config_of_layer(parsed, layer.layer)
        for difference in differences_of_layer(config, layer, length, widest.get(config, 0)):
            grouped.setdefault(difference, []).append(layer.layer)
    unseen = set(built) - {layer.layer for layer in layers}
    for index in sorted(unseen & {each for kind in parsed.layers if kind.config is not None for each in kind.layers}):
        grouped.setdefault(("rotation", "rotates", "does not attend to the text"), []).append(index)
    for index, read, found in _windows(parsed, layers):
        grouped.setdefault(("window", read, found), []).append(index)
    return [Difference(key[0], tuple(indices), key[1], key[2]) for key, indices in grouped.items()]


def _widest(parsed: ParsedConfig, layers: Sequence[ObservedLayer]) -> dict[RotaryConfig | None, int]:
    """Return the most features that were seen to be rotated in layers of each configuration.

    The last pairs turn little within the text: a layer whose weights for them are small does not show them.
    """
    found: dict[RotaryConfig | None, int] = {}
    for layer in layers:
        if layer.layer is not None and layer.rotation is not None and layer.rotation.layout is not None:
            config = config_of_layer(parsed, layer.layer)
            found[config] = max(found.get(config, 0), layer.rotation.rotary_dim)
    return found


def windows_are_told(layers: Sequence[ObservedLayer]) -> bool:
    """Whether a class tells its layers apart by whether they have a window, so that what it says of them counts."""
    return len({layer.window is None for layer in layers}) == 2


def _windows(parsed: ParsedConfig, layers: Sequence[ObservedLayer]) -> Iterator[tuple[int, str, str]]:
    """Yield the layers whose masks have another window than was read, with both.

    Where no mask was seen, only those count that have a window in the class alone, or in the reading alone.
    """
    read = {index: kind.window for kind in parsed.layers for index in kind.layers}
    are_told = windows_are_told(layers)
    for layer in layers:
        if layer.layer not in read:
            continue
        window = read[layer.layer]
        if layer.mask is not None and layer.mask.window != 0:  # of which it is told that it hides every token
            if layer.mask.window != window:
                yield layer.layer, _in_tokens(window), _in_tokens(layer.mask.window)
        elif layer.mask is None and are_told and (window is None) is not (layer.window is None):
            has_none = layer.window is None
            yield layer.layer, *(("a window", "no window") if has_none else ("no window", "a window"))


def _in_tokens(window: int | None) -> str:
    return "no window" if window is None else f"a window of {window} tokens"


def config_of_layer(parsed: ParsedConfig, layer: int) -> RotaryConfig | None:
    """Return the configuration of a layer; some classes count more layers than the file, and use one for all."""
    known = {index for kind in parsed.layers for index in kind.layers}
    if known and layer not in known and len(parsed.configs) == 1:
        return parsed.config
    return parsed.of_layer(layer)


def differences_of_layer(
    config: RotaryConfig | None, layer: ObservedLayer, length: int, widest: int = 0
) -> Iterator[tuple[str, str, str]]:
    """Yield what a layer does otherwise than by a configuration: the subject, what was read, what the class does.

    Args:
        config: The configuration; ``None`` for no rotation.
        layer: What the layer was seen to do.
        length: Length of the text in tokens that it computed.
        widest: Features that any layer of this configuration was seen to rotate.
    """
    found = forwards(layer, config).rotation
    if config is None or found is None:
        if config is not None:
            yield "rotation", "rotates", "does not rotate"
        elif found is not None and found.layout is not None:
            yield "rotation", "does not rotate", f"rotates {found.rotary_dim} of {found.head_dim} features"
        return
    if found.layout is None:
        yield "layout", config.layout, "moves features, but not by a rotation of pairs"
        return
    assert config.rotary_dim is not None
    frequencies = [float(each) for each in config.frequencies(length)]
    # Pairs that stand still are not seen, nor are those that turn too slowly for the text.
    turns = [abs(each) * length for each in frequencies]
    is_missing = any(each > _SEEN for each in turns[len(found.frequencies) :])
    is_missing = is_missing or any(each > _SLOW for each in turns[max(len(found.frequencies), widest // 2) :])
    if found.rotary_dim > config.rotary_dim or is_missing:
        yield "features", f"rotates {config.rotary_dim} features", f"rotates {found.rotary_dim} features"
        return
    # The two features of a single pair are halves and neighbours at once.
    if layer.layout is not None and layer.layout != config.layout and config.rotary_dim > 2:
        yield "layout", config.layout, layer.layout
    for index, (stated, seen, precision) in enumerate(
        zip(frequencies, found.frequencies, found.precisions, strict=False)
    ):
        if _apart(stated, seen) > precision + _RELATIVE * abs(stated):
            yield "frequencies", f"pair {index} turns by {stated:.6g} a token", f"{seen:.6g}"
            break
    scale = config.attention_scale(length)
    if layer.scale is not None and abs(layer.scale / abs(scale) - 1) > _SCALE:
        yield "scale", f"attention scale {scale:.6g}", f"{layer.scale:.6g}"


def turns_back(layer: ObservedLayer, config: RotaryConfig | None = None) -> bool:
    """Whether a layer turns its pairs by minus the angle.

    Args:
        layer: What the layer was seen to do.
        config: Its configuration, which may turn them so by a factor below 0.
    """
    if layer.rotation is None or not layer.rotation.frequencies:
        return False
    seen = layer.rotation.frequencies
    fastest = max(range(len(seen)), key=lambda index: abs(seen[index]))
    stated = () if config is None else config.frequencies()[fastest : fastest + 1]
    is_by_file = any(each < 0 or _apart(each, seen[fastest]) < _RELATIVE * abs(each) for each in map(float, stated))
    return seen[fastest] < 0 and not is_by_file


def _apart(stated: float, seen: float) -> float:
    """Return how far two frequencies are apart: whole turns a token more or less are the same at all positions."""
    return abs(math.remainder(stated - seen, 2 * math.pi))


def forwards(layer: ObservedLayer, config: RotaryConfig | None = None) -> ObservedLayer:
    """Return a layer with the frequencies by which it turns pairs whose two features are exchanged.

    Args:
        layer: What the layer was seen to do.
        config: Its configuration.
    """
    if layer.rotation is None or not turns_back(layer, config):
        return layer
    turned = tuple(-each for each in layer.rotation.frequencies)
    return replace(layer, rotation=replace(layer.rotation, frequencies=turned))
