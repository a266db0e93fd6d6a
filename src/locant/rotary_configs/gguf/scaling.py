"""The scaling of a GGUF file: its keys and its tensors of factors, read and written as llama.cpp computes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.exact import geometric_frequencies
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import SCALINGS, FrequencyScaling, Llama3, LongRoPE, Proportional, Unscaled, YaRN
from locant.positions.scaling.checks import check_base, check_rotary_dim, is_number
from locant.positions.scaling.measured import Measured
from locant.rotary_configs.fields import Fields
from locant.rotary_configs.gguf.architectures import Architecture
from locant.rotary_configs.reading import cannot_express
from locant.rotary_configs.scaling import Form, form_of, make_scaling, options_of, scaling_types

FREQS, SHORT, LONG = "rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"
"""Names of the tensors of factors, by which frequencies are divided."""

SCALING = "rope.scaling."
Tensors = Mapping[str, tuple[float, ...]]

_STANDING = 1e30  # factor of a pair that does not turn (convert_hf_to_gguf.py)
_TOLERANCE = 2e-6  # the tensors are float32


def scaling_of(keys: Fields, facts: Architecture, tensors: Tensors, rotary_dim: int, base: float) -> FrequencyScaling:
    """Return the scaling of a file.

    Args:
        keys: The metadata of the architecture.
        facts: What llama.cpp does with it.
        tensors: Its tensors of factors.
        rotary_dim: Number of rotated features.
        base: Base of the unscaled frequencies.

    Raises:
        ConfigError: The type is unknown, a key is missing or out of range, or a tensor is not what llama.cpp reads.
    """
    check_rotary_dim(rotary_dim)
    check_base(base)
    kind, types = keys.text(f"{SCALING}type") or "linear", scaling_types("gguf")  # which without a factor is nothing
    if kind not in types:
        near = nearest(kind[:60], types)
        raise ConfigError(f"Unknown {SCALING}type '{kind:.60}' in {keys.where}.{near} Known: {', '.join(types)}.")
    if not facts.scaled:
        return Unscaled()
    has_lists = facts.factors == "lists" or (facts.factors == "either" and kind == "longrope")
    expected = {SHORT, LONG} if has_lists else {FREQS} if facts.factors in ("freqs", "either") else set()
    pairs = rotary_dim // 2
    for tensor, factors in tensors.items():
        if tensor not in expected or len(factors) != pairs or not all(is_number(each) and each > 0 for each in factors):
            raise ConfigError(
                f"{tensor} must hold {pairs} numbers above 0, one for every pair; with the type '{kind}' llama.cpp "
                f"reads {' and '.join(sorted(expected)) or 'no such tensor'} in files of '{facts.name}'."
            )
    factor = keys.number(f"{SCALING}factor") or keys.number("rope.scale_linear") or 1.0
    if has_lists and tensors and (len(tensors) == 1 or factor != 1):
        has = f"{' and '.join(tensors)}, and the factor {factor:g}"
        raise ConfigError(f"LongRoPE needs {SHORT} and {LONG}, and no {SCALING}factor; the file has {has}.")
    # Without its lists LongRoPE is computed as linear interpolation.
    name = "longrope" if has_lists and tensors else "linear" if types[kind] == "longrope" else types[kind]
    form = form_of("gguf", name)
    assert form is not None
    form = Form(form.types, {field: f"{SCALING}{entry}" for field, entry in form.fields.items()})
    options = options_of(keys, SCALINGS[name], form) | ({"factor": factor} if "factor" in form.fields else {})
    scale = (keys.number(f"{SCALING}attn_factor") or 1.0) if facts.magnified else 1.0
    length = keys.whole("context_length")
    if name in ("yarn", "longrope"):
        options.setdefault("original_length", length)
        keys.need(options["original_length"], f"{SCALING}original_context_length", "so is context_length, its default")
    if name == "yarn":
        scaling = _yarn(keys, facts, options, form, scale)
    elif name == "linear" and factor <= 1:
        scaling = Unscaled() if factor == 1 else on_top(Unscaled(), (factor,) * pairs, rotary_dim, base)
    else:
        if name == "longrope":
            options |= {"target_length": max(length or 0, options["original_length"]), "attention_factor": scale}
            options |= {"short_factors": tensors[SHORT], "long_factors": tensors[LONG]}
        scaling = make_scaling(SCALINGS[name], options, form, keys.where)
    if scale != 1 and "attention_factor" not in form.fields:
        scaling = Measured(given=tuple(map(float, scaling.frequencies(rotary_dim, base))), attention_factor=scale)
    return on_top(scaling, tensors[FREQS], rotary_dim, base) if FREQS in tensors else scaling


def _yarn(keys: Fields, facts: Architecture, options: dict[str, Any], form: Form, relative: float) -> FrequencyScaling:
    """Return YaRN, whose attention scale a file states relative to the usual one, and its corners to few graphs."""
    options.pop("attention_factor", None)
    if facts.beta_fast is None:
        options = {name: value for name, value in options.items() if not name.startswith("beta_")}
    else:
        options.setdefault("beta_fast", facts.beta_fast)
    if facts.log_unit is not None and (multiplier := keys.number(f"{SCALING}yarn_log_multiplier")):
        options["mscale_all_dim"] = float(f"{multiplier / facts.log_unit:.6g}")  # float32 of 0.0707 means 0.707
        options["mscale"] = options["mscale_all_dim"] if facts.cancelled else 1.0
    scaling = make_scaling(YaRN, options, form, keys.where)
    usual = scaling.attention_scale()
    scale = usual * relative if facts.magnified else 1.0
    if scale == usual:
        return Unscaled() if options["factor"] == 1 else scaling
    scale = 1.0 if math.isclose(scale, 1, rel_tol=_TOLERANCE) else scale
    options |= {"attention_factor": scale, "mscale": None, "mscale_all_dim": None}
    return make_scaling(YaRN, options, form, keys.where)


def on_top(scaling: FrequencyScaling, factors: Sequence[float], rotary_dim: int, base: float) -> FrequencyScaling:
    """Return a scaling whose frequencies are divided by a factor for every pair, with its name where it has one."""
    plain = [float(each) for each in Unscaled().frequencies(rotary_dim, base)]
    candidates = (_proportional(factors), _llama3(factors, plain)) if scaling == Unscaled() else ()
    for candidate in (each for each in candidates if each is not None):
        found = factors_of(candidate, rotary_dim, base)
        if all(math.isclose(a, b, rel_tol=_TOLERANCE) for a, b in zip(found, factors, strict=True)):
            return candidate
    divided = (
        0.0 if factor >= _STANDING else float(frequency) / factor
        for frequency, factor in zip(scaling.frequencies(rotary_dim, base), factors, strict=True)
    )
    return Measured(given=tuple(divided), attention_factor=scaling.attention_scale())


def factors_of(scaling: FrequencyScaling, rotary_dim: int, base: float) -> tuple[float, ...]:
    """Return by what a scaling divides the frequency of every pair."""
    plain = geometric_frequencies(rotary_dim // 2, Decimal(base))
    scaled = scaling.frequencies(rotary_dim, base)
    return tuple(float(whole / each) if each else _STANDING for whole, each in zip(plain, scaled, strict=True))


def _proportional(factors: Sequence[float]) -> FrequencyScaling | None:
    """Return p-RoPE, where the first pairs are slowed alike and the others do not turn."""
    turning = sum(factor < math.sqrt(_STANDING) for factor in factors)
    factor = factors[0] if turning else 1.0
    if factor < 1 or {*factors[:turning]} - {factor}:
        return None
    is_plain = turning == len(factors) and factor == 1
    return Unscaled() if is_plain else Proportional(rotary_fraction=turning / len(factors), factor=factor)


def _llama3(factors: Sequence[float], plain: Sequence[float]) -> FrequencyScaling | None:
    """Return Llama 3's scaling whose blend meets two of the blended pairs, or that has a step where none is blended.

    The blend is linear in the frequency: ``(L * f / 2 pi - low) / (high - low)``. Multiplying ``L``, ``low`` and
    ``high`` by the same number changes nothing, so ``low`` is 1 wherever that makes ``L`` a whole number. At a step,
    any ``L`` between the wavelengths of its two pairs says the same; the roundest is taken.
    """
    largest, kept = max(factors), sum(factor < 1 + 1e-5 for factor in factors)
    blended = [index for index, factor in enumerate(factors) if 1 + 1e-5 < factor < largest * (1 - 1e-5)]
    if not 1 + 1e-5 < largest < _STANDING or len(blended) == 1 or (not blended and kept == 0):
        return None
    if not blended:
        fastest, slowest = (2 * math.pi / plain[index] for index in (kept - 1, kept))
        steps = (1 << exponent for exponent in range(math.ceil(fastest).bit_length(), -1, -1))
        lengths = (-(-math.ceil(fastest) // step) * step for step in steps)
        length = next((each for each in lengths if each < slowest), None)
        return None if length is None else Llama3(original_length=length, factor=largest, high_frequency_factor=1.0)
    ends = blended[0], blended[-1]
    turns = [plain[index] / (2 * math.pi) for index in ends]
    shares = [(1 / factors[index] - 1 / largest) / (1 - 1 / largest) for index in ends]
    slope = (shares[0] - shares[1]) / (turns[0] - turns[1])
    offset = shares[0] - slope * turns[0]
    if slope <= 0 or offset >= 0:
        return None
    high = 1 - 1 / offset
    length = max(round(slope * (high - 1)), 1)
    low = length / (slope * (high - 1))
    low = 1.0 if abs(low - 1) < 1e-4 else low
    return Llama3(
        original_length=length, factor=largest, low_frequency_factor=low, high_frequency_factor=round(high * low, 3)
    )


def as_yarn(scaling: FrequencyScaling) -> FrequencyScaling:
    """Return NTK-by-parts as YaRN that leaves scores alone, and other scalings as they are."""
    if scaling.name != "ntk-by-parts":
        return scaling
    return YaRN(**{each.name: getattr(scaling, each.name) for each in fields(scaling)}, attention_factor=1.0)


def entries_of(scaling: FrequencyScaling, form: Form) -> dict[str, Any]:
    """Return what the entries of a format hold of a scaling."""
    values = {entry: getattr(scaling, field) for field, entry in form.fields.items()}
    return {entry: value for entry, value in values.items() if value is not None}


def written(config: RotaryConfig, facts: Architecture) -> tuple[dict[str, Any], dict[str, tuple[float, ...]]]:
    """Return the keys below ``rope.scaling.`` of a configuration, without that, and its tensors of factors.

    Raises:
        ConfigError: llama.cpp has no such scaling, or not in this architecture.
    """
    scaling, engine = as_yarn(config.scaling), f"GGUF of the architecture '{facts.name}'"
    form, tensors, needs = form_of("gguf", scaling.name), dict[str, tuple[float, ...]](), "freqs"
    attention = scaling.attention_scale()
    if form is not None:
        keys = {"type": form.types[0], **entries_of(scaling, form)}
    elif scaling.depends_on_length:
        raise cannot_express(engine, scaling, "llama.cpp has the same frequencies for texts of all lengths")
    else:
        keys = {"type": "none"}
        tensors = {FREQS: factors_of(scaling, config.rotary_dim or config.head_dim, config.base)}
    if isinstance(scaling, LongRoPE):
        if scaling.final_length is not None or scaling.short_attention_factor is not None:
            raise cannot_express(engine, scaling, "llama.cpp has no final_length and no short_attention_factor")
        needs, tensors = "lists", {SHORT: tuple(scaling.short_factors), LONG: tuple(scaling.long_factors)}
    if isinstance(scaling, YaRN):
        if not scaling.truncate:
            raise cannot_express(engine, scaling, "llama.cpp rounds the corners of the ramp, so that truncate is true")
        if (scaling.beta_fast, scaling.beta_slow) != (32, 1) and facts.beta_fast is None:
            raise cannot_express(engine, scaling, "llama.cpp has beta_fast 32 and beta_slow 1 there")
        attention /= scaling.paper_attention_scale()
        mscale, for_all = scaling.mscale, scaling.mscale_all_dim
        if facts.log_unit is not None and for_all is not None:
            if mscale != (expected := for_all if facts.cancelled else 1.0):
                raise cannot_express(engine, scaling, f"llama.cpp takes {expected:g} for mscale there")
            attention, keys["yarn_log_multiplier"] = 1.0, for_all * facts.log_unit
    if attention != 1 or isinstance(scaling, LongRoPE):
        keys["attn_factor"] = attention
    else:
        keys.pop("attn_factor", None)
    if (
        (tensors and facts.factors not in (needs, "either"))
        or (scaling != Unscaled() and not facts.scaled)
        or (attention != 1 and not facts.magnified)
    ):
        raise cannot_express(engine, scaling, "its graph in llama.cpp has no such scaling")
    return keys, tensors
