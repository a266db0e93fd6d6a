"""Frequency scalings in the words of other software: one table of names a format, and Hugging Face's groups.

A format takes part with what it calls a scaling and its fields; a scaling of a third party with :func:`register_form`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.scaling import SCALINGS, FrequencyScaling
from locant.rotary_configs.fields import Fields, in_json
from locant.rotary_configs.reading import cannot_express


@dataclass(frozen=True)
class Form:
    """What a format calls a scaling and its fields.

    Attributes:
        types: Values of ``rope_type``, or what the format has in its place, that mean it; the one to write first.
        fields: Fields of the scaling's class, and the entries of the format that hold them.
    """

    types: tuple[str, ...]
    fields: Mapping[str, str] = field(default_factory=dict)


_FORMS: dict[str, dict[str, Form]] = {
    "huggingface": {  # rope_scaling and rope_parameters of config.json
        "none": Form(("default", "mrope", "none")),
        "linear": Form(("linear",), {"factor": "factor"}),
        "dynamic": Form(("dynamic",), {"factor": "factor"}),
        "yarn": Form(
            ("yarn", "deepseek_yarn"),
            {
                "factor": "factor",
                "original_length": "original_max_position_embeddings",
                "beta_fast": "beta_fast",
                "beta_slow": "beta_slow",
                "truncate": "truncate",
                "attention_factor": "attention_factor",
                "mscale": "mscale",
                "mscale_all_dim": "mscale_all_dim",
            },
        ),
        "longrope": Form(
            ("longrope", "su"),
            {
                "factor": "factor",
                "original_length": "original_max_position_embeddings",
                "short_factors": "short_factor",
                "long_factors": "long_factor",
                "attention_factor": "attention_factor",
                "short_attention_factor": "short_mscale",  # where it is another one than long_mscale
            },
        ),
        "llama3": Form(
            ("llama3",),
            {
                "factor": "factor",
                "original_length": "original_max_position_embeddings",
                "low_frequency_factor": "low_freq_factor",
                "high_frequency_factor": "high_freq_factor",
            },
        ),
        "proportional": Form(("proportional",), {"factor": "factor"}),
    },
    "gguf": {  # keys below rope.scaling.; attn_factor multiplies YaRN's own attention scale, and is all of LongRoPE's
        "none": Form(("none",)),
        "linear": Form(("linear",), {"factor": "factor", "original_length": "original_context_length"}),
        "yarn": Form(
            ("yarn",),
            {
                "factor": "factor",
                "original_length": "original_context_length",
                "beta_fast": "yarn_beta_fast",
                "beta_slow": "yarn_beta_slow",
                "attention_factor": "attn_factor",
            },
        ),
        "longrope": Form(
            ("longrope",), {"original_length": "original_context_length", "attention_factor": "attn_factor"}
        ),
    },
    "llamacpp": {  # values of --rope-scaling, and the flags beside it
        "none": Form(("none",)),
        "linear": Form(("linear",), {"factor": "--rope-scale"}),
        "yarn": Form(
            ("yarn",),
            {
                "factor": "--rope-scale",
                "original_length": "--yarn-orig-ctx",
                "beta_fast": "--yarn-beta-fast",
                "beta_slow": "--yarn-beta-slow",
            },
        ),
    },
    "ctranslate2": {  # rotary_scaling_type of a layer in decimal digits, and the attributes beside it
        "linear": Form(("0",), {"factor": "rotary_scaling_factor"}),
        "llama3": Form(
            ("2",),
            {
                "factor": "rotary_scaling_factor",
                "original_length": "original_max_position_embeddings",
                "low_frequency_factor": "rotary_low_freq_factor",
                "high_frequency_factor": "rotary_high_freq_factor",
            },
        ),
    },
}


def register_form(format: str, scaling: str, form: Form) -> None:
    """Say what a format calls a registered scaling, so that files of that format are read and written with it.

    Args:
        format: "huggingface", "gguf", "llamacpp" or "ctranslate2".
        scaling: Name of the scaling, a key of :data:`~locant.positions.scaling.SCALINGS`.
        form: Its types and entries.

    Raises:
        ConfigError: The format or the scaling is unknown, or a type means another scaling already.
    """
    if format not in _FORMS:
        raise ConfigError(f"Unknown format '{format}'.{nearest(format, _FORMS)} Known: {', '.join(_FORMS)}.")
    if scaling not in SCALINGS:
        raise ConfigError(f"Unknown frequency scaling '{scaling}'.{nearest(scaling, SCALINGS)}")
    taken = scaling_types(format)
    for each in form.types:
        if taken.get(each, scaling) != scaling:
            raise ConfigError(f"'{each}' means the scaling '{taken[each]}' in {format} already.")
    _FORMS[format][scaling] = form


def form_of(format: str, scaling: str) -> Form | None:
    """Return what a format calls a scaling, ``None`` where it has no such scaling."""
    return _FORMS[format].get(scaling)


def scaling_types(format: str) -> dict[str, str]:
    """Return the names of scalings by each type that means them in a format."""
    return {each: scaling for scaling, form in _FORMS[format].items() for each in form.types}


def read_scaling(
    group: Mapping[str, Any],
    where: str,
    *,
    max_length: int | None,
    original_length: int | None = None,
    partial_rotary_factor: float | None = None,
) -> FrequencyScaling:
    """Read ``rope_scaling`` or ``rope_parameters`` of a config.json as transformers takes it.

    Other entries are ignored. Source: ``modeling_rope_utils.py`` of transformers 5.24.

    Args:
        group: The entries.
        where: Where they are, for messages: "rope_scaling of config.json".
        max_length: ``max_position_embeddings``, in tokens.
        original_length: ``original_max_position_embeddings`` beside the group, which counts before the one within.
        partial_rotary_factor: The one in force; p-RoPE takes it for the fraction of turning pairs.

    Raises:
        ConfigError: The type is unknown, or an entry is missing or wrong.

    Example:
        >>> read_scaling({"rope_type": "yarn", "factor": 4.0}, "rope_scaling", max_length=4096).reach
        16384
    """
    entries = Fields(group, where)
    kind, types = type_of(entries), scaling_types("huggingface")
    if kind not in types:
        raise ConfigError(
            f"Unknown rope_type {in_json(kind)} in {where}.{nearest(kind[:60], types)} Known: {', '.join(types)}."
        )
    name = types[kind]
    options = options_of(entries, SCALINGS[name], _FORMS["huggingface"][name])
    if original_length is not None and "original_length" in _FORMS["huggingface"][name].fields:
        options["original_length"] = original_length
    if name in ("yarn", "longrope", "llama3"):
        options.setdefault("original_length", max_length)
        entries.need(options["original_length"], "original_max_position_embeddings", f"the scaling '{name}' needs it")
    if name == "linear":
        options["original_length"] = entries.whole("original_max_position_embeddings")  # as people state it
    elif name == "yarn":
        # 0 is absence; the two weights count together alone, and attention_factor before them.
        options = {each: value for each, value in options.items() if value != 0 or each not in _ABSENT_AT_0}
        if "attention_factor" in options or not {"mscale", "mscale_all_dim"} <= options.keys():
            options = {each: value for each, value in options.items() if not each.startswith("mscale")}
    elif name == "dynamic":
        original = max_length or original_length or entries.whole("original_max_position_embeddings")
        entries.need(original, "max_position_embeddings", "the scaling 'dynamic' counts from it")
        options |= {"original_length": original, "length_step": 1}
    elif name == "longrope":
        short, long = entries.number("short_mscale"), entries.number("long_mscale")
        if short is not None or long is not None:
            options["attention_factor"] = short if long is None else long
        options["short_attention_factor"] = None if short == long or short is None or long is None else short
    elif name == "llama3":
        for each in ("low_freq_factor", "high_freq_factor"):
            entries.need(entries.number(each), each, "the scaling 'llama3' compares the turns of pairs with it")
    elif name == "proportional":
        options["rotary_fraction"] = 1.0 if partial_rotary_factor is None else partial_rotary_factor
    if "factor" not in options and (name == "longrope" or (name == "yarn" and "factor" in group)):
        options["target_length"] = entries.need(max_length, "factor", "max_position_embeddings is missing as well")
    elif "factor" in _FORMS["huggingface"][name].fields and name != "proportional":
        entries.need(options.get("factor"), "factor", f"the scaling '{name}' needs it")
    return make_scaling(SCALINGS[name], options, _FORMS["huggingface"][name], where)


_ABSENT_AT_0 = ("beta_fast", "beta_slow", "mscale", "mscale_all_dim")


def type_of(entries: Fields) -> str:
    """Return the type of a group under either of its two names, the new one first, as transformers takes it."""
    return entries.text("rope_type") or entries.text("type") or "default"


def options_of(entries: Fields, scaling: type[FrequencyScaling], form: Form) -> dict[str, Any]:
    """Return the fields of a scaling that a format states, checked for their types; missing ones are left out.

    Args:
        entries: The entries of the format.
        scaling: The class of the scaling.
        form: What the format calls it.

    Raises:
        ConfigError: An entry is of the wrong type.
    """
    types = {each.name: str(each.type) for each in fields(scaling)}
    options = {}
    for name, entry in form.fields.items():
        takes = next((take for word, take in _TAKES.items() if word in types.get(name, "")), Fields.get)
        if (value := takes(entries, entry)) is not None:
            options[name] = value
    return options


_TAKES: Mapping[str, Any] = {
    "bool": Fields.flag,
    "Sequence": Fields.numbers,
    "tuple": Fields.numbers,
    "int": Fields.whole,
    "float": Fields.number,
    "str": Fields.text,
}
"""How a field is taken from a file, by a word of its annotation; the first that fits counts."""


def make_scaling(
    scaling: type[FrequencyScaling], options: Mapping[str, Any], form: Form, where: str
) -> FrequencyScaling:
    """Make a scaling of what a format states.

    Args:
        scaling: Its class.
        options: Its fields.
        form: What the format calls them, for messages.
        where: Where they are, for messages.

    Raises:
        ConfigError: A field is missing, or the class refuses a number.
    """
    for each in fields(scaling):
        if each.default is MISSING and each.default_factory is MISSING and each.name not in options:
            raise ConfigError(f"'{form.fields.get(each.name, each.name)}' is missing in {where}.")
    try:
        return scaling(**options)
    except ConfigError as error:
        stated = ", ".join(
            f"{entry} {in_json(options[name])}" for name, entry in form.fields.items() if name in options
        )
        raise ConfigError(f"{where} ({stated}): {error}") from error


def write_scaling(scaling: FrequencyScaling) -> dict[str, Any]:
    """Return the group of a scaling for a config.json, with ``rope_type``, without base and partial rotary factor.

    Raises:
        ConfigError: transformers has no such scaling, or not with these fields.

    Example:
        >>> from locant.positions import Linear
        >>> write_scaling(Linear(factor=4))
        {'rope_type': 'linear', 'factor': 4}
    """
    name = scaling.name
    values = {each.name: getattr(scaling, each.name) for each in fields(scaling)}
    if name == "ntk-by-parts":  # YaRN that leaves scores alone
        name, values = "yarn", values | {"attention_factor": 1.0}
    form = form_of("huggingface", name)
    if form is None:
        raise cannot_express("config.json", scaling, "it has no such rope_type")
    if values.get("final_length") is not None:
        raise cannot_express("config.json", scaling, "it has no final_length, which chooses one list for all texts")
    if name == "longrope":  # releases 4 and 5 differ in the scale that they take by default
        values["attention_factor"] = scaling.attention_scale()
    if values.get("attention_factor") is not None:
        values["attention_factor"] = float(values["attention_factor"])  # which transformers asks for
    flags = {each.name: each.default for each in fields(scaling) if isinstance(each.default, bool)}
    written: dict[str, Any] = {"rope_type": form.types[0]}
    for field_name, entry in form.fields.items():
        value = values.get(field_name)
        if value is not None and value != flags.get(field_name):
            written[entry] = list(value) if isinstance(value, tuple) else value
    if "short_mscale" in written:
        written["long_mscale"] = written.pop("attention_factor")
    return written
