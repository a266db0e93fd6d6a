"""Layers that the flags of llama.cpp hold for: graphs do not give base and scale of the context to all of them.

Source: ``get_rope_freq_base`` and ``get_rope_freq_scale`` in ``llama-model.cpp``, and the graphs in ``src/models``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from locant.positions.rotary.config import RotaryConfig
from locant.rotary_configs.base import ALL_LAYERS, LayerType
from locant.rotary_configs.gguf_sliding import CHUNKED, COMPRESSED, FULL, MAIN, SLIDING, SLIDING_ATTENTION


@dataclass(frozen=True)
class Heeds:
    """What of the flags the layers of a type heed.

    Attributes:
        base: ``--rope-freq-base``.
        scaling: The flags about scaling.
        kind: Those of them that say which scaling it is, by the factor of the file.
    """

    base: bool
    scaling: bool
    kind: bool = False


_ALL, _NOTHING = Heeds(base=True, scaling=True), Heeds(base=False, scaling=False)


def heeded_by(architecture: str | None, layer: str, *, is_single: bool) -> Heeds:
    """Return what of the flags the layers of a type heed.

    Args:
        architecture: ``general.architecture`` of the file, where it is known.
        layer: The type.
        is_single: Whether all layers have it.
    """
    if architecture == "deepseek4":
        return {MAIN: Heeds(base=True, scaling=False), COMPRESSED: Heeds(base=False, scaling=True)}.get(layer, _ALL)
    if is_single or layer not in (SLIDING, CHUNKED):
        return _ALL
    facts = SLIDING_ATTENTION.get(architecture or "")
    if facts is None:
        return _NOTHING
    return Heeds(
        base=not facts.takes_base,
        scaling=facts.is_scaled and not facts.keeps_factor,
        kind=facts.is_scaled and facts.keeps_factor,
    )


def told_apart(
    architecture: str | None, models: Mapping[str, RotaryConfig], layers: Sequence[LayerType]
) -> tuple[Mapping[str, RotaryConfig], tuple[LayerType, ...]]:
    """Return the configurations of a file with those of sliding layers apart, where flags change the others alone.

    Args:
        architecture: ``general.architecture`` of the file, where it is known.
        models: Its configurations by layer type.
        layers: Its layers.
    """
    sliding = {name for kind in layers for name in (SLIDING, CHUNKED) if kind.config and kind.name.startswith(name)}
    if architecture not in SLIDING_ATTENTION or len(sliding) != 1 or {*models} != {ALL_LAYERS}:
        return models, tuple(layers)
    (name,) = sliding
    own = models[ALL_LAYERS]
    apart = [
        replace(kind, config=name if kind.name.startswith(name) else FULL) if kind.config else kind for kind in layers
    ]
    used = {kind.config for kind in apart}
    return {each: own for each in (FULL, name) if each in used}, tuple(apart)
