"""Rotary positions in the command-line flags of llama.cpp.

The flags change the settings of the GGUF file; pairing, rotated features and tensors of factors stay the file's. Layers
with a window keep their own base and scaling where the architecture has one for them. Source:
``llama_context::llama_context``, ``get_rope_freq_base`` and ``get_rope_factors`` of llama.cpp, build b11739.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import LongRoPE, Unscaled, YaRN
from locant.positions.scaling.checks import is_number
from locant.rotary_configs.config_json import length_within
from locant.rotary_configs.gguf.architectures import keys_of
from locant.rotary_configs.gguf.layers import sliding_type
from locant.rotary_configs.gguf.reading import USUAL_BASE, read_gguf
from locant.rotary_configs.gguf.scaling import SCALING, as_yarn, entries_of
from locant.rotary_configs.reading import ParsedConfig, cannot_express, only_config, with_equivalent_base
from locant.rotary_configs.scaling import form_of, scaling_types

_FORMAT = "llama.cpp's command line"
FLAGS = ("--rope-scaling", "--rope-scale", "--rope-freq-base", "--rope-freq-scale", "--yarn-orig-ctx", "--ctx-size")
"""The flags that are read; ``-c`` is another name of the last."""


def write_llamacpp(configs: RotaryConfig | Mapping[str, RotaryConfig]) -> list[str]:
    """Return the flags that make llama.cpp run a model with these rotary positions.

    Args:
        configs: The configuration; the flags hold for all layers but those with a window and a base of their own.

    Raises:
        ConfigError: The flags cannot express it. Llama 3's and LongRoPE's factors are tensors of the file: run such a
            file without flags.

    Example:
        >>> config = RotaryConfig(head_dim=128, base=1e6, scaling=YaRN(factor=4, original_length=32768))
        >>> " ".join(write_llamacpp(config)[:6])
        '--rope-freq-base 1000000.0 --ctx-size 131072 --rope-scaling yarn'
    """
    config = with_equivalent_base(only_config(configs, _FORMAT))
    scaling, length = as_yarn(config.scaling), config.max_length or config.scaling.reach
    form = form_of("llamacpp", scaling.name)
    if form is None:
        types = ", ".join(scaling_types("llamacpp"))
        raise cannot_express(_FORMAT, scaling, f"it has {types}, and other factors are tensors of the file")
    entries = entries_of(scaling, form)
    if isinstance(scaling, YaRN):
        if not scaling.truncate:
            raise cannot_express(_FORMAT, scaling, "llama.cpp rounds the corners of the ramp, so that truncate is true")
        if abs(scaling.attention_scale() / scaling.paper_attention_scale() - 1) > 1e-6:
            raise cannot_express(_FORMAT, scaling, "its attention scale follows from the factor; write a GGUF file")
        if (scaling.beta_fast, scaling.beta_slow) == (32, 1):  # as without the flags
            entries = {name: value for name, value in entries.items() if "-beta-" not in name}
    flags: dict[str, Any] = {"--rope-freq-base": config.base} | ({} if length is None else {"--ctx-size": length})
    flags |= {"--rope-scaling": form.types[0], **entries}
    return [word for flag, value in flags.items() for word in (flag, str(value))]


def read_llamacpp(
    arguments: str | Sequence[str], metadata: Mapping[str, Any], tensors: Mapping[str, Sequence[float]] | None = None
) -> ParsedConfig:
    """Read the rotary positions with which llama.cpp runs a GGUF file under some flags.

    Args:
        arguments: The command line, or its words; flags about other things are ignored.
        metadata: The file's keys and values.
        tensors: Its tensors of factors, as for :func:`locant.rotary_configs.read_gguf`.

    Raises:
        ConfigError: The file cannot be read, a flag about rotary positions is not one of :data:`FLAGS`, its value is
            wrong, or the file has factors that no flag removes.

    Example:
        >>> file = {"general.architecture": "llama", "llama.context_length": 4096, "llama.attention.key_length": 128}
        >>> read_llamacpp("llama-cli -m x.gguf -c 16384 --rope-scaling linear --rope-scale 4", file).config.scaling
        Linear(factor=4.0, target_length=16384, original_length=4096)
    """
    flags, file, (facts, keys) = _flags(arguments), read_gguf(metadata, tensors), keys_of(metadata)
    stated = {_KEYS[flag]: value for flag, value in flags.items() if flag in _KEYS}
    changed = dict(keys.values)
    if stated:
        if any(isinstance(each.scaling, LongRoPE) for each in file.configs.values()):
            raise ConfigError(f"No flag removes 'longrope' of the file. Leave out {', '.join(flags)}.")
        if all(each.scaling == Unscaled() for each in file.configs.values()):  # extended by nothing but the flags
            changed.setdefault(_KEYS["--yarn-orig-ctx"], keys.whole("context_length"))
        changed |= stated
    if (base := flags.get("--rope-freq-base")) is not None:
        changed["rope.freq_base"] = base
        if facts.sliding is not None and facts.sliding.reads_base and facts.sliding.base is None:
            changed.setdefault("rope.freq_base_swa", keys.number("rope.freq_base") or USUAL_BASE)
    changed = {f"{facts.name}.{key}": value for key, value in changed.items()}
    parsed, context = read_gguf({**metadata, **changed}, tensors), flags.get("--ctx-size")
    found = {}
    for layer, config in parsed.configs.items():
        before = file.configs.get(layer, next(iter(file.configs.values())))
        has_own = facts.sliding is not None and layer == sliding_type(facts)  # whose scaling no flag changes
        scaling, longest = before.scaling if has_own else config.scaling, context or before.max_length
        is_other = scaling != before.scaling
        if isinstance(scaling, LongRoPE) and longest:
            scaling = scaling.fixed_for(longest)
        length = length_within(scaling, longest if is_other else before.max_length or context)
        found[layer] = replace(config, scaling=scaling, max_length=length)
    return replace(parsed, configs=found, source="GGUF metadata and flags of llama.cpp")


_KEYS = {
    "--rope-scaling": f"{SCALING}type",
    "--rope-scale": f"{SCALING}factor",
    "--yarn-orig-ctx": f"{SCALING}original_context_length",
}


def _flags(arguments: str | Sequence[str]) -> dict[str, Any]:
    """Return the values of the flags, --rope-freq-scale as --rope-scale; those of 0 mean what the file has."""
    try:
        words = shlex.split(arguments) if isinstance(arguments, str) else list(arguments)
    except ValueError as error:
        raise ConfigError(f"The flags of llama.cpp cannot be told apart: {error}.") from None
    found: dict[str, Any] = {}
    for word, text in zip(words, [*words[1:], ""], strict=True):
        name = word.partition("=")[0]
        name = "--ctx-size" if name == "-c" else name.replace("_", "-") if name.startswith("--") else name
        if name not in FLAGS:
            if name.startswith(("--rope", "--yarn", "--override-kv")):
                raise ConfigError(f"The flag '{word:.60}' is not read.{nearest(name[:60], FLAGS)} {_THE_SIX}")
            continue
        if name == "--rope-scaling":
            if text not in (types := scaling_types("llamacpp")):
                raise ConfigError(f"Unknown {name} '{text:.60}'.{nearest(text[:60], types)} Known: {', '.join(types)}.")
            found[name] = text
            continue
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if "=" in word or not is_number(number) or number < 0 or (name == "--rope-scale" and not number):
            raise ConfigError(f"The flag '{word:.60}' needs a number above 0 as the next word; got '{text:.60}'.")
        if name == "--rope-freq-scale" and number:
            name, number = "--rope-scale", 1 / number
        if number:
            found[name] = number if name.startswith("--rope") else int(number)
    return found


_THE_SIX = f"Flags about RoPE that are read: {', '.join(FLAGS)} (or -c)."
