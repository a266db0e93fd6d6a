"""The machine: its memory, devices, processor and software.

Importing this costs nothing, and what only describes the machine works where torch cannot be imported.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from locant.errors import ConfigError, LocantError, UsageError
from locant.version import __version__

if TYPE_CHECKING:
    import socket

    import torch

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4

# Whether the user has said how many threads there are, and where they have said how threads wait.
_FIXED = "OMP_NUM_THREADS" in os.environ
_WAITING = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}

# What PyTorch says in errors of no type of their own.
_TOO_LITTLE = {
    "the GPU": re.compile(r"(CUDA|HIP)( driver)? error: out of memory|CU(BLAS|DNN)_STATUS_ALLOC_FAILED"),
    "this machine": re.compile(r"DefaultCPUAllocator: (can't allocate|not enough) memory"),
}

_PACKAGES = ("torch", "numpy", "sentencepiece", "sacrebleu", "safetensors", "pydantic")

# The vector instructions that Locant and PyTorch have fast code for, as Linux calls them.
_INSTRUCTIONS = (
    *("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8"),
    *("asimd", "asimddp", "bf16", "i8mm", "sve"),
)


def keep_freed_memory() -> None:
    """Tell glibc to keep freed memory for the next tensor instead of returning it to the system.

    A fresh page costs a fault at its first touch; on CPU that makes every large tensor several times dearer to write
    than the arithmetic that fills it. Does nothing where there is no glibc.
    """
    if not _has_glibc():
        return
    libc = ctypes.CDLL("libc.so.6")
    # No blocks of their own from mmap, whose pages would go back to the system with each tensor.
    libc.mallopt(_M_MMAP_MAX, 0)
    libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
    libc.mallopt(_M_TOP_PAD, 64 << 20)


def limit_onednn_cache() -> None:
    """Tell oneDNN to keep code for 128 shapes of matrix products instead of 1,024, unless the user has said otherwise.

    Each shape takes about a megabyte, and batches of real text hardly repeat theirs. Must come before the first product
    in bfloat16 on the CPU.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "128")


def prepare_threads() -> None:
    """Tell OpenMP how many threads to have and how to wait, unless the environment says so; before torch is loaded.

    A thread that waits for others looks for a tenth of a millisecond and then sleeps, instead of fifteen milliseconds
    in which whoever it waits for may not have its core.
    """
    if "torch" in sys.modules:
        return
    if not _WAITING.intersection(os.environ):
        os.environ["GOMP_SPINCOUNT"] = "4000"
    threads = granted_cores()
    if threads < _allowed_cores():
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))


def threads_are_fixed() -> bool:
    """Return whether the user has said by ``OMP_NUM_THREADS`` how many threads there are, at all times."""
    return _FIXED


