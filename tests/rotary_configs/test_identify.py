"""Every tensor here is made by numpy or by transformers, never by Locant's own schemes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from locant.errors import ConfigError
from locant.rotary_configs.identify import identify


def frequencies(pairs: int, base: float = 10000.0, steps: float | None = None) -> Any:
    return base ** -(np.arange(pairs) / (steps or pairs))


def table(w: Any, rows: int = 300, start: int = 0, order: str = "interleaved", dtype: type = np.float64) -> Tensor:
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


@pytest.mark.parametrize("base", [500.0, 20000.0, 123456.0])
def test_other_bases(base: float) -> None:
    for numbers in (table(frequencies(16, base)).float(), torch.tensor(frequencies(64, base)).float()):
        found = identify(numbers)
        assert found.base == pytest.approx(base, rel=1e-4)
        assert (found.base == base) == (base != 123456)
        assert bool(found.notes) == (base == 123456)  # an estimate


def test_a_padding_row() -> None:
    values = table(frequencies(16, steps=15), order="concatenated").float()
    values[1] = 0
    found = identify(values)
    assert (found.dialect, found.padding_row, found.first_row, found.start) == ("tensor2tensor", 1, 0, 2)
    values[7] = 0
    assert identify(values).kind == "unknown"


def _own_exponents(times: int) -> Tensor:
    """The table of tutorials that give each feature an exponent of its own."""
    functions = (math.sin, math.cos)
    return torch.tensor([[functions[j % 2](p / 10000 ** (times * j / 32)) for j in range(32)] for p in range(60)])


def _coarse(dtype: torch.dtype) -> Any:
    return torch.tensor(frequencies(32)).to(dtype).double().numpy()


@pytest.mark.parametrize(
    ("values", "exponent", "base"),
    [
        (table(frequencies(16, steps=8)).float(), "4i/d", 10000),
        (_own_exponents(1), "j/d", 10000),
        (_own_exponents(2), "2j/d", 10000),
        (table(frequencies(16, 1000.0)).float(), "2i/d", 1000),
        (table(_coarse(torch.bfloat16)).float(), "2i/d", 10000),
        (table(_coarse(torch.float16)).float(), "2i/d", 10000),
        (table(frequencies(32), rows=5000, dtype=np.float32), "2i/d", 10000),
        (table(frequencies(16)).view(300, 16, 2).flip(2).flatten(1).float(), "2i/d", 10000),  # swapped
    ],
)
def test_mistakes_in_tables(values: Tensor, exponent: str, base: float) -> None:
    found = identify(values)
    assert (found.kind, found.exponent, found.base, len(found.mistakes)) == ("sinusoid table", exponent, base, 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rounded_frequencies(dtype: torch.dtype) -> None:
    values = torch.tensor(frequencies(32, 500000.0)).to(dtype)
    for given_as in (values, values.float()):
        found = identify(given_as)
        assert (found.kind, found.base, found.scaling) == ("inverse frequencies", 500000, "none")
        assert (found.stored_as, len(found.mistakes)) == (str(dtype).removeprefix("torch."), 1)


_RANDOM = torch.Generator().manual_seed(0)


@pytest.mark.parametrize(
    "values",
    [
        torch.randn(100, 64, generator=_RANDOM),
        torch.rand(64, generator=_RANDOM),
        torch.linspace(1, 0.01, 32),
        1 / torch.arange(1.0, 33),
        torch.tensor([1.0, 0.3]),
        torch.tensor(0.5),
        torch.tensor([2.0 ** (-8 * n / 12) for n in range(1, 13)]),  # slopes of ALiBi
        torch.tensor(frequencies(32, 37.5)),  # a base that no model has
        torch.tensor(frequencies(64, 5e5) / np.maximum(1, np.arange(64) - 8.0) ** 0.5).float(),
        torch.ones(50, 8),
        torch.zeros(50, 8),
        torch.full((5, 4), float("nan")),
        torch.zeros(0),
        torch.zeros(2, 3, 4, 5),
        table(frequencies(16)).float() + 0.01 * torch.randn(300, 32, generator=_RANDOM),
    ],
)
def test_unknown(values: Tensor) -> None:
    found = identify(values)
    assert found.kind == "unknown"
    assert found.reason in str(found)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_random_numbers_are_unknown(seed: int) -> None:
    random = np.random.default_rng(seed)
    assert identify(torch.tensor(np.sort(random.lognormal(size=16))[::-1].copy())).kind == "unknown"
    assert identify(torch.tensor(random.normal(size=(20, 8)))).kind == "unknown"


def test_only_tensors_of_numbers() -> None:
    for given_as in ([1.0], torch.arange(3)):
        with pytest.raises(ConfigError):
            identify(given_as)  # type: ignore[arg-type]


def test_tables_of_transformers() -> None:
    marian = pytest.importorskip("transformers.models.marian.modeling_marian")
    m2m_100 = pytest.importorskip("transformers.models.m2m_100.modeling_m2m_100")
    found = identify(marian.MarianSinusoidalPositionalEmbedding(256, 64).create_weight())
    assert (found.dialect, found.base, found.start, found.mistakes) == ("concatenated", 10000, 0, ())
    found = identify(m2m_100.M2M100SinusoidalPositionalEmbedding(1024, 64, 1).weights)
    assert (found.dialect, found.base, found.start, found.padding_row) == ("tensor2tensor", 10000, 2, 1)
    assert len(found.mistakes) == 1  # angles in float32


@pytest.mark.parametrize(
    ("rope", "scaling", "factor"),
    [
        ({"rope_type": "default", "rope_theta": 10000.0}, "none", None),
        ({"rope_type": "default", "rope_theta": 500000.0}, "none", None),
        ({"rope_type": "linear", "rope_theta": 1e6, "factor": 2.5}, "linear", 2.5),
    ],
)
def test_rotary_of_transformers(rope: dict[str, Any], scaling: str, factor: float | None) -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = transformers.LlamaConfig(hidden_size=4096, num_attention_heads=32, rope_parameters=rope)
    rotary = LlamaRotaryEmbedding(config)
    cosine, sine = (each[0, :, :64] for each in rotary(torch.zeros(1), torch.arange(600)[None]))
    for values in (rotary.inv_freq, torch.cat((cosine, sine), dim=1), torch.complex(cosine, sine)):
        found = identify(values)
        assert found.kind == ("inverse frequencies" if values.dim() == 1 else "rotary cos/sin cache")
        assert (found.base, found.scaling, found.factor) == (rope["rope_theta"], scaling, factor)
