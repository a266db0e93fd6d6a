"""Ranges of the numbers in the rotary configurations of published models, and numbers that no rotation can have."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from locant.errors import ConfigError
from locant.positions.scaling.checks import is_number
from locant.positions.scaling.fields import Finding

GROUPS = ("rope_parameters", "rope_scaling")
"""Groups of config.json that hold the entries of a scaling, or a group of them for every layer type."""


@dataclass(frozen=True)
class _Usual:
    """The range that the published models known here lie in, with some room, and values that are common."""

    low: float
    high: float
    common: str


_BASE = _Usual(1e3, 1e11, "10000, 500000 and 1000000 are common")
_FACTOR = _Usual(1, 2048, "2 to 64 are common")  # Mistral Large 4 has the most
_LENGTH = _Usual(128, 1 << 24, "2048 to 1048576 are common")
_HEAD = _Usual(8, 1024, "64, 128 and 256 are common")
_SHARE = _Usual(0.05, 1, "0.25, 0.5 and 1 are common")
_SCALE = _Usual(0.25, 4, "1 to 1.5 are common")
_MSCALE = _Usual(0.1, 4, "0.707 and 1 are common")
_BETA_FAST = _Usual(1, 128, "32 is common")
_BETA_SLOW = _Usual(0.25, 8, "1 is common")
_LOW = _Usual(0.125, 8, "1 is common")  # CSM-1B and Higgs-Audio-v2 have the least of both
_HIGH = _Usual(0.5, 64, "4 is common")

_HUGGINGFACE = {
    "rope_theta": _BASE,
    "rotary_emb_base": _BASE,
    "rope_local_base_freq": _BASE,
    "global_rope_theta": _BASE,
    "local_rope_theta": _BASE,
    "factor": _FACTOR,
    "max_position_embeddings": _LENGTH,
    "original_max_position_embeddings": _LENGTH,
    "head_dim": _HEAD,
    "global_head_dim": _HEAD,
    "qk_rope_head_dim": _HEAD,
    "partial_rotary_factor": _SHARE,
    "rotary_pct": _SHARE,
    "attention_factor": _SCALE,
    "attn_factor": _SCALE,
    "short_mscale": _SCALE,
    "long_mscale": _SCALE,
    "mscale": _MSCALE,
    "mscale_all_dim": _MSCALE,
    "beta_fast": _BETA_FAST,
    "beta_slow": _BETA_SLOW,
    "low_freq_factor": _LOW,
    "high_freq_factor": _HIGH,
}
_GGUF = {
    "rope.freq_base": _BASE,
    "rope.freq_base_swa": _BASE,
    "rope.scaling.factor": _FACTOR,
    "rope.scaling.original_context_length": _LENGTH,
    "context_length": _LENGTH,
    "attention.key_length": _HEAD,
    "rope.scaling.attn_factor": _SCALE,
    "rope.scaling.yarn_beta_fast": _BETA_FAST,
    "rope.scaling.yarn_beta_slow": _BETA_SLOW,
}
_BASES = [name for name, usual in {**_HUGGINGFACE, **_GGUF}.items() if usual is _BASE]
_SHARES = [name for name, usual in _HUGGINGFACE.items() if usual is _SHARE]
_ZERO_IS_ABSENT = (  # of which the scaling speaks
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "rope.scaling.original_context_length",
)
_SECTIONS = ("mrope_section", "rope.dimension_sections")


def rotary_groups(part: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the text part of a config.json and the groups about rotary positions in it, with where each stands."""
    yield "config.json", part
    for name in GROUPS:
        group = part.get(name)
        if isinstance(group, Mapping):
            yield f"{name} of config.json", group
            for layer, inner in group.items():
                if isinstance(inner, Mapping):
                    yield f"'{layer}' in {name} of config.json", inner


def refuse_impossible(entries: Mapping[str, Any], where: str, *, takes_small_bases: bool = False) -> None:
    """Raise ConfigError for a number with which nothing can be computed.

    What is no number at all is left to the reader.

    Args:
        entries: One group of a configuration.
        where: Where it stands, for the message.
        takes_small_bases: Whether the engine computes with bases from above 0 up to 1 all the same.
    """
    for name in _BASES:
        base = entries.get(name)
        if is_number(base) and base <= (0 if takes_small_bases else 1):
            made = " Powers of it make frequencies infinite or NaN, and cosines NaN." if base <= 0 else ""
            raise ConfigError(
                f"{name} in {where} is {base:.10g}. The base of rotary positions must be a number above 1, like "
                f"10000.{made}"
            )
    for name in _SHARES:
        share = entries.get(name)
        # With a share of 0 a class turns nothing, which the reader tells.
        if is_number(share) and not 0 <= share <= 1:
            raise ConfigError(
                f"{name} in {where} is {share:g}. It is the share of a head's features that are rotated: above 0, and "
                "1 for all of them."
            )
    for name in _SECTIONS:
        sections = entries.get(name)
        if isinstance(sections, Sequence) and not isinstance(sections, str):
            _check_sections(sections, name, where)


def _check_sections(sections: Sequence[Any], name: str, where: str) -> None:
    are_whole = all(is_number(size) and size == int(size) and size >= 0 for size in sections)
    if not are_whole or not any(sections):
        raise ConfigError(
            f"{name} in {where} is {list(sections)[:8]}. It must list the number of pairs of each axis, whole numbers, "
            "for instance [16, 24, 24] for a head of 128 features."
        )


def unusual_values(entries: Mapping[str, Any], where: str, own: Container[tuple[str, Any]] = ()) -> Iterator[Finding]:
    """Yield a warning for every number that no published model known here has, with what would be expected.

    Args:
        entries: One group of a config.json, or the metadata of a GGUF file below its architecture.
        where: Where it stands, for the message.
        own: Entries with the values that the model's class has by itself, which is no doubt about them.
    """
    for name, usual in (*_HUGGINGFACE.items(), *_GGUF.items()):
        value = entries.get(name)
        if (value == 0 and name in _ZERO_IS_ABSENT) or (is_number(value) and (name, value) in own):
            continue
        if is_number(value) and not usual.low <= value <= usual.high:
            yield Finding(
                "warning",
                f"{name} in {where} is {value:g}; published models have {usual.low:.10g} to {usual.high:.10g}.",
                f"Check it against the model's publication; {usual.common}.",
                "beyond published values",
            )
    yield from _swapped_lists(entries, where)


def _swapped_lists(entries: Mapping[str, Any], where: str) -> Iterator[Finding]:
    short, long = entries.get("short_factor"), entries.get("long_factor")
    for factors in (short, long):
        if not isinstance(factors, list) or not all(is_number(factor) and factor > 0 for factor in factors):
            return
    assert isinstance(short, list)
    assert isinstance(long, list)
    if sum(map(math.log, short)) > sum(map(math.log, long)):
        yield Finding(
            "warning",
            f"short_factor in {where} slows the pairs by more than long_factor does: the two lists may be swapped.",
            "Compare with the model's publication; longer texts need larger factors.",
        )