def _has_glibc() -> bool:
    # Not platform.libc_ver, which searches the whole interpreter for the name and takes a tenth of a second.
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, OSError, ValueError):
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; connections wait until a server takes them.

    Args:
        host: Address of this machine to listen at.
        port: Port to listen at; 0 for any that is free.

    Raises:
        UsageError: The port is taken or not allowed, or the host is not an address of this machine.
    """
    import socket

    if not 0 <= port <= 65535:
        raise UsageError(f"--port must be 0 to 65535; got {port}.")
    try:
        # A name may represent several addresses; the first one is meant.
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"No server can listen at {host}, port {port}: {why}. Choose another --port, or 0.") from None


def choose_device(name: str) -> torch.device:
    """Return the device of a name; ``auto`` is CUDA where there is one (the local rank's under torchrun), else CPU.

    Raises:
        ConfigError: The name is unknown, or the device is not there.
    """
    import torch

    if name == "auto":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        known = name.partition(":")[0] in ("cpu", "cuda")
        why = f" ({first})" if known else ""  # what PyTorch says of other names is a list of twenty
        raise ConfigError(f"The device '{name}' cannot be used{why}. Use 'auto', 'cpu' or 'cuda'.") from None
    return device


@contextmanager
def attention_of_any_shape() -> Iterator[None]:
    """Keep PyTorch from attending by cuDNN, which plans for a fifth of a second whenever shapes are new.

    With batches of all lengths, and with a key more at every step of a search, they always are.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        yield


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices faster than float32 ones."""
    import torch

    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        # torch emulates bfloat16 on CPUs without these instructions, at a fifth of the speed of float32.
        checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        return any(getattr(torch.cpu, check, bool)() for check in checks)
    return False


def environment() -> dict[str, Any]:
    """Return versions, machine and command, to be stored with a run.

    ``threads`` and ``cuda`` are ``None`` where torch cannot be imported.
    """
    threads, cuda = None, None
    with suppress(ImportError, OSError):
        import torch

        threads = torch.get_num_threads()
        cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "locant": __version__,
        "python": platform.python_version(),
        "packages": package_versions(_PACKAGES),
        "system": platform.platform(),
        "processor": _processor_line("model name") or platform.processor() or platform.machine(),
        "instructions": vector_instructions(),
        "cores": os.cpu_count(),
        "granted_cores": granted_cores(),
        "threads": threads,
        "cuda": cuda,
        "command": sys.argv[1:],
    }


def package_versions(names: Iterable[str]) -> dict[str, str | None]:
    """Return the installed version of each package, ``None`` where it is not installed."""
    from importlib import metadata  # which takes longer than all the rest of this module

    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def vector_instructions() -> list[str]:
    """Return the vector instructions of the processor that matter here, as Linux calls them."""
    present = (_processor_line("flags") or _processor_line("Features")).split()
    return [flag for flag in _INSTRUCTIONS if flag in present]


def granted_cores(system: Path = Path("/")) -> int:
    """Return how many cores feed this process: those that it may run on, or fewer by the quota of its control group.

    Args:
        system: Where the file system begins.
    """
    files = ("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    found = [words for names in files for words in _limits(system, "cpu", *names)]
    # Without a limit the first word is "max" or negative.
    quotas = [int(words[0]) / int(words[1]) for words in found if words and words[0].isdecimal()]
    return max(1, min([_allowed_cores(), *(int(quota + 0.5) for quota in quotas)]))


def _allowed_cores() -> int:
    """Return the number of cores that this process may run on, which may be fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def physical_memory() -> int | None:
    """Return the bytes of memory of the machine; ``None`` where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None  # Windows


def usable_memory(device: torch.device, system: Path = Path("/")) -> int | None:
    """Return the bytes of memory that a process may fill: of a CUDA device, or of the machine or its control group.

    Args:
        device: Where the process computes.
        system: Where the file system begins.
    """
    if device.type == "cuda":
        import torch

        return int(torch.cuda.get_device_properties(device).total_memory)
    found = [words for name in ("memory.max", "memory.limit_in_bytes") for words in _limits(system, "memory", name)]
    limits = [int(word) for words in found for word in words if word.isdecimal()]
    return min((limit for limit in (physical_memory(), *limits) if limit is not None), default=None)


def _limits(system: Path, controller: str, *names: str) -> Iterator[list[str]]:
    """Yield the words of these files in each control group of this process, of both versions of the interface."""
    root = system / "sys" / "fs" / "cgroup"
    folders = [root, root / controller]
    with suppress(OSError):
        for line in (system / "proc" / "self" / "cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, group = line.split(":", 2)
            if not controllers or controller in controllers.split(","):
                own = (root / controller if controllers else root) / group.strip("/")
                folders += [own, *own.parents]
    for folder in folders:
        with suppress(OSError):
            yield [word for name in names for word in (folder / name).read_text(encoding="utf-8").split()]


def _processor_line(key: str) -> str:
    """Return what Linux says of its first processor, or nothing."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - not a file on disk
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == key:
                    return value.strip()
    except OSError:
        pass
    return ""


@contextmanager
def explaining_memory(advice: str) -> Iterator[None]:
    """Within the block, turn the error that there is too little memory into one that says what to lower.

    Args:
        advice: That, in sentences.

    Raises:
        LocantError: The memory did not suffice.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        whose = lacking_memory(error)
        if not whose:
            raise
        raise LocantError(f"The memory of {whose} does not suffice. {advice}") from error


def lacking_memory(error: BaseException) -> str:
    """Return of what an error says that it has too little memory: of the GPU, of this machine, or of nothing."""
    torch = sys.modules.get("torch")  # whose import takes a second; without it there is no such error
    if torch is not None and isinstance(error, torch.OutOfMemoryError):
        return "the GPU"
    if isinstance(error, MemoryError):
        return "this machine"
    return next((whose for whose, said in _TOO_LITTLE.items() if said.search(str(error))), "")
