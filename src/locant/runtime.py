"""What the machine is and how to use it well."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from importlib import metadata
from typing import Any

import torch

from locant.errors import ConfigError
from locant.version import __version__

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4


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


def _has_glibc() -> bool:
    # Not platform.libc_ver, which searches the whole interpreter for the name and takes a tenth of a second.
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, OSError, ValueError):
        return False


def choose_device(name: str) -> torch.device:
    """Return the device of a name; ``auto`` is CUDA where there is one (the local rank's under torchrun), else CPU.

    Raises:
        ConfigError: The name is unknown, or the device is not there.
    """
    if name == "auto":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise ConfigError(f"The device '{name}' cannot be used ({first}). Use 'auto', 'cpu' or 'cuda'.") from None
    return device


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices faster than float32 ones."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        # torch emulates bfloat16 on CPUs without these instructions, at a fifth of the speed of float32.
        checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
        return any(getattr(torch.cpu, check, bool)() for check in checks)
    return False


def environment() -> dict[str, Any]:
    """Return versions, machine and command, to be stored with a run."""
    packages: dict[str, str | None] = {}
    for package in ("torch", "numpy", "sentencepiece", "sacrebleu", "safetensors", "pydantic"):
        try:
            packages[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            packages[package] = None
    return {
        "locant": __version__,
        "python": platform.python_version(),
        "packages": packages,
        "system": platform.platform(),
        "processor": _processor_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "command": sys.argv[1:],
    }


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - not a file on disk
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
