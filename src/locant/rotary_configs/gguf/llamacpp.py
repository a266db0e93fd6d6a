"""Rotary positions in the command-line flags of llama.cpp.

The flags change the settings of the GGUF file; number of rotated features and layout stay the file's. They know three
scalings, and since December 2025 the attention scale of YaRN follows from the factor alone: ``--yarn-attn-factor`` is
overwritten while YaRN is on (llama.cpp pull request 17945; before, it was multiplied). What the flags do was read in
``llama_context::llama_context`` and ``llama_model::get_rope_factors``: YaRN is on where ``--yarn-ext-factor`` is above
0, which the type decides where the flag is left out; base and scale hold for layers of full attention alone where
sliding ones have their own; the context chooses between the lists of LongRoPE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from locant.errors import ConfigError
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import FrequencyScaling, Linear, LongRoPE, Unscaled, YaRN
from locant.positions.scaling.contexts import LlamaCppContext
from locant.positions.scaling.forms import gguf_factors
from locant.rotary_configs.base import (
    ALL_LAYERS,
    LayerType,
    ParsedConfig,
    by_layer,
    cannot_express,
    only_config,
    with_equivalent_base,
)
from locant.rotary_configs.factor_products import mixed, of_both, of_small_base_in_yarn, one_list
from locant.rotary_configs.gguf.architectures import LOG_MULTIPLIER_UNIT, graph_of
from locant.rotary_configs.gguf.deviations import USUAL_BASE, alpha_beside_a_base, check_demanded_base
from locant.rotary_configs.gguf.llamacpp_flags import (
    check_numbers,
    check_type,
    parse_flags,
    scale_of,
    scaling_types,
)
from locant.rotary_configs.gguf.llamacpp_layers import heeded_by, told_apart, unheeded_flags
from locant.rotary_configs.gguf.llamacpp_settings import (
    FlagsOfLayers,
    keys_of,
    keys_replaced,
    original_by_flag,
    stated_by_file,
)
from locant.rotary_configs.gguf.scaling import unmixed
from locant.rotary_configs.gguf.sliding import FULL, with_plain_attention
from locant.rotary_configs.unusual_bases import of_small_base, with_base
from locant.rotary_configs.wording import speaks_of

_FORMAT = "llama.cpp's command line"


def write_llamacpp(configs: RotaryConfig | Mapping[str, RotaryConfig]) -> list[str]:
    """Return the flags that make llama.cpp run a model with these rotary positions, whatever its file has.

    Args:
        configs: The configuration; the flags hold for all layers.

    Raises:
        ConfigError: The flags cannot express it. Llama 3's and LongRoPE's factors are tensors of the file: run such a
            file without flags.

    Example:
        >>> from locant.positions import YaRN
        >>> config = RotaryConfig(head_dim=128, base=1e6, scaling=YaRN(factor=4, original_length=32768))
        >>> " ".join(write_llamacpp(config)[:6])
        '--rope-freq-base 1000000.0 --ctx-size 131072 --rope-scaling yarn'
    """
    config = with_equivalent_base(only_config(configs, _FORMAT))
    scaling = config.scaling
    flags: dict[str, object] = {"--rope-freq-base": config.base}
    length = config.max_length or scaling.reach
    if length is not None:
        flags["--ctx-size"] = length
    own = scaling.llamacpp_flags(_FORMAT)
    if own is None:
        types = ", ".join(scaling_types())
        raise cannot_express(_FORMAT, scaling, f"it has {types}, and other factors are tensors of the file")
    flags |= own
    return [word for flag, value in flags.items() for word in (flag, str(value))]


@speaks_of("llamacpp", "The command line")
def read_llamacpp(
    arguments: str | Sequence[str],
    model: RotaryConfig | Mapping[str, RotaryConfig],
    *,
    metadata: Mapping[str, Any] | None = None,
    layers: Sequence[LayerType] = (),
) -> ParsedConfig:
    """Read the rotary positions with which llama.cpp runs a model under some flags.

    Args:
        arguments: The command line, or its words; flags about other things are passed over, and so is
            ``--override-kv``, which changes the file
            (:func:`locant.rotary_configs.gguf.llamacpp_flags.overridden_metadata`).
        model: The configuration of the file alone, as :func:`locant.rotary_configs.read_gguf` reads it, or those of its
            layer types.
        metadata: The metadata of the file, where they are at hand: a type and a factor that it states count where flags
            leave them out.
        layers: The file's layers; sliding ones heed flags in few architectures.

    Raises:
        ConfigError: A flag about rotary positions is unknown or its value wrong, or flags contradict the scaling of the
            file.

    Example:
        >>> model = RotaryConfig(head_dim=128, max_length=4096)
        >>> read_llamacpp("llama-cli -m x.gguf -c 16384 --rope-scaling linear --rope-scale 4", model).config.scaling
        Linear(factor=4.0, target_length=16384, original_length=4096)
    """
    given = parse_flags(arguments)
    numbers, findings = given.numbers(), given.findings
    check_numbers(numbers)
    file = metadata or {}
    keys, named = keys_of(file), file.get("general.architecture")
    architecture = named and graph_of(named, keys.values)
    models, kinds = told_apart(architecture, by_layer(model), layers)
    scale = scale_of(given.values, numbers, findings)
    stated = stated_by_file(keys, architecture)
    multiplier = keys.number("rope.scaling.yarn_log_multiplier") or 0.0
    if scale and multiplier < 0 and architecture in LOG_MULTIPLIER_UNIT:
        raise ConfigError(
            f"rope.scaling.yarn_log_multiplier {multiplier:g} of the file is below 0; the attention scale that it "
            f"makes with {scale.flag} is not known here. Leave the flag out, or correct the file first."
        )
    base = numbers.get("--rope-freq-base")
    if base:
        check_demanded_base(architecture, base, f"--rope-freq-base {base:g}")
        findings += alpha_beside_a_base(keys, architecture, base)
        if base <= 1:
            findings.append(of_small_base(f"--rope-freq-base is {base:g}", base, "llama.cpp"))
    is_single = len(models) == 1 and not kinds
    heeds = {layer: heeded_by(architecture, layer, is_single=is_single) for layer in models}
    configs = {}
    for layer, own in models.items():
        heeded = heeds[layer]
        plain = own if architecture is None else unmixed(own, keys, architecture)
        flags = FlagsOfLayers(given.values.get("--rope-scaling"), numbers, scale, plain, findings, stated, own.base)
        changed = with_base(own, flags.base if heeded.base else own.base, scaling=Unscaled())
        if heeded.scaling:
            scaling = _scaling(flags) if flags.change_something else own.scaling
            if architecture == "deepseek4":
                scaling = with_plain_attention(scaling)
            configs[layer] = _in_context(replace(changed, scaling=scaling, max_length=None), flags)
            continue
        scaling = _by_factor_of_file(flags) if heeded.kind else own.scaling
        scaling = _magnified(flags) if heeded.magnitude else scaling
        configs[layer] = replace(changed, scaling=scaling)
        if layer in (ALL_LAYERS, FULL):
            configs[layer] = _in_context(configs[layer], flags)
        if heeded.kind and flags.kind == "none" and flags.kept_factor != 1:
            flags.warn(
                f"--rope-scaling none does not reach the factor of the file in {layer} layers: llama.cpp divides "
                f"their positions by {flags.kept_factor:g} all the same, as is shown.",
                "Leave the flag out, if the weights were trained or extended with that scaling.",
            )
    findings += unheeded_flags(given.values, numbers, heeds, models, configs, kinds)
    scaled = any(each.scaling for each in heeds.values()) and all(
        each.scaling.llamacpp_type for each in models.values()
    )
    findings += keys_replaced(
        keys,
        stated,
        base if any(each.base for each in heeds.values()) else None,
        given.values.get("--rope-scaling") if scaled else None,
        scale if scaled and given.values.get("--rope-scaling") != "none" else None,
    )
    length = next(iter(models.values())).max_length
    findings += original_by_flag(numbers, stated, length, [each.scaling for each in configs.values()])
    return ParsedConfig(configs, tuple(dict.fromkeys(findings)), layers=kinds)


def _scaling(flags: FlagsOfLayers) -> FrequencyScaling:
    kind, scale, own, types = flags.kind, flags.scale, flags.model.scaling, scaling_types()
    if kind is None and scale is None and not flags.yarn_flags:
        return _with_scale_of_cosines(own, "yarn", flags) if isinstance(own, YaRN) else own
    unmagnified = flags.stated.unmagnified(flags.model)
    if unmagnified is not flags.model:
        return _scaling(replace(flags, model=unmagnified))
    check_type(kind)
    if own.llamacpp_type is None:
        return _beside_tensors(flags)
    kind = kind or (own.llamacpp_type if own != Unscaled() else flags.stated.kind or "linear")
    runs = _ramp(kind, flags)
    if kind == "none":
        _warn_of_scale_without_type(flags)
        _warn_of_switched_off(flags)
        return _with_scale_of_cosines(Unscaled(), "yarn" if flags.mix[0] else kind, flags)
    factor = scale.factor if scale else own.stretch or flags.stated.factor
    if factor is None:
        if flags.kind is not None or runs == "yarn":
            flags.warn(f"--rope-scaling {kind} without --rope-scale extends nothing.", "State --rope-scale.")
        return _with_scale_of_cosines(Unscaled(), runs, flags)
    # The number of tokens before the extension, unless the file has an extension of its own.
    original = flags.stated.original or own.trained_by(flags.model.max_length)
    if original is None and runs == "yarn":
        original = flags.model.max_length
    stated = scale.flag if scale and flags.kind is None else None
    corners = (flags.stated.fast, flags.stated.slow)
    context = LlamaCppContext(flags.numbers, stated, factor, original, own, flags.findings, corners)
    return _with_scale_of_cosines(types[runs].from_llamacpp(context), runs, flags)


def _warn_of_scale_without_type(flags: FlagsOfLayers) -> None:
    if flags.scale is not None and flags.scale.factor != 1:
        flags.warn(
            f"{flags.scale.flag} has no effect with --rope-scaling none.", "State linear or yarn, or leave it out."
        )


def _warn_of_switched_off(flags: FlagsOfLayers) -> None:
    own = flags.model.scaling
    if flags.kind == "none" and own != Unscaled():
        factor = "" if own.stretch is None else f", by the factor {own.stretch:g}"
        flags.warn(
            f"--rope-scaling none switches off the scaling '{own.name}' of the file{factor}: frequencies are those "
            "before it.",
            "Leave the flag out, if the weights were trained or extended with that scaling.",
        )


def _beside_tensors(flags: FlagsOfLayers) -> FrequencyScaling:
    """Return what flags make of a file whose factors are tensors, which no flag removes.

    Raises:
        ConfigError: The file has a factor of its own beside them, which is not told from them any more.
    """
    own, scale, stated, config = flags.model.scaling, flags.scale, flags.stated, flags.model
    kind = flags.kind or stated.kind or "linear"
    kind = kind if kind in scaling_types() else "linear"  # as of LongRoPE's lists
    runs = _ramp(kind, flags)
    if kind == "none" and stated.factor in (None, 1):
        _warn_of_scale_without_type(flags)
        return own
    length = config.max_length or own.trained
    given = [*(["--rope-scaling"] if flags.kind else []), *([scale.flag] if scale else []), *flags.yarn_flags]
    said = f"The file has the scaling '{own.name}', whose factors are tensors that no flag removes"
    if stated.factor not in (None, 1) or length is None or length < 2:
        raise ConfigError(
            f"{said}, beside a factor or without a length; a scaling by flags would come on top of it. Leave out "
            f"{', '.join(given)}."
        )
    if scale is None or scale.factor == 1:
        if flags.kind is not None:
            flags.warn(f"--rope-scaling {kind} without --rope-scale extends nothing.", "State --rope-scale.")
        return own
    original = stated.original or own.trained_by(config.max_length)
    context = LlamaCppContext(
        flags.numbers,
        None,
        scale.factor,
        original,
        Unscaled(),
        flags.findings,
        (flags.stated.fast, flags.stated.slow),
    )
    other = _with_scale_of_cosines(scaling_types()[runs].from_llamacpp(context), runs, flags)
    flags.warn(
        f"{said}: llama.cpp divides the frequencies by {scale.flag} as well, as is shown.",
        f"Leave out {', '.join(given)}, unless that is meant.",
    )
    assert config.rotary_dim is not None
    return of_both(own, other, length, config.rotary_dim, flags.base)


def _by_factor_of_file(flags: FlagsOfLayers) -> FrequencyScaling:
    """Return the scaling of sliding layers that keep the factor of the file (``rope_freq_scale_train_swa``)."""
    if (flags.kind or flags.stated.kind) == "none":
        kept = flags.kept_factor
        scaling = Unscaled() if kept == 1 else Linear(factor=kept)
        return _with_scale_of_cosines(scaling, "none", replace(flags, findings=[]))
    return _scaling(replace(flags, scale=None, findings=[]))


def _magnified(flags: FlagsOfLayers) -> FrequencyScaling:
    """Return the scaling of sliding layers whose cosine and sine ``--yarn-attn-factor`` multiplies without YaRN."""
    own, (magnitude, where), (mix, _) = flags.model, flags.magnitude, flags.mix
    is_yarn = bool(mix) or (mix is None and (flags.kind or flags.stated.kind) == "yarn")
    if is_yarn or magnitude <= 0 or magnitude == 1 or own.max_length is None or own.rotary_dim is None:
        return own.scaling
    _warn_of_one_list(flags, [f"{where} without YaRN multiplies cosine and sine"])
    return one_list((1.0,) * (own.rotary_dim // 2), own.max_length, magnitude * own.attention_scale())


def _warn_of_one_list(flags: FlagsOfLayers, said: list[str]) -> None:
    flags.warn(
        f"{' and '.join(said)}: llama.cpp computes it so, as is shown by LongRoPE whose two lists are the same.",
        "Leave the flag out, unless that is meant.",
    )


def _with_scale_of_cosines(scaling: FrequencyScaling, runs: str, flags: FlagsOfLayers) -> FrequencyScaling:
    """Return a scaling with what else multiplies cosine and sine, and with YaRN's ramp as far as it counts.

    That of the file (``rope_attn_factor``) stays whatever the scaling is; ``--yarn-attn-factor`` counts without YaRN.

    Raises:
        ConfigError: The file does not say for which length it is.
    """
    own, config, (mix, of_mix) = flags.model.scaling, flags.model, flags.mix
    mix, is_small = mix or 1.0, flags.base <= 1
    is_mixed = isinstance(scaling, YaRN) and (mix != 1 or (is_small and scaling.stretch != 1))
    scale, said = 1.0, []
    if not isinstance(scaling, YaRN):
        magnitude, where = flags.magnitude
        if runs != "yarn" and magnitude >= 0 and magnitude != 1:
            scale *= magnitude
            said += [f"{where} without YaRN multiplies cosine and sine"]
        of_file = flags.stated.attention
        if of_file is None and isinstance(own, YaRN) and own.attention_factor is not None:
            of_file = own.attention_scale() / own.paper_attention_scale()
        if of_file is not None and abs(abs(of_file) - 1) > 1e-6:
            scale *= abs(of_file)
            said += [f"rope.scaling.attn_factor {of_file:g} of the file stays without YaRN"]
    elif not isinstance(own, YaRN) and flags.stated.attention not in (None, 1):
        scaling = replace(scaling, attention_factor=scaling.attention_scale() * abs(flags.stated.attention or 1.0))
    if is_mixed:
        said = [f"{of_mix} mixes YaRN with interpolation"]
        said = said if mix != 1 else [of_small_base_in_yarn(f"The base {flags.base:g}")]
    if scale == 1 and not is_mixed:
        return scaling
    length = config.max_length or scaling.trained
    if length is None or length < 2 or scale == 0 or config.rotary_dim is None:
        raise ConfigError(f"{said[0]}, which no scaling here expresses. Leave the flags about YaRN out.")
    _warn_of_one_list(flags, said)
    if is_mixed and isinstance(scaling, YaRN):
        divisors = mixed(scaling, mix, config.rotary_dim, flags.base)
        return one_list(divisors, scaling.trained_length, scaling.attention_scale(), scaling.reach)
    base = flags.base if flags.base > 1 else USUAL_BASE  # any will do, as interpolation divides by one factor
    return one_list(gguf_factors(scaling, config.rotary_dim, base), length, scale, scaling.reach)


def _ramp(kind: str, flags: FlagsOfLayers) -> str:
    """Return the scaling that llama.cpp computes: the type, unless ``--yarn-ext-factor`` decides otherwise."""
    stated, where = flags.mix
    mix = float(kind == "yarn") if stated is None else stated
    if mix and kind != "none":
        if kind != "yarn":
            flags.warn(f"{where} makes YaRN of the type '{kind}'.", "State --rope-scaling yarn.")
        return "yarn"
    if kind == "yarn":
        flags.warn(f"{where} makes linear interpolation of YaRN.", "State --rope-scaling linear, if that is meant.")
    heeded = ("--yarn-ext-factor", *(("--yarn-attn-factor",) if flags.stated.magnifies else ()))
    without = [flag for flag in flags.yarn_flags if flag not in heeded]
    if without:
        flags.warn(f"{', '.join(without)} without YaRN has no effect.", "State --rope-scaling yarn, or leave it out.")
    return "linear"


def _in_context(config: RotaryConfig, flags: FlagsOfLayers) -> RotaryConfig:
    """Return a configuration with its length in the context of ``--ctx-size``; 0 stands for that of the file."""
    context, declared, scaling = int(flags.numbers.get("--ctx-size", 0)), flags.model.max_length, config.scaling
    target = scaling.reach if scaling.limits_length else None
    is_extended = target is not None and scaling != flags.model.scaling  # by the flags
    length = (context or declared) if is_extended else (declared or context or None)
    read = context or declared
    if target is not None and read is not None and read > target:
        flags.warn(
            f"The context is {read} tokens, but the scaling '{scaling.name}' extends the model to {target}.",
            "Raise --rope-scale or lower --ctx-size.",
        )
        length = target if is_extended or declared is None else min(declared, target)
    elif target is None and declared is not None and context > declared:
        flags.warn(
            f"The context is {context} tokens, but the model is declared for {declared}, and nothing extends it.",
            f"Lower --ctx-size to {declared}, or state --rope-scaling yarn and --rope-scale {context / declared:g}.",
        )
    if isinstance(scaling, LongRoPE) and read:
        scaling = scaling.fixed_for(read)
    return replace(config, scaling=scaling, max_length=length)
