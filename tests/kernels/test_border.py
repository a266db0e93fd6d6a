"""What the kernels do with arguments that are wrong, and when memory does not suffice."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from with_kernels import kernels, needs_compiler

from locant.errors import ConfigError
from locant.kernels import attention, cross_entropy, layer_norm
from locant.kernels.library import find_compiler
from locant.training import projected_cross_entropy

pytestmark = needs_compiler

NATIVE = Path(__file__).parent / "native"
SOURCES = Path(attention.__file__).parent


@pytest.fixture(autouse=True, scope="module")
def _of_any_size() -> Iterator[None]:
    with kernels(True):
        yield


@pytest.mark.slow
def test_random_calls_of_the_c_interface(tmp_path: Path) -> None:
    """Sizes and ids that are wrong, and every allocation failing in turn; ``make sanitize`` looks closer."""
    compiler = find_compiler()
    assert compiler is not None
    sources = [NATIVE / "fuzz.cpp", *sorted(SOURCES.glob("*.cpp"))]
    of_tests = ["-DLOCANT_LEAST_WORK=1", "-DLOCANT_JUDGED=0"]
    command = [*compiler, "-std=c++17", "-O1", "-march=native", "-pthread", *of_tests, "-I", SOURCES, *sources]
    command += ["-o", tmp_path / "fuzz"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    run = subprocess.run([tmp_path / "fuzz", "1", "40"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "40 rounds\n"), run.stderr


def test_teams_that_wait_are_smaller_for_a_while(tmp_path: Path) -> None:
    compiler = find_compiler()
    assert compiler is not None
    command = [*compiler, "-std=c++17", "-I", SOURCES, NATIVE / "watch.cpp", "-o", tmp_path / "watch"]
    subprocess.run(command, check=True)
    run = subprocess.run([tmp_path / "watch"], capture_output=True, text=True, check=False)
    assert run.stdout == "as it should be\n"


def test_who_makes_others_wait_leaves_them_within_a_step(tmp_path: Path) -> None:
    compiler = find_compiler()
    assert compiler is not None
    sources = [NATIVE / "leaving.cpp", SOURCES / "threads.cpp"]
    command = [*compiler, "-std=c++17", "-O1", "-I", SOURCES, *sources, "-pthread", "-o", tmp_path / "leaving"]
    subprocess.run(command, check=True)
    run = subprocess.run([tmp_path / "leaving"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("label", [-100, -1, 8, 2**40])
def test_labels_outside_the_vocabulary(label: int, dtype: torch.dtype) -> None:
    logits, labels = torch.randn(5, 8).to(dtype), torch.tensor([0, 7, 3, label, 1])
    before = logits.clone()
    with pytest.raises(ConfigError, match=rf"{label}\b.*\b8\b"):
        cross_entropy.cross_entropy(logits, labels, smoothing=0.1, gradient=True)
    assert torch.equal(logits, before)
    with pytest.raises(ConfigError, match=str(label)):
        projected_cross_entropy(torch.randn(1, 2, 16), torch.randn(8, 16), labels[None, 2:4], smoothing=0.1, ignore=0)


def test_norms_of_another_width_or_without_a_bias_are_left_to_pytorch() -> None:
    x = torch.randn(3, 128)
    for norm in (nn.LayerNorm(64), nn.LayerNorm(128, bias=False), nn.LayerNorm(128, elementwise_affine=False)):
        assert not layer_norm.serves(x, None, norm.weight, norm.bias)
    assert layer_norm.serves(x, None, torch.ones(128), torch.zeros(128))


@pytest.mark.parametrize("which", ["x", "residual", "weight", "bias"])
def test_forward_mode_sees_pytorch(which: str) -> None:
    """An operator would drop the tangent and say nothing."""
    parts = {"x": torch.randn(3, 64), "residual": torch.randn(3, 64), "weight": torch.ones(64), "bias": torch.zeros(64)}
    assert layer_norm.serves(**parts)
    with forward_ad.dual_level():
        parts[which] = forward_ad.make_dual(parts[which], torch.ones_like(parts[which]))
        assert not layer_norm.serves(**parts)
    assert layer_norm.serves(**{**parts, which: torch.ones_like(parts[which])})


def test_what_is_no_number_stays_none_in_bfloat16() -> None:
    """Rounding by adding to the bits would carry this one over into zero."""
    x = torch.full((1, 64), -1, dtype=torch.int32).view(torch.float32).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        out = layer_norm.layer_norm(x, None, torch.ones(64), torch.zeros(64), epsilon=1e-5)
    assert out.dtype == torch.bfloat16
    assert bool(out.isnan().all())
