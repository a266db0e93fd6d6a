"""The groups ``rope_scaling`` and ``rope_parameters``, which Hugging Face and vLLM share: reading and writing."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from locant.errors import ConfigError, nearest
from locant.positions.rotary.config import RotaryConfig
from locant.positions.scaling import SCALINGS, FrequencyScaling
from locant.positions.scaling.contexts import RopeContext
from locant.positions.scaling.fields import Fields
from locant.positions.scaling.yarn_entries import note_on_scores
from locant.rotary_configs.base import cannot_express
from locant.rotary_configs.rotary_names import passed_over
from locant.rotary_configs.spellings import NO_SCALING

_SHARED_ENTRIES = (
    "rope_type",
    "type",
    "rope_theta",
    "partial_rotary_factor",
    "finetuned",
    "mrope_section",
    "mrope_interleaved",
    "llama_4_scaling_beta",
    "max_position_embeddings",
)


def scalings_by_type() -> dict[str, type[FrequencyScaling]]:
    """Return the scalings by each ``rope_type`` that means them."""
    return {rope_type: scaling for scaling in SCALINGS.values() for rope_type in scaling.rope_types}


def entries_of_groups() -> frozenset[str]:
    """Return the names of the entries that a group of rotary parameters may have, of any scaling."""
    return frozenset((*_SHARED_ENTRIES, *(entry for each in SCALINGS.values() for entry in each.rope_entries)))


def read_type(rope: Fields) -> str:
    """Return the type of scaling under either of its two names, the new one first, as transformers does."""
    new, old = rope.text("rope_type"), rope.text("type")
    return new or old or "default"


def _check_types(rope: Fields, context: RopeContext, *, refuses: bool) -> None:
    """Find, or refuse, that the two names of the type name different ones; transformers takes ``rope_type``."""
    new, old = rope.text("rope_type"), rope.text("type")
    if not new or not old or new == old or (new, old) in _TAKEN_BY_VLLM:
        return
    if _first_name(new) == _first_name(old):
        if context.is_in_vllm:
            raise ConfigError(
                f"vLLM refuses {rope.where}, which has rope_type '{new}' and type '{old}'. Leave type out."
            )
        return
    if refuses:
        raise ConfigError(
            f"{rope.where} has rope_type '{new}' and type '{old}': new releases of transformers take the first, old "
            "ones the second, and vLLM refuses both. Keep one of them, as rope_type."
        )
    context.wrong(
        f"{rope.where} has rope_type '{new}' and type '{old}': transformers takes rope_type, as is shown, and passes "
        "over type, which its old releases took; vLLM refuses the file.",
        "Keep one of them, as rope_type.",
    )


_TAKEN_BY_VLLM = (("longrope", "su"), ("default", "mrope"))
"""Present and former names that vLLM takes for one type (``patch_legacy_rope_type``); any others are a conflict."""


def _first_name(rope_type: str) -> str:
    """Return the present name of a type: files that transformers saved have the old one beside it."""
    scaling = scalings_by_type().get(rope_type)
    return rope_type if scaling is None else scaling.rope_types[0]


def read_scaling(
    rope: Fields,
    context: RopeContext,
    *,
    taken_for: str | None = None,
    passes_over_unknown: bool = False,
    refuses_two_types: bool = True,
) -> FrequencyScaling:
    """Read the scaling of one group of parameters; every entry must have a meaning for its type.

    Args:
        rope: The group.
        context: What stands around it.
        taken_for: The type for which the model's class takes that of the file: that of Phi-3 'yarn' for 'longrope'.
        passes_over_unknown: Whether the class is known to pass over what it does not know.
        refuses_two_types: Whether two different types under the two names of the type are refused, as by vLLM.

    Raises:
        ConfigError: The type or an entry is unknown, missing or wrong.
    """
    _check_types(rope, context, refuses=refuses_two_types)
    kind = taken_for or read_type(rope)
    if kind == "none" and not passes_over_unknown:  # in code of people's own; classes of transformers fail
        kind = "default"
    known = scalings_by_type()
    if kind not in known:
        raise ConfigError(
            f"Unknown rope_type '{kind}' in {rope.where}.{_meant(kind, known)} Known: {', '.join(known)}."
        )
    rope.whole("max_position_embeddings")  # ministral3 and mistral4 repeat it there; their classes pass over it
    rope.flag("finetuned")  # of the YaRN authors' own code: whether the model was trained with the scaling
    try:
        scaling = known[kind].from_rope_parameters(rope, context)
    except ConfigError as error:
        if taken_for in (None, stated := read_type(rope)):
            raise
        said = f"The model's class takes rope_type '{stated}' for '{taken_for}'"
        raise ConfigError(f"{said}. {error}") from error
    _scores_of_other_scalings(rope, context, kind)
    beta = rope.number("llama_4_scaling_beta")
    if beta == 0:
        context.note(
            f"llama_4_scaling_beta is 0 in {rope.where}: queries do not grow with their position.",
            "Nothing has to be done.",
        )
    elif beta is not None:
        context.note(
            "llama_4_scaling_beta makes queries grow with their position; a rotary configuration does not hold that.",
            "Scale the queries in the attention.",
        )
    for name in rope.untaken():
        owners = [f"'{each.rope_types[0]}'" for each in SCALINGS.values() if name in each.rope_entries]
        if owners:
            rope.get(name)
            context.warn(
                f"'{name}' in {rope.where} means nothing to the scaling '{scaling.rope_types[0]}'; it belongs to "
                f"{' and '.join(owners)}.",
                "Remove it, or name that scaling in rope_type.",
            )
    entries = entries_of_groups()
    if not passes_over_unknown:
        rope.refuse_rest(entries, [name for name in rope.untaken() if not isinstance(rope.values[name], bool)])
    context.findings += passed_over(rope, rope.untaken(), entries, likeness=0.7)
    return scaling


def _scores_of_other_scalings(rope: Fields, context: RopeContext, kind: str) -> None:
    """Tell what classes of DeepSeek's family do with ``mscale_all_dim`` beside a scaling that is not YaRN.

    ``yarn_apply_mscale`` of transformers asks for any type but 'default', and takes the ``factor`` of the group.

    Args:
        rope: The group.
        context: What stands around it.
        kind: The type of the scaling.
    """
    name = "mscale_all_dim"
    is_asked = context.scales_scores and context.is_of_transformers and not context.is_in_vllm and kind != "default"
    if not is_asked or name not in rope.untaken() or not (weight := rope.number(name)):
        return
    factor = rope.number("factor")
    if factor is None:
        context.warn(
            f"{name} is {weight:g} in {rope.where} and there is no factor: the class multiplies scores by what "
            "follows from both, and fails.",
            f"Leave {name} out, or state the factor.",
        )
    else:
        note_on_scores(context, weight, factor)


def _meant(rope_type: str, known: Collection[str]) -> str:
    """Return `` Did you mean 'x'?`` for a type that is not known: 'default' for words that say that none is meant."""
    return " Did you mean 'default'?" if rope_type.lower() in NO_SCALING else nearest(rope_type, known)


def write_scaling(config: RotaryConfig, engine: str) -> dict[str, Any]:
    """Return the parameters of a scaling, with ``rope_type`` and without base and rotated fraction."""
    written = config.scaling.rope_parameters(engine)
    if written is None:
        raise cannot_express(engine, config.scaling, "it has no such rope_type")
    return written


def write_rotated_fraction(config: RotaryConfig, engine: str) -> float:
    """Return ``partial_rotary_factor``: of the features, or of the pairs where the scaling has it so."""
    assert config.rotary_dim is not None
    turning = config.scaling.turning_fraction
    if turning is not None:
        if config.rotary_dim != config.head_dim:
            raise ConfigError(
                f"{engine} cannot express the scaling '{config.scaling.name}' on {config.rotary_dim} of "
                f"{config.head_dim} features: it takes the whole head."
            )
        return turning
    fraction = config.rotary_dim / config.head_dim
    # transformers cuts the product with the head off to a whole number.
    while int(config.head_dim * fraction) < config.rotary_dim:
        fraction = math.nextafter(fraction, 1)
    return fraction
