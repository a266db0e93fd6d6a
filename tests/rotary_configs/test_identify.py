"""Every tensor here is made by numpy or by transformers, never by Locant's own schemes."""

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from locant.errors import ConfigError
from locant.rotary_configs import identify


def frequencies(pairs: int, base: float = 10000.0, steps: float | None = None) -> np.ndarray:
    return base ** -(np.arange(pairs) / (steps or pairs))


def table(
    w: np.ndarray, rows: int = 300, start: int = 0, order: str = "interleaved", dtype: type = np.float64
) -> Tensor:
    angles = np.arange(start, start + rows).astype(dtype)[:, None] * w.astype(dtype)
    sine, cosine = np.sin(angles), np.cos(angles)
    if order == "interleaved":
        return torch.tensor(np.stack([sine, cosine], -1).reshape(rows, -1))
    return torch.tensor(np.concatenate([sine, cosine], 1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("start", [0, 1, 2, 1000])
@pytest.mark.parametrize(
    ("dialect", "order", "steps"),
    [("paper", "interleaved", 32), ("concatenated", "concatenated", 32), ("tensor2tensor", "concatenated", 31)],
)
def test_dialects(dialect: str, order: str, steps: int, start: int, dtype: torch.dtype) -> None:
    found = identify(table(frequencies(32, steps=steps), start=start, order=order).to(dtype))
    assert (found.kind, found.dialect, found.base) == ("sinusoid table", dialect, 10000)
    assert (found.start, found.scaling, found.mistakes) == (start, "none", ())
    assert found.stored_as == str(dtype).removeprefix("torch.")
    # Half the spacing of the dtype's numbers just below one; numpy computed in float64.
    spacing = 1e-9 if dtype == torch.float64 else torch.finfo(dtype).eps / 4
    assert found.max_error is not None
    assert found.max_error <= spacing * 1.01
    assert dialect in str(found)


@pytest.mark.parametrize("base", [500.0, 20000.0, 123456.0])
def test_other_bases(base: float) -> None:
    found = identify(table(frequencies(16, base)).float())
    assert found.base == pytest.approx(base, rel=1e-4)
    assert (found.base == base) == (base != 123456)
    assert ("estimate" in str(found)) == (base == 123456)


def test_a_padding_row() -> None:
    values = table(frequencies(16, steps=15), order="concatenated").float()
    values[1] = 0
    found = identify(values)
    assert (found.dialect, found.padding_row, found.first_row, found.start) == ("tensor2tensor", 1, 0, 2)
    assert "row 1 is zero for padding, so a text starts at row 2" in str(found)
    values[7] = 0
    assert identify(values).kind == "unknown"


def own_exponents(times: int) -> Tensor:
    """The table of tutorials that give each feature an exponent of its own."""
    functions = (math.sin, math.cos)
    return torch.tensor([[functions[j % 2](p / 10000 ** (times * j / 32)) for j in range(32)] for p in range(60)])


def rounded_frequencies(dtype: torch.dtype) -> np.ndarray:
    return torch.tensor(frequencies(32)).to(dtype).double().numpy()


@pytest.mark.parametrize(
    ("values", "mistake"),
    [
        (table(frequencies(16, steps=8)).float(), "double exponent"),
        (own_exponents(1), "frequency of its own"),
        (own_exponents(2), "double exponent, and of each feature's own index"),
        (table(np.ones(16)).float(), "integer division .* throughout"),
        (table(np.array([1.0] * 8 + [1e-4] * 8)).float(), "integer division .* 1/10000"),
        (table(np.array([1.0] * 15 + [1e-4]), order="concatenated").float(), "integer division .* 1/10000"),
        (table(frequencies(16, 1000.0)).float(), "1000 instead of the paper's 10000"),
        (table(rounded_frequencies(torch.bfloat16)).float(), "rounded to bfloat16"),
        (table(rounded_frequencies(torch.float16)).float(), "rounded to float16"),
        (table(frequencies(32), rows=5000, dtype=np.float32), "computed in float32"),
        (table(frequencies(16)).view(300, 16, 2).flip(2).flatten(1).float(), "swapped"),
    ],
)
def test_mistakes_in_tables(values: Tensor, mistake: str) -> None:
    found = identify(values)
    assert found.kind == "sinusoid table"
    assert len(found.mistakes) == 1
    assert re.search(mistake, str(found))


def test_the_error_of_float32_angles_is_measured() -> None:
    values = table(frequencies(32), rows=5000, dtype=np.float32)
    error = float((values.double() - table(frequencies(32), rows=5000)).abs().max())
    assert identify(values).max_error == pytest.approx(error, rel=1e-3)
    assert 1e-4 < error < 1e-3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rounded_frequencies(dtype: torch.dtype) -> None:
    values = torch.tensor(frequencies(32, 500000.0)).to(dtype)
    for given_as in (values, values.float()):
        found = identify(given_as)
        assert (found.kind, found.base, found.scaling) == ("inverse frequencies", 500000, "none")
        assert str(dtype).removeprefix("torch.") in found.mistakes[0]


def test_ambiguous_frequencies() -> None:
    changed = identify(torch.tensor(frequencies(64, 10000 * 4 ** (128 / 126))).float())
    assert (changed.base, changed.scaling, changed.factor) == (10000, "ntk", 4)
    assert "without scaling gives the same" in str(changed)
    assert "NTK-aware scaling" in str(identify(torch.tensor(frequencies(64, 500000.0)).float()))
    eights = torch.tensor(frequencies(64, 1e8)).float()
    assert identify(eights).base == 1e8
    assert "double exponent" in identify(eights).notes[-1]
    linear = identify(torch.tensor(frequencies(64) / 8).float())
    assert (linear.base, linear.scaling, linear.factor) == (10000, "linear", 8)


@pytest.mark.parametrize(
    "values",
    [
        torch.randn(100, 64, generator=torch.Generator().manual_seed(0)),
        torch.rand(64, generator=torch.Generator().manual_seed(1)),
        torch.rand(64, generator=torch.Generator().manual_seed(2)).sort(descending=True).values,
        torch.linspace(1, 0.01, 32),
        1 / torch.arange(1.0, 33),
        torch.tensor([1.0, 0.3]),
        torch.tensor(0.5),
        torch.tensor([2.0**-n for n in range(1, 9)]),
        torch.ones(50, 8),
        torch.zeros(50, 8),
        torch.full((5, 4), float("nan")),
        torch.zeros(0),
        torch.zeros(2, 3, 4, 5),
        table(frequencies(16)).float() + 0.01 * torch.randn(300, 32, generator=torch.Generator().manual_seed(3)),
    ],
)
def test_unknown(values: Tensor) -> None:
    found = identify(values)
    assert found.kind == "unknown"
    assert found.reason in str(found)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (torch.tensor(frequencies(32, 37.5)), "a progression of base 37.5; bases of models are 100 at least"),
        (torch.tensor(frequencies(32, 37.5)).float(), "a progression of base 37.5; bases"),
        (torch.tensor(frequencies(32, 37.5) / 8), "a progression of base 37.5 divided by 8; bases"),
        (torch.tensor([1.0, 0.3]), "not the frequencies of any known formula"),
        (torch.tensor([0.5]), "it holds one number"),
        (torch.tensor([[0.5]]), "it holds one number"),
    ],
)
def test_why_it_is_unknown(values: Tensor, reason: str) -> None:
    assert reason in identify(values).reason


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_constant_is_stored_as_it_is(dtype: torch.dtype) -> None:
    assert str(identify(torch.ones(8, dtype=dtype))).count(f"stored as {str(dtype).removeprefix('torch.')}.") == 1


