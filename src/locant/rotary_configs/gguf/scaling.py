"""The scaling of a GGUF file: its keys and its tensors of factors, as llama.cpp's loader and graphs take them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import SCALINGS, FrequencyScaling, Unscaled, YaRN
from locant.positions.scaling.checks import check_rotary_dim, is_number
from locant.positions.scaling.contexts import FACTORS, LONG_FACTORS, SHORT_FACTORS, GGUFContext
from locant.positions.scaling.fields import Fields, Finding
from locant.positions.scaling.forms import gguf_factors
from locant.positions.scaling.longrope import LongRoPE
from locant.rotary_configs.factor_products import mixed, multiplied, of_both, of_small_base_in_yarn, one_list
from locant.rotary_configs.gguf.architectures import (
    LOADS_DIVISORS,
    LOADS_LISTS,
    LOADS_LISTS_BY_TYPE,
    LOG_MULTIPLIER_UNIT,
    NEVER_MAGNIFIES,
    PASSES_OVER_FACTORS,
    PASSES_OVER_SCALING,
    READS_BETAS,
    READS_MIX,
    SCALES_SCORES,
)
from locant.rotary_configs.gguf.deviations import USUAL_BASE
from locant.rotary_configs.unusual_bases import with_base

_TOLERANCE = 2e-6  # the tensor is float32
_ONLY_READ_BY: dict[str, Collection[str]] = {
    **dict.fromkeys(("rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"), READS_BETAS),
    **dict.fromkeys(("rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor"), READS_MIX),
}
_WITHOUT_IT = {"rope.scaling.yarn_beta_fast": 32.0, "rope.scaling.yarn_beta_slow": 1.0}

Tensors = Mapping[str, tuple[float, ...]]
"""Tensors of factors, by name."""


def scaling_of(
    keys: Fields,
    architecture: str,
    tensors: Tensors,
    rotary_dim: int,
    base: float,
    findings: list[Finding],
    *,
    mixes: bool = True,
) -> FrequencyScaling:
    """Return the scaling of a file.

    Args:
        keys: The metadata of the architecture.
        architecture: ``general.architecture``.
        tensors: Its tensors of factors.
        rotary_dim: Number of rotated features.
        base: Base of the unscaled frequencies.
        findings: Where findings go.
        mixes: Whether YaRN is shown as the list of factors that it is with a base up to 1 or ``yarn_ext_factor``.

    Raises:
        ConfigError: The features are no pairs, a key is unknown or out of range, a tensor has not a positive number for
            every pair, or llama.cpp would compute what no scaling here is.
    """
    check_rotary_dim(rotary_dim)  # of which lists of factors are made
    # llama.cpp takes a file without a type for linear, and one without a factor for unscaled.
    stated = keys.text("rope.scaling.type")
    kind = "linear" if stated is None else stated
    keys.flag("rope.scaling.finetuned")
    types = {scaling.gguf_type: scaling for scaling in SCALINGS.values() if scaling.gguf_type}
    if kind not in types:
        raise ConfigError(f"Unknown rope.scaling.type '{kind}'.{nearest(kind, types)} Known: {', '.join(types)}.")
    loaded = _loaded(tensors, architecture, kind, rotary_dim, findings)
    given, by_old_name = keys.number("rope.scaling.factor"), keys.number("rope.scale_linear")
    given = by_old_name if given is None else given
    factor = given or 1.0
    mix = _mix(keys, architecture)
    runs = "yarn" if mix and kind in ("linear", "longrope") else "linear" if mix == 0 and kind == "yarn" else kind
    kind = runs if kind != "longrope" else kind
    magnifiers = _magnifiers(keys, architecture, is_yarn=runs == "yarn", findings=findings)
    attention = math.prod(magnifiers.values()) if magnifiers else None
    if LONG_FACTORS in loaded:
        kind, factor = "longrope", 1.0 if kind == "none" else factor
    elif kind == "longrope":  # which llama.cpp computes otherwise without the lists
        kind = "yarn" if mix else "linear"
        if not {SHORT_FACTORS, LONG_FACTORS} & {*tensors}:
            findings.append(_without_lists(architecture, kind, factor))
    # What is said of the scaling itself is for graphs that have it.
    of_scaling = [] if architecture in PASSES_OVER_SCALING else findings
    context = GGUFContext(
        tensors=loaded,
        kind=stated,
        factor=factor,
        original_length=_original_length(keys),
        attention_factor=1.0 if attention is None else attention,
        mscale_of=partial(_mscale, architecture, of_scaling),
        findings=of_scaling,
        beta_fast=READS_BETAS.get(architecture, _WITHOUT_IT["rope.scaling.yarn_beta_fast"]),
    )
    _warn_of_lengths(keys, context, kind)
    heeded = _heeded(keys, architecture, of_scaling)
    if kind == "longrope" and LONG_FACTORS in loaded and factor != 1:
        divides = types["yarn" if stated == "yarn" else "linear"].from_gguf(heeded, context)
        context = _with_lists_divided(context, divides, rotary_dim, base)
    scaling = types[kind].from_gguf(heeded, context)
    if not given and stated == kind and kind in ("linear", "yarn") and FACTORS not in loaded:
        of_scaling.append(_note_on_missing_factor(kind, keys))
        scaling = Unscaled() if scaling.attention_scale() == 1 else scaling
    if isinstance(scaling, YaRN) and architecture in SCALES_SCORES:
        unit = LOG_MULTIPLIER_UNIT.get(architecture)
        multiplier = keys.number("rope.scaling.yarn_log_multiplier") or 0.0
        findings.append(_note_on_scores(scaling, multiplier / unit if unit else 0.0))
    is_mixed = mix is not None and mix not in (0, 1)
    if mixes and isinstance(scaling, YaRN) and factor != 1 and (is_mixed or base <= 1):
        divisors = mixed(scaling, 1 if mix is None else mix, rotary_dim, base)
        by_base = f"{of_small_base_in_yarn(f'The base {base:g}')}: llama.cpp computes it so"
        by_mix = f"rope.scaling.yarn_ext_factor {mix}: llama.cpp mixes YaRN with interpolation"
        findings.append(_of_one_list(by_mix if is_mixed else by_base))
        scaling = one_list(divisors, scaling.trained_length, scaling.attention_scale(), scaling.reach)
    elif attention not in (None, 1) and not isinstance(scaling, YaRN | LongRoPE):
        beside = f"rope.scaling.type '{stated}'" if stated else "no rope.scaling.type"
        names = " and ".join(f"{name} {value:g}" for name, value in magnifiers.items())
        them = "it" if len(magnifiers) == 1 else "both"
        said = f"{names} beside {beside}: llama.cpp multiplies cosine and sine by {them}"
        findings.append(_of_one_list(said))
        length = scaling.trained or _declared(keys, "rope.scaling.attn_factor is shown for texts up to it")
        scaling = one_list(gguf_factors(scaling, rotary_dim, base), length, attention, scaling.reach)
    if FACTORS not in loaded:
        return scaling
    known = _known_scaling(loaded[FACTORS], rotary_dim, base) if scaling == Unscaled() else None
    return known or _listed(keys, scaling, loaded[FACTORS], rotary_dim, base, findings)


def unmixed(config: RotaryConfig, keys: Fields, architecture: str) -> RotaryConfig:
    """Return a configuration of a file with YaRN itself where its list of factors is YaRN's in full or in part.

    Its base is the usual one where that of the file is none with which YaRN can be written down.

    Args:
        config: The configuration.
        keys: The metadata of the architecture.
        architecture: ``general.architecture``.
    """
    if not isinstance(config.scaling, LongRoPE) or config.rotary_dim is None:
        return config
    by_keys = partial(scaling_of, keys, architecture, {}, config.rotary_dim, config.base, [])
    plain = by_keys(mixes=False)
    if not isinstance(plain, YaRN) or by_keys() != config.scaling:
        return config
    return with_base(config, config.base if config.base > 1 else USUAL_BASE, scaling=plain)


def _magnifiers(keys: Fields, architecture: str, *, is_yarn: bool, findings: list[Finding]) -> dict[str, float]:
    """Return the keys whose numbers multiply cosine and sine, or the attention scale of YaRN.

    Raises:
        ConfigError: One of them is 0.
    """
    name = "rope.scaling.attn_factor"
    found = {name: keys.number(name)}
    if architecture in NEVER_MAGNIFIES and found[name] not in (None, 1):
        findings.append(
            Finding(
                "warning",
                f"llama.cpp passes over {name} {found[name]:g} in the architecture '{architecture}': its graph does "
                "not multiply cosine and sine.",
                "Compare with the model's publication.",
            )
        )
        return {}
    if architecture in READS_MIX and not is_yarn:  # the context keeps it where it computes no scale of its own
        found["rope.scaling.yarn_attn_factor"] = keys.number("rope.scaling.yarn_attn_factor")
    for name, value in found.items():
        if value == 0:
            raise ConfigError(f"{name} in {keys.where} is 0: all scores are 0 then.")
        if value is not None and value < 0:
            findings.append(
                Finding(
                    "error",
                    f"{name} {value:g} is below 0: queries and keys both change their sign, so that scores are those "
                    f"of {-value:g}, which is shown.",
                    f"State {-value:g}, or compare with the model's publication.",
                )
            )
    return {name: abs(value) for name, value in found.items() if value not in (None, 1)}


def _mix(keys: Fields, architecture: str) -> float | None:
    """Return ``yarn_ext_factor`` where an architecture reads it; below 0 the type decides, as without it."""
    mix = keys.number("rope.scaling.yarn_ext_factor") if architecture in READS_MIX else None
    return None if mix is None or mix < 0 else mix


def _with_lists_divided(context: GGUFContext, scaling: FrequencyScaling, rotary_dim: int, base: float) -> GGUFContext:
    """Return a context in which LongRoPE's lists hold what the factor of the file divides besides."""
    context.warn(
        f"rope.scaling.factor {context.factor:g} stands beside the lists of LongRoPE: llama.cpp divides the "
        "frequencies by both, as is shown.",
        "Remove the factor, unless the weights were trained so.",
    )
    divisors = gguf_factors(scaling, rotary_dim, base)
    lists = {name: multiplied(context.tensors[name], divisors) for name in (SHORT_FACTORS, LONG_FACTORS)}
    scale = scaling.attention_scale() if isinstance(scaling, YaRN) else context.attention_factor
    return replace(context, tensors=lists, factor=1.0, attention_factor=scale)


