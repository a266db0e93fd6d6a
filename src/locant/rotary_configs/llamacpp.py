"""Rotary positions in the command-line flags of llama.cpp.

The flags change what the GGUF file says; number of rotated features and layout stay the file's. They know three
scalings, and since December 2025 the attention scale of YaRN follows from the factor alone: ``--yarn-attn-factor`` is
overwritten while YaRN is on (llama.cpp pull request 17945; before, it was multiplied).
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import FrequencyScaling, Linear, NTKByParts, Unscaled, YaRN
from locant.positions.scaling.frequency import is_number
from locant.rotary_configs.base import (
    ALL_LAYERS,
    Finding,
    Reading,
    as_yarn,
    cannot_express,
    only_config,
    paper_attention_scale,
    with_base_for_ntk,
)

_DIALECT = "llama.cpp's command line"
_TYPES = ("none", "linear", "yarn")
_NUMBERS = (
    "--rope-scale",
    "--rope-freq-base",
    "--rope-freq-scale",
    "--yarn-orig-ctx",
    "--yarn-ext-factor",
    "--yarn-attn-factor",
    "--yarn-beta-slow",
    "--yarn-beta-fast",
    "--ctx-size",
)
_FLAGS = ("--rope-scaling", *_NUMBERS)


def write_llamacpp(configs: RotaryConfig | Mapping[str, RotaryConfig]) -> list[str]:
    """Return the flags that make llama.cpp run a model with these rotary positions, whatever its file says.

    Args:
        configs: The configuration; the flags hold for all layers.

    Raises:
        ConfigError: The flags cannot say it. Llama 3's and LongRoPE's factors are tensors of the file: run such a file
            without flags.

    Example:
        >>> config = RotaryConfig(head_dim=128, base=1e6, scaling=YaRN(factor=4, original_length=32768))
        >>> " ".join(write_llamacpp(config)[:6])
        '--rope-freq-base 1000000.0 --ctx-size 131072 --rope-scaling yarn'
    """
    config = with_base_for_ntk(only_config(configs, _DIALECT))
    scaling = config.scaling
    flags: dict[str, object] = {"--rope-freq-base": config.base}
    length = config.max_length or getattr(scaling, "target_length", None)
    if length is not None:
        flags["--ctx-size"] = length
    match scaling:
        case Unscaled():
            flags["--rope-scaling"] = "none"
        case Linear():
            flags |= {"--rope-scaling": "linear", "--rope-scale": scaling.factor}
        case NTKByParts():
            yarn = as_yarn(scaling)
            check_llamacpp_yarn(yarn, _DIALECT)
            if abs(yarn.attention_scale() / paper_attention_scale(yarn) - 1) > 1e-6:
                raise ConfigError(
                    f"{_DIALECT} cannot say attention scale {yarn.attention_scale():g} of the scaling "
                    f"'{scaling.name}': YaRN has {paper_attention_scale(yarn):g} there, and --yarn-attn-factor has no "
                    "effect since December 2025. Write it into the GGUF file as rope.scaling.attn_factor."
                )
            flags |= {
                "--rope-scaling": "yarn",
                "--rope-scale": yarn.factor,
                "--yarn-orig-ctx": yarn.original_length,
                "--yarn-ext-factor": 1.0,
                "--yarn-beta-fast": yarn.beta_fast,
                "--yarn-beta-slow": yarn.beta_slow,
            }
        case _:
            raise cannot_express(
                _DIALECT, scaling, f"it has {', '.join(_TYPES)}, and other factors are tensors of the file"
            )
    return [word for flag, value in flags.items() for word in (flag, str(value))]


def check_llamacpp_yarn(scaling: YaRN, dialect: str) -> None:
    """Raise ConfigError for YaRN that llama.cpp computes otherwise."""
    if not scaling.truncate:
        raise ConfigError(
            f"{dialect} cannot say truncate false of the scaling 'yarn': llama.cpp rounds the two corners of the ramp "
            "to whole pairs."
        )


def read_llamacpp(arguments: str | Sequence[str], model: RotaryConfig) -> Reading:
    """Read the rotary positions with which llama.cpp runs a model under some flags.

    Args:
        arguments: The command line, or its words; flags about other things are passed over.
        model: What the model's file says by itself, as :func:`locant.rotary_configs.read_gguf` reads it.

    Raises:
        ConfigError: A flag about rotary positions is unknown or its value wrong, or flags contradict each other or the
            scaling of the file.

    Example:
        >>> model = RotaryConfig(head_dim=128, max_length=4096)
        >>> read_llamacpp("llama-cli -m x.gguf -c 16384 --rope-scaling linear --rope-scale 4", model).config.scaling
        Linear(factor=4.0, target_length=16384, original_length=4096)
    """
    flags = _parsed(shlex.split(arguments) if isinstance(arguments, str) else list(arguments))
    numbers = {flag: _number(flag, value) for flag, value in flags.items() if flag in _NUMBERS}
    findings: list[Finding] = []
    scaling = _scaling(flags, numbers, model, findings)
    length = numbers.get("--ctx-size") or model.max_length
    target = getattr(scaling, "target_length", None)
    if length is not None and target is not None and length > target:
        findings.append(
            Finding(
                "warning",
                f"The context is {length:g} tokens, but the scaling '{scaling.name}' extends the model to {target}.",
                "Raise --rope-scale or lower --ctx-size.",
            )
        )
        length = target
    base = numbers.get("--rope-freq-base") or model.base
    config = replace(model, base=base, scaling=scaling, max_length=None if length is None else int(length))
    return Reading({ALL_LAYERS: config}, tuple(findings))


def _parsed(words: list[str]) -> dict[str, str]:
    flags: dict[str, str] = {}
    for index, word in enumerate(words):
        flag = "--ctx-size" if word == "-c" else word
        if flag.startswith(("--rope-", "--yarn-")) and flag not in _FLAGS:
            raise ConfigError(f"Unknown flag '{flag}' of llama.cpp.{nearest(flag, _FLAGS)} Known: {', '.join(_FLAGS)}.")
        if flag not in _FLAGS:
            continue
        if index + 1 == len(words):
            raise ConfigError(f"The flag '{word}' of llama.cpp has no value.")
        if flags.get(flag, words[index + 1]) != words[index + 1]:
            raise ConfigError(f"The flag '{word}' of llama.cpp is given twice: {flags[flag]} and {words[index + 1]}.")
        flags[flag] = words[index + 1]
    return flags


def _number(flag: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not is_number(value):
        raise ConfigError(f"The flag '{flag}' of llama.cpp must be a number; got {text!r}.")
    return value


def _scale(numbers: Mapping[str, float]) -> float | None:
    """Return by how much the flags expand the context; 0 and negative numbers stand for what the file says."""
    scale, inverse = numbers.get("--rope-scale"), numbers.get("--rope-freq-scale")
    if scale is not None and inverse is not None and abs(scale * inverse - 1) > 1e-6:
        raise ConfigError(
            f"--rope-scale {scale:g} and --rope-freq-scale {inverse:g} contradict each other: llama.cpp takes the last "
            f"one, and {scale:g} is {1 / scale:g} as the other."
        )
    return scale or (1 / inverse if inverse else None)


def _scaling(
    flags: Mapping[str, str], numbers: Mapping[str, float], model: RotaryConfig, findings: list[Finding]
) -> FrequencyScaling:
    kind, scale, own = flags.get("--rope-scaling"), _scale(numbers), model.scaling
    yarn_flags = [flag for flag in numbers if flag.startswith("--yarn-")]
    if kind is None and scale is None and not yarn_flags:
        return own
    if kind is not None and kind not in _TYPES:
        raise ConfigError(f"Unknown --rope-scaling '{kind}'.{nearest(kind, _TYPES)} Known: {', '.join(_TYPES)}.")
    if not isinstance(own, Unscaled | Linear | YaRN):
        raise ConfigError(
            f"The file has the scaling '{own.name}', whose factors are tensors that no flag removes; a scaling by "
            f"flags would come on top of it. Leave out {', '.join(flag for flag in flags if flag != '--ctx-size')}."
        )
    kind = kind or ("yarn" if isinstance(own, YaRN) else "linear")
    if kind != "yarn" and yarn_flags:
        raise ConfigError(f"{yarn_flags[0]} is given, but --rope-scaling is '{kind}'. State --rope-scaling yarn.")
    if kind == "none":
        if scale not in (None, 1):
            raise ConfigError(f"--rope-scale {scale:g} has no effect with --rope-scaling none. State linear or yarn.")
        return Unscaled()
    scale = scale or getattr(own, "factor", None)
    if scale is None:
        findings.append(
            Finding("warning", f"--rope-scaling {kind} without --rope-scale extends nothing.", "State --rope-scale.")
        )
        return Unscaled()
    # The number of tokens before the extension, unless the file has an extension of its own.
    original = getattr(own, "original_length", None) or (model.max_length if isinstance(own, Unscaled) else None)
    if kind == "yarn":
        return _yarn(numbers, scale, original, own, findings)
    if "--rope-scaling" not in flags:
        findings.append(
            Finding(
                "warning",
                f"--rope-scale {scale:g} without --rope-scaling is linear interpolation.",
                "State --rope-scaling linear, or yarn if that is meant.",
            )
        )
    return Linear(factor=scale, original_length=original)


def _yarn(
    numbers: Mapping[str, float],
    scale: float,
    original: int | None,
    own: FrequencyScaling,
    findings: list[Finding],
) -> YaRN:
    if numbers.get("--yarn-ext-factor", -1) not in (-1, 1):
        raise ConfigError(
            f"--yarn-ext-factor {numbers['--yarn-ext-factor']:g} mixes YaRN with linear interpolation in a proportion "
            "that no scaling here has. Leave it out, or state 1."
        )
    if numbers.get("--yarn-attn-factor", -1) not in (-1, 1):
        findings.append(
            Finding(
                "warning",
                f"--yarn-attn-factor {numbers['--yarn-attn-factor']:g} has no effect since December 2025, and "
                "multiplied the attention scale before that.",
                "Leave it out.",
            )
        )
    stated = numbers.get("--yarn-orig-ctx")
    if not stated:
        findings.append(
            Finding(
                "note",
                f"--yarn-orig-ctx is missing: llama.cpp takes the context length of the file, {original}.",
                "State the length that the model was trained for before the extension.",
            )
        )
    usual = own if isinstance(own, YaRN) else YaRN(factor=1, original_length=1)
    relative = usual.attention_scale() / paper_attention_scale(usual)
    return YaRN(
        factor=scale,
        original_length=int(stated) if stated else original,
        beta_fast=_or(numbers.get("--yarn-beta-fast"), usual.beta_fast),
        beta_slow=_or(numbers.get("--yarn-beta-slow"), usual.beta_slow),
        attention_factor=None if usual.attention_factor is None else relative * (0.1 * math.log(scale) + 1),
        mscale=usual.mscale,
        mscale_all_dim=usual.mscale_all_dim,
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None or value < 0 else value