def test_alibi_slopes_are_not_frequencies() -> None:
    assert "ALiBi for 16 heads" in identify(torch.tensor([2 ** (-8 * n / 16) for n in range(1, 17)])).reason


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_random_numbers_are_unknown(seed: int) -> None:
    random = np.random.default_rng(seed)
    assert identify(torch.tensor(np.sort(random.lognormal(size=16))[::-1].copy())).kind == "unknown"
    assert identify(torch.tensor(random.normal(size=(20, 8)))).kind == "unknown"


def test_only_tensors_of_numbers() -> None:
    with pytest.raises(ConfigError, match="got list"):
        identify([1.0])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"got torch\.int64"):
        identify(torch.arange(3))


def test_marian() -> None:
    modeling = pytest.importorskip("transformers.models.marian.modeling_marian")
    found = identify(modeling.MarianSinusoidalPositionalEmbedding(256, 64).create_weight())
    assert (found.dialect, found.base, found.start, found.mistakes) == ("concatenated", 10000, 0, ())


def test_m2m100() -> None:
    modeling = pytest.importorskip("transformers.models.m2m_100.modeling_m2m_100")
    found = identify(modeling.M2M100SinusoidalPositionalEmbedding(1024, 64, 1).weights)
    assert (found.dialect, found.base, found.start, found.padding_row) == ("tensor2tensor", 10000, 2, 1)
    assert "computed in float32" in found.mistakes[0]


LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


@pytest.mark.parametrize(
    ("rope", "scaling", "factor", "length"),
    [
        ({"rope_type": "default", "rope_theta": 10000.0}, "none", None, None),
        ({"rope_type": "default", "rope_theta": 500000.0}, "none", None, None),
        ({"rope_type": "linear", "rope_theta": 1e6, "factor": 2.5}, "linear", 2.5, None),
        ({"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, **LLAMA3}, "llama3", 32, 8192),
        (
            {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "original_max_position_embeddings": 32768},
            "yarn",
            4,
            32768,
        ),
        (
            {
                "rope_type": "yarn",
                "rope_theta": 150000.0,
                "factor": 32.0,
                "truncate": False,
                "original_max_position_embeddings": 4096,
            },
            "yarn",
            32,
            4096,
        ),
        (
            {
                "rope_type": "longrope",
                "rope_theta": 10000.0,
                "short_factor": [1 + i / 100 for i in range(64)],
                "long_factor": [1 + i for i in range(64)],
                "original_max_position_embeddings": 4096,
            },
            "longrope",
            None,
            None,
        ),
    ],
)
def test_rotary_of_transformers(
    rope: dict[str, object], scaling: str, factor: float | None, length: int | None
) -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    longest = int(factor * length) if factor and length else 131072
    config = transformers.LlamaConfig(
        hidden_size=4096, num_attention_heads=32, max_position_embeddings=longest, rope_parameters=rope
    )
    rotary = LlamaRotaryEmbedding(config)
    cosine, sine = rotary(torch.zeros(1), torch.arange(600)[None])
    half = slice(0, 64)
    tensors: dict[str, Tensor] = {
        "inverse": rotary.inv_freq,
        "sines": sine,
        "both": torch.cat((cosine[0, :, half], sine[0, :, half]), dim=1),
        "complex": torch.complex(cosine[0, :, half], sine[0, :, half]),
    }
    for name, values in tensors.items():
        found = identify(values)
        assert found.kind == ("inverse frequencies" if name == "inverse" else "rotary cos/sin cache")
        assert (found.base, found.scaling, found.factor) == (rope["rope_theta"], scaling, factor)
        assert found.original_lengths == (() if length is None else (length,))
        amplitude = 1.0 if name == "inverse" else rotary.attention_scaling
        assert found.amplitude == pytest.approx(amplitude, rel=1e-5)
    cosines = identify(cosine)
    assert (cosines.kind, cosines.scaling) == ("rotary cos/sin cache", scaling)


def _as_tensors(values: np.ndarray) -> dict[str, Tensor]:
    angles = np.arange(9000)[:, None] * values
    return {
        "frequencies": torch.tensor(values).float(),
        "complex": torch.polar(torch.ones(angles.shape), torch.tensor(angles).float()),
        "cosines and sines": torch.tensor(np.concatenate([np.cos(angles), np.sin(angles)], 1)).float(),
    }


@pytest.mark.sampled(6)
@pytest.mark.parametrize("form", ["frequencies", "complex", "cosines and sines"])
@pytest.mark.parametrize(
    ("base", "pairs", "length", "factor", "scaling"),
    [
        (500000.0, 64, 8192, 16.0, "llama3"),  # Llama 4 Scout: low_freq_factor = high_freq_factor = 1
        (500000.0, 64, 8192, 8.0, "llama3"),
        (50000.0, 32, 4096, 32.0, "yarn"),  # Kimi K2: beta_fast = beta_slow = 1
        (50000.0, 32, 4096, 64.0, "yarn"),
    ],
)
def test_hard_steps_are_no_lists_of_longrope(
    base: float, pairs: int, length: int, factor: float, scaling: str, form: str
) -> None:
    plain = frequencies(pairs, base)
    found = identify(_as_tensors(np.where(2 * np.pi / plain > length, plain / factor, plain))[form])
    assert (found.base, found.scaling, found.factor) == (base, scaling, factor)
    assert length in found.original_lengths
    assert "without a ramp" in str(found)


def _slowed(plain: np.ndarray, share: np.ndarray, factor: float) -> np.ndarray:
    share = np.clip(share, 0, 1)
    return plain * (share + (1 - share) / factor)


@pytest.mark.parametrize(
    ("corners", "said"),
    [
        ((14.0, 31.0), "the ramp falls from pair 14 to 31"),
        ((19.35, 30.02), "without truncation.*from pair 19.35 to 30.02"),
    ],
)
def test_yarn_of_any_corners(corners: tuple[float, float], said: str) -> None:
    low, high = corners
    found = identify(torch.tensor(_slowed(frequencies(64, 1e6), (high - np.arange(64)) / (high - low), 16.0)).float())
    assert (found.base, found.scaling, found.factor) == (1e6, "yarn", 16)
    assert re.search(said, str(found))


def test_llama3_of_any_corners() -> None:
    plain = frequencies(64, 1e6)
    found = identify(torch.tensor(_slowed(plain, (plain * 5000 / (2 * np.pi) - 1) / (8 - 1), 10.0)).float())
    assert (found.base, found.scaling, found.factor) == (1e6, "llama3", 10)
    assert "high_freq_factor is 8 and the original length 5000" in str(found)


@pytest.mark.parametrize("base", [500000.0, 1000000.0, 50000.0])
@pytest.mark.parametrize("power", [0.5, 1.3])
def test_what_is_slowed_by_no_known_formula_is_unknown(base: float, power: float) -> None:
    slowed = np.maximum(1, np.arange(64) - 8.0) ** power
    found = identify(torch.tensor(frequencies(64, base) / slowed).float())
    assert found.kind == "unknown"
    assert f"the first 10 of 64 numbers are the frequencies of base {base:.10g}" in found.reason


def test_lists_of_longrope_are_told_from_formulas() -> None:
    smooth = 0.9977997200264581 + 12 / (1 + np.exp(-(np.arange(48) - 22) / 4))  # like those of MiniCPM
    searched = np.array([1.03, 1.05, 1.05, 1.08, 1.23, 1.23, 1.3, 1.45, 1.6, 1.65, 1.9, 2.86, 3.69, 5.42, 5.49, 5.49])
    for factors in (smooth, searched):
        found = identify(torch.tensor(frequencies(len(factors)) / factors).float())
        assert (found.base, found.scaling) == (10000, "longrope")


def test_proportional_rotary() -> None:
    values = torch.tensor(frequencies(64, 1e6)).float()
    values[16:] = 0
    found = identify(values)
    assert (found.base, found.scaling, found.notes) == (1e6, "proportional", ("16 of 64 pairs turn",))


def test_the_sentence() -> None:
    found = identify(torch.tensor(frequencies(4)))
    assert str(found) == (
        "Inverse frequencies (4); exponent 2i/d; base 10000; no scaling; largest relative difference from the exact "
        f"values {found.max_error:.1e}; stored as float64."
    )
    assert str(identify(torch.zeros(0))) == "Unknown (0): it is empty."
