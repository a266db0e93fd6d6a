"""Rotary positions in the command-line flags of llama.cpp.

The flags change the settings of the GGUF file; number of rotated features and layout stay the file's. They know three
scalings, and since December 2025 the attention scale of YaRN follows from the factor alone: ``--yarn-attn-factor`` is
overwritten while YaRN is on (llama.cpp pull request 17945; before, it was multiplied).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import SCALINGS, FrequencyScaling, Unscaled
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding
from locant.positions.scaling.forms import LlamaCppContext
from locant.rotary_configs.base import ALL_LAYERS, ParsedConfig, cannot_express, only_config, with_equivalent_base
from locant.rotary_configs.wording import speaks_of

_FORMAT = "llama.cpp's command line"
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
        types = ", ".join(_types())
        raise cannot_express(_FORMAT, scaling, f"it has {types}, and other factors are tensors of the file")
    flags |= own
    return [word for flag, value in flags.items() for word in (flag, str(value))]


def _types() -> dict[str, type[FrequencyScaling]]:
    """Return the scalings by the ``--rope-scaling`` that means them."""
    return {scaling.llamacpp_type: scaling for scaling in SCALINGS.values() if scaling.llamacpp_type}


@speaks_of("llamacpp", "The command line")
def read_llamacpp(arguments: str | Sequence[str], model: RotaryConfig) -> ParsedConfig:
    """Read the rotary positions with which llama.cpp runs a model under some flags.

    Args:
        arguments: The command line, or its words; flags about other things are passed over.
        model: The configuration of the file alone, as :func:`locant.rotary_configs.read_gguf` reads it.

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
    target = scaling.reach
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
    return ParsedConfig({ALL_LAYERS: config}, tuple(findings))


def _parsed(words: list[str]) -> dict[str, str]:
    flags: dict[str, str] = {}
    for index, word in enumerate(words):
        # llama.cpp takes underscores in the names of flags for dashes.
        flag = "--ctx-size" if word == "-c" else word.replace("_", "-") if word.startswith("--") else word
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
    """Return by how much the flags expand the context; 0 and negative numbers stand for the setting of the file."""
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
    kind, scale, own, types = flags.get("--rope-scaling"), _scale(numbers), model.scaling, _types()
    yarn_flags = [flag for flag in numbers if flag.startswith("--yarn-")]
    if kind is None and scale is None and not yarn_flags:
        return own
    if kind is not None and kind not in types:
        raise ConfigError(f"Unknown --rope-scaling '{kind}'.{nearest(kind, types)} Known: {', '.join(types)}.")
    if own.llamacpp_type is None:
        raise ConfigError(
            f"The file has the scaling '{own.name}', whose factors are tensors that no flag removes; a scaling by "
            f"flags would come on top of it. Leave out {', '.join(flag for flag in flags if flag != '--ctx-size')}."
        )
    kind = kind or (own.llamacpp_type if own != Unscaled() else "linear")
    if kind != "yarn" and yarn_flags:
        raise ConfigError(f"{yarn_flags[0]} is given, but --rope-scaling is '{kind}'. State --rope-scaling yarn.")
    if kind == "none":
        if scale not in (None, 1):
            raise ConfigError(f"--rope-scale {scale:g} has no effect with --rope-scaling none. State linear or yarn.")
        return Unscaled()
    scale = scale or own.stretch
    if scale is None:
        findings.append(
            Finding("warning", f"--rope-scaling {kind} without --rope-scale extends nothing.", "State --rope-scale.")
        )
        return Unscaled()
    # The number of tokens before the extension, unless the file has an extension of its own.
    original = own.trained_by(model.max_length)
    states_type = "--rope-scaling" in flags
    return types[kind].from_llamacpp(LlamaCppContext(numbers, states_type, scale, original, own, findings))
