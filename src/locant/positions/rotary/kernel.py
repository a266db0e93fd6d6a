"""Builds, loads and calls the CPU kernel of the rotation, ``kernel.cpp``."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import lru_cache
from importlib import resources
from pathlib import Path

import torch
from torch import Tensor

from locant.errors import ConfigError

_FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")
# Tried one after the other: for x86; for other processors; for compilers without OpenMP, on one thread.
_VARIANTS = (("-fopenmp", "-mprefer-vector-width=512"), ("-fopenmp",), ())
_FUNCTIONS = {torch.float32: "locant_rotate_float32", torch.bfloat16: "locant_rotate_bfloat16"}


@lru_cache(maxsize=1)
def load_kernel() -> ctypes.CDLL:
    """Build the kernel, unless a build for this source and processor is in the user's cache, and load it.

    Raises:
        ConfigError: There is no C++ compiler, it fails, or the cache folder cannot be written.
    """
    source = resources.files("locant.positions.rotary").joinpath("kernel.cpp").read_bytes()
    built_for = hashlib.sha256(source + repr((_FLAGS, _VARIANTS, _processor())).encode()).hexdigest()[:16]
    library = _cache_folder() / f"rotation-{built_for}.so"
    try:
        if not library.exists():
            _build(source, library)
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise ConfigError(
            f"The compiled rotation cannot be kept in {library.parent} or loaded from it: {error}"
        ) from error


def serves(x: Tensor) -> bool:
    """Return whether the kernel can rotate ``x``: float32 or bfloat16 on the CPU, the features next to each other."""
    return x.device.type == "cpu" and x.dtype in _FUNCTIONS and x.dim() == 4 and x.stride(3) == 1


def rotate(x: Tensor, cosine: Tensor, sine: Tensor, *, interleaved: bool) -> Tensor:
    """Rotate ``x [B, H, L, D]``, of any strides over a row of features, by angles of ``[L, n]`` or ``[B, 1, L, n]``.

    Args:
        x: As :func:`serves` asks for.
        cosine: Cosines, float32, next to each other in the last dimension.
        sine: Sines, likewise.
        interleaved: Whether pairs are neighbours, or halves apart.

    Returns:
        The rotated features, of the shape and dtype of ``x``; those beyond the pairs are copied.
    """
    out = torch.empty_like(x)
    if not x.numel():
        return out
    batch, heads, length, features = x.shape
    tables = [_batch_and_row_stride(table) for table in (cosine, sine)]
    numbers = [batch, heads, length, features, cosine.shape[-1], *x.stride()[:3], *out.stride()[:3]]
    layout = (ctypes.c_int64 * 15)(*numbers, *tables[0], *tables[1])
    pointers = [ctypes.c_void_p(part.data_ptr()) for part in (x, out, cosine, sine)]
    getattr(load_kernel(), _FUNCTIONS[x.dtype])(*pointers, layout, ctypes.c_int(interleaved))
    return out


def _batch_and_row_stride(table: Tensor) -> tuple[int, int]:
    shared = table.dim() == 2 or table.shape[0] == 1
    return (0 if shared else table.stride(0)), table.stride(-2)


def _build(source: bytes, library: Path) -> None:
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "g++", "clang++"))), None)
    if compiler is None:
        raise ConfigError("Compiled rotations need a C++ compiler, and neither c++, g++ nor clang++ was found.")
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        code, built = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
        code.write_bytes(source)
        for variant in _VARIANTS:
            command = [compiler, *_FLAGS, *variant, str(code), "-o", str(built)]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode == 0:
                # Two processes may build at once: the last one's file takes the place of an equal one.
                built.replace(library)
                return
    said = (run.stderr.strip().splitlines() or ["nothing"])[0]
    raise ConfigError(f"The C++ compiler {compiler} could not build the rotation. It said: {said}")


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "locant"


def _processor() -> str:
    """Return what a build for this processor depends on."""
    info = Path("/proc/cpuinfo")
    flags = [line for line in info.read_text().splitlines() if line.startswith("flags")][:1] if info.exists() else []
    return f"{platform.machine()} {platform.processor()} {flags}"
