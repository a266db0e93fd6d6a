"""Layers that the flags of llama.cpp hold for: graphs do not give base and scale of the context to all of them.

Source: ``get_rope_freq_base`` and ``get_rope_freq_scale`` in ``llama-model.cpp``, and the graphs in ``src/models``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Unscaled, YaRN
from locant.positions.scaling.fields import Finding
from locant.rotary_configs.base import ALL_LAYERS, LayerType
from locant.rotary_configs.gguf.architectures import BASE_OF_GRAPH, PASSES_OVER_SCALING
from locant.rotary_configs.gguf.sliding import CHUNKED, COMPRESSED, FULL, MAIN, SLIDING, SLIDING_ATTENTION


@dataclass(frozen=True)
class Heeds:
    """What of the flags the layers of a type heed.

    Attributes:
        base: ``--rope-freq-base``.
        scaling: The flags about scaling.
        kind: Those of them that say which scaling it is, by the factor of the file.
        magnitude: ``--yarn-attn-factor`` without YaRN, though frequencies are not scaled.
    """

    base: bool
    scaling: bool
    kind: bool = False
    magnitude: bool = False


_ALL, _NOTHING = Heeds(base=True, scaling=True), Heeds(base=False, scaling=False)


def heeded_by(architecture: str | None, layer: str, *, is_single: bool) -> Heeds:
    """Return what of the flags the layers of a type heed.

    Args:
        architecture: ``general.architecture`` of the file, where it is known.
        layer: The type.
        is_single: Whether all layers have it.
    """
    if architecture in BASE_OF_GRAPH:
        return _NOTHING
    if architecture in PASSES_OVER_SCALING:
        return Heeds(base=True, scaling=False)
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
        magnitude=facts.is_magnified,
    )


_BASE, _CONTEXT, _MAGNITUDE = "--rope-freq-base", "--ctx-size", "--yarn-attn-factor"
_OF_A_RAMP = ("--yarn-orig-ctx", "--yarn-beta-fast", "--yarn-beta-slow")
_NEUTRAL = {"--rope-scale": (1,), "--rope-freq-scale": (0, 1)}


def unheeded_flags(
    values: Mapping[str, str],
    numbers: Mapping[str, float],
    heeds: Mapping[str, Heeds],
    models: Mapping[str, RotaryConfig],
    runs: Mapping[str, RotaryConfig],
    layers: Sequence[LayerType],
) -> Iterator[Finding]:
    """Yield which flags have no effect, or one on some layers alone, and what the others keep.

    Args:
        values: The flags.
        numbers: The values of those that are numbers.
        heeds: What every layer type heeds.
        models: The configurations of the file by layer type.
        runs: Those with the flags.
        layers: The layers of the file.
    """
    has_ramp = any(isinstance(each.scaling, YaRN) for each in runs.values())
    groups: dict[tuple[str, ...], list[str]] = {}
    for flag in values:
        if flag == _CONTEXT or numbers.get(flag) in _NEUTRAL.get(flag, ()):
            continue
        kept = tuple(layer for layer in heeds if _is_kept(flag, values, numbers, heeds[layer], models[layer]))
        is_told = flag in _OF_A_RAMP and not has_ramp and len(kept) < len(heeds)  # to be without effect everywhere
        changed = any(runs[layer].scaling != models[layer].scaling for layer in heeds if layer not in kept)
        if kept and not is_told and (flag == _BASE or changed or len(kept) == len(heeds)):
            groups.setdefault(kept, []).append(flag)
    for kept, flags in groups.items():
        *first, last = [f"{flag} {values[flag]}" for flag in flags]
        said = f"{', '.join(first)} and {last}" if first else last
        own = models[kept[0]]
        state = _state(own, base=_BASE in flags, scaling={*flags} != {_BASE})
        remedy = f"Leave {'them' if first else 'it'} out, or change the keys of the file."
        if len(kept) < len(heeds):
            reached = _in_words([layer for layer in heeds if layer not in kept])
            verb = "hold" if first else "holds"
            yield Finding("note", f"{said} {verb} for {reached} alone: {_in_words(kept)} {state}.", remedy)
            continue
        others = any(kind.config is None and kind.attends for kind in layers)
        yield Finding(
            "warning",
            f"{said} {'have' if first else 'has'} no effect: {_in_words(kept)} {state}"
            f"{', and the others do not rotate' if others else ''}.",
            remedy,
        )


def _is_kept(
    flag: str, values: Mapping[str, str], numbers: Mapping[str, float], heeded: Heeds, own: RotaryConfig
) -> bool:
    """Whether layers of a configuration stay as they are, although a flag says otherwise."""
    if flag == "--rope-scaling" and values[flag] == "none" and own.scaling == Unscaled():
        return False
    if flag == _BASE:
        return not heeded.base and numbers.get(flag) not in (0, own.base)
    if flag == _MAGNITUDE and heeded.magnitude:
        return False
    return not heeded.scaling and (not heeded.kind or flag in _NEUTRAL)


def _state(own: RotaryConfig, *, base: bool, scaling: bool) -> str:
    """Return what layers keep, in words."""
    if scaling and own.scaling == Unscaled():
        return f"keep the base {own.base:g} without scaling" if base else "stay without scaling"
    kept = [f"the base {own.base:g}"] if base else []
    kept += [f"the scaling '{own.scaling.name}' of the file"] if scaling else []
    return f"keep {' and '.join(kept)}"


def _in_words(layers: Sequence[str]) -> str:
    return "all layers" if ALL_LAYERS in layers else f"{' and '.join(layers)} layers"


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
