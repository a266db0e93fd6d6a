"""What the system says of the machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from locant.errors import LocantError
from locant.runtime import (
    attention_of_any_shape,
    environment,
    explaining_memory,
    granted_cores,
    package_versions,
    physical_memory,
    usable_memory,
)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


GROUP = "proc/self/cgroup", "0::/\n"


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        (dict([GROUP, ("sys/fs/cgroup/cpu.max", "max 100000\n")]), 8),
        (dict([GROUP, ("sys/fs/cgroup/cpu.max", "50000 100000\n")]), 1),
        (dict([GROUP, ("sys/fs/cgroup/cpu.max", "149999 100000\n")]), 1),
        (dict([GROUP, ("sys/fs/cgroup/cpu.max", "150000 100000\n")]), 2),
        (dict([GROUP, ("sys/fs/cgroup/cpu.max", "9900000 100000\n")]), 8),
        # The narrowest group counts, and it may be the outer one.
        (
            {
                "proc/self/cgroup": "0::/outer/inner\n",
                "sys/fs/cgroup/outer/cpu.max": "200000 100000",
                "sys/fs/cgroup/outer/inner/cpu.max": "400000 100000",
            },
            2,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/mine\n3:cpu,cpuacct:/mine\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/cpu/mine/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu/mine/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
    ],
)
def test_cores_are_those_that_the_system_grants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], cores: int
) -> None:
    monkeypatch.setattr("locant.runtime._allowed_cores", lambda: 8)
    for name, text in files.items():
        write(tmp_path / name, text)
    assert granted_cores(tmp_path) == cores


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/mine\n", "sys/fs/cgroup/mine/memory.max": "max\n"}, None),
        ({"proc/self/cgroup": "0::/mine\n", "sys/fs/cgroup/mine/memory.max": "1048576\n"}, 1 << 20),
        # A container sees its own group as the root.
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "2097152\n"}, 2 << 20),
        (
            {
                "proc/self/cgroup": "4:memory:/mine\n3:cpu:/other\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/memory/mine/memory.limit_in_bytes": "3145728\n",
            },
            3 << 20,
        ),
    ],
)
def test_memory_is_that_of_the_machine_or_of_the_control_group(
    tmp_path: Path, files: dict[str, str], limit: int | None
) -> None:
    for name, text in files.items():
        write(tmp_path / name, text)
    assert usable_memory(torch.device("cpu"), tmp_path) == (limit or physical_memory())


def test_the_environment_describes_the_machine() -> None:
    found = environment()
    assert package_versions(["torch", "no-such-package"]) == {
        "torch": found["packages"]["torch"],
        "no-such-package": None,
    }
    assert 0 < found["granted_cores"] <= (os.cpu_count() or 0)
    assert found["threads"] >= 1


def prepared(**given: str) -> list[str]:
    """Return what OpenMP is told in a new process."""
    code = (
        "import os\n"
        "from locant import runtime\n"
        "runtime.granted_cores, runtime._allowed_cores = lambda: 1, lambda: 4\n"
        "runtime.prepare_threads()\n"
        "print(*(os.environ.get(name, '-') for name in ('GOMP_SPINCOUNT', 'OMP_NUM_THREADS')))"
    )
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    return subprocess.check_output([sys.executable, "-c", code], env=inherited | given, text=True).split()


def test_openmp_is_told_what_the_user_has_not() -> None:
    assert prepared() == ["4000", "1"]
    assert prepared(OMP_NUM_THREADS="3") == ["4000", "3"]
    assert prepared(OMP_WAIT_POLICY="active") == ["-", "1"]
    assert prepared(GOMP_SPINCOUNT="7", OMP_NUM_THREADS="2") == ["7", "2"]


@pytest.mark.parametrize(
    ("error", "whose"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), "the GPU"),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later"), "the GPU"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "the GPU"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "the GPU"),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."), "this machine"),
        (MemoryError("There is not enough memory for this computation."), "this machine"),
    ],
)
def test_too_little_memory_is_said_in_a_sentence(error: Exception, whose: str) -> None:
    said = f"^The memory of {whose} does not suffice. Lower it.$"
    with pytest.raises(LocantError, match=said), explaining_memory("Lower it."):
        raise error


def test_what_pytorch_itself_says_of_too_little_memory() -> None:
    with pytest.raises(LocantError, match="memory of this machine"), explaining_memory(""):
        torch.empty(1 << 60)
    with pytest.raises(RuntimeError, match="size"), explaining_memory(""):
        torch.ones(2) @ torch.ones(3)


def test_cudnn_attends_again_afterwards() -> None:
    with attention_of_any_shape():
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cuda.cudnn_sdp_enabled()
