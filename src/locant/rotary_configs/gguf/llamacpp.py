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
from locant.positions.scaling.measured import Measured
from locant.rotary_configs.config_json import length_within
from locant.rotary_configs.fields import Fields
from locant.rotary_configs.gguf.architectures import Architecture, Sliding, keys_of
from locant.rotary_configs.gguf.layers import COMPRESSED, MAIN
from locant.rotary_configs.gguf.scaling import SCALING, as_yarn, entries_of, scaling_of, written
from locant.rotary_configs.layers import CHUNKED, FULL, SLIDING
from locant.rotary_configs.reading import (
    ALL_LAYERS,
    LayerType,
    ParsedConfig,
    by_layer,
    cannot_express,
    only_config,
    with_equivalent_base,
)
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
    arguments: str | Sequence[str],
    configs: RotaryConfig | Mapping[str, RotaryConfig],
    *,
    metadata: Mapping[str, Any] | None = None,
    layers: Sequence[LayerType] = (),
) -> ParsedConfig:
    """Read the rotary positions with which llama.cpp runs a model under some flags.

    Args:
        arguments: The command line, or its words; flags about other things are ignored.
        configs: The configuration of the file alone, as :func:`locant.rotary_configs.read_gguf` reads it, or those of
            its layer types.
        metadata: The metadata of the file, where they are at hand: what they state counts where flags leave it out.
        layers: The file's layers.

    Raises:
        ConfigError: A flag about rotary positions is not one of :data:`FLAGS`, its value is wrong, or the file has
            factors that no flag removes.

    Example:
        >>> model = RotaryConfig(head_dim=128, max_length=4096)
        >>> read_llamacpp("llama-cli -m x.gguf -c 16384 --rope-scaling linear --rope-scale 4", model).config.scaling
        Linear(factor=4.0, target_length=16384, original_length=4096)
    """
    flags = _flags(arguments)
    stated = {_KEYS[flag]: value for flag, value in flags.items() if flag in _KEYS}
    facts, file = keys_of(metadata) if metadata else (Architecture("any"), Fields({}, ""))
    facts = replace(facts, factors="freqs")
    found, kinds = by_layer(configs), tuple(layers)
    sliding = next((kind.name for kind in kinds if kind.config and kind.name in (SLIDING, CHUNKED)), None)
    if facts.sliding is not None and sliding is not None and {*found} == {ALL_LAYERS}:
        # Flags change those of layers without a window alone, which are told apart here.
        names = {kind.name: sliding if kind.name == sliding else FULL for kind in kinds if kind.config}
        kinds = tuple(replace(kind, config=names[kind.name]) if kind.config else kind for kind in kinds)
        found = {name: found[ALL_LAYERS] for name in (FULL, sliding) if name in names.values()}
    context = flags.get("--ctx-size")
    for layer, config in found.items():
        scaling, base = config.scaling, config.base
        windowed = len(found) > 1 and layer in (SLIDING, CHUNKED)
        if facts.base is None and layer != COMPRESSED and not (windowed and (facts.sliding or Sliding()).reads_base):
            base = flags.get("--rope-freq-base", base)
        is_fixed = base != config.base and form_of("gguf", scaling.name) is None  # by tensors, whatever the base is
        if (stated or is_fixed) and not windowed and layer != MAIN:
            if isinstance(scaling, LongRoPE | Measured):
                raise ConfigError(f"No flag removes '{scaling.name}' of the file. Leave out {', '.join(flags)}.")
            keys, tensors = written(config, facts)
            own = {f"{SCALING}{key}": value for key, value in keys.items() if (key, value) != ("type", "none")}
            own = dict(file.values) or {"context_length": config.max_length, **own}
            if scaling == Unscaled():  # of a file that is extended by nothing but the flags
                own = {_KEYS["--yarn-orig-ctx"]: config.max_length, **own}
            read = Fields({**own, **stated}, "the file with the flags of llama.cpp")
            scaling = scaling_of(read, facts, tensors, config.rotary_dim or config.head_dim, base)
        longest, declared, is_other = context or config.max_length, config.max_length, scaling != config.scaling
        if isinstance(scaling, LongRoPE) and longest:
            scaling = scaling.fixed_for(longest)
        length = length_within(scaling, longest if is_other else declared or context)
        config = replace(config, base=base, scaling=Unscaled(), max_length=None)
        found[layer] = replace(config, scaling=scaling, max_length=length)
    return ParsedConfig(found, layers=kinds, source="GGUF metadata and flags of llama.cpp")


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
