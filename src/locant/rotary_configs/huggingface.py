"""Rotary positions in the config.json of Hugging Face's transformers, releases 4 and 5: reading and writing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import Unscaled
from locant.positions.scaling.fields import Fields, Finding, agreed
from locant.positions.scaling.forms import RopeContext
from locant.rotary_configs import families
from locant.rotary_configs.base import (
    ALL_LAYERS,
    ParsedConfig,
    by_layer,
    cannot_express,
    declared_length,
    with_equivalent_base,
)
from locant.rotary_configs.rope_parameters import (
    read_scaling,
    read_type,
    write_rotated_fraction,
    write_scaling,
)

_TEXT_PARTS = ("text_config", "llm_config", "language_config")
_ROPE_KEYS = (
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "rotary_emb_base",
    "rope_local_base_freq",
    "global_rope_theta",
    "local_rope_theta",
    "partial_rotary_factor",
    "rotary_pct",
    "rotary_dim",
    "rope_interleave",
    "qk_rope_head_dim",
    "no_rope_layers",
    "no_rope_layer_interval",
    "rotary",
    "rope_interleaved",
)
_LENGTHS = ("max_position_embeddings", "original_max_position_embeddings", "partial_rotary_factor")
LOCAL, GLOBAL = "sliding_attention", "full_attention"


def read_huggingface(config: Mapping[str, Any]) -> ParsedConfig:
    """Read the rotary positions of a model from its config.json.

    Known traps end in an error where the file cannot be right, in a finding where it may be. Heads of DeepSeek's
    family (``qk_rope_head_dim``) are the separate rotated part of the head, which has a projection of its own.

    Args:
        config: The content of config.json, of any 4.x or 5.x release; of a multimodal model, its text part is read.

    Returns:
        A configuration for every layer type; ``all`` where there is one.

    Raises:
        ConfigError: A type or key is unknown (the nearest known one is named), a value is missing or out of range, two
            contradict each other, or the file means something that a rotary configuration cannot express.

    Example:
        >>> parsed = read_huggingface({
        ...     "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 32768,
        ...     "rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 8.0}})
        >>> parsed.config.head_dim, parsed.config.scaling.name, parsed.config.scaling.factor
        (128, 'linear', 8.0)
    """
    findings: list[Finding] = []
    top = Fields(text_part(config), "config.json")
    _refuse_other_positions(top)
    model_type = top.text("model_type") or Fields(config, "config.json").text("model_type")
    layout = families.layout_of(model_type, top.flag("rope_interleave"))
    if model_type not in families.INTERLEAVED | families.HALF:
        findings.append(
            Finding(
                "warning",
                f"config.json does not say how features are paired, and the model type '{model_type}' is not known "
                "here: halves are assumed, as most models have it.",
                "Compare with the rotate_half of the model's class: x[..., ::2] there means layout 'interleaved'.",
            )
        )
    if top.flag("rope_interleaved") and layout == "half":
        findings.append(
            Finding(
                "warning",
                f"config.json has rope_interleaved true, but the class of '{model_type}' in transformers pairs halves.",
                "Compare with the code that trained the model; weights may have to be permuted from one to the other.",
            )
        )
    if any([top.get("no_rope_layers"), top.get("no_rope_layer_interval")]):
        findings.append(Finding("note", "Some layers of this model do not rotate at all.", "See no_rope_layers."))
    max_length = top.whole("max_position_embeddings") or top.whole("n_positions")
    original_length = top.whole("original_max_position_embeddings")
    configs: dict[str, RotaryConfig] = {}
    multimodal: dict[str, dict[str, Any]] = {}
    for layer, (rope, base) in _layers(top, model_type).items():
        head_dim = _head_dim(top, model_type, layer)
        fraction = _rotated_fraction(top, rope, model_type)
        context = RopeContext(max_length, original_length, fraction)
        if base is None:
            base = families.BASES.get(model_type or "", 10000.0)
            context.note(
                f"The file has no rope_theta; {base:g} is taken, as the model's class does.",
                "Compare with the model's publication.",
            )
        _read_axes(rope, layer, context, multimodal)
        takes_yarn = model_type in families.YARN_IS_LONGROPE
        scaling = read_scaling(rope, context, takes_yarn_for_longrope=takes_yarn)
        configs[layer] = RotaryConfig(
            head_dim=head_dim,
            base=base,
            rotary_dim=_rotary_dim(top, head_dim, fraction if scaling.turning_fraction is None else None),
            layout=layout,
            scaling=scaling,
            max_length=declared_length(scaling, max_length, context.findings),
        )
        findings += [finding for finding in context.findings if finding not in findings]
    top.refuse_rest(_ROPE_KEYS, [key for key in top.values if "rope" in key or "rotary" in key])
    top.refuse_misspelt(_LENGTHS)
    return ParsedConfig(configs, tuple(findings), multimodal)


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a config.json that is about text: a nested one of multimodal models, or the whole.

    Raises:
        ConfigError: An entry about rotary positions stands beside that part and contradicts it.
    """
    for name in _TEXT_PARTS:
        part = config.get(name)
        if not isinstance(part, Mapping):
            continue
        for key in (*_ROPE_KEYS, *_LENGTHS):
            if config.get(key) is not None and config[key] != part.get(key):
                raise ConfigError(
                    f"'{key}' stands in config.json beside '{name}', where it is {part.get(key)!r}. transformers reads "
                    f"the one in '{name}'; remove the other one."
                )
        return part
    return config


def _refuse_other_positions(top: Fields) -> None:
    """Raise ConfigError for a model that has no rotary positions: GPT-J and Falcon can be told so."""
    if top.flag("rotary") is False:
        raise ConfigError("config.json has rotary false: the model is said to have no rotary positions.")
    if top.flag("alibi"):
        raise ConfigError("config.json has alibi true: the model has ALiBi in place of rotary positions.")


def _layers(top: Fields, model_type: str | None) -> dict[str, tuple[Fields, float | None]]:
    """Return the parameters and the base of every layer type; the base is None where it is left out."""
    new, old = top.mapping("rope_parameters"), top.mapping("rope_scaling")
    if new and old and _comparable(new) != _comparable(old):
        raise ConfigError(
            "config.json has rope_parameters as well as rope_scaling, and they differ: transformers 5 takes "
            "rope_scaling, other engines rope_parameters. Keep one of them."
        )
    where = "rope_parameters of config.json" if new else "rope_scaling of config.json"
    given = new or old or {}
    base = agreed(top.number("rope_theta"), top.number("rotary_emb_base"), "rope_theta and rotary_emb_base differ.")
    if given and all(value is None or isinstance(value, Mapping) for value in given.values()):
        layers = {name: Fields(value, f"'{name}' of {where}") for name, value in given.items() if value is not None}
        return {name: (rope, _first(rope.number("rope_theta"), base)) for name, rope in layers.items()}
    rope = Fields(given, where)
    inside = rope.number("rope_theta")
    base = agreed(inside, base, f"rope_theta is {inside} in {where} but {base} next to it; keep one of them.")
    local, full = families.LOCAL_AND_GLOBAL.get(model_type or "", (None, None))
    local = _first(top.number("rope_local_base_freq"), top.number("local_rope_theta"), local)
    if local is None:
        return {ALL_LAYERS: (rope, base)}
    # The one rope_scaling of such a model is that of its full attention.
    base = _first(base, top.number("global_rope_theta"), full)
    return {GLOBAL: (rope, base), LOCAL: (Fields({}, where), local)}


def _comparable(rope: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in rope.items() if key not in ("rope_type", "type", "rope_theta")}
    return kept | {"rope_type": read_type(Fields(rope, "config.json"))}


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _head_dim(top: Fields, model_type: str | None, layer: str) -> int:
    rotated, stated = top.whole("qk_rope_head_dim"), top.whole("head_dim")
    if model_type == "gemma4_text" and layer == GLOBAL:
        stated = top.whole("global_head_dim") or 512
    if rotated is not None:
        if stated not in (None, rotated):
            raise ConfigError(
                f"config.json has head_dim {stated} and qk_rope_head_dim {rotated}; it cannot be told which features "
                "are rotated."
            )
        return rotated
    stated = stated or families.HEAD_DIMS.get(model_type or "")
    if stated is not None:
        return stated
    width = top.whole("hidden_size") or top.whole("n_embd")
    heads = top.whole("num_attention_heads") or top.whole("n_head")
    if width is None or heads is None or width % heads:
        raise ConfigError(
            f"config.json has neither head_dim nor a hidden_size ({width}) that num_attention_heads ({heads}) divides."
        )
    return width // heads


def _rotated_fraction(top: Fields, rope: Fields, model_type: str | None) -> float | None:
    beside = agreed(
        top.number("partial_rotary_factor"), top.number("rotary_pct"), "partial_rotary_factor and rotary_pct differ."
    )
    inside = rope.number("partial_rotary_factor")
    message = f"partial_rotary_factor is {inside} in {rope.where} but {beside} next to it; keep one of them."
    fraction = agreed(inside, beside, message)
    return families.ROTATED_FRACTIONS.get(model_type or "") if fraction is None else fraction


def _rotary_dim(top: Fields, head_dim: int, fraction: float | None) -> int:
    counted = None if fraction is None else int(head_dim * fraction)
    stated = top.whole("rotary_dim")
    if stated is not None and counted is not None and stated != counted:
        raise ConfigError(
            f"rotary_dim is {stated}, but partial_rotary_factor {fraction} of {head_dim} features is {counted}."
        )
    return stated or (head_dim if counted is None else counted)


def _read_axes(rope: Fields, layer: str, context: RopeContext, multimodal: dict[str, dict[str, Any]]) -> None:
    sections, interleaved = rope.numbers("mrope_section"), rope.flag("mrope_interleaved")
    if sections is None:
        if read_type(rope) == "mrope":
            raise ConfigError(
                f"{rope.where} has type 'mrope' without mrope_section, the numbers of pairs of each axis."
            )
        return
    multimodal[layer] = {"sections": tuple(int(size) for size in sections), "interleaved": bool(interleaved)}
    context.note(
        f"Positions have {len(sections)} axes, with {', '.join(f'{size:g}' for size in sections)} pairs each; the "
        "configuration holds the frequencies, and is exact for text alone.",
        "Use locant.positions.rotary.multiaxis.MultimodalRotary with the sections for images and video.",
    )


_ROTARY_DIM_ONLY = ("gptj", "codegen")
_NAMES_IN_4 = {"gpt_neox": {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}}


def write_huggingface(
    configs: RotaryConfig | Mapping[str, RotaryConfig],
    version: Literal["4", "5"] = "5",
    *,
    model_type: str | None = None,
) -> dict[str, Any]:
    """Return the keys to merge into a config.json, so that transformers builds these rotary positions.

    Static NTK scalings are written as the larger base that they are. Keys that the file must not have any more are
    ``None``.

    Args:
        configs: The configuration, or one for every layer type.
        version: ``4`` writes ``rope_theta`` and ``rope_scaling``, ``5`` writes ``rope_parameters``.
        model_type: ``model_type`` of the file, which decides about the layout; only half layouts can do without.

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
    given = {layer: with_equivalent_base(config) for layer, config in by_layer(configs).items()}
    if model_type in _ROTARY_DIM_ONLY:
        return _as_gptj(given, model_type)
    for config in given.values():
        if version not in config.scaling.transformers_versions:
            newer = ", ".join(config.scaling.transformers_versions)
            raise cannot_express(f"config.json of transformers {version}", config.scaling, f"write version {newer}")
    shared = _shared(given, model_type)
    groups = {layer: _group(config, model_type) for layer, config in given.items()}
    if version == "5":
        return shared | {"rope_parameters": groups.get(ALL_LAYERS, groups), "rope_scaling": None, "rope_theta": None}
    if ALL_LAYERS in groups:
        return shared | _as_version_4(groups[ALL_LAYERS], model_type)
    if set(groups) != {GLOBAL, LOCAL} or groups[LOCAL].keys() != {"rope_type", "rope_theta"}:
        raise ConfigError(
            f"config.json of transformers 4 cannot express rotary positions of the layer types {', '.join(groups)} "
            "apart: it has rope_local_base_freq for unscaled sliding_attention beside full_attention. Write version 5."
        )
    return shared | _as_version_4(groups[GLOBAL], model_type) | {"rope_local_base_freq": groups[LOCAL]["rope_theta"]}


def _shared(given: dict[str, RotaryConfig], model_type: str | None) -> dict[str, Any]:
    entries = [_beside(config, model_type) for config in given.values()]
    lengths = {entry["max_position_embeddings"] for entry in entries} - {None}
    if len(lengths) > 1 or len({config.head_dim for config in given.values()}) > 1:
        raise ConfigError(
            f"config.json has one head_dim and one max_position_embeddings, but the configurations of "
            f"{', '.join(given)} differ in them."
        )
    written = entries[0] | {"max_position_embeddings": next(iter(lengths), None)}
    return {key: value for key, value in written.items() if value is not None}


def _beside(config: RotaryConfig, model_type: str | None) -> dict[str, Any]:
    """Return the entries next to the parameters of one configuration."""
    known = families.layout_of(model_type, None)
    if config.layout != known and model_type not in families.SWITCHED:
        raise ConfigError(
            f"config.json cannot express layout '{config.layout}': the class of the model type '{model_type}' decides, "
            f"and has '{known}'. Permute the projections of queries and keys, or name a model_type of that layout."
        )
    width = "qk_rope_head_dim" if model_type in families.SWITCHED else "head_dim"
    switch = config.layout == "interleaved" if model_type in families.SWITCHED else None
    written = {width: config.head_dim, "rope_interleave": switch}
    return written | config.scaling.huggingface_entries(config.max_length)


def _group(config: RotaryConfig, model_type: str | None) -> dict[str, Any]:
    written = write_scaling(config, "config.json") | {"rope_theta": config.base}
    fraction = write_rotated_fraction(config, "config.json")
    if fraction != 1 or model_type in families.ROTATED_FRACTIONS:
        written["partial_rotary_factor"] = fraction
    return written


def _as_version_4(group: dict[str, Any], model_type: str | None) -> dict[str, Any]:
    names = _NAMES_IN_4.get(model_type or "", {})
    beside = {names.get(key, key): group[key] for key in ("rope_theta", "partial_rotary_factor") if key in group}
    scaling = {key: value for key, value in group.items() if key not in ("rope_theta", "partial_rotary_factor")}
    is_scaled = scaling["rope_type"] != "default"
    return beside | {"rope_scaling": scaling if is_scaled else None, "rope_parameters": None}


def _as_gptj(given: dict[str, RotaryConfig], model_type: str | None) -> dict[str, Any]:
    config = next(iter(given.values()))
    if len(given) > 1 or config.scaling != Unscaled() or config.base != 10000 or config.layout != "interleaved":
        raise ConfigError(
            f"config.json of the model type '{model_type}' holds rotary_dim and nothing else: its class has one "
            "unscaled rotation with base 10000 and layout 'interleaved' for all layers."
        )
    length = {} if config.max_length is None else {"n_positions": config.max_length}
    return {"rotary_dim": config.rotary_dim} | length
