"""Rotary configurations for round trips, and what it means for two to be the same."""

from __future__ import annotations

from hypothesis import strategies as st

from locant.positions import RotaryConfig
from locant.positions.scaling import (
    DynamicNTK,
    FrequencyScaling,
    Linear,
    Llama3,
    LongRoPE,
    NTKAware,
    NTKByParts,
    Proportional,
    Unscaled,
    YaRN,
)

PAIRS = 16
LENGTHS = (None, 1000, 5000, 100_000)


def assert_same(read: RotaryConfig, written: RotaryConfig, tolerance: float = 1e-12) -> None:
    """Compare everything by which angles are made, for texts of several lengths."""
    assert (read.head_dim, read.rotary_dim, read.layout) == (written.head_dim, written.rotary_dim, written.layout)
    for length in LENGTHS:
        assert abs(read.attention_scale(length) / written.attention_scale(length) - 1) < tolerance
        for ours, theirs in zip(read.frequencies(length), written.frequencies(length), strict=True):
            assert abs(float(ours) - float(theirs)) <= tolerance * float(theirs)


def _extension(scaling: type, **options: st.SearchStrategy) -> st.SearchStrategy[FrequencyScaling]:
    lengths = {"factor": st.sampled_from([1.0, 2.5, 8.0, 40.0]), "original_length": st.sampled_from([2048, 4096, 8192])}
    return st.builds(scaling, **(lengths | options))


_FACTORS = st.lists(st.floats(1, 64), min_size=PAIRS, max_size=PAIRS)
_RAMP = {"beta_fast": st.floats(16, 64), "beta_slow": st.floats(0.5, 2)}

EXAMPLES: dict[str, st.SearchStrategy[FrequencyScaling]] = {
    "none": st.just(Unscaled()),
    "linear": _extension(Linear),
    "ntk": _extension(NTKAware),
    # Fixed for its target, as engines can express it.
    "dynamic": st.builds(
        lambda original, factor: DynamicNTK(
            original_length=original, factor=factor, target_length=round(original * factor)
        ),
        st.sampled_from([2048, 4096]),
        st.sampled_from([2.0, 4.0]),
    ),
    "ntk-by-parts": _extension(NTKByParts, **_RAMP),
    "yarn": st.one_of(
        _extension(YaRN, **_RAMP),
        _extension(YaRN, attention_factor=st.floats(0.5, 2)),
        _extension(YaRN, mscale=st.just(1.0), mscale_all_dim=st.floats(0.1, 2)),
    ),
    "longrope": _extension(LongRoPE, short_factors=_FACTORS, long_factors=_FACTORS),
    "llama3": _extension(Llama3, high_frequency_factor=st.sampled_from([2.5, 4.0, 8.0])),
    "proportional": st.builds(
        Proportional,
        rotary_fraction=st.sampled_from([0.25, 0.5, 1.0]),
        factor=st.sampled_from([1.0, 8.0]),
    ),
}


def configs(name: str, layouts: tuple[str, ...] = ("half",)) -> st.SearchStrategy[RotaryConfig]:
    """Return configurations with a scaling of that name; partly rotated heads where it allows them."""
    widths = [2 * PAIRS] if name == "proportional" else [2 * PAIRS, 80]
    return st.builds(
        RotaryConfig,
        head_dim=st.sampled_from(widths),
        rotary_dim=st.just(2 * PAIRS),
        base=st.sampled_from([10000.0, 500000.0, 1e6]),
        layout=st.sampled_from(layouts),
        scaling=EXAMPLES[name],
    )