def _of_one_list(said: str) -> Finding:
    """Return the finding about what is no scaling with a name."""
    return Finding(
        "warning",
        f"{said}, as is shown. That is no scaling with a name; it is shown as LongRoPE whose two lists are the same.",
        "Remove the key, unless the weights were trained so.",
    )


def _without_lists(architecture: str, kind: str, factor: float) -> Finding:
    """Return that the type means lists of factors which the file does not have."""
    does = "scales nothing" if factor == 1 else f"takes the type for '{kind}' with the factor {factor:g}"
    remedy = "Convert the model again, so that the file has both; of a model in several files they may be in another."
    if architecture not in LOADS_LISTS | LOADS_LISTS_BY_TYPE:
        remedy = f"State the type that is meant; for the architecture '{architecture}' llama.cpp loads no such lists."
    return Finding(
        "error",
        f"rope.scaling.type is 'longrope', but the file has neither {SHORT_FACTORS} nor {LONG_FACTORS}: llama.cpp "
        f"{does}, as is shown.",
        remedy,
    )


def _declared(keys: Fields, why: str) -> int:
    """Return the length that the model is declared for."""
    return int(keys.need(keys.whole("context_length"), "context_length", why))


def _loaded(
    tensors: Tensors, architecture: str, kind: str, rotary_dim: int, findings: list[Finding]
) -> dict[str, tuple[float, ...]]:
    """Return the tensors that llama.cpp loads, both lists of LongRoPE where it loads one; warn of the others."""
    takes_lists = architecture in LOADS_LISTS or (kind == "longrope" and architecture in LOADS_LISTS_BY_TYPE)
    takes_divisors = architecture in LOADS_DIVISORS and not (takes_lists and architecture in LOADS_LISTS_BY_TYPE)
    takes = {FACTORS: takes_divisors, SHORT_FACTORS: takes_lists, LONG_FACTORS: takes_lists}
    loaded = {name: factors for name, factors in tensors.items() if takes.get(name)}
    for name in tensors:
        if name in takes and name not in loaded:
            beside = f" with rope.scaling.type '{kind}'" if architecture in LOADS_LISTS_BY_TYPE else ""
            findings.append(
                Finding(
                    "warning",
                    f"{name} is passed over: llama.cpp does not load it for the architecture '{architecture}'{beside}, "
                    "and refuses files with tensors that it does not load.",
                    "Remove the tensor, or convert the model to an architecture that has it.",
                )
            )
    if architecture in PASSES_OVER_FACTORS and loaded:
        findings.append(
            Finding(
                "warning",
                f"{' and '.join(loaded)} have no effect: the graph of '{architecture}' in llama.cpp does not divide by "
                "them.",
                "Compare with the model's publication.",
            )
        )
        loaded.clear()
    for name, factors in loaded.items():
        _check_factors(name, factors, rotary_dim, findings)
    lists = (SHORT_FACTORS, LONG_FACTORS)
    missing = next((name for name in lists if name not in loaded), None)
    if missing is not None and {*lists} & {*loaded}:
        reach = "beyond" if missing == LONG_FACTORS else "up to"
        findings.append(
            Finding(
                "warning",
                f"{missing} is missing although {lists[missing == SHORT_FACTORS]} is there: llama.cpp scales no "
                f"frequency for contexts {reach} the original length.",
                "Convert the model again, with both lists of its publication.",
            )
        )
        loaded[missing] = (1.0,) * (rotary_dim // 2)
    return loaded


def _check_factors(name: str, factors: Sequence[float], rotary_dim: int, findings: list[Finding]) -> None:
    if len(factors) != rotary_dim // 2:
        raise ConfigError(
            f"{name} holds {len(factors)} factors, but {rotary_dim} rotated features are {rotary_dim // 2} pairs."
        )
    wrong = next((index for index, factor in enumerate(factors) if not is_number(factor) or factor == 0), None)
    if wrong is not None:
        raise ConfigError(
            f"{name} holds {factors[wrong]:g} for pair {wrong}; llama.cpp divides the frequencies by it, so that "
            "it must be a number above 0."
        )
    backwards = next((index for index, factor in enumerate(factors) if factor < 0), None)
    if backwards is not None:
        findings.append(
            Finding(
                "error",
                f"{name} holds {factors[backwards]:g} for pair {backwards}: llama.cpp divides the frequency by it, and "
                "turns the pair backwards, as is shown.",
                "Convert the model again; factors are numbers above 0.",
            )
        )


def _original_length(keys: Fields) -> int | None:
    name = "rope.scaling.original_context_length"
    value = keys.get(name)
    return None if value == 0 and not isinstance(value, bool) else keys.whole(name)  # 0 is unset to llama.cpp


def _warn_of_lengths(keys: Fields, context: GGUFContext, kind: str) -> None:
    original, length = context.original_length, keys.whole("context_length")
    if kind in ("yarn", "longrope") and original is not None and length is not None and original > length:
        context.warn(
            f"rope.scaling.original_context_length is {original}, above context_length {length}, although the scaling "
            f"'{kind}' extends the first to the second.",
            "Exchange the two if they are swapped; otherwise declare the extended length as context_length.",
        )


def _heeded(keys: Fields, architecture: str, findings: list[Finding]) -> Fields:
    """Return the keys without those that llama.cpp passes over, with a warning where they would change something."""
    passed_over = [name for name, readers in _ONLY_READ_BY.items() if architecture not in readers]
    for name in passed_over:
        value, readers = keys.number(name), _ONLY_READ_BY[name]
        if value in (None, _WITHOUT_IT.get(name, 1), -1):
            continue
        instead = f": {_WITHOUT_IT[name]:g} is taken" if name in _WITHOUT_IT else ""
        findings.append(
            Finding(
                "warning",
                f"llama.cpp passes over {name} {value:g} in the architecture '{architecture}'{instead}.",
                f"Convert the model to an architecture that has it: {', '.join(sorted(readers))}.",
            )
        )
    return keys.without(passed_over)


def _mscale(architecture: str, findings: list[Finding], multiplier: float) -> tuple[float, float] | None:
    """Return mscale and mscale_all_dim that an architecture means by ``yarn_log_multiplier``; ``None`` for nothing."""
    if architecture in LOG_MULTIPLIER_UNIT:
        # A float32 of 0.1 * 0.707 must come back as 0.707.
        mscale_all_dim = float(f"{multiplier / LOG_MULTIPLIER_UNIT[architecture]:.6g}")
        return (mscale_all_dim if architecture == "deepseek2" else 1.0), mscale_all_dim
    findings.append(
        Finding(
            "warning",
            f"llama.cpp passes over rope.scaling.yarn_log_multiplier {multiplier:g} in the architecture "
            f"'{architecture}': attention is scaled by 0.1 * ln(factor) + 1, as in files without it.",
            "Convert the model to the architecture 'mistral3' where that is meant, or state rope.scaling.attn_factor.",
        )
    )
    return None


def _note_on_missing_factor(kind: str, keys: Fields) -> Finding:
    """Return the finding about a type of scaling without the factor that it scales by."""
    original, length = _original_length(keys), keys.whole("context_length")
    meant = f" {length / original:g}" if original and length and length > original else ""
    stated = next((n for n in ("rope.scaling.factor", "rope.scale_linear") if keys.values.get(n) == 0), None)
    said = "rope.scaling.factor is missing" if stated is None else f"{stated} is 0"
    return Finding(
        "warning",
        f"{said} beside rope.scaling.type '{kind}': llama.cpp takes 1, which scales nothing.",
        f"State rope.scaling.factor{meant}, if the model was extended; otherwise remove the type.",
    )


def _note_on_scores(scaling: YaRN, mscale_all_dim: float) -> Finding:
    """Return how the graphs of DeepSeek's family scale all scores (``mscale`` and ``kq_scale`` in deepseek2.cpp)."""
    assert scaling.factor is not None
    by_factor = 0.1 * mscale_all_dim * math.log(scaling.factor) + 1
    whole = scaling.attention_scale() * by_factor
    return Finding(
        "note",
        f"llama.cpp also multiplies all scores of this architecture by {whole**2:.6g}, the square of the attention "
        "scale times 0.1 * mscale_all_dim * ln(factor) + 1; a rotary configuration does not hold that.",
        "Scale the scores in the attention, too.",
    )


def _known_scaling(factors: Sequence[float], rotary_dim: int, base: float) -> FrequencyScaling | None:
    """Return the scaling that divides frequencies by these factors, where one is known that files hold so."""
    plain = [float(frequency) for frequency in Unscaled().frequencies(rotary_dim, base)]
    for scaling in SCALINGS.values():
        candidate = scaling.from_gguf_factors(factors, plain)
        if candidate is None:
            continue
        found = gguf_factors(candidate, rotary_dim, base)
        if all(math.isclose(a, b, rel_tol=_TOLERANCE) for a, b in zip(found, factors, strict=True)):
            return candidate
    return None


def _listed(
    keys: Fields,
    scaling: FrequencyScaling,
    factors: Sequence[float],
    rotary_dim: int,
    base: float,
    findings: list[Finding],
) -> FrequencyScaling:
    """Return the frequencies that both a scaling and the factors divide, as LongRoPE with one list for all texts."""
    length = _declared(keys, f"{FACTORS} is a list for texts up to it")
    beside = "" if scaling == Unscaled() else f", on top of the scaling '{scaling.name}'"
    findings.append(
        Finding(
            "note",
            f"llama.cpp divides the frequencies by the factors in {FACTORS}{beside}. That is no scaling with a name; "
            "it is shown as LongRoPE whose two lists are the same.",
            "Check rope.freq_base and rope.dimension_count where the factors should be those of Llama 3 or Gemma 4.",
        )
    )
    return of_both(one_list(factors, length), scaling, length, rotary_dim, base)
