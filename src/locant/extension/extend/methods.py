"""Extension methods: what each makes of a rotary configuration and of a config.json."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.exact import EXACT, TWO_PI, geometric_frequencies
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import (
    SCALINGS,
    DynamicNTK,
    ExtensionMethod,
    FrequencyScaling,
    Linear,
    LongRoPE,
    NTKByParts,
    Proportional,
    Unscaled,
    YaRN,
)
from locant.rotary_configs.config_json import read_huggingface, write_huggingface
from locant.rotary_configs.reading import UNREADABLE, NoRotaryPositionsError, ParsedConfig, turn_alike
from locant.rotary_configs.vocabulary import text_config, text_config_path, with_entry

AUTO = "auto"
"""The method that measures the others and takes one of them."""

DEFAULT = "yarn"

GOES_ON = "longrope"
"""The method that goes on from any scaling, because its lists can hold any frequencies."""

DROPE = "drope"
"""The method that stops all rotation, after which the model is trained again at its old length."""

_DROPE = ExtensionMethod(
    "the rotation is dropped, and the model trained again at its old length; Gelberg et al. 2025, arXiv:2512.12167",
    "No layer rotates: config.json says so by a linear scaling whose factor leaves no angle. Engines that make a table "
    "of all positions times that factor cannot load it.",
    comparable=False,
)
_NO_ROTATION = float(
    1 << 40
)  # a linear factor by which a million tokens turn the fastest pair by a millionth of a radian

_LONGEST = 1 << 31
_SLIDING = "sliding_attention"

Read = Callable[[Mapping[str, Any]], ParsedConfig]


def extension_methods() -> dict[str, ExtensionMethod]:
    """Return the scalings that are offered as methods, and :data:`DROPE`, by name."""
    found = {name: scaling.method for name, scaling in SCALINGS.items() if scaling.method is not None}
    return {**found, DROPE: _DROPE}


def main_layer(configs: Mapping[str, RotaryConfig]) -> str:
    """Return the layer type whose positions are extended: the first that is not sliding attention, if there is one."""
    return next((layer for layer in configs if layer != _SLIDING), _SLIDING)


def check_request(method: str, target_length: int) -> None:
    """Raise ConfigError for a method that is unknown or a length that no position can have."""
    methods = extension_methods()
    if method not in methods:
        raise ConfigError(f"Unknown method '{method:.60}'.{nearest(method, methods)} Known: {', '.join(methods)}.")
    if not isinstance(target_length, int) or not 1 < target_length <= _LONGEST:
        raise ConfigError(f"The length to extend to must be a whole number of at most 2^31; got {target_length!r}.")


def extend_configs(configs: Mapping[str, RotaryConfig], method: str, target_length: int) -> dict[str, RotaryConfig]:
    """Return a model's rotary configurations by layer type, extended; those of sliding attention only drop rotation.

    Args:
        configs: What they are now.
        method: One of :func:`extension_methods`.
        target_length: Length in tokens that the model should read.

    Raises:
        ConfigError: The method is unknown or does not go with the scaling that the model has, or the model reads that
            far already.
    """
    check_request(method, target_length)
    if set(configs) == {_SLIDING}:
        raise ConfigError("All layers of this model have sliding attention, which needs no scaling for longer texts.")
    extended = {}
    for layer, config in configs.items():
        extended[layer] = config
        if layer == _SLIDING and method != DROPE:
            continue
        present = present_length(config)
        if isinstance(config.scaling, DynamicNTK):  # which no model is trained with
            config = replace(config, scaling=Unscaled(), max_length=present)
        if method == DROPE:
            _require_longer(present, target_length)
            scaling: FrequencyScaling = Linear(factor=_NO_ROTATION)
        else:
            scaling = _extended(config, SCALINGS[method], present, target_length)
        # Dynamic NTK declares the original length, which transformers takes from there.
        length = present if isinstance(scaling, DynamicNTK) else target_length
        extended[layer] = replace(config, scaling=scaling, max_length=length)
    declared = extended[main_layer(configs)].max_length
    return {layer: replace(config, max_length=declared) for layer, config in extended.items()}


def present_length(config: RotaryConfig) -> int:
    """Return the length in tokens that a model reads as it is configured now.

    Raises:
        ConfigError: Neither the scaling nor the model states it.
    """
    scaling, reach = config.scaling, config.scaling.reach or 0
    if isinstance(scaling, DynamicNTK) and not reach:
        return scaling.trained or 0
    if not (length := max(reach, config.max_length or 0)):
        raise ConfigError(
            "The file does not say how long the texts were that the model was trained with (max_position_embeddings, "
            "context_length). Add it."
        )
    return length


def _extended(
    config: RotaryConfig, method: type[FrequencyScaling], present: int, target_length: int
) -> FrequencyScaling:
    """Return the scaling by which a model that reads ``present`` tokens by its own reads longer texts."""
    scaling, rotary_dim = config.scaling, config.rotary_dim or config.head_dim
    if method is LongRoPE:
        return _two_lists(config, present, target_length)
    if isinstance(scaling, Unscaled):
        _require_longer(present, target_length)
        if method is DynamicNTK:  # as transformers has it, whose factor is the extension and which counts every token
            return DynamicNTK(original_length=present, factor=target_length / present, length_step=1)
        return method(**method.options_for_lengths(rotary_dim=rotary_dim, trained=present, longest=target_length) or {})
    if isinstance(scaling, Proportional) and method is Linear:
        _require_longer(present, target_length)
        return replace(scaling, factor=scaling.factor * target_length / present)
    if (isinstance(scaling, Linear) and method is Linear) or (
        isinstance(scaling, NTKByParts) and issubclass(method, NTKByParts)
    ):
        if scaling.original_length is None:
            raise ConfigError(
                f"The model is scaled by 'linear' with factor {scaling.factor:g}, and the file does not say whether "
                f"{present} tokens are its length before or after that. Add original_max_position_embeddings, the "
                "length before, to rope_scaling or rope_parameters."
            )
        _require_longer(scaling.original_length, target_length)
        stated = scaling.attention_factor if isinstance(scaling, YaRN) else None
        if isinstance(scaling, YaRN) and stated and math.isclose(stated, scaling.paper_attention_scale(), rel_tol=1e-6):
            scaling = replace(scaling, attention_factor=None)
        return replace(scaling, factor=None, target_length=target_length)
    raise ConfigError(
        f"The model is extended already, by the scaling '{scaling.name}', and {method.name} on top of it cannot be "
        "expressed. Take the method longrope, which goes on from the present frequencies. Or, if the model was never "
        "trained with that scaling, remove it from the configuration and restore max_position_embeddings."
    )


def _two_lists(config: RotaryConfig, length: int, target_length: int) -> LongRoPE:
    """Return two lists of factors: the present frequencies, and NTK-by-parts on top of those of the longest texts.

    NTK-by-parts is that of Peng et al. 2023, "YaRN", section 3.2, with the ramp that all implementations have. It is
    linear in the index of the pair, which is linear in the logarithm of its turns ``r = length * f / (2 pi)``; in this
    form it holds for any frequencies::

        f' = (1 - g) * f / factor + g * f,   g = clip(ln r / ln 32, 0, 1)
    """
    _require_longer(length, target_length)
    scaling, present = config.scaling, config.frequencies(length)
    if min(present) <= 0:
        raise ConfigError("Some pairs of this model do not turn, which the lists of LongRoPE cannot express.")
    short_scale, switch = None, length
    if isinstance(scaling, LongRoPE):
        short_scale, switch = scaling.short_attention_factor, scaling.trained_length
    plain, before = geometric_frequencies(len(present), config.base), config.frequencies(switch)
    with localcontext(EXACT):
        kept = [min(max((length * f / TWO_PI).ln() / Decimal(32).ln(), Decimal(0)), Decimal(1)) for f in present]
        slowed = [f * (g + (1 - g) * length / target_length) for f, g in zip(present, kept, strict=True)]
        short, long = ([float(p / f) for p, f in zip(plain, each, strict=True)] for each in (before, slowed))
    return LongRoPE(
        original_length=switch,
        target_length=target_length,
        short_factors=short,
        long_factors=long,
        attention_factor=scaling.attention_scale(length),
        short_attention_factor=short_scale,
    )


def _require_longer(length: int, target_length: int) -> None:
    if target_length <= length:
        raise ConfigError(f"The model reads {length} tokens already; extending it to {target_length} makes no sense.")


def first_possible(
    make: Callable[[str], Extended], method: str, configs: Mapping[str, RotaryConfig], *, may_go_on: bool
) -> Extended:
    """Return what is made of a method, or else of :data:`GOES_ON`, where ``make`` says that a model cannot have it.

    The other one is never taken in the place of the scaling that the model has already.
    """
    is_last = not may_go_on or method in (GOES_ON, DROPE, configs[main_layer(configs)].scaling.name)
    try:
        return make(method)
    except ConfigError as error:
        with suppress(ConfigError):
            if not is_last:
                return make(GOES_ON)
        raise error from None


TRACE = "locant_extension"
"""Entry of config.json that remembers what an extension replaced; engines ignore it."""

_ROTARY_KEYS = (
    *("rope_parameters", "rope_scaling", "rope_theta", "rope_local_base_freq", "rotary_emb_base", "rotary_pct"),
    *("partial_rotary_factor", "max_position_embeddings", "original_max_position_embeddings"),
)


@dataclass(frozen=True)
class Extended:
    """What an extended model has.

    Attributes:
        method: By which it is extended.
        before: The rotary configurations before the extension, by layer type.
        after: Those after it.
        content: The content of config.json, or new keys of a GGUF file.
        source: Who read back what is written: "entries", or a class.
        tensors: New tensors of a GGUF file, float32, by name.
    """

    method: str
    before: dict[str, RotaryConfig]
    after: dict[str, RotaryConfig]
    content: dict[str, Any]
    source: str = ""
    tensors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


def extend_config(
    config: Mapping[str, Any],
    method: str,
    target_length: int,
    read: Read = read_huggingface,
    *,
    may_go_on: bool = False,
) -> Extended:
    """Extend a model's config.json, and read back what was written.

    Args:
        config: The content of config.json, of any 4.x or 5.x release of transformers; it is not changed.
        method: One of :func:`extension_methods`.
        target_length: Length in tokens that the model should read.
        read: Reads a config.json, by its entries or by the model's class.
        may_go_on: Whether another method may be taken where the model cannot have it; see :func:`first_possible`.

    Raises:
        ConfigError: As :func:`apply_method`, or what ``read`` raises.
    """
    check_request(method, target_length)
    try:
        plain = before_extension(config, method, read)
        parsed, part = read(plain), text_config(plain)
    except ConfigError:
        raise
    except UNREADABLE as error:
        raise ConfigError(f"config.json cannot be read: {error!s:.200}.") from error
    model_type = part.get("model_type", plain.get("model_type"))
    before = {key: part[key] for key in _ROTARY_KEYS if part.get(key) is not None}

    def make(method: str) -> Extended:
        extended = extend_configs(parsed.configs, method, target_length)
        written = write_huggingface(
            extended,
            "5" if part.get("rope_parameters") else "4",
            model_type=model_type if isinstance(model_type, str) else None,
            multimodal=parsed.multimodal,
        )
        trace = {"method": method, "target_length": target_length, "before": before}
        content = with_entry(plain, text_config_path(plain), _merged(part, written) | {TRACE: trace})
        cannot = f"config.json of the model type '{model_type!s:.60}' cannot express the method {method}"
        try:
            found = read(content)
        except ConfigError as error:
            raise ConfigError(f"{cannot}: {error} Take another method; ntk only changes the base.") from error
        if not _is_same(parsed, found, extended):
            raise ConfigError(f"{cannot}: read by {found.source}, it has other frequencies. Take another method.")
        return Extended(method, parsed.configs, extended, content, found.source)

    return first_possible(make, method, parsed.configs, may_go_on=may_go_on)


def apply_method(config: Mapping[str, Any], method: str, target_length: int) -> dict[str, Any]:
    """Return the content of config.json for the extended model, by its entries alone.

    Layers of sliding attention stay as they are: no query there sees a key beyond the window. A configuration that
    this function wrote before is taken back first, so that factors never multiply.

    Args:
        config: The content of config.json, of any 4.x or 5.x release of transformers; it is not changed.
        method: One of :func:`extension_methods`.
        target_length: Length in tokens that the model should read.

    Raises:
        ConfigError: The configuration cannot be read, the method is unknown or cannot be expressed for this model, or
            the model reads that far already.

    Example:
        >>> old = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 8192, "rope_theta": 100000.0}
        >>> new = apply_method(old, "yarn", 16384)
        >>> new["max_position_embeddings"], new["rope_scaling"]["factor"]
        (16384, 2.0)
        >>> new["rope_scaling"]["original_max_position_embeddings"]
        8192
    """
    return extend_config(config, method, target_length).content


def read_by_class(content: Mapping[str, Any]) -> ParsedConfig:
    """Return what the model's class in transformers makes of a config.json; where there is none, what its entries say.

    Raises:
        ConfigError: The class refuses the file, or it cannot be read.
    """
    from locant.extension.asked.ask import NoClassError, ask_class

    try:
        reading = ask_class(content).reading
    except NoClassError:
        return read_huggingface(content)
    if not reading.configs:
        with suppress(ConfigError):
            stated = read_huggingface(content)
            if all(float(max(config.frequencies())) < 1e-9 for config in stated.configs.values()):
                return replace(stated, source=reading.source)  # turns so slow show in no text: rotation is dropped
        raise NoRotaryPositionsError(f"{reading.source} rotates no queries and keys, so that nothing can be extended.")
    return reading


def mark_trained(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of :func:`apply_method` with the remark that the model was trained with it."""
    path, trace = text_config_path(config), text_config(config)[TRACE]
    return with_entry(config, (*path, TRACE), trace | {"finetuned": True})


