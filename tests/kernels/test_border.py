"""What the kernels do with arguments that are wrong, and when memory does not suffice."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.autograd import forward_ad
from with_kernels import kernels, needs_compiler

from locant.errors import ConfigError
from locant.kernels import layer_norm
from locant.kernels import projected_cross_entropy as loss
from locant.kernels.library import find_compiler
from locant.training import projected_cross_entropy

pytestmark = needs_compiler

NATIVE = Path(__file__).parent / "native"
SOURCES = Path(layer_norm.__file__).parent


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


@pytest.mark.parametrize("name", ["watch", "leaving"])
def test_teams_that_wait(name: str, tmp_path: Path) -> None:
    """They are smaller for a while; who makes others wait leaves them within a step."""
    compiler = find_compiler()
    assert compiler is not None
    sources = [NATIVE / f"{name}.cpp", SOURCES / "threads.cpp"]
    command = [*compiler, "-std=c++17", "-O1", "-I", SOURCES, *sources, "-pthread", "-o", tmp_path / name]
    subprocess.run(command, check=True)
    run = subprocess.run([tmp_path / name], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("label", [-100, -1, 8, 2**40])
def test_labels_outside_the_vocabulary(label: int, dtype: torch.dtype) -> None:
    logits, labels = torch.randn(5, 8).to(dtype), torch.tensor([0, 7, 3, label, 1])
    before = logits.clone()
    with pytest.raises(ConfigError, match=rf"{label}\b.*\b8\b"):
        loss.cross_entropy(logits, labels, smoothing=0.1, trains=True)
    assert torch.equal(logits, before)
    with pytest.raises(ConfigError, match=str(label)):
        projected_cross_entropy(torch.randn(1, 2, 16), torch.randn(8, 16), labels[None, 2:4], smoothing=0.1, ignore=0)


@pytest.mark.parametrize("which", ["x", "residual", "weight", "bias"])
def test_forward_mode_sees_pytorch(which: str) -> None:
    """An operator would drop the tangent and say nothing."""
    parts = {"x": torch.randn(3, 64), "residual": torch.randn(3, 64), "weight": torch.ones(64), "bias": torch.zeros(64)}
    assert layer_norm.serves(**parts)
    with forward_ad.dual_level():
        parts[which] = forward_ad.make_dual(parts[which], torch.ones_like(parts[which]))
        assert not layer_norm.serves(**parts)
    assert layer_norm.serves(**{**parts, which: torch.ones_like(parts[which])})
