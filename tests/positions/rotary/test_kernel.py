"""The compiled rotation, against the formula in float64."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from locant.errors import ConfigError
from locant.kernels import library as compiler
from locant.kernels import rotation as kernel
from locant.kernels.library import load_library
from locant.positions import MultimodalRotary, Rotary, compile_rotations

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="needs a C++ compiler, as the kernel does"
)
LAYOUTS = ["half", "interleaved"]


def forget() -> None:
    load_library.cache_clear()
    kernel.load_kernel.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def _compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        forget()
        compile_rotations()
        yield
        compile_rotations(False)
        forget()


def heads(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def formula(x: Tensor, positions: Tensor, rotated: int, layout: str) -> Tensor:
    """RoFormer, equation 34, in float64; exact enough at these positions."""
    x, pairs = x.double(), rotated // 2
    angles = positions.double().unsqueeze(-1) * 10000.0 ** (-torch.arange(pairs).double() / pairs)
    sine, cosine = angles.sin(), angles.cos()
    if sine.dim() == 3:
        sine, cosine = sine.unsqueeze(1), cosine.unsqueeze(1)
    out = x.clone()
    one = slice(0, pairs) if layout == "half" else slice(0, rotated, 2)
    two = slice(pairs, rotated) if layout == "half" else slice(1, rotated, 2)
    out[..., one] = x[..., one] * cosine - x[..., two] * sine
    out[..., two] = x[..., one] * sine + x[..., two] * cosine
    return out


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rotated", [32, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_formula(layout: Any, rotated: int, dtype: torch.dtype) -> None:
    rope = Rotary(32, rotary_dim=rotated, layout=layout)
    dense = heads(2, 3, 130, 32).to(dtype)
    transposed = heads(2, 130, 3, 32).to(dtype).transpose(1, 2)
    part_of_more = heads(2, 130, 3, 96).to(dtype).transpose(1, 2)[..., 32:64]
    for x in (dense, transposed, part_of_more, dense[:, :, :1], dense[:0]):
        for positions in (torch.arange(x.shape[2]) + 70, torch.stack([torch.arange(x.shape[2]) + i for i in (0, 9)])):
            positions = positions[: x.shape[0]] if positions.dim() == 2 else positions
            assert kernel.serves((x,))
            found, _ = rope.rotate(x, x, positions, positions)
            expected = formula(x, positions, rotated, layout)
            assert (found.shape, found.dtype) == (x.shape, dtype)
            tolerance = 2e-6 if dtype == torch.float32 else 2**-8 * 5
            torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=0)


def test_bfloat16_is_rounded_once_and_to_even() -> None:
    x = heads(1, 4, 64, 64).bfloat16()
    found, _ = Rotary(64).rotate(x, x, torch.arange(64), torch.arange(64))
    exact = formula(x, torch.arange(64), 64, "half")
    off = (found.double() - exact).abs()
    assert (off <= exact.abs() * 2**-8 + 1e-6).all(), "half a unit in the last place"
    still, _ = Rotary(64).rotate(x, x, torch.zeros(64, dtype=torch.long), torch.zeros(64, dtype=torch.long))
    assert torch.equal(still, x)


def test_not_a_number_and_infinity_stay() -> None:
    """Every bfloat16 that is not a number stays one, beside anything, and so does what infinities become."""
    bits = torch.arange(2**16).to(torch.uint16).view(torch.bfloat16)
    every = bits[bits.isnan()]
    x = torch.stack((every, torch.full_like(every, 0.5)), dim=-1)[None, None]
    still = torch.zeros(len(every), dtype=torch.long)
    assert Rotary(2).rotate(x, x, still + 5, still)[0].isnan().all()
    infinite = torch.tensor([[[[float("inf"), 1.0]]]]).bfloat16()
    assert Rotary(2).rotate(infinite, infinite, still[:1], still[:1])[0][..., 0] == float("inf")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients(layout: Any) -> None:
    rope, positions = Rotary(8, rotary_dim=4, layout=layout), torch.arange(5)

    def both() -> tuple[Tensor, Tensor]:
        leaf = heads(1, 2, 5, 8).requires_grad_()
        out = rope.rotate(leaf, leaf, positions, positions)[0]
        return out.detach(), torch.autograd.grad(out.pow(3).sum(), leaf)[0]

    compiled = both()
    compile_rotations(False)
    eager = both()
    compile_rotations()
    for a, b in zip(compiled, eager, strict=True):
        torch.testing.assert_close(a, b)


def test_other_schemes_and_dtypes() -> None:
    x = heads(1, 2, 6, 16)
    coordinates = torch.stack([torch.arange(6) * i for i in (1, 2, 3)], dim=-1).unsqueeze(0)
    compiled = MultimodalRotary(16).rotate(x, x, coordinates, coordinates)[0]
    half = x.half()
    assert not kernel.serves((half,))
    assert Rotary(16).rotate(half, half, torch.arange(6), torch.arange(6))[0].dtype == torch.float16
    compile_rotations(False)
    torch.testing.assert_close(compiled, MultimodalRotary(16).rotate(x, x, coordinates, coordinates)[0])
    compile_rotations()


def test_it_goes_on_when_libraries_are_loaded_anew() -> None:
    """Addresses are wider than what C takes an integer for unless it is told."""
    x = heads(1, 2, 6, 16)
    first = Rotary(16).rotate(x, x, torch.arange(6), torch.arange(6))[0]
    load_library.cache_clear()
    again = Rotary(16).rotate(x, x, torch.arange(6), torch.arange(6))[0]
    assert torch.equal(first, again)


def test_a_build_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    forget()
    kernel.load_kernel()
    (library,) = (tmp_path / "locant").iterdir()
    monkeypatch.setattr(compiler, "_build", None)
    forget()
    kernel.load_kernel()
    assert library.name.startswith("rotation-")


def test_no_compiler_or_one_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\necho out of order >&2\nexit 3\n")
    broken.chmod(0o755)
    forget()
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(ConfigError, match=r"could not build rotation.cpp\. It said: out of order"):
        compile_rotations()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match=r"need a C\+\+ compiler, and neither c\+\+, g\+\+ nor clang\+\+ was found"):
        compile_rotations()
    assert not list((tmp_path / "locant").glob("*.so"))


def test_a_cache_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    forget()
    with pytest.raises(ConfigError, match=r"cannot be kept in .*file/locant or loaded from it"):
        compile_rotations()
