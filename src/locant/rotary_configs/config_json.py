"""Rotary positions in the config.json of Hugging Face's transformers, releases 4 and 5, by its entries alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import DynamicNTK, FrequencyScaling, LongRoPE, Proportional
from locant.rotary_configs import vocabulary
from locant.rotary_configs.fields import Fields, in_json
from locant.rotary_configs.layers import FULL, SLIDING, layer_types, layers_of
from locant.rotary_configs.reading import (
    ALL_LAYERS,
    NoRotaryPositionsError,
    ParsedConfig,
    by_layer,
    cannot_express,
    with_equivalent_base,
)
from locant.rotary_configs.scaling import read_scaling, type_of, write_scaling
from locant.rotary_configs.vocabulary import text_config, text_config_path

__all__ = ["read_huggingface", "text_config", "text_config_path", "write_huggingface"]


def read_huggingface(content: Mapping[str, Any]) -> ParsedConfig:
    """Read the rotary positions of a model by the entries of its config.json, without asking its class.

    Understood are the standard entries of releases 4 and 5: groups by layer type, ``layer_types`` and the usual
    patterns, layers without RoPE, windows, MLA (the head is its separate rotated part), M-RoPE. What a file leaves out
    is taken from a table of model types, and told in ``assumed``. :func:`locant.extension.ask_class` asks the class.

    Args:
        content: The content of config.json; of a multimodal model, its text config is read.

    Raises:
        NoRotaryPositionsError: The model has other positions, or nothing in the file is about rotary ones.
        ConfigError: An entry is wrong or missing, or a scaling is unknown.

    Example:
        >>> parsed = read_huggingface({
        ...     "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 32768,
        ...     "rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 8.0}})
        >>> parsed.config.head_dim, parsed.config.scaling.name, parsed.config.scaling.factor
        (128, 'linear', 8.0)
    """
    return _Reader(content).read()


class _Reader:
    """One file: its text config, and what its model type assumes."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        stated = text_config(content)
        whole = Fields(content, "config.json")
        name = Fields(stated, "config.json").text("model_type") or whole.text("model_type")
        known = vocabulary.defaults_of(name, whole.text("model_type"))
        if known is not None and stated.get("use_mla") is False:  # DeepSeek's models without it attend as Llama
            known = {}
        vocabulary.refuse_other_positions(stated, is_known=known is not None)
        given = {each: value for each, value in stated.items() if value is not None}
        self.defaults = known or {}
        self.assumed = [] if known is not None else [f"what is usual: of model_type {in_json(name)} nothing is known"]
        sizes = dict(zip(("hidden_size", "num_attention_heads"), self.defaults.get("sizes", ()), strict=False))
        sizes |= {each: value for each, value in self.defaults.items() if each in _TAKEN}
        if any(each in given for each in vocabulary.HEAD_SIZES):
            sizes = {each: value for each, value in sizes.items() if each not in _OF_HEADS}
        for names in _SAME:
            if any(each in given for each in names):
                sizes = {each: value for each, value in sizes.items() if each not in names}
        self.assumed += [f"{each} {value}" for each, value in sizes.items() if each not in given]
        self.part = Fields(vocabulary.usual_names({**sizes, **given}), "config.json")
        self.length = self.part.whole(*vocabulary.LENGTHS)
        self.multimodal: dict[str, dict[str, Any]] = {}

    def read(self) -> ParsedConfig:
        """Return what the file says."""
        types = layer_types(self.part, self.defaults, self.assumed)
        layout: Literal["half", "interleaved"] = "interleaved" if self.defaults.get("interleaved") else "half"
        if layout == "interleaved" and self.part.flag("rope_interleave") is False:
            layout = "half"
        elif self.part.flag("rope_interleave") is None:
            self.assumed.append("pairing of neighbours" if layout == "interleaved" else "pairing of halves")
        configs: dict[str, RotaryConfig] = {}
        without: list[str] = []
        for layer, group in self.groups(types).items():
            if group is None:
                without.append(layer)
            else:
                configs[layer] = self.config_of(layer, group, layout)
        if not configs:
            raise NoRotaryPositionsError("By config.json, no layer of this model has RoPE.")
        layers = layers_of(self.part, self.defaults, types, configs, without)
        if layers and not any(each.config for each in layers):
            if not set(configs) & {*types, ALL_LAYERS}:
                raise ConfigError(
                    f"config.json has rotary parameters for {in_json([*configs])}, but its layers are of the types "
                    f"{in_json(sorted(set(types)))}."
                )
            raise NoRotaryPositionsError("By config.json, no layer of this model has RoPE.")
        return ParsedConfig(configs, self.multimodal, layers, "entries", tuple(dict.fromkeys(self.assumed)))

    def groups(self, types: tuple[str, ...]) -> dict[str, dict[str, Any] | None]:
        """Return the group of rotary parameters of every layer type, with its base; ``None`` for types without RoPE."""
        stated: Mapping[str, Any] = self.part.mapping(*vocabulary.GROUPS) or {}
        usual: Mapping[str, Any] = self.defaults.get("rope_parameters", {})
        base = self.part.number(*vocabulary.BASES)
        local = self.part.number(*vocabulary.LOCAL_BASES)
        if vocabulary.is_by_layer(stated):
            found = {key: None if group is None else dict(group) for key, group in stated.items() if key in types}
            found = found or {key: None if group is None else dict(group) for key, group in stated.items()}
            for key, group in found.items():
                if group is not None and group.get("rope_theta") is None:
                    group["rope_theta"] = base or usual.get(key, {}).get("rope_theta")
            return found
        if vocabulary.is_by_layer(usual):
            groups: dict[str, dict[str, Any] | None] = {key: dict(group) for key, group in usual.items()}
            main = FULL if FULL in groups else next(iter(groups))
            bases = {group.get("rope_theta") for group in usual.values()}
            for key, group in groups.items():
                assert group is not None
                if key == main or len(bases) == 1:
                    group |= {} if base is None else {"rope_theta": base}
                elif local is not None:
                    group["rope_theta"] = local
                if key == main:
                    group |= stated
            self.assumed.append("rotary parameters by layer type")
            return groups
        if not stated and usual:
            self.assumed.append(f"rope_type '{usual['rope_type']}'")
        group = dict(stated or usual)
        if group.get("rope_theta") is None:
            group["rope_theta"] = base
        if local is not None:
            return {FULL: group, SLIDING: {"rope_theta": local}}
        return {ALL_LAYERS: group}

    def config_of(self, layer: str, group: Mapping[str, Any], layout: Literal["half", "interleaved"]) -> RotaryConfig:
        """Return the configuration of one layer type."""
        where = next((name for name in vocabulary.GROUPS if self.part.values.get(name)), "rope_parameters")
        rope = Fields(group, f"{where} of config.json" if layer == ALL_LAYERS else f"{where} of '{layer}'")
        latent = None if self.part.get("use_mla") is False else self.part.whole("qk_rope_head_dim")
        head = latent or vocabulary.head_size(self.part)
        if layer == SLIDING:
            head = self.part.whole("swa_head_dim") or head
        elif layer == FULL and not latent:
            head = self.part.whole("global_head_dim") or head
        base = rope.number("rope_theta")
        if base is None:
            base = self.defaults.get("rope_theta", 10000.0)
            self.assumed.append(f"base {base:g}")
        partial = rope.number("partial_rotary_factor")
        if partial is None:
            partial = self.part.number(*vocabulary.PARTIAL_FACTORS)
        rotated = self.part.whole(*vocabulary.ROTATED_SIZES)
        if partial is None and rotated is None and (partial := self.defaults.get("partial_rotary_factor", 1.0)) != 1:
            self.assumed.append(f"partial rotary factor {partial:g}")
        if latent or type_of(rope) == "proportional":
            rotary_dim = head
        elif partial is not None:
            rotary_dim = int(head * partial)
        else:
            rotary_dim = rotated or head
        scaling = read_scaling(
            group,
            rope.where,
            max_length=self.length,
            original_length=self.part.whole("original_max_position_embeddings") if layer == ALL_LAYERS else None,
            partial_rotary_factor=partial,
        )
        if sections := rope.numbers("mrope_section"):
            whole = tuple(int(size) for size in sections)
            self.multimodal[layer] = {"sections": whole, "interleaved": rope.flag("mrope_interleaved") or False}
        return RotaryConfig(
            head_dim=head,
            base=float(base),
            rotary_dim=rotary_dim,
            layout=layout,
            scaling=scaling,
            max_length=length_within(scaling, self.length),
        )


_TAKEN = ("head_dim", "qk_rope_head_dim", "rotary_dim", "global_head_dim", "swa_head_dim")
"""Sizes that are taken from the table where a file leaves them out, beside width and heads."""

_OF_HEADS = ("head_dim", "hidden_size", "num_attention_heads")

_SAME = (
    vocabulary.WIDTHS,
    vocabulary.HEADS,
    (*vocabulary.ROTATED_SIZES, *vocabulary.PARTIAL_FACTORS),
)


def length_within(scaling: FrequencyScaling, declared: int | None) -> int | None:
    """Return the declared length in tokens, or how far the scaling reaches where that is less."""
    if declared is None or scaling.reach is None or not scaling.limits_length:
        return declared
    return min(declared, scaling.reach)


def write_huggingface(
    configs: RotaryConfig | Mapping[str, RotaryConfig],
    version: Literal["4", "5"] = "5",
    *,
    model_type: str | None = None,
    multimodal: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return the entries to merge into a config.json, so that transformers builds these rotary positions.

    Static NTK scalings are written as the larger base that they are. Entries that the file must not have any more are
    ``None``.

    Args:
        configs: The configuration, or one for every layer type.
        version: ``4`` writes ``rope_theta`` and ``rope_scaling``, ``5`` writes ``rope_parameters``.
        model_type: ``model_type`` of the text config, which decides about the pairing; only halves can do without.
        multimodal: Sections of M-RoPE by layer type, as :class:`~locant.rotary_configs.ParsedConfig` has them; they
            stay as they are, since transformers scales the pairs of all axes alike.

    Raises:
        ConfigError: transformers cannot express a configuration.

    Example:
        >>> from locant.positions import Linear
        >>> written = write_huggingface(RotaryConfig(head_dim=128, scaling=Linear(factor=8, original_length=4096)))
        >>> written["rope_parameters"]
        {'rope_type': 'linear', 'factor': 8, 'rope_theta': 10000.0}
        >>> written["head_dim"], written["max_position_embeddings"]
        (128, 32768)
    """
    if version not in ("4", "5"):
        raise ConfigError(f"Unknown version '{version}' of transformers.{nearest(str(version), '45')} Known: 4, 5.")
    known = vocabulary.defaults_of(model_type) or {}
    given = {layer: with_equivalent_base(config) for layer, config in by_layer(configs).items()}
    beside: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}
    for layer, config in given.items():
        if version == "4" and isinstance(config.scaling, Proportional):
            raise cannot_express("config.json of transformers 4", config.scaling, "write version 5")
        for name, value in _beside(config, known, model_type).items():
            if beside.setdefault(name, value) != value:
                raise ConfigError(f"config.json has one {name}, but the configurations of {', '.join(given)} differ.")
        groups[layer] = _group(config, known, model_type)
        if axes := (multimodal or {}).get(layer):
            groups[layer]["mrope_section"] = list(axes["sections"])
            groups[layer] |= {"mrope_interleaved": True} if axes.get("interleaved") else {}
    if version == "5":
        return beside | {"rope_parameters": groups.get(ALL_LAYERS, groups), "rope_scaling": None, "rope_theta": None}
    if ALL_LAYERS in groups:
        return beside | _as_version_4(groups[ALL_LAYERS], model_type)
    if set(groups) != {FULL, SLIDING} or groups[SLIDING].keys() != {"rope_type", "rope_theta"}:
        raise ConfigError(
            f"config.json of transformers 4 cannot express rotary positions of the layer types {', '.join(groups)} "
            "apart: it has rope_local_base_freq for unscaled sliding_attention beside full_attention. Write version 5."
        )
    return beside | _as_version_4(groups[FULL], model_type) | {"rope_local_base_freq": groups[SLIDING]["rope_theta"]}


def _beside(config: RotaryConfig, known: Mapping[str, Any], model_type: str | None) -> dict[str, Any]:
    """Return the entries next to the group of one configuration."""
    scaling, pairing = config.scaling, "interleaved" if known.get("interleaved") else "half"
    if config.layout != pairing and "rope_interleave" not in known:
        raise ConfigError(
            f"config.json cannot express layout '{config.layout}': the class of the model type '{model_type}' decides, "
            f"and has '{pairing}'. Permute the projections of queries and keys, or name a model_type of that layout."
        )
    written: dict[str, Any] = {"qk_rope_head_dim" if "qk_rope_head_dim" in known else "head_dim": config.head_dim}
    if "rope_interleave" in known:
        written["rope_interleave"] = config.layout == "interleaved"
    length = config.max_length or (scaling.reach if scaling.limits_length else None)
    if isinstance(scaling, DynamicNTK):
        if config.max_length not in (None, scaling.original_length) or scaling.length_step != 1:
            raise ConfigError(
                f"config.json cannot express the scaling 'dynamic' with max_length {config.max_length}, "
                f"original_length {scaling.original_length} and length_step {scaling.length_step}: transformers takes "
                "the original length from max_position_embeddings and counts every token. Set max_length to the "
                "original length and length_step to 1, or state a target_length."
            )
        length = scaling.original_length
    elif isinstance(scaling, LongRoPE):  # releases up to 4.4x look for it here alone, and Phi-3's class has its own
        written["original_max_position_embeddings"] = scaling.original_length
    return written | ({} if length is None else {"max_position_embeddings": length})


def _group(config: RotaryConfig, known: Mapping[str, Any], model_type: str | None) -> dict[str, Any]:
    if known.get("rotary_dim") and not _heeds_partial(known):
        raise ConfigError(
            f"config.json of the model type '{model_type}' holds rotary_dim and nothing else: base and scaling are its "
            "class's."
        )
    written = write_scaling(config.scaling) | {"rope_theta": config.base}
    partial = partial_rotary_factor(config, "config.json")
    if partial != 1 and known and not _heeds_partial(known) and not isinstance(config.scaling, Proportional):
        raise ConfigError(
            f"config.json cannot express {config.rotary_dim} rotated of {config.head_dim} features for the model type "
            f"'{model_type}', whose class ignores partial_rotary_factor."
        )
    return written if partial == 1 and not _heeds_partial(known) else written | {"partial_rotary_factor": partial}


def _heeds_partial(known: Mapping[str, Any]) -> bool:
    """Whether the class of a model type reads ``partial_rotary_factor``, by what it assumes for it."""
    groups = known.get("rope_parameters", {}).values()
    return any("partial_rotary_factor" in each for each in (known, *groups) if isinstance(each, Mapping))


def partial_rotary_factor(config: RotaryConfig, engine: str) -> float:
    """Return the partial rotary factor of a configuration: of the features, or of the pairs that turn in p-RoPE.

    Args:
        config: The configuration.
        engine: Name of the format, for messages.

    Raises:
        ConfigError: The format takes p-RoPE for whole heads alone.
    """
    assert config.rotary_dim is not None
    if isinstance(config.scaling, Proportional):
        if config.rotary_dim != config.head_dim:
            raise ConfigError(
                f"{engine} cannot express the scaling 'proportional' on {config.rotary_dim} of {config.head_dim} "
                "features: it takes the whole head."
            )
        return config.scaling.rotary_fraction
    fraction = config.rotary_dim / config.head_dim
    while int(config.head_dim * fraction) < config.rotary_dim:  # transformers cuts the product off
        fraction = math.nextafter(fraction, 1)
    return fraction


def _as_version_4(group: dict[str, Any], model_type: str | None) -> dict[str, Any]:
    neox = {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"} if model_type == "gpt_neox" else {}
    outside = ("rope_theta", "partial_rotary_factor")
    beside = {neox.get(name, name): group[name] for name in outside if name in group}
    scaling = {name: value for name, value in group.items() if name not in outside}
    is_scaled = scaling["rope_type"] != "default" or "mrope_section" in scaling
    return beside | {"rope_scaling": scaling if is_scaled else None, "rope_parameters": None}