def before_extension(
    config: Mapping[str, Any], method: str | None = None, read: Read = read_huggingface
) -> dict[str, Any]:
    """Return config.json as it was before :func:`apply_method` extended the model; as it is, where it did not.

    Args:
        config: The content of config.json.
        method: The one that should be applied now, if any.
        read: As for :func:`extend_config`.

    Raises:
        ConfigError: Its rotary entries were changed afterwards, or the model was fine-tuned with another method.
    """
    part = text_config(config)
    trace = part.get(TRACE)
    if trace is None:
        return dict(config)
    before = trace.get("before") if isinstance(trace, Mapping) else None
    if not isinstance(before, Mapping) or set(before) - set(_ROTARY_KEYS):
        raise ConfigError(f"'{TRACE}' in config.json is damaged. Remove it, or copy the file again.")
    plain = with_entry(config, text_config_path(config), _merged(part, before))
    first, length = trace.get("method"), trace.get("target_length")
    parsed = read(plain)
    if not _is_same(parsed, read(config), extend_configs(parsed.configs, str(first), length)):
        raise ConfigError(
            f"The rotary entries of config.json are no longer those that the method {first} gave them, which "
            f"'{TRACE}' tells. Remove that entry if they are right; they count as those of training then."
        )
    if trace.get("finetuned") and method not in (None, first):
        raise ConfigError(f"The model was fine-tuned with the method {first}; take that again, not {method}.")
    return plain


def _merged(part: Mapping[str, Any], rotary: Mapping[str, Any]) -> dict[str, Any]:
    """Return a text config with other rotary entries; those that are ``None`` are left out."""
    kept = {key: value for key, value in part.items() if key not in _ROTARY_KEYS and key != TRACE}
    return kept | {key: value for key, value in rotary.items() if key in _ROTARY_KEYS and value is not None}


def _is_same(before: ParsedConfig, found: ParsedConfig, wanted: Mapping[str, RotaryConfig]) -> bool:
    """Whether all layers turn as is wanted, and those that did not turn before still do not."""
    if before.layers and found.layers:
        indices = {index: kind.config for kind in before.layers for index in kind.layers}
        return all(turn_alike(found.of_layer(index), wanted[key] if key else None) for index, key in indices.items())
    return found.configs.keys() == wanted.keys() and all(
        turn_alike(found.configs[layer], config) for layer, config in wanted.items()
    )
